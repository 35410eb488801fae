"""Bundles: write and read a submission as a folder named by the hash of its content.

Layout and meaning of every field: docs/design/leaderboards.md. Reading trusts nothing: what is damaged
raises `BundleError`, which names the first bad record. Whether it is *true* is
`leaderboards.bundles.verify`'s business.
"""

from __future__ import annotations

import lzma
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from leaderboards.bundles.agent_specs import committed, is_model, is_served
from leaderboards.bundles.roster import check_agents, roster
from leaderboards.bundles.run import read_header, read_journal, seeds_of
from leaderboards.contents.claims import ratings
from leaderboards.contents.fields import Kind, shown
from leaderboards.contents.intake import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    ADAPTERS,
    MANIFEST,
    MATCHES,
    RATINGS,
    ROOT_DIGITS,
    TOKENS,
    TRANSCRIPTS,
    BundleError,
    Line,
    file_hashes,
    read_json,
    read_lines,
)
from leaderboards.contents.record import (
    HEAD_DIGITS,
    MatchRecord,
    contradiction,
    line_text,
    next_link,
)
from leaderboards.contents.schemas import (
    MANIFEST_FILE,
    MATCH_LINE,
    RATINGS_FILES,
    SCHEMA,
    TOKENS_LINE,
    TRANSCRIPT_LINE,
    checked,
)
from leaderboards.contents.served import Asked, Reports, without_times
from leaderboards.keys import KEYS, SIGNATURE, SigningKey, fingerprint, is_signed, owner_key
from leaderboards.names import submitter_fault
from leaderboards.protocol import Protocol, load_protocol, schedule
from leaderboards.provenance import provenance
from leaderboards.registration.tickets import Ticket, TicketError
from srl_agents.agents.contents import ENDPOINT
from srl_agents.agents.grammar import ModelName, parse
from srl_agents.engines.endpoint.prices import Price
from srl_agents.league.agents import AgentVersion
from srl_agents.records import MatchResult, MatchSpec, canonical_json, digest
from srl_envs.api.episode import Transcript
from srl_envs.errors import ConfigError, StoreError, TranscriptError
from srl_envs.reading.settings import build

_LINES: tuple[Kind, ...] = (MATCH_LINE, TRANSCRIPT_LINE, TOKENS_LINE)
"""Kinds of the lines of one record."""
_PURPOSE = "bundle/1"
"""Purpose that an owner's signature covers."""
_MOST_ENTRIES = 1_000_000
"""Files below a folder that is searched for bundles."""


@dataclass(frozen=True)
class Bundle:
    """A submission on disk. `open_bundle` reads its manifest; the rest is read when asked for."""

    folder: Path
    manifest: dict[str, Any]
    protocol: Protocol
    agents: tuple[AgentVersion, ...]
    seeds: int
    specs: list[MatchSpec] = field(repr=False)
    """The whole schedule, in the order of the records."""
    ticket: Ticket | None = None
    """The registration that the entrants played with; None if they played only public seeds."""

    @property
    def root(self) -> str:
        """Hash of the bundle's content."""
        return str(self.manifest["root"])

    @property
    def claim(self) -> dict[str, Any]:
        """The part of the manifest that is a function of what was played."""
        return dict(self.manifest["claim"])

    @property
    def complete(self) -> bool:
        """Whether all of the protocol's seeds were played."""
        return self.seeds == self.protocol.seeds

    @property
    def entrants(self) -> tuple[AgentVersion, ...]:
        """Agents that are not references."""
        return tuple(a for a in self.agents if a.agent_id not in self.protocol.references)

    @cached_property
    def _models(self) -> frozenset[str]:
        """Agents whose tokens the bundle holds."""
        return frozenset(agent.agent_id for agent in self.agents if is_model(agent))

    @cached_property
    def _endpoints(self) -> dict[str, Asked]:
        """Agents that a server answered for."""
        return {
            agent.agent_id: Asked(agent.spec[ENDPOINT]["reported"], self.prices.get(agent.agent_id))
            for agent in self.agents
            if is_served(agent)
        }

    @cached_property
    def prices(self) -> dict[str, Price]:
        """Declared prices of agents behind endpoints; agents without an entry have an unknown price."""
        prices = self.manifest["claim"].get("prices", {})
        return {name: build(Price, price, "prices") for name, price in prices.items()}

    @cached_property
    def ratings(self) -> dict[str, Any]:
        """The content of ``ratings.json``.

        Raises:
            BundleError: it cannot be read, or holds something else.
        """
        kind = RATINGS_FILES[self.protocol.rating.measure]
        return checked(kind, read_json(self.folder, RATINGS), RATINGS)

    def records(self) -> Iterator[MatchRecord]:
        """All matches in the order of the schedule.

        Raises:
            BundleError: names the first record that is missing, altered, doubled or out of order, or
                contradicts itself.
        """
        link = first_link(self.manifest["claim"])
        sources = [MATCHES, TRANSCRIPTS, *([TOKENS] if self._models else [])]
        most = len(self.specs)
        lines = zip_longest(*(read_lines(self.folder, name, most) for name in sources))
        for number, spec in enumerate(self.specs):
            place = name_of(number, spec)
            found = next(lines, None)
            if found is None or None in found:
                raise BundleError(f"{place} is missing: {self._short(found, sources)}.")
            (match, _), *others = found
            for kind, name, (line, _) in zip(_LINES, sources, found, strict=False):
                checked(kind, line, f"{place}: {name}")
            recorded = match.pop("chain")
            texts = [line_text(match), *(text for _, text in others)]
            link = next_link(link, *texts, *([] if self._models else [b"{}"]))
            if (match["seed"], match["seats"]) != (spec.seed, list(spec.seats)):
                raise BundleError(f"{place} is not in its place: {self._instead(match, number)}.")
            if recorded != link[:HEAD_DIGITS]:
                raise BundleError(
                    f"{place} was altered: the chain of hashes goes on with {link[:HEAD_DIGITS]}, "
                    f"the record has {shown(recorded)}."
                )
            record = self._record(place, spec, match, *(line for line, _ in others))
            yield replace(record, happened=next_link("", line_text(match["result"]), texts[1]))
        if next(lines, None) is not None:
            raise BundleError(f"record {most} is one too many: the schedule has {most} matches.")
        if self.manifest["claim"]["records"] != {"count": most, "chain": link}:
            raise BundleError(f"{MANIFEST}: claim.records does not follow from the records.")

    def _record(
        self, place: str, spec: MatchSpec, match: Line, transcript: Line, tokens: Line | None = None
    ) -> MatchRecord:
        """One record, none of whose fields contradicts another."""
        try:
            record = MatchRecord.from_lines(spec, match, transcript, tokens or {})
        except TranscriptError as error:
            raise BundleError(f"{place} cannot be read: {error}") from None
        seats = [seat for seat, name in enumerate(spec.seats) if name in self._models]
        if wrong := contradiction(record, seats, self._endpoints):
            raise BundleError(f"{place}: {wrong}.")
        return record

    def matches(self) -> list[tuple[MatchSpec, MatchResult]]:
        """Specs and results, as ratings and stores take them."""
        return [(record.spec, record.result) for record in self.records()]

    def transcript(self, match_id: str) -> Transcript:
        """One match, to be shown.

        Raises:
            ConfigError: no match has this id.
        """
        for record in self.records():
            if record.spec.match_id == match_id:
                return record.transcript
        raise ConfigError(f"{self.folder.name} has no match {match_id!r}.")

    def _short(self, found: Sequence[object] | None, sources: Sequence[str]) -> str:
        ended = (
            sources
            if found is None
            else [s for s, f in zip(sources, found, strict=True) if f is None]
        )
        return f"{' and '.join(ended)} ended before it"

    def _instead(self, match: Line, number: int) -> str:
        wanted = canonical_json([match["seed"], match["seats"]])
        places = {canonical_json([s.seed, s.seats]): k for k, s in enumerate(self.specs)}
        place = places.get(wanted)
        if place is None:
            return f"it names a match that is not in the schedule, {shown(wanted)}"
        kind = "again" if place < number else "too early: those between are missing or follow"
        return f"there is record {place} {kind}"


def name_of(number: int, spec: MatchSpec) -> str:
    """Name of a record in messages."""
    return f"record {number} (match {spec.match_id[:12]}, {' - '.join(spec.seats)})"


def first_link(claim: Mapping[str, Any]) -> str:
    """First link of the hash chain, before the first record."""
    derived = ("records", "ratings_sha256")
    return digest({key: value for key, value in claim.items() if key not in derived})


def open_bundle(folder: Path) -> Bundle:
    """Read the manifest and build the schedule; does not read the records yet.

    Raises:
        BundleError: the manifest is missing, damaged or edited, is of an unknown protocol, or names
            agents that may not enter.
    """
    manifest = checked(MANIFEST_FILE, read_json(folder, MANIFEST), MANIFEST)
    if manifest["root"] != digest({k: v for k, v in manifest.items() if k != "root"}):
        raise BundleError(f"{MANIFEST} was edited: its root is not the hash of its content.")
    name = Path(os.path.abspath(folder)).name
    if name != manifest["root"][:ROOT_DIGITS]:
        raise BundleError(
            f"{shown(name)} is not the name of this bundle, which is "
            f"{manifest['root'][:ROOT_DIGITS]}: the content differs."
        )
    claim = manifest["claim"]
    protocol = _protocol(claim)
    ticket = _ticket(claim)
    check_agents(protocol, claim["agents"], ticket)
    _check_submitter(claim, ticket)
    agents = roster(protocol, [(agent["agent_id"], agent["spec"]) for agent in claim["agents"]])
    _check_prices(claim, agents)
    if ticket and (wrong := ticket.fault(protocol, committed(agents), claim["seeds"])):
        raise BundleError(f"{MANIFEST}: claim.ticket: {wrong}.")
    _check_owner(manifest, ticket)
    try:
        entrants = [a.agent_id for a in agents if a.agent_id not in protocol.references]
        specs = schedule(protocol, entrants, claim["seeds"], ticket.draw if ticket else "")
    except ConfigError as error:
        raise BundleError(f"{MANIFEST}: claim.seeds: {error}") from None
    return Bundle(
        folder=folder,
        manifest=manifest,
        protocol=protocol,
        agents=agents,
        seeds=claim["seeds"],
        specs=specs,
        ticket=ticket,
    )


def _check_prices(claim: Mapping[str, Any], agents: Sequence[AgentVersion]) -> None:
    """Prices are of agents behind endpoints, and can be prices.

    Raises:
        BundleError: names the first that is not.
    """
    served = {agent.agent_id for agent in agents if is_served(agent)}
    for name, price in claim.get("prices", {}).items():
        if name not in served:
            raise BundleError(
                f"{MANIFEST}: claim.prices: {shown(name)} is not an agent behind an endpoint, so "
                "it has no price."
            )
        try:
            build(Price, price, f"claim.prices.{name}")
        except ConfigError as error:
            raise BundleError(f"{MANIFEST}: {error}") from None


def _ticket(claim: Mapping[str, Any]) -> Ticket | None:
    """The registration that a claim holds.

    Raises:
        BundleError: it is forged.
    """
    if claim["ticket"] is None:
        return None
    try:
        return Ticket.from_data(claim["ticket"])
    except TicketError as error:
        raise BundleError(f"{MANIFEST}: claim.ticket: {error}") from None


def _check_submitter(claim: Mapping[str, Any], ticket: Ticket | None) -> None:
    """A row is not said to be by a maker of models who has not proven it.

    Raises:
        BundleError: it is.
    """
    maker, when = (ticket.request.maker, ticket.when) if ticket else ("", "")
    if wrong := submitter_fault(claim["declared"]["submitter"], maker=maker, when=when):
        raise BundleError(f"{MANIFEST}: claim.declared.submitter: {wrong}.")


def _check_owner(manifest: Mapping[str, Any], ticket: Ticket | None) -> None:
    """Check that the owner of the ticket made the bundle: tickets are public and can be copied.

    Raises:
        BundleError: another key signed it, or it is signed without a registration.
    """
    if ticket is None:
        if SIGNATURE in manifest:
            raise BundleError(
                f"{MANIFEST}: it has a signature, and no ticket that names its owner."
            )
        return
    owner = ticket.request.owner
    if not is_signed(owner, _PURPOSE, {k: v for k, v in manifest.items() if k != "root"}):
        raise BundleError(
            f"{MANIFEST}: it is not signed by the owner of its ticket, {fingerprint(owner)}: another "
            "person made or changed it."
        )


def write_bundle(run: Path, out: Path, *, with_adapters: bool = False) -> Bundle:
    """Make the bundle of a finished run.

    Args:
        run: folder of the run.
        out: the bundle becomes ``out/ENV/ROOT16``; one that is there already stays as it is.
        with_adapters: put the adapters' weights in.

    Raises:
        ConfigError: the run has a ticket of another owner than the one whose key is here.
        KeyFileError: the owner's key cannot be read.
        StoreError: the run is missing or not finished.
    """
    header = read_header(run)
    protocol = load_protocol(header["protocol"]["name"])
    records = _finished(run, header, protocol)
    claim, lines = _claim(header, records)
    derived = ratings(protocol, [(record.spec, record.result) for record in records])
    claim["ratings_sha256"] = digest(derived)
    owner = _owner(header, run)
    work = out / protocol.name / f".tmp-{run.name}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    models = any("base" in agent["spec"] for agent in claim["agents"])
    columns = zip((MATCHES, TRANSCRIPTS, TOKENS), zip(*lines, strict=True), strict=True)
    for name, column in columns:
        if name != TOKENS or models:
            data = b"".join(line_text(line) + b"\n" for line in column)
            (work / name).write_bytes(lzma.compress(data, preset=9))
    (work / RATINGS).write_text(canonical_json(derived) + "\n", encoding="utf-8")
    if with_adapters:
        _copy_adapters(header, work)
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "claim": claim,
        "provenance": provenance(
            protocol.env, header["command"], header["started"], _seconds(records)
        ),
        "files": file_hashes(work),
    }
    if owner is not None:
        manifest = owner.signed(_PURPOSE, manifest)
    manifest["root"] = digest(manifest)
    (work / MANIFEST).write_text(canonical_json(manifest) + "\n", encoding="utf-8")
    final = work.with_name(manifest["root"][:ROOT_DIGITS])
    if final.exists():
        shutil.rmtree(work)
    else:
        work.rename(final)
    return open_bundle(final)


def _seconds(records: Sequence[MatchRecord]) -> dict[str, float]:
    """Agent behind an endpoint -> seconds of all its replies; without agents of whom some are not known."""
    reports = Reports()
    for record in records:
        reports.add(record.spec.seats, record.served)
    times = {name: usage["seconds"] for name, usage in reports.usage().items()}
    return {name: float(seconds) for name, seconds in times.items() if seconds is not None}


def adapter_folder(folder: Path, agent_id: str) -> Path:
    """Where a bundle keeps an agent's adapter; a hash, because an id may be no file name."""
    return folder / ADAPTERS / digest(agent_id)[:ROOT_DIGITS]


def find_bundles(path: Path) -> list[Path]:
    """The bundle at ``path``, or all below it; links are not followed.

    Raises:
        ConfigError: there is none, or far too many folders.
    """
    if os.path.lexists(path / MANIFEST):
        return [path]
    found, seen = [], 0
    for folder, folders, files in os.walk(path):
        seen += 1 + len(folders) + len(files)
        if seen > _MOST_ENTRIES:
            raise ConfigError(f"{path} holds more than {_MOST_ENTRIES} files: name the bundles.")
        folders.sort()
        if MANIFEST in files or MANIFEST in folders:
            found.append(Path(folder))
            folders.clear()
    if not found:
        raise ConfigError(f"{path} holds no bundle. `srl leaderboard bundle DIR` makes one.")
    return sorted(found)


def _finished(run: Path, header: Mapping[str, Any], protocol: Protocol) -> list[MatchRecord]:
    """All records of a run in the order of its schedule.

    Raises:
        StoreError: some are missing, or the protocol is another by now.
    """
    if protocol.sha256 != header["protocol"]["sha256"]:
        raise StoreError(f"{run} was played under another version of the protocol {protocol.name}.")
    ticket = None if header["ticket"] is None else Ticket.from_data(header["ticket"])
    draw = ticket.draw if ticket else ""
    specs = schedule(protocol, list(header["sources"]), seeds_of(header), draw)
    played = {record.spec.match_id: record for record in read_journal(run, specs)}
    if len(played) < len(specs):
        raise StoreError(
            f"{run} has {len(played)} of {len(specs)} matches: a bundle holds all of them. Give the "
            "command of the run again; it continues."
        )
    return [played[spec.match_id] for spec in specs]


def _owner(header: Mapping[str, Any], run: Path) -> SigningKey | None:
    """Key that signs the bundle of a run; None without a ticket.

    Raises:
        ConfigError: the key here is not the one that registered the agents.
    """
    if header["ticket"] is None:
        return None
    wanted, key = Ticket.from_data(header["ticket"]).request.owner, owner_key()
    if key.public != wanted:
        raise ConfigError(
            f"{run} has a ticket of the owner {fingerprint(wanted)}; the key here is "
            f"{fingerprint(key.public)}. Bundle where the agents were registered, or point {KEYS} at "
            "that key."
        )
    return key


def _claim(
    header: Mapping[str, Any], records: Sequence[MatchRecord]
) -> tuple[dict[str, Any], list[tuple[Line, Line, Line]]]:
    """The claim but for the hash of the ratings, and the lines of all records with their chain."""
    claim: dict[str, Any] = {
        "protocol": header["protocol"],
        "seeds": seeds_of(header),
        "agents": header["agents"],
        "ticket": header["ticket"],
        "declared": header["declared"],
        **({"prices": header["prices"]} if header["prices"] else {}),
    }
    link = first_link(claim)
    lines = []
    for record in records:
        match, transcript, tokens = replace(record, served=without_times(record.served)).lines
        link = next_link(link, *map(line_text, (match, transcript, tokens)))
        lines.append(({**match, "chain": link[:HEAD_DIGITS]}, transcript, tokens))
    return claim | {"records": {"count": len(records), "chain": link}}, lines


def _protocol(claim: Mapping[str, Any]) -> Protocol:
    named = claim["protocol"]
    try:
        protocol = load_protocol(named["name"])
    except ConfigError as error:
        raise BundleError(f"{MANIFEST}: claim.protocol: {error}") from None
    if (named["version"], named["sha256"]) != (protocol.version, protocol.sha256):
        raise BundleError(
            f"{MANIFEST}: protocol {named['name']}/{named['version']} with hash {named['sha256'][:12]}; "
            f"here it is {protocol.name}/{protocol.version} with {protocol.sha256[:12]}."
        )
    return protocol


def _copy_adapters(header: Mapping[str, Any], work: Path) -> None:
    for name, source in header["sources"].items():
        agent = parse(source)
        if isinstance(agent, ModelName) and agent.adapter:
            target = adapter_folder(work, name)
            target.mkdir(parents=True)
            for file in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
                shutil.copyfile(Path(agent.adapter).expanduser() / file, target / file)
