"""All matches of a league in one append-only SQLite file, and the leases of matches being played.

One process writes, any number read while it does. A match is addressed by the content of its
spec, so a report that arrives twice is recognised, and two reports that disagree are refused.

A *lease* records that a player plays a match until some moment. It holds the whole spec: when it
expires, the same match is issued again, with the same seed, to the next player that asks.

Durability: WAL with synchronous=NORMAL. What `LeagueStore.report` acknowledged survives the death
of the process and a full disk; a power cut can lose the last commits but not damage the file. The
lock beside the file holds the number of matches that were acknowledged, so that a store with fewer is
noticed: one that was emptied, put back from a backup, or copied without its ``-wal``.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from srl_agents.league.agents import AgentVersion, Role
from srl_agents.league.store import schema
from srl_agents.league.store.database import (
    acknowledge,
    acknowledged,
    connect,
    end,
    mend,
    take_lock,
)
from srl_agents.league.store.reading import PLAYED, Lease, PairCount, StoreReader
from srl_agents.league.store.rows import (
    check_fit,
    normal,
    refuse_other_agent,
    refuse_other_result,
    seat_rows,
    spec_to_json,
)
from srl_agents.league.store.schema import refuse_network_file_system
from srl_agents.records import MatchResult, MatchSpec, canonical_json
from srl_envs.errors import StoreError, file_fault

__all__ = [
    "AgentVersion",
    "LeagueStore",
    "Lease",
    "PairCount",
    "Role",
    "refuse_network_file_system",
]

_MATCH = (
    "INSERT INTO match(match_no, match_id, env_no, split, purpose, schedule, number, attempt,"
    " cluster, seed, termination, turns, trajectory_sha256, recorded_ms, branch)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_COUNT = (
    "INSERT INTO pair_count VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " wins = wins + excluded.wins, ties = ties + excluded.ties,"
    " losses = losses + excluded.losses, forfeits = forfeits + excluded.forfeits"
)


class LeagueStore(StoreReader):
    """Agents and matches on disk. Use as a context manager, or call `close`.

    Args (constructor):
        path: of the file.
        mode: ``write`` makes the file if there is none, ``continue`` writes to one that is there.

    Raises (constructor):
        StoreError: another process writes; the file is missing, damaged, foreign, from a newer SRL or
            holds fewer matches than were acknowledged; or it lies on a network file system, where
            SQLite's locks do not hold.

    Every method raises `StoreError` if the file cannot be read or written.
    """

    def __init__(
        self, path: str | Path, mode: Literal["write", "continue", "read"] = "write"
    ) -> None:
        self.path = Path(path)
        self._lock: int | None = None
        self._matches = 0
        refuse_network_file_system(self.path)
        if sqlite3.sqlite_version_info < (3, 37):
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} is older than 3.37: use a newer Python build."
            )
        try:
            self._db = self._open_to_read() if mode == "read" else self._open_to_write(mode)
        except StoreError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise StoreError(
                f"the league store {file_fault(error, self.path)}. Give this user the right to write "
                "to file and folder, or name another folder."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let another process write. Safe to call twice."""
        if hasattr(self, "_db"):
            self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # --- writing -----------------------------------------------------------------------------

    def add_agent(self, agent: AgentVersion) -> bool:
        """Add a version. The same version again is a no-op.

        Returns:
            True if it is new.

        Raises:
            StoreError: the id is taken by a different version.
        """
        with self._transaction():
            known = {a.agent_id: a for a in self._agents("WHERE agent_id = ?", agent.agent_id)}
            if agent.agent_id in known:
                refuse_other_agent(known[agent.agent_id], agent)
                return False
            self._db.execute(
                "INSERT INTO agent(agent_id, lineage, parent, role, step, spec_json, created_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    agent.agent_id,
                    agent.lineage,
                    agent.parent,
                    agent.role,
                    agent.step,
                    canonical_json(agent.spec),
                    _now_ms(),
                ),
            )
        return True

    def report(self, spec: MatchSpec, result: MatchResult) -> bool:
        """Store one match; when this returns, it is on disk. See `report_many`.

        Returns:
            True if it is new.
        """
        return self.report_many([(spec, result)]) == 1

    def report_many(
        self, matches: Iterable[tuple[MatchSpec, MatchResult]], *, repeatable: bool = True
    ) -> int:
        """Store matches in one transaction: all of them, or none if one is refused.

        The same match with the same result is a no-op. A void match may be reported again once it
        was played; the void row stays beside the played one. Leases of the matches end.

        Args:
            matches: that were played.
            repeatable: a match that is played again ends alike. False: it may end otherwise, and its
                first result stays.

        Returns:
            Number of matches that were new.

        Raises:
            StoreError: a result contradicts the stored one or does not fit its spec, or a seat
                holds an agent that was never added.
        """
        with self._transaction():
            rows = [(spec.match_id, spec, result) for spec, result in matches]
            new = self._insert(rows, repeatable=repeatable)
        self._matches += new
        if self._lock is not None:
            acknowledge(self._lock, self._matches)
        return new

    # --- leases ------------------------------------------------------------------------------

    def lease(
        self, specs: Iterable[MatchSpec], owner: str, lease_s: float, now_ms: int | None = None
    ) -> list[MatchSpec]:
        """Take matches to play.

        Args:
            specs: wanted, in this order.
            owner: who plays them.
            lease_s: seconds after which others may take them.
            now_ms: the present moment; the clock's by default.

        Returns:
            Those that are granted: neither played nor leased to another player at the moment.
        """
        now = _now_ms() if now_ms is None else now_ms
        wanted = {spec.match_id: spec for spec in specs}
        with self._transaction():
            names = json.dumps(list(wanted))
            taken = {
                row[0]
                for row in self._db.execute(
                    f"SELECT match_id FROM json_each(?) JOIN match ON match_id = value AND {PLAYED}"
                    " UNION SELECT match_id FROM json_each(?) JOIN lease ON match_id = value"
                    " WHERE until_ms > ? AND owner <> ?",
                    (names, names, now, owner),
                )
            }
            granted = {key: spec for key, spec in wanted.items() if key not in taken}
            until = now + round(lease_s * 1000)
            self._db.executemany(
                "INSERT INTO lease VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET"
                " owner = excluded.owner, until_ms = excluded.until_ms, issued = issued + 1",
                [
                    (key, spec.schedule, spec.number, spec_to_json(spec), owner, until)
                    for key, spec in granted.items()
                ],
            )
        return list(granted.values())

    def expired(self, now_ms: int | None = None) -> list[MatchSpec]:
        """Matches whose player did not report in time: to be issued again, as they are."""
        now = _now_ms() if now_ms is None else now_ms
        return [lease.spec for lease in self.leases() if lease.until_ms <= now]

    def expire_leases(self, owner: str | None = None) -> int:
        """End leases of a player that is known to be dead; all of them by default.

        The process that opens the store for writing is the only writer, so leases that it finds belong to
        players that can no longer report.
        """
        with self._transaction():
            changed = self._db.execute(
                "UPDATE lease SET until_ms = 0 WHERE ?1 IS NULL OR owner = ?1", (owner,)
            )
        return changed.rowcount

    # --- opening -----------------------------------------------------------------------------

    def _open_to_write(self, mode: Literal["write", "continue"]) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = take_lock(self.path.with_name(self.path.name + ".lock"))
        if mode == "continue" and not self.path.is_file():
            raise self._lost()
        known = acknowledged(self._lock)
        if known and not self.path.is_file():
            raise self._lost()
        db = self._db = connect(self.path, str(self.path))
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA synchronous = NORMAL")
        if db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            version = schema.check(db, self.path)
            schema.require_whole(db, self.path, known)
            schema.migrate(db, version)
            self._matches = schema.count_matches(db)
            acknowledge(self._lock, self._matches)
            return db
        if mode == "continue" or known:
            raise self._lost()
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise StoreError(
                f"{self.path} lies on a file system without shared memory, which SQLite needs: "
                "move it to a local disk."
            )
        schema.create(db)
        return db

    def _lost(self) -> StoreError:
        return StoreError(
            f"{self.path} is missing or empty, and the run cannot go on without the matches that it "
            f"played. {mend(self.path)}"
        )

    def _open_to_read(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise StoreError(f"no league store at {self.path}. `srl train RECIPE` makes one.")
        # without a writable folder SQLite cannot make its index beside the file
        immutable = not os.access(self.path.parent, os.W_OK) and not _wal(self.path).exists()
        flags = "mode=ro&immutable=1" if immutable else "mode=ro"
        db = self._db = connect(self.path, f"{self.path.absolute().as_uri()}?{flags}", uri=True)
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise StoreError(f"no league store at {self.path} yet: the file is empty.")
        schema.read_as_present(db, schema.check(db, self.path))
        return db

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._lock is None:
            raise StoreError(f"{self.path} is open for reading only: open it with mode='write'.")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            end(self._db)
            raise

    # --- rows --------------------------------------------------------------------------------

    def _insert(
        self, matches: Sequence[tuple[str, MatchSpec, MatchResult]], *, repeatable: bool
    ) -> int:
        agents = dict(self._db.execute("SELECT agent_id, agent_no FROM agent"))
        envs = {(e, o): n for n, e, o in self._db.execute("SELECT * FROM env")}
        next_no = self._db.execute("SELECT ifnull(max(match_no), 0) + 1 FROM match").fetchone()[0]
        stored = self._stored([match_id for match_id, _, _ in matches])
        now = _now_ms()
        match_rows: list[tuple[Any, ...]] = []
        seats: list[tuple[Any, ...]] = []
        counts: Counter[tuple[Any, ...]] = Counter()
        for match_id, spec, result in matches:
            check_fit(match_id, spec, result)
            void = result.termination == "void"
            known = stored.get((match_id, void))
            if known is not None:
                if repeatable and not void:  # two failures of ours need not look alike
                    earlier = known if isinstance(known, MatchResult) else self._result(known)
                    count = len(spec.seats)
                    refuse_other_result(normal(earlier, count), normal(result, count))
                continue
            stored[match_id, void] = result
            env_no = self._env_no(envs, spec)
            match_no = next_no + len(match_rows)
            match_rows.append(
                (
                    match_no, match_id, env_no, spec.split, spec.purpose, spec.schedule,
                    spec.number, spec.attempt, spec.cluster, str(spec.seed), result.termination,
                    result.turns, result.trajectory_sha256, now,
                    None if spec.branch is None else canonical_json(asdict(spec.branch)),
                )
            )  # fmt: skip
            numbers = [_number(agents, agent, match_id) for agent in spec.seats]
            teams = spec.teams or (None,) * len(numbers)
            for k, row in enumerate(seat_rows(result, len(numbers))):
                seats.append((match_no, k, numbers[k], k in spec.learner_seats, *row, teams[k]))
            if not void:
                stream = (env_no, spec.split, spec.purpose)
                forfeit = result.termination == "forfeit"
                counts.update(_pair_counts(stream, numbers, teams, result.outcomes, forfeit))
        self._db.executemany(_MATCH, match_rows)
        self._db.executemany("INSERT INTO seat VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", seats)
        self._count(counts)
        self._db.executemany(
            "DELETE FROM lease WHERE match_id = ?", [(match_id,) for match_id, _, _ in matches]
        )
        return len(match_rows)

    def _stored(self, match_ids: Sequence[str]) -> dict[tuple[str, bool], int | MatchResult]:
        """(match id, void) -> match number, of those that are there already."""
        rows = self._db.execute(
            "SELECT match_id, termination = 'void', match_no FROM json_each(?)"
            " CROSS JOIN match ON match_id = value AND termination <> 'void'"
            " UNION ALL SELECT match_id, termination = 'void', match_no FROM json_each(?)"
            " CROSS JOIN match ON match_id = value AND termination = 'void'",
            (json.dumps(match_ids), json.dumps(match_ids)),
        )
        return {(match_id, bool(void)): match_no for match_id, void, match_no in rows}

    def _result(self, match_no: int) -> MatchResult:
        return next(self._records("WHERE match_no = ?", [match_no]))[1]

    def _env_no(self, envs: dict[tuple[str, str], int], spec: MatchSpec) -> int:
        env = (spec.env_id, canonical_json(spec.options) if spec.options else "{}")
        if env not in envs:
            row = self._db.execute("INSERT INTO env(env_id, options_json) VALUES (?, ?)", env)
            envs[env] = int(row.lastrowid or 0)
        return envs[env]

    def _count(self, counts: Counter[tuple[Any, ...]]) -> None:
        """Add (stream, a, b, what) counts to the table of pairs."""
        cells: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for (stream, a, b, what), number in counts.items():
            cells[*stream, a, b][what] += number
        self._db.executemany(_COUNT, [(*key, *cell) for key, cell in cells.items()])


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _number(agents: dict[str, int], agent: str, match_id: str) -> int:
    if agent not in agents:
        raise StoreError(f"match {match_id}: no agent {agent!r} in the store. `add_agent` first.")
    return agents[agent]


def _pair_counts(
    stream: tuple[Any, ...],
    numbers: Sequence[int],
    teams: Sequence[int | None],
    outcomes: Sequence[float],
    forfeit: bool,
) -> Iterator[tuple[Any, ...]]:
    """(stream, lower agent, higher agent, column of the count) for every pair of seats."""
    for i, j in itertools.combinations(range(len(numbers)), 2):
        if numbers[i] == numbers[j] or (teams[i] is not None and teams[i] == teams[j]):
            continue
        low, high = (i, j) if numbers[i] < numbers[j] else (j, i)
        difference = outcomes[low] - outcomes[high]
        column = 1 if abs(difference) < 1e-9 else 0 if difference > 0 else 2
        yield stream, numbers[low], numbers[high], column
        if forfeit:
            yield stream, numbers[low], numbers[high], 3


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
