"""A submission as a folder named by the hash of all that it holds: write it, read it.

Layout and meaning of every field: docs/design/leaderboards.md. Reading trusts nothing: what is damaged
raises `BundleError`, which names the first bad record. Whether it is *true* is `leaderboards.verify`'s
business.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from leaderboards.agents import ENDPOINT, committed
from leaderboards.claims import ratings
from leaderboards.protocol import Protocol, load_protocol, schedule
from leaderboards.provenance import provenance
from leaderboards.record import HEAD_DIGITS, Line, MatchRecord, next_link
from leaderboards.registration import Ticket, TicketError
from leaderboards.run import read_header, read_journal
from srl_agents.league.agents import AgentVersion
from srl_agents.records import MatchResult, MatchSpec, canonical_json, digest
from srl_envs.episode import Transcript
from srl_envs.errors import ConfigError, SRLError, StoreError, TranscriptError
from srl_envs.settings import build

SCHEMA = 2
MANIFEST, RATINGS = "manifest.json", "ratings.json"
MATCHES, TRANSCRIPTS, TOKENS = "matches.jsonl.xz", "transcripts.jsonl.xz", "tokens.jsonl.xz"
ADAPTERS = "adapters"
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
ROOT_DIGITS = 16
_MOST_LINE_BYTES = 64 << 20
_UNREADABLE = (OSError, ValueError, EOFError, lzma.LZMAError, RecursionError)


class BundleError(SRLError, ValueError):
    """A bundle is damaged or does not fit its protocol; the text names the first bad part."""


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

    @property
    def root(self) -> str:
        """Hash of all that the bundle holds."""
        return str(self.manifest["root"])

    @property
    def claim(self) -> dict[str, Any]:
        """The part of the manifest that is a function of what was played."""
        return dict(self.manifest["claim"])

    @property
    def complete(self) -> bool:
        """Whether all of the protocol's seeds were played."""
        return self.seeds == self.protocol.seeds

    @cached_property
    def ticket(self) -> Ticket | None:
        """The registration that the entrants played with; None if they played public seeds alone."""
        data = self.manifest["claim"]["ticket"]
        return None if data is None else Ticket.from_data(data)

    @property
    def entrants(self) -> tuple[AgentVersion, ...]:
        """Agents that are no references."""
        return tuple(a for a in self.agents if a.agent_id not in self.protocol.references)

    @cached_property
    def ratings(self) -> dict[str, Any]:
        """The content of ``ratings.json``."""
        return read_json(self.folder / RATINGS)

    def records(self) -> Iterator[MatchRecord]:
        """All matches in the order of the schedule.

        Raises:
            BundleError: names the first record that is missing, altered, doubled or out of order.
        """
        link = first_link(self.manifest["claim"])
        models = any("base" in agent.spec for agent in self.agents)
        sources = [MATCHES, TRANSCRIPTS, *([TOKENS] if models else [])]
        lines = zip_longest(*(read_lines(self.folder / name) for name in sources))
        for number, spec in enumerate(self.specs):
            place = name_of(number, spec)
            found = next(lines, None)
            if found is None or None in found:
                raise BundleError(f"{place} is missing: {self._short(found, sources)}.")
            match, transcript, tokens = (*found, {})[:3]
            told = match.pop("chain", None)
            link = next_link(link, match, transcript, tokens)
            same_match = (match.get("seed"), match.get("seats")) == (spec.seed, list(spec.seats))
            if not same_match:
                raise BundleError(f"{place} is not in its place: {self._instead(match, number)}.")
            if told != link[:HEAD_DIGITS]:
                raise BundleError(
                    f"{place} was altered: the chain of hashes goes on with {link[:HEAD_DIGITS]}, "
                    f"the record says {told}."
                )
            try:
                yield MatchRecord.from_lines(spec, match, transcript, tokens)
            except TranscriptError as error:
                raise BundleError(f"{place} cannot be read: {error}") from None
        if next(lines, None) is not None:
            raise BundleError(
                f"record {len(self.specs)} is one too many: the schedule has {len(self.specs)} matches."
            )
        if self.manifest["claim"]["records"] != {"count": len(self.specs), "chain": link}:
            raise BundleError(f"{MANIFEST}: claim.records is not what the records come to.")

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

    def _short(self, found: Sequence[Line | None] | None, sources: Sequence[str]) -> str:
        ended = (
            sources
            if found is None
            else [s for s, f in zip(sources, found, strict=True) if f is None]
        )
        return f"{' and '.join(ended)} ended before it"

    def _instead(self, match: Line, number: int) -> str:
        key = (match.get("seed"), match.get("seats"))
        places = {(s.seed, tuple(s.seats)): k for k, s in enumerate(self.specs)}
        seats = key[1] if isinstance(key[1], list) else []
        place = places.get((key[0], tuple(map(str, seats))))  # type: ignore[arg-type] # any JSON
        if place is None:
            return f"it names a match that is not in the schedule, {key[1]} on seed {key[0]}"
        kind = "again" if place < number else "too early: those between are missing or follow"
        return f"there is record {place} {kind}"


def name_of(number: int, spec: MatchSpec) -> str:
    """How messages call a record."""
    return f"record {number} (match {spec.match_id[:12]}, {' - '.join(spec.seats)})"


def first_link(claim: Mapping[str, Any]) -> str:
    """The chain before the first record."""
    derived = ("records", "ratings_sha256")
    return digest({key: value for key, value in claim.items() if key not in derived})


def open_bundle(folder: Path) -> Bundle:
    """Read the manifest and build the schedule; says nothing about the records yet.

    Raises:
        BundleError: the manifest is missing, damaged, edited or of an unknown protocol.
    """
    manifest = read_json(folder / MANIFEST)
    try:
        if manifest["schema"] != SCHEMA:
            raise BundleError(
                f"{MANIFEST}: schema {manifest['schema']!r}; this SRL reads {SCHEMA}."
            )
        unsigned = {key: value for key, value in manifest.items() if key != "root"}
        if manifest["root"] != digest(unsigned):
            raise BundleError(f"{MANIFEST} was edited: its root is not the hash of its content.")
        if folder.resolve().name != manifest["root"][:ROOT_DIGITS]:
            raise BundleError(
                f"{folder.resolve().name} is not the name of this bundle, which is "
                f"{manifest['root'][:ROOT_DIGITS]}: the content is another."
            )
        claim = manifest["claim"]
        protocol = _protocol(claim)
        agents = tuple(
            build(AgentVersion, data, f"agent {number}")
            for number, data in enumerate(claim["agents"])
        )
        entrants = [a.agent_id for a in agents if a.agent_id not in protocol.references]
        if type(claim["seeds"]) is not int:
            raise TypeError("seeds is no whole number")
        ticket = None if claim["ticket"] is None else Ticket.from_data(claim["ticket"])
        if ticket and (wrong := ticket.fault(protocol, committed(agents))):
            raise BundleError(f"{MANIFEST}: {wrong}.")
        specs = schedule(protocol, entrants, claim["seeds"], ticket.draw if ticket else "")
    except (KeyError, TypeError, AttributeError, ConfigError, TicketError) as error:
        raise BundleError(f"{MANIFEST}: {type(error).__name__}: {error}") from None
    return Bundle(
        folder=folder,
        manifest=manifest,
        protocol=protocol,
        agents=agents,
        seeds=claim["seeds"],
        specs=specs,
    )


def write_bundle(run: Path, out: Path, *, with_adapters: bool = False) -> Bundle:
    """Make the bundle of a finished run.

    Args:
        run: folder of the run.
        out: the bundle becomes ``out/ENV/ROOT16``; one that is there already stays as it is.
        with_adapters: put the adapters' weights in.

    Raises:
        StoreError: there is no run, or it is not finished.
    """
    header = read_header(run)
    protocol = load_protocol(header["protocol"]["name"])
    records = _finished(run, header, protocol)
    claim, lines = _claim(header, protocol, records)
    derived = ratings(protocol, [(record.spec, record.result) for record in records])
    claim["ratings_sha256"] = digest(derived)
    work = out / protocol.name / f".tmp-{run.name}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    models = any("base" in agent["spec"] for agent in claim["agents"])
    columns = zip((MATCHES, TRANSCRIPTS, TOKENS), zip(*lines, strict=True), strict=True)
    for name, column in columns:
        if name != TOKENS or models:
            data = b"".join(canonical_json(line).encode() + b"\n" for line in column)
            (work / name).write_bytes(lzma.compress(data, preset=9))
    (work / RATINGS).write_text(canonical_json(derived) + "\n", encoding="utf-8")
    if with_adapters:
        _copy_adapters(header, work)
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "claim": claim,
        "provenance": provenance(protocol.env, header["command"], header["started"]),
        "files": file_hashes(work),
    }
    manifest["root"] = digest(manifest)
    (work / MANIFEST).write_text(canonical_json(manifest) + "\n", encoding="utf-8")
    final = work.with_name(manifest["root"][:ROOT_DIGITS])
    if final.exists():
        shutil.rmtree(work)
    else:
        work.rename(final)
    return open_bundle(final)


def file_hashes(folder: Path) -> dict[str, dict[str, Any]]:
    """Every file of a bundle but the manifest: name -> hash and size."""
    return {
        str(path.relative_to(folder)): {"sha256": _sha256(path), "bytes": path.stat().st_size}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder) != Path(MANIFEST)
    }


def adapter_folder(folder: Path, agent_id: str) -> Path:
    """Where a bundle keeps an agent's adapter; a hash, because an id may be no file name."""
    return folder / ADAPTERS / digest(agent_id)[:ROOT_DIGITS]


def find_bundles(path: Path) -> list[Path]:
    """The bundle at ``path``, or all below it.

    Raises:
        ConfigError: there is none.
    """
    if (path / MANIFEST).is_file():
        return [path]
    found = sorted(p.parent for p in path.glob(f"**/{MANIFEST}"))
    if not found:
        raise ConfigError(f"{path} holds no bundle. `srl leaderboard bundle DIR` makes one.")
    return found


def read_json(path: Path) -> dict[str, Any]:
    """One canonical JSON object.

    Raises:
        BundleError: the file is missing or something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
        if not isinstance(data, dict) or canonical_json(data) + "\n" != text:
            raise BundleError(f"{path.name} is not one object in canonical JSON.")
    except _UNREADABLE as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"{path.name} cannot be read: {type(error).__name__}: {error}.") from None
    return data


def read_lines(path: Path) -> Iterator[Line]:
    """The objects of a compressed file of lines.

    Raises:
        BundleError: it is missing, cut short or holds something else.
    """
    number = 0
    try:
        with lzma.open(path, "rb") as file:
            while text := file.readline(_MOST_LINE_BYTES):
                line = json.loads(text)
                if not isinstance(line, dict) or canonical_json(line).encode() + b"\n" != text:
                    raise BundleError(f"{path.name}: line {number} is no object in canonical JSON.")
                yield line
                number += 1
    except _UNREADABLE as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(
            f"{path.name} cannot be read after record {number - 1}: {type(error).__name__}: {error}."
        ) from None


def _finished(run: Path, header: Mapping[str, Any], protocol: Protocol) -> list[MatchRecord]:
    """All records of a run in the order of its schedule.

    Raises:
        StoreError: some are missing, or the protocol is another by now.
    """
    if protocol.sha256 != header["protocol"]["sha256"]:
        raise StoreError(f"{run} was played under another version of the protocol {protocol.name}.")
    ticket = None if header["ticket"] is None else Ticket.from_data(header["ticket"])
    draw = ticket.draw if ticket else ""
    specs = schedule(protocol, list(header["sources"]), header["seeds"], draw)
    played = {record.spec.match_id: record for record in read_journal(run, specs)}
    if len(played) < len(specs):
        raise StoreError(
            f"{run} has {len(played)} of {len(specs)} matches: a bundle holds all of them. Give the "
            "command of the run again; it continues."
        )
    return [played[spec.match_id] for spec in specs]


def _claim(
    header: Mapping[str, Any], protocol: Protocol, records: Sequence[MatchRecord]
) -> tuple[dict[str, Any], list[tuple[Line, Line, Line]]]:
    """The claim but for the hash of the ratings, and the lines of all records with their chain."""
    claim: dict[str, Any] = {
        "protocol": header["protocol"],
        "env": {"id": protocol.env, "options": protocol.env_options},
        "seeds": header["seeds"],
        "agents": header["agents"],
        "declared": header["declared"],
        "ticket": header["ticket"],
    }
    link = first_link(claim)
    lines = []
    for record in records:
        match, transcript, tokens = record.lines
        link = next_link(link, match, transcript, tokens)
        lines.append(({**match, "chain": link[:HEAD_DIGITS]}, transcript, tokens))
    return claim | {"records": {"count": len(records), "chain": link}}, lines


def _protocol(claim: Mapping[str, Any]) -> Protocol:
    told = claim["protocol"]
    protocol = load_protocol(told["name"])
    if (told["version"], told["sha256"]) != (protocol.version, protocol.sha256):
        raise BundleError(
            f"{MANIFEST}: protocol {told['name']}/{told['version']} with hash {told['sha256'][:12]}; "
            f"here it is {protocol.name}/{protocol.version} with {protocol.sha256[:12]}."
        )
    if claim["env"] != {"id": protocol.env, "options": protocol.env_options}:
        raise BundleError(
            f"{MANIFEST}: environment {claim['env']} is not the protocol's {protocol.env}."
        )
    return protocol


def _copy_adapters(header: Mapping[str, Any], work: Path) -> None:
    for name, source in header["sources"].items():
        _, plus, folder = source.partition("+")
        if plus and not source.startswith(f"{ENDPOINT}:"):
            target = adapter_folder(work, name)
            target.mkdir(parents=True)
            for file in ADAPTER_FILES:
                shutil.copyfile(Path(folder) / file, target / file)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
