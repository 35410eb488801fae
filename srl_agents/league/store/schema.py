"""The tables of a league store, and their migrations.

`match`, `seat`, `agent` and `env` are history and refuse every change. `lease` lists who is playing
what at the moment, and `pair_count` sums up what is in the other tables, in the same transaction.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from srl_agents.league.store.database import mend
from srl_envs.errors import StoreError

APPLICATION_ID = 0x53524C4C  # "SRLL" in the file's header
SCHEMA_VERSION = 3

_WITH_TEAMS = 2
"""The first version with teams, leases and counts of pairs."""

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "ceph",
     "glusterfs", "lustre", "gpfs", "beegfs", "orangefs", "fuse.sshfs", "fuse.glusterfs",
     "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.goofys"}
)  # fmt: skip

_AGENT = """
CREATE TABLE {name}(
  agent_no INTEGER PRIMARY KEY, agent_id TEXT NOT NULL UNIQUE, lineage TEXT NOT NULL, parent TEXT,
  role TEXT NOT NULL CHECK(role IN ('main','main_exploiter','league_exploiter','partner','anchor',
    'frozen','heldout')),
  step INTEGER NOT NULL, spec_json TEXT NOT NULL, created_ms INTEGER NOT NULL) STRICT;
"""
_HISTORY = """
CREATE TABLE env(
  env_no INTEGER PRIMARY KEY, env_id TEXT NOT NULL, options_json TEXT NOT NULL,
  UNIQUE(env_id, options_json)) STRICT;
CREATE TABLE match(
  match_no INTEGER PRIMARY KEY, match_id TEXT NOT NULL, env_no INTEGER NOT NULL REFERENCES env,
  split TEXT NOT NULL CHECK(split IN ('train','eval')), purpose TEXT NOT NULL,
  schedule TEXT NOT NULL, number INTEGER NOT NULL, attempt INTEGER NOT NULL, cluster TEXT NOT NULL,
  seed TEXT NOT NULL, -- decimal: seeds may exceed 63 bits
  termination TEXT NOT NULL CHECK(termination IN ('ok','forfeit','truncated','void')),
  turns INTEGER NOT NULL, trajectory_sha256 TEXT NOT NULL, recorded_ms INTEGER NOT NULL,
  branch TEXT) STRICT; -- JSON; NULL: a match from its start
CREATE UNIQUE INDEX match_played ON match(match_id) WHERE termination <> 'void';
CREATE UNIQUE INDEX match_void ON match(match_id) WHERE termination = 'void';
CREATE INDEX match_group ON match(env_no, split, purpose);
CREATE TABLE seat(
  match_no INTEGER NOT NULL REFERENCES match, seat INTEGER NOT NULL,
  agent_no INTEGER NOT NULL REFERENCES agent, learner INTEGER NOT NULL CHECK(learner IN (0, 1)),
  outcome REAL CHECK(outcome BETWEEN -1 AND 1), reward REAL, -- NULL: void before anything was paid
  invalid INTEGER NOT NULL, forfeited INTEGER NOT NULL CHECK(forfeited IN (0, 1)),
  tokens INTEGER NOT NULL, team INTEGER, -- NULL: every seat plays for itself
  PRIMARY KEY(match_no, seat)) STRICT, WITHOUT ROWID;
"""
_PRESENT = """
CREATE TABLE lease(
  match_id TEXT PRIMARY KEY, schedule TEXT NOT NULL, number INTEGER NOT NULL,
  spec_json TEXT NOT NULL, owner TEXT NOT NULL, until_ms INTEGER NOT NULL,
  issued INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE pair_count(
  env_no INTEGER NOT NULL REFERENCES env, split TEXT NOT NULL, purpose TEXT NOT NULL,
  a INTEGER NOT NULL REFERENCES agent, b INTEGER NOT NULL REFERENCES agent,
  wins INTEGER NOT NULL, ties INTEGER NOT NULL, losses INTEGER NOT NULL, forfeits INTEGER NOT NULL,
  PRIMARY KEY(env_no, split, purpose, a, b)) STRICT, WITHOUT ROWID;
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

TIE = "abs(p.outcome - q.outcome) < 1e-9"
"""SQL: two seats of a match tied."""
# of a store from before there were teams
_COUNT_PAIRS = f"""
SELECT env_no, split, purpose, min(p.agent_no, q.agent_no) a, max(p.agent_no, q.agent_no) b,
  sum(NOT {TIE} AND (p.outcome > q.outcome) = (p.agent_no < q.agent_no)) wins, sum({TIE}) ties,
  sum(NOT {TIE} AND (p.outcome > q.outcome) <> (p.agent_no < q.agent_no)) losses,
  sum(termination = 'forfeit') forfeits
FROM match JOIN seat p USING(match_no) JOIN seat q USING(match_no)
WHERE termination <> 'void' AND p.seat < q.seat AND p.agent_no <> q.agent_no
GROUP BY 1, 2, 3, 4, 5
"""


def create(db: sqlite3.Connection) -> None:
    """Make the tables of an empty file, in one transaction."""
    triggers = "".join(_guard(table) for table in _CLASHES)
    db.executescript(
        f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID};"
        f" PRAGMA user_version = {SCHEMA_VERSION};"
        f" {_AGENT.format(name='agent')} {_HISTORY} {_PRESENT} {triggers} COMMIT;"
    )


def check(db: sqlite3.Connection, path: Path) -> int:
    """The schema version of a file that is a league store of this SRL or an older one.

    Raises:
        StoreError: the file is not a league store, or is from a newer SRL.
    """
    if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(f"{path} is still empty; its run may just be starting.")
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path} is a database, but not a league store of SRL. {mend(path)}")
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if lost := sorted({"agent", "env", "match", "seat"} - tables):
        raise StoreError(
            f"{path} is a league store without its table {', '.join(lost)}: it was edited or is damaged."
            f" {mend(path)}"
        )
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema {version}, this SRL reads up to {SCHEMA_VERSION}: update SRL."
        )
    return version


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring an older store to this schema, in one transaction; its history stays as it is."""
    if version == SCHEMA_VERSION:
        return
    db.execute("PRAGMA foreign_keys = OFF")  # `agent` is replaced while `seat` points to it
    to_second = (
        f"{_AGENT.format(name='agent_2')}"
        " INSERT INTO agent_2 SELECT * FROM agent; DROP TABLE agent;"
        f" ALTER TABLE agent_2 RENAME TO agent; {_guard('agent')}"
        f" ALTER TABLE seat ADD COLUMN team INTEGER; {_PRESENT}"
        f" INSERT INTO pair_count {_COUNT_PAIRS};"
    )
    db.executescript(
        f"BEGIN IMMEDIATE; {to_second if version < _WITH_TEAMS else ''}"
        " ALTER TABLE match ADD COLUMN branch TEXT;"
        f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )
    db.execute("PRAGMA foreign_keys = ON")


def read_as_present(db: sqlite3.Connection, version: int) -> None:
    """Let a reader, who cannot migrate, see an older store as if it had been."""
    if version == SCHEMA_VERSION:
        return
    db.executescript("CREATE TEMP VIEW match AS SELECT *, NULL AS branch FROM main.match;")
    if version >= _WITH_TEAMS:
        return
    db.executescript(
        "CREATE TEMP VIEW seat AS SELECT *, NULL AS team FROM main.seat;"
        " CREATE TEMP VIEW lease AS SELECT '' match_id, '' schedule, 0 number, '' spec_json,"
        " '' owner, 0 until_ms, 0 issued WHERE 0;"
        f" CREATE TEMP VIEW pair_count AS {_COUNT_PAIRS};"
    )


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


def count_matches(db: sqlite3.Connection) -> int:
    """Number of matches in the store, void ones included."""
    return int(db.execute("SELECT count(*) FROM match").fetchone()[0])


def require_whole(db: sqlite3.Connection, path: Path, matches: int) -> None:
    """Refuse to write to a store that is damaged or lacks matches.

    Args:
        db: open.
        path: that errors name.
        matches: that were acknowledged.

    Raises:
        StoreError: the store is damaged; the message gives the fault.
    """
    faults = [str(row[0]) for row in db.execute("PRAGMA quick_check(1)")]
    if faults != ["ok"]:
        raise StoreError(f"{path}: the file is damaged. {mend(path)} (SQLite: {faults[0]})")
    if (there := count_matches(db)) < matches:
        raise StoreError(
            f"{path} holds {there} matches, and {matches} were acknowledged: it was emptied, replaced by"
            f" an older copy, or copied without the -wal file beside it. {mend(path)}"
        )


def _guard(table: str) -> str:
    return _APPEND_ONLY.format(table=table, clash=_CLASHES[table])
