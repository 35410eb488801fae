"""All matches of a league in one append-only SQLite file.

One process writes, any number read while it does. A match is addressed by the content of its
spec, so a report that arrives twice is recognised, and two reports that disagree are refused.

Durability: WAL with synchronous=NORMAL. What `LeagueStore.report` acknowledged survives the death
of the process; a power cut can lose the last commits but not damage the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import math
import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

from srl_agents.league.ratings import Pairs
from srl_agents.records import MatchResult, MatchSpec, canonical_json
from srl_envs.errors import ConfigError, StoreError

Role = Literal["main", "frozen", "anchor", "heldout"]

APPLICATION_ID = 0x53524C4C  # "SRLL" in the file's header
SCHEMA_VERSION = 1

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "ceph",
     "glusterfs", "lustre", "gpfs", "beegfs", "orangefs", "fuse.sshfs", "fuse.glusterfs",
     "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.goofys"}
)  # fmt: skip

_TABLES = """
CREATE TABLE agent(
  agent_no INTEGER PRIMARY KEY, agent_id TEXT NOT NULL UNIQUE, lineage TEXT NOT NULL, parent TEXT,
  role TEXT NOT NULL CHECK(role IN ('main','frozen','anchor','heldout')), step INTEGER NOT NULL,
  spec_json TEXT NOT NULL, created_ms INTEGER NOT NULL) STRICT;
CREATE TABLE env(
  env_no INTEGER PRIMARY KEY, env_id TEXT NOT NULL, options_json TEXT NOT NULL,
  UNIQUE(env_id, options_json)) STRICT;
CREATE TABLE match(
  match_no INTEGER PRIMARY KEY, match_id TEXT NOT NULL, env_no INTEGER NOT NULL REFERENCES env,
  split TEXT NOT NULL CHECK(split IN ('train','eval')), purpose TEXT NOT NULL,
  schedule TEXT NOT NULL, number INTEGER NOT NULL, attempt INTEGER NOT NULL, cluster TEXT NOT NULL,
  seed TEXT NOT NULL, -- decimal: seeds may exceed 63 bits
  termination TEXT NOT NULL CHECK(termination IN ('ok','forfeit','truncated','void')),
  turns INTEGER NOT NULL, trajectory_sha256 TEXT NOT NULL, recorded_ms INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX match_played ON match(match_id) WHERE termination <> 'void';
CREATE UNIQUE INDEX match_void ON match(match_id) WHERE termination = 'void';
CREATE INDEX match_group ON match(env_no, split, purpose);
CREATE TABLE seat(
  match_no INTEGER NOT NULL REFERENCES match, seat INTEGER NOT NULL,
  agent_no INTEGER NOT NULL REFERENCES agent, learner INTEGER NOT NULL CHECK(learner IN (0, 1)),
  outcome REAL CHECK(outcome BETWEEN -1 AND 1), reward REAL, -- NULL: void before anything was paid
  invalid INTEGER NOT NULL, forfeited INTEGER NOT NULL CHECK(forfeited IN (0, 1)),
  tokens INTEGER NOT NULL, PRIMARY KEY(match_no, seat)) STRICT, WITHOUT ROWID;
"""

# INSERT OR REPLACE deletes without firing the DELETE trigger, hence the third one.
_APPEND_ONLY = """
CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table}
  BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;
CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
  BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;
CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN EXISTS({clash})
  BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;
"""
_CLASHES = {
    "agent": "SELECT 1 FROM agent WHERE agent_no = NEW.agent_no OR agent_id = NEW.agent_id",
    "env": "SELECT 1 FROM env WHERE env_no = NEW.env_no"
    " OR (env_id = NEW.env_id AND options_json = NEW.options_json)",
    "match": "SELECT 1 FROM match WHERE match_no = NEW.match_no"
    " UNION ALL SELECT 1 FROM match WHERE match_id = NEW.match_id AND termination <> 'void'"
    " AND NEW.termination <> 'void'"
    " UNION ALL SELECT 1 FROM match WHERE match_id = NEW.match_id AND termination = 'void'"
    " AND NEW.termination = 'void'",
    "seat": "SELECT 1 FROM seat WHERE match_no = NEW.match_no AND seat = NEW.seat",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentVersion:
    """One immutable version of an agent; what sits in a seat."""

    agent_id: str
    """Policy version id as in `MatchSpec.seats`, for example ``alice@3`` or ``bot:middle``."""
    lineage: str
    """Who it is a version of, for example ``alice``; a learning curve joins one lineage."""
    parent: str | None = None
    """Agent id it was trained from."""
    role: Role
    """``anchor`` defines the rating zero; ``heldout`` is never met in training."""
    step: int = 0
    """Optimizer steps of its lineage so far."""
    spec: dict[str, Any] = field(default_factory=dict)
    """What is needed to build it again: model, adapter hash, prompt, sampling."""

    def __post_init__(self) -> None:
        if not self.agent_id or not self.lineage:
            raise ConfigError(f"agent {self.agent_id!r}: agent_id and lineage must not be empty.")
        if self.role not in get_args(Role):
            raise ConfigError(
                f"agent {self.agent_id!r}: role {self.role!r}; use {', '.join(get_args(Role))}."
            )
        if self.step < 0:
            raise ConfigError(f"agent {self.agent_id!r}: step={self.step} is negative.")


class LeagueStore:
    """Agents and matches on disk. Use as a context manager, or call `close`.

    Raises (constructor):
        StoreError: another process writes, the file is missing, foreign or from a newer SRL, or it
            lies on a network file system, where SQLite's locks do not hold.
    """

    def __init__(self, path: str | Path, mode: Literal["write", "read"] = "write") -> None:
        self.path = Path(path)
        self._lock: int | None = None
        refuse_network_file_system(self.path)
        if sqlite3.sqlite_version_info < (3, 37):
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} is older than 3.37: use a newer Python build."
            )
        try:
            self._db = self._open_to_write() if mode == "write" else self._open_to_read()
            self._check_schema()
        except StoreError:
            self.close()
            raise
        except (sqlite3.DatabaseError, OSError) as error:
            self.close()
            raise StoreError(f"{self.path} cannot be opened as a league store: {error}.") from error

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
                _refuse_other_agent(known[agent.agent_id], agent)
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

    def report_many(self, matches: Iterable[tuple[MatchSpec, MatchResult]]) -> int:
        """Store matches in one transaction: all of them, or none if one is refused.

        The same match with the same result is a no-op. A void match may be reported again once it
        was played; the void row stays beside the played one.

        Returns:
            Number of matches that were new.

        Raises:
            StoreError: a result contradicts the stored one or does not fit its spec, or a seat
                holds an agent that was never added.
        """
        with self._transaction():
            numbers = dict(self._db.execute("SELECT agent_id, agent_no FROM agent"))
            envs = {(e, o): n for n, e, o in self._db.execute("SELECT * FROM env")}
            return sum(self._insert(spec, result, numbers, envs) for spec, result in matches)

    # --- reading -----------------------------------------------------------------------------

    def agents(self) -> list[AgentVersion]:
        """All versions, in the order they were added."""
        return list(self._agents())

    def environments(self) -> list[tuple[str, dict[str, Any]]]:
        """Each (env_id, options) that has a match, sorted; plain options first."""
        rows = self._db.execute(
            "SELECT env_id, options_json FROM env ORDER BY env_id, length(options_json), options_json"
        )
        return [(env_id, json.loads(options)) for env_id, options in rows]

    def matches(
        self,
        env_id: str | None = None,
        split: str | None = None,
        purpose: str | None = None,
        schedule: str | None = None,
        *,
        options: dict[str, Any] | None = None,
    ) -> list[tuple[MatchSpec, MatchResult]]:
        """Matches with these properties (None: any), void ones included, in the order of arrival."""
        where, values = _where(env_id, split, purpose, schedule, options)
        return list(self._records(where, values))

    def count(
        self,
        env_id: str | None = None,
        split: str | None = None,
        purpose: str | None = None,
        schedule: str | None = None,
        *,
        options: dict[str, Any] | None = None,
    ) -> int:
        """Number of matches that `matches` would return."""
        where, values = _where(env_id, split, purpose, schedule, options)
        query = f"SELECT count(*) FROM match NATURAL JOIN env {where}"
        return int(self._db.execute(query, values).fetchone()[0])

    def pairs(
        self,
        env_id: str,
        *,
        options: dict[str, Any] | None = None,
        split: str = "eval",
        purpose: str | None = "eval",
        schedule: str | None = None,
    ) -> Pairs:
        """Results between agents, as `ratings.rate` takes them; void matches are left out.

        The defaults select what may feed a published rating: no training match, and no gate match
        (a gate's winner was selected on them). A match with more than two seats gives one row per
        pair of seats; two seats of one agent give none. Rows are ordered by match id, so that equal
        contents give equal arrays.
        """
        where, values = _where(env_id, split, purpose, schedule, options)
        rows = self._db.execute(
            "SELECT a.agent_id, b.agent_id,"
            " CASE WHEN abs(p.outcome - q.outcome) < 1e-9 THEN 0.5 ELSE p.outcome > q.outcome END,"
            " CASE cluster WHEN '' THEN 'seed ' || seed ELSE cluster END"
            " FROM match NATURAL JOIN env"
            " JOIN seat p USING(match_no) JOIN seat q USING(match_no)"
            " JOIN agent a ON a.agent_no = p.agent_no JOIN agent b ON b.agent_no = q.agent_no"
            f" {where} AND termination <> 'void' AND p.seat < q.seat AND p.agent_no <> q.agent_no"
            " ORDER BY match_id, p.seat, q.seat",
            values,
        )
        return Pairs.of(rows)

    def content_digest(self) -> str:
        """SHA-256 over everything but wall-clock times and the order of arrival.

        Two runs that played the same matches with the same results have the same digest.
        """
        hashed = hashlib.sha256()
        queries = (
            "SELECT agent_id, lineage, parent, role, step, spec_json FROM agent ORDER BY agent_id",
            "SELECT match_id, env_id, options_json, split, purpose, schedule, number, attempt,"
            " cluster, seed, termination, turns, trajectory_sha256, seat, agent_id, learner,"
            " outcome, reward, invalid, forfeited, tokens"
            " FROM match NATURAL JOIN env JOIN seat USING(match_no) JOIN agent USING(agent_no)"
            " ORDER BY match_id, termination = 'void', seat",
        )
        with self.snapshot():
            for query in queries:
                for row in self._db.execute(query):
                    hashed.update(canonical_json(row).encode() + b"\n")
        return hashed.hexdigest()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside sees one moment, whatever the writer adds meanwhile."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    # --- opening -----------------------------------------------------------------------------

    def _open_to_write(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _take_lock(self.path.with_name(self.path.name + ".lock"))
        db = self._db = sqlite3.connect(self.path, isolation_level=None, timeout=30)
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA synchronous = NORMAL")
        if db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            return db
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise StoreError(f"{self.path} lies on a file system without shared memory: move it.")
        triggers = (_APPEND_ONLY.format(table=t, clash=clash) for t, clash in _CLASHES.items())
        db.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID};"
            f" PRAGMA user_version = {SCHEMA_VERSION}; {_TABLES} {''.join(triggers)} COMMIT;"
        )
        return db

    def _open_to_read(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise StoreError(f"no league store at {self.path}. `srl train RECIPE` makes one.")
        # without a writable folder SQLite cannot make its index beside the file
        alone = not os.access(self.path.parent, os.W_OK) and not _wal(self.path).exists()
        flags = "mode=ro&immutable=1" if alone else "mode=ro"
        uri = f"{self.path.absolute().as_uri()}?{flags}"
        return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)

    def _check_schema(self) -> None:
        application = self._db.execute("PRAGMA application_id").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise StoreError(f"{self.path} is a database, but not a league store of SRL.")
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has schema {version}, this SRL knows {SCHEMA_VERSION}: update SRL."
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._lock is None:
            raise StoreError(f"{self.path} is open for reading: open it with mode='write'.")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # --- rows --------------------------------------------------------------------------------

    def _agents(self, where: str = "", *values: str) -> Iterator[AgentVersion]:
        rows = self._db.execute(
            "SELECT agent_id, lineage, parent, role, step, spec_json FROM agent"
            f" {where} ORDER BY agent_no",
            values,
        )
        for agent_id, lineage, parent, role, step, spec in rows:
            yield AgentVersion(
                agent_id=agent_id,
                lineage=lineage,
                parent=parent,
                role=role,
                step=step,
                spec=json.loads(spec),
            )

    def _records(
        self, where: str, values: Iterable[Any]
    ) -> Iterator[tuple[MatchSpec, MatchResult]]:
        rows = self._db.execute(
            "SELECT match_no, env_id, options_json, seed, split, purpose, cluster, schedule, number,"
            " attempt, match_id, termination, turns, trajectory_sha256,"
            " agent_id, learner, outcome, reward, invalid, forfeited, tokens"
            " FROM match NATURAL JOIN env JOIN seat USING(match_no) JOIN agent USING(agent_no)"
            f" {where} ORDER BY match_no, seat",
            tuple(values),
        )
        for _, seats in itertools.groupby(rows, key=lambda row: row[0]):
            yield _record(list(seats))

    def _insert(
        self,
        spec: MatchSpec,
        result: MatchResult,
        numbers: dict[str, int],
        envs: dict[tuple[str, str], int],
    ) -> bool:
        _check_fit(spec, result)
        unknown = [a for a in spec.seats if a not in numbers]
        if unknown:
            raise StoreError(
                f"match {spec.match_id}: no agent {unknown[0]!r} in the store. `add_agent` first."
            )
        match_id = spec.match_id
        void = result.termination == "void"
        stored = self._db.execute(
            "SELECT match_no FROM match WHERE match_id = ? AND "
            + ("termination = 'void'" if void else "termination <> 'void'"),
            (match_id,),
        ).fetchone()
        if stored:
            if not void:  # two failures of ours need not look alike
                found = self._records("WHERE match_no = ?", [stored[0]])
                _refuse_other_result(next(found)[1], _normal(result, len(spec.seats)))
            return False
        env = (spec.env_id, canonical_json(spec.options))
        if env not in envs:
            row = self._db.execute("INSERT INTO env(env_id, options_json) VALUES (?, ?)", env)
            envs[env] = int(row.lastrowid or 0)
        match_no = self._db.execute(
            "INSERT INTO match(match_id, env_no, split, purpose, schedule, number, attempt,"
            " cluster, seed, termination, turns, trajectory_sha256, recorded_ms)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                match_id,
                envs[env],
                spec.split,
                spec.purpose,
                spec.schedule,
                spec.number,
                spec.attempt,
                spec.cluster,
                str(spec.seed),
                result.termination,
                result.turns,
                result.trajectory_sha256,
                _now_ms(),
            ),
        ).lastrowid
        self._db.executemany(
            "INSERT INTO seat VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (match_no, seat, numbers[agent], seat in spec.learner_seats, *row)
                for seat, (agent, row) in enumerate(
                    zip(spec.seats, _seat_rows(result, len(spec.seats)), strict=True)
                )
            ],
        )
        return True


def refuse_network_file_system(path: Path, mounts: str | None = None) -> None:
    """Raise `StoreError` if ``path`` lies on a file system whose locks SQLite cannot trust.

    Args:
        path: file that need not exist yet.
        mounts: text like ``/proc/mounts``; read from the system by default.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:  # not Linux: nothing to look it up in
            return
    place = path.absolute().resolve()
    kind, deepest = "", -1
    for line in mounts.splitlines():
        _, mount, fs, *_ = line.split()
        # /proc/mounts writes a space as \040
        root = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mount))
        if place.is_relative_to(root) and len(root.parts) >= deepest:
            kind, deepest = fs, len(root.parts)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(
            f"{path} lies on a network file system ({kind}), where SQLite loses data: its locks and"
            " shared memory end at the machine. Put the store on a local disk, or copy it there."
        )


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _take_lock(path: Path) -> int:
    """File descriptor that holds the writer's lock; the kernel drops it when the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 4096).decode(errors="replace") or "unknown"
        os.close(descriptor)
        raise StoreError(
            f"{path.with_suffix('')} already has a writer: {holder}. Wait for it or stop it, or"
            " open the store with mode='read'."
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()} ({' '.join(sys.argv)[:200]})".encode())
    return descriptor


def _where(
    env_id: str | None,
    split: str | None,
    purpose: str | None,
    schedule: str | None,
    options: dict[str, Any] | None,
) -> tuple[str, list[str]]:
    wanted = {
        "env_id": env_id,
        "split": split,
        "purpose": purpose,
        "schedule": schedule,
        "options_json": None if options is None else canonical_json(options),
    }
    given = {column: value for column, value in wanted.items() if value is not None}
    clauses = [f"{column} = ?" for column in given]
    return "WHERE " + " AND ".join(clauses or ["1"]), list(given.values())


def _check_fit(spec: MatchSpec, result: MatchResult) -> None:
    """Refuse what could not be read back as it was."""
    seats = len(spec.seats)
    name = f"match {spec.match_id}"
    if result.match_id != spec.match_id:
        raise StoreError(f"{name}: the result belongs to match {result.match_id}.")
    if list(spec.learner_seats) != sorted({*spec.learner_seats} & {*range(seats)}):
        raise StoreError(
            f"{name}: learner_seats={spec.learner_seats}; give seats below {seats} in rising order."
        )
    if not {*result.forfeited} <= {*range(seats)}:
        raise StoreError(f"{name}: forfeited={result.forfeited} names a seat of {seats} seats.")
    void = result.termination == "void"
    for column in ("outcomes", "rewards", "invalid_replies", "tokens"):
        values = getattr(result, column)
        optional = void or column in ("invalid_replies", "tokens")
        if len(values) != seats and not (optional and not values):
            raise StoreError(f"{name}: {column}={values} for {seats} seats.")
        if not all(math.isfinite(v) for v in values):
            raise StoreError(f"{name}: {column}={values} is not finite.")
    if not all(-1 <= v <= 1 for v in result.outcomes):
        raise StoreError(f"{name}: outcomes={result.outcomes}; an outcome lies in [-1, 1].")


def _normal(result: MatchResult, seats: int) -> MatchResult:
    """The result as it is read back: nothing left out, plain numbers."""
    return replace(
        result,
        outcomes=tuple(float(v) for v in result.outcomes),
        rewards=tuple(float(v) for v in result.rewards),
        forfeited=tuple(sorted({*result.forfeited})),
        invalid_replies=tuple(int(v) for v in result.invalid_replies) or (0,) * seats,
        tokens=tuple(int(v) for v in result.tokens) or (0,) * seats,
    )


def _seat_rows(result: MatchResult, seats: int) -> Iterator[tuple[Any, ...]]:
    """(outcome, reward, invalid, forfeited, tokens) per seat."""
    normal = _normal(result, seats)
    nothing = (None,) * seats
    outcomes, rewards = normal.outcomes or nothing, normal.rewards or nothing
    for k in range(seats):
        forfeited = k in normal.forfeited
        yield outcomes[k], rewards[k], normal.invalid_replies[k], forfeited, normal.tokens[k]


def _record(rows: list[tuple[Any, ...]]) -> tuple[MatchSpec, MatchResult]:
    """A match from its rows, one per seat."""
    _, env_id, options, seed, split, purpose, cluster, schedule, number, attempt = rows[0][:10]
    match_id, termination, turns, trajectory_sha256 = rows[0][10:14]
    agent, learner, outcome, reward, invalid, forfeited, tokens = zip(
        *(row[14:] for row in rows), strict=True
    )
    spec = MatchSpec(
        env_id=env_id,
        options=json.loads(options),
        seed=int(seed),
        split=split,
        seats=agent,
        learner_seats=tuple(k for k, learns in enumerate(learner) if learns),
        purpose=purpose,
        cluster=cluster,
        schedule=schedule,
        number=number,
        attempt=attempt,
    )
    result = MatchResult(
        match_id=match_id,
        outcomes=() if outcome[0] is None else outcome,
        rewards=() if reward[0] is None else reward,
        termination=termination,
        forfeited=tuple(k for k, gave_up in enumerate(forfeited) if gave_up),
        invalid_replies=invalid,
        turns=turns,
        tokens=tokens,
        trajectory_sha256=trajectory_sha256,
    )
    return spec, result


def _refuse_other_agent(stored: AgentVersion, new: AgentVersion) -> None:
    for item in fields(AgentVersion):
        old, given = getattr(stored, item.name), getattr(new, item.name)
        if canonical_json(old) != canonical_json(given):
            raise StoreError(
                f"agent {new.agent_id!r} is already stored with {item.name}={old!r}, not {given!r}."
                " A version never changes: give the new one another id."
            )


def _refuse_other_result(stored: MatchResult, new: MatchResult) -> None:
    for item in fields(MatchResult):
        old, given = getattr(stored, item.name), getattr(new, item.name)
        if old != given:
            raise StoreError(
                f"match {new.match_id} is already stored with {item.name}={old!r}, the new report"
                f" says {given!r}. One spec gave two results: something outside it decides them."
            )
