"""Play a protocol's matches into a folder; a run that was killed can go on: `BoardRun`.

Every finished match is a line of the journal before the next step of any other. A run that is given
the same command again drops a line that was cut short and plays what is missing. Replies of endpoints are
on disk before they are played, so those of an unfinished match are not asked for again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from leaderboards.bundles.adaptive_seeds import APART, comparisons, stops
from leaderboards.bundles.agent_specs import committed, is_served, version_data
from leaderboards.bundles.agents import Built, Entrant, build_agents
from leaderboards.contents.fields import FieldError
from leaderboards.contents.mistakes import moves_of
from leaderboards.contents.record import MatchRecord, record_of
from leaderboards.contents.schemas import AGENTS, DECLARED
from leaderboards.contents.served import Reports
from leaderboards.names import submitter_fault
from leaderboards.protocol import ROOT_SEED, Protocol, check_environment, schedule
from leaderboards.provenance import now
from leaderboards.registration.tickets import Ticket, TicketError
from srl_agents.agents.grammar import EndpointName
from srl_agents.agents.resolver import Asking, close_engines
from srl_agents.engines.endpoint.providers import find_model
from srl_agents.engines.endpoint.reply_journal import REPLIES, ReplyJournal
from srl_agents.engines.tasks import all_of
from srl_agents.interrupts import EventLoop
from srl_agents.league.ratings.intervals import Comparison, looks
from srl_agents.league.store.database import take_lock
from srl_agents.records import Episode, MatchSpec, canonical_json
from srl_agents.rollouts import Order, Rollouts
from srl_agents.rollouts.match_queue import Finished
from srl_envs.api.episode import Transcript
from srl_envs.errors import ConfigError, SandboxError, StoreError
from srl_envs.reading.settings import dump

HEADER, JOURNAL = "run.json", "matches.jsonl"
STOPPED = "stopped"
"""Key of the header: seeds at which a run that looks has stopped."""
_LOCK = f"{HEADER}.lock"
_MATCHES_TO_JUDGE = 4
_BATCH = 256
"""Matches handed to the runner at once."""
_PATIENCE_S = 86_400.0
"""Seconds for one reply of an endpoint, with waits for rate limits; each try has its own deadline."""

Progress = Callable[[int, int], None]
"""(matches done, matches in all)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """Unverifiable statements of a submitter."""

    attempts: int = 1
    """Runs that this one was chosen from, itself included."""
    training_data: str = ""
    """What the agents were trained on."""
    submitter: str = ""

    def __post_init__(self) -> None:
        try:
            DECLARED.check(asdict(self))
        except FieldError as error:
            raise ConfigError(f"what you declare: {error}") from None


class BoardRun:
    """One protocol with its entrants in one folder.

    Args:
        protocol: what to play.
        entrants: from `parse_entrants`; with none only the references play.
        folder: made if absent; one that holds the same run is continued.
        seeds: how many of the protocol's seeds; by default the ticket's number, or all.
        max_new_tokens: per reply of a model; the protocol's limit if None.
        declared: goes into the bundle.
        command: goes into the bundle.
        asking: how endpoints are asked.
        until: `APART` to stop at the first look at which all entrants are apart (`adaptive_seeds`); ``seeds``
            are then the most. Not with a ticket, which fixes their number.
        order: of matches without endpoints; those with endpoints are always ``free``. ``exact`` gives the
            same replies each time; in ``free`` no match waits for another, and a model's replies may differ
            by rounding. The run's header and the bundle's command tell it.
        ticket: of a board for these entrants; without one every seed is public, and no board takes the
            entrants' rows.

    Raises:
        ConfigError: the folder holds another run, or a value is impossible.
        TicketError: the ticket is for another protocol, or for other agents.
        ModelError: a model cannot be loaded, or an endpoint does not answer.
        StoreError: another process plays in this folder.
    """

    def __init__(
        self,
        protocol: Protocol,
        entrants: Sequence[Entrant],
        folder: Path,
        *,
        seeds: int | None = None,
        max_new_tokens: int | None = None,
        declared: Declared | None = None,
        command: str = "",
        asking: Asking | None = None,
        ticket: Ticket | None = None,
        until: str = "",
        order: Order = "exact",
    ) -> None:
        declared, asking = declared or Declared(), asking or Asking()
        _check_submitter(declared, ticket)
        tokens = _reply_tokens(protocol, max_new_tokens)
        if seeds is None:
            seeds = ticket.request.seeds if ticket else protocol.seeds
        names = [e.name for e in entrants]
        if until:
            _check_until_apart(names, ticket)
        self.protocol, self.folder = protocol, folder
        self._entrants, self._looks = names, looks(seeds) if until else (seeds,)
        self.specs = schedule(protocol, names, seeds, ticket.draw if ticket else "")
        check_environment(protocol)
        wanted = {
            "protocol": protocol.claim,
            "seeds": seeds,
            "until": until or None,
            "sources": {e.name: e.source for e in entrants},
            "max_new_tokens": tokens,
            "prices": _prices(entrants),
            "declared": asdict(declared),
            "ticket": ticket.data if ticket else None,
            "order": order,
        }
        _check_folder(folder, wanted)
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _take(folder)
        try:
            self._replies = ReplyJournal(folder / REPLIES)
            asking = replace(asking, journal=self._replies)
            built = build_agents(protocol, entrants, tokens, asking)
            if ticket and (wrong := ticket.fault(protocol, committed(built.versions), seeds)):
                raise TicketError(f"{wrong}. Register these agents and draw again.")
            self._begin(wanted, built, command)
        except BaseException:
            if hasattr(self, "_replies"):
                self._replies.close()
            os.close(self._lock)
            raise
        self._policies, self._loop = built.policies, EventLoop()
        self._served = frozenset(v.agent_id for v in built.versions if is_served(v))
        alike: dict[str, Any] = {
            "loop": self._loop,
            "root_seed": ROOT_SEED,
            "contents": {version.agent_id: version.contents for version in built.versions},
        }
        self._runner = Rollouts(built.policies, order=order, **alike)
        self._free = Rollouts(
            built.policies,
            order="free",
            concurrency=asking.in_flight,
            reply_deadline_s=_PATIENCE_S,
            **alike,
        )

    def _begin(self, wanted: dict[str, Any], built: Built, command: str) -> None:
        """Write the header of a new run, or take up one that the folder holds."""
        agents = [version_data(version) for version in built.versions]
        AGENTS.check(agents)
        self.header = _start(self.folder, wanted, agents, command)
        if STOPPED in self.header:
            self._stop(self.header[STOPPED])
        self.done = {r.spec.match_id for r in read_journal(self.folder, self.specs, repair=True)}

    def play(self, progress: Progress | None = None) -> None:
        """Play what is missing.

        Args:
            progress: called after every finished match.

        Raises:
            SandboxError: a match stays void; the run can be continued once the cause is mended.
            ModelError: an endpoint stopped answering; likewise.
        """
        faults: dict[str, list[str]] = {}
        with (self.folder / JOURNAL).open("a", encoding="utf-8") as journal:

            def finished(episode: Episode, transcript: Transcript) -> None:
                name = episode.spec.match_id
                if episode.termination == "void":
                    faults.setdefault(name, []).append(episode.fault)
                    return
                record = record_of(episode, transcript, tuple(faults.get(name, ())))
                line = [name, *record.lines]
                journal.write(canonical_json(line) + "\n")
                journal.flush()
                self.done.add(name)
                if progress is not None:
                    progress(len(self.done), len(self.specs))

            for seeds in self._looks:
                specs = [spec for spec in self.specs if spec.number < seeds]
                for _ in range(self.protocol.void_tries):
                    missing = [spec for spec in specs if spec.match_id not in self.done]
                    self._play(missing, finished)
                    if all(spec.match_id in self.done for spec in specs):
                        break
                os.fsync(journal.fileno())
                self._require_played(specs, faults)
                if self.header.get("until") and self._apart(seeds):
                    break

    def _apart(self, seeds: int) -> bool:
        """Whether the run stops at this look; if so the number of seeds goes into its header."""
        played = [(record.spec, record.result) for record in read_journal(self.folder, self.specs)]
        most = self._looks[-1]
        if stops(self.protocol, self._entrants, played, most) > seeds:
            return False
        if STOPPED not in self.header:
            self.header = {**self.header, STOPPED: seeds}
            _write_header(self.folder, self.header)
        self._stop(seeds)
        return True

    def _stop(self, seeds: int) -> None:
        """Leave out seeds that the run does not play."""
        self._looks = tuple(look for look in self._looks if look <= seeds)
        self.specs = [spec for spec in self.specs if spec.number < seeds]

    def _require_played(self, specs: Sequence[MatchSpec], faults: dict[str, list[str]]) -> None:
        """Raise a `SandboxError` if a match is still void."""
        missing = [spec for spec in specs if spec.match_id not in self.done]
        if missing:
            raise SandboxError(
                f"{len(missing)} matches are void after {self.protocol.void_tries} tries; the first, "
                f"{_who(missing[0])}, because of {faults[missing[0].match_id][-1]}. Mend the cause."
            )

    def comparisons(self) -> list[Comparison]:
        """Every two entrants, at the look at which the run stopped; none of a run with fixed seeds."""
        if not self.header.get("until"):
            return []
        played = [(record.spec, record.result) for record in read_journal(self.folder, self.specs)]
        count = len(looks(self.header["seeds"]))
        return comparisons(
            self.protocol, self._entrants, played, self.header.get(STOPPED, 0), count
        )

    def motionless(self) -> list[str]:
        """Entrants of whose replies the game took none as a move, in at least `_MATCHES_TO_JUDGE` matches."""
        moves, matches = Counter[str](), Counter[str]()
        for record in read_journal(self.folder, self.specs):
            matches.update({*record.spec.seats})
            moves.update(moves_of(record))
        return [n for n in self._entrants if not moves[n] and matches[n] >= _MATCHES_TO_JUDGE]

    def usage(self) -> dict[str, dict[str, Any]]:
        """Agent behind an endpoint -> what its replies in finished matches took; see `served.usage`."""
        reports = Reports()
        for record in read_journal(self.folder, self.specs):
            reports.add(record.spec.seats, record.served)
        return reports.usage()

    def _play(self, specs: Sequence[MatchSpec], finished: Finished) -> None:
        """Play all of them: those with endpoints apart, so that a slow one delays no other."""
        apart: dict[frozenset[str], list[MatchSpec]] = {}
        for spec in specs:
            apart.setdefault(self._served.intersection(spec.seats), []).append(spec)
        local = apart.pop(frozenset(), [])
        for start in range(0, len(local), _BATCH):
            self._runner.play(local[start : start + _BATCH], finished=finished)
        if apart:
            self._loop.run(self._play_served(apart.values(), finished))

    async def _play_served(self, groups: Iterable[Sequence[MatchSpec]], finished: Finished) -> None:
        await all_of(self._free.play_async(specs, finished=finished) for specs in groups)

    def close(self) -> None:
        """Give back environments and the folder; replies under way are waited for and kept."""
        self._runner.close()
        self._free.close()
        self._loop.run(close_engines(self._policies.values()))
        self._loop.close()
        self._replies.close()
        os.close(self._lock)


def _check_submitter(declared: Declared, ticket: Ticket | None) -> None:
    """Raise `ConfigError` for a submitter's name that is reserved."""
    maker, when = (ticket.request.maker, ticket.when) if ticket else ("", "")
    if wrong := submitter_fault(declared.submitter, maker=maker, when=when):
        raise ConfigError(f"--submitter {declared.submitter!r}: {wrong}.")


def _reply_tokens(protocol: Protocol, max_new_tokens: int | None) -> int:
    """Tokens of a reply at most; `ConfigError` for more than the protocol allows."""
    limit = protocol.decoding.max_new_tokens
    tokens = limit if max_new_tokens is None else max_new_tokens
    if not 1 <= tokens <= limit:
        raise ConfigError(f"max_new_tokens={tokens}: {protocol.name} allows 1 to {limit}.")
    return tokens


def _check_until_apart(names: Sequence[str], ticket: Ticket | None) -> None:
    """Raise `ConfigError` for a run that cannot stop when its agents are apart."""
    if ticket is not None or len(names) < 2:
        raise ConfigError(
            f"--seeds {APART} compares agents of a run for yourself: give two or more, with "
            "--unregistered. A ticket fixes the number of seeds, so that a row's interval holds."
        )


@contextmanager
def opened(run: BoardRun) -> Iterator[BoardRun]:
    """A context manager that closes the run."""
    try:
        yield run
    finally:
        run.close()


def read_header(folder: Path) -> dict[str, Any]:
    """What a run is.

    Raises:
        StoreError: the folder holds no run.
    """
    try:
        return dict(json.loads((folder / HEADER).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{folder} holds no run of a board ({type(error).__name__}). `srl leaderboard run ENV "
            "--out DIR` makes one."
        ) from None


def seeds_of(header: Mapping[str, Any]) -> int:
    """How many seeds a run has: those at which it stopped, or those that it was given, which are more than it
    has played while it still looks."""
    return int(header.get(STOPPED, header["seeds"]))


def read_journal(
    folder: Path, specs: Sequence[MatchSpec], *, repair: bool = False
) -> Iterator[MatchRecord]:
    """Finished matches, in the order in which they ended; a line that was cut short is none.

    Args:
        folder: of the run.
        specs: its schedule.
        repair: cut such a line off, so that the next one starts a line of its own.
    """
    path = folder / JOURNAL
    known = {spec.match_id: spec for spec in specs}
    whole = 0
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            try:
                match_id, *lines = json.loads(line)
                yield MatchRecord.from_lines(known[match_id], *lines)
            except (ValueError, KeyError, TypeError) as error:
                raise StoreError(
                    f"{path}, byte {whole}: no match of this run ({type(error).__name__}: {error}). "
                    "The file was edited; start in another folder."
                ) from None
            whole += len(line)
    if repair:
        os.truncate(path, whole)


def _prices(entrants: Sequence[Entrant]) -> dict[str, Any]:
    """What the tokens of entrants behind endpoints cost, where that is known."""
    names = {entrant.name: entrant.candidate.name for entrant in entrants}
    prices = {
        name: find_model(agent.url, agent.model).price
        for name, agent in names.items()
        if isinstance(agent, EndpointName)
    }
    return {name: dump(price) for name, price in prices.items() if price is not None}


def _take(folder: Path) -> int:
    try:
        return take_lock(folder / _LOCK)
    except StoreError:
        raise StoreError(
            f"another process plays in {folder}: wait for it, stop it, or choose another --out."
        ) from None


def _check_folder(folder: Path, wanted: dict[str, Any]) -> None:
    if not (folder / HEADER).is_file():
        # a start that failed, at an endpoint that was not up for example, leaves no more than these
        strange = folder.exists() and (
            not folder.is_dir()
            or any(path.name not in (_LOCK, REPLIES) for path in folder.iterdir())
        )
        if strange:
            raise ConfigError(f"{folder} is not empty and holds no run: choose another --out.")
        return
    found = read_header(folder)
    for key, value in wanted.items():
        if found.get(key) != value:
            raise ConfigError(
                f"{folder} holds a run with {key}={found.get(key)!r}, not {value!r}: give the same "
                "command, or another --out."
            )


def _start(
    folder: Path, wanted: dict[str, Any], agents: list[dict[str, Any]], command: str
) -> dict[str, Any]:
    """Write the header of a new run, or check that the agents are those of the old one."""
    path = folder / HEADER
    if path.is_file():
        header = read_header(folder)
        for old, new in zip(header["agents"], agents, strict=True):
            if old != new:
                raise ConfigError(
                    f"{folder}: agent {new['agent_id']!r} has other weights or settings than when the "
                    "run began. One run is one version of an agent: choose another --out."
                )
        return header
    header = {**wanted, "agents": agents, "command": command, "started": now()}
    _write_header(folder, header)
    return header


def _write_header(folder: Path, header: dict[str, Any]) -> None:
    """Write the header's file atomically."""
    path = folder / HEADER
    work = path.with_suffix(".tmp")
    work.write_text(json.dumps(header, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    work.rename(path)


def _who(spec: MatchSpec) -> str:
    return f"{' - '.join(spec.seats)} on seed {spec.number}"
