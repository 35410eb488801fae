"""Who may open a store: one writer, many readers, after a death, and from an older release."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from srl_agents.league.store.history import LeagueStore, refuse_network_file_system
from srl_envs.errors import StoreError
from tests.srl_agents.league.stored_matches import agent, result, spec

WRITER = Path(__file__).with_name("endless_writer.py")


# --- opening ---------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_writes(store: LeagueStore) -> None:
    with pytest.raises(StoreError, match=rf"process {os.getpid()} .*mode='read'"):
        LeagueStore(store.path)
    store.close()
    store.close()
    LeagueStore(store.path).close()


def test_readers_see_what_the_writer_adds_and_cannot_write(store: LeagueStore) -> None:
    with LeagueStore(store.path, mode="read") as reader:
        assert reader.matches() == []
        store.report(spec(), result(spec()))
        assert len(reader.matches()) == 1
        with reader.snapshot():
            assert len(reader.matches()) == 1
            store.report(spec(1), result(spec(1)))
            assert len(reader.matches()) == 1
        assert len(reader.matches()) == 2
        for write in (
            lambda: reader.report(spec(), result(spec())),
            lambda: reader.add_agent(agent("n")),
        ):
            with pytest.raises(StoreError, match="mode='write'"):
                write()


def test_reopening_continues(tmp_path: Path) -> None:
    for n in range(3):
        with LeagueStore(tmp_path / "runs" / "x" / "league.db") as store:
            store.add_agent(agent("a@1"))
            store.add_agent(agent("bot:x"))
            store.report(spec(n), result(spec(n)))
            assert len(store.matches()) == n + 1


def test_what_must_go_on_is_not_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "league.db"
    with pytest.raises(StoreError, match=r"league\.db is missing or empty.*srl league rebuild"):
        LeagueStore(path, "continue")
    assert not path.exists()
    path.touch()
    with pytest.raises(StoreError, match="missing or empty"):
        LeagueStore(path, "continue")
    assert path.stat().st_size == 0
    with LeagueStore(path) as store:
        store.add_agent(agent("m"))
    with LeagueStore(path, "continue") as store:
        assert [known.agent_id for known in store.agents()] == ["m"]
        assert store.add_agent(agent("n"))


def test_what_is_not_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no league store"):
        LeagueStore(tmp_path / "absent.db", mode="read")
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(StoreError, match="is not a database"):
        LeagueStore(tmp_path / "text.db", mode="read")
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("CREATE TABLE t(x)")
    foreign.close()
    for mode in ("read", "write"):
        with pytest.raises(StoreError, match="not a league store"):
            LeagueStore(tmp_path / "foreign.db", mode=mode)
    LeagueStore(tmp_path / "newer.db").close()
    newer = sqlite3.connect(tmp_path / "newer.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreError, match="schema 99"):
        LeagueStore(tmp_path / "newer.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="yet: the file is empty"):
        LeagueStore(tmp_path / "empty.db", mode="read")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="File exists"):
        LeagueStore(tmp_path / "file" / "league.db")
    LeagueStore(tmp_path / "newer2.db").close()  # a refused store holds no lock


MOUNTS = (
    "overlay / overlay rw 0 0\nsrv:/a /mnt/share nfs4 rw 0 0\n"
    "tmpfs /mnt/share/local tmpfs rw 0 0\nsrv /mnt/my\\040disk fuse.sshfs rw 0 0\n"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/mnt/share/x/league.db", "nfs4"),
        ("/mnt/my disk/league.db", "fuse.sshfs"),
        ("/mnt/share/local/league.db", None),
        ("/mnt/shared/league.db", None),
        ("/home/league.db", None),
    ],
)
def test_network_file_systems_are_refused(path: str, kind: str | None) -> None:
    if kind is None:
        refuse_network_file_system(Path(path), MOUNTS)
    else:
        with pytest.raises(StoreError, match=f"network file system \\({kind}\\)"):
            refuse_network_file_system(Path(path), MOUNTS)


# --- dying -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_writers_lose_nothing_they_acknowledged(tmp_path: Path) -> None:
    """kill -9 in mid-stream, five times; the next writer opens at once and continues."""
    path, acknowledged = tmp_path / "league.db", 0
    for round_ in range(5):
        command = [sys.executable, str(WRITER), str(path), str(acknowledged)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith("ready"), child.stderr.read()
        lines = [child.stdout.readline() for _ in range(15 * (round_ + 1))]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
        child.wait()
        child.stdout.close()
        child.stderr.close()
        acknowledged = max(int(line) + 1 for line in lines if line.endswith("\n"))
        with LeagueStore(path, mode="read") as reader:
            stored = [s.number for s, _ in reader.matches()]
        assert stored == list(range(len(stored)))
        assert len(stored) >= acknowledged
        database = sqlite3.connect(path)
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        database.close()
    assert acknowledged >= 15 * (1 + 2 + 3 + 4 + 5)


# --- older stores ----------------------------------------------------------------------------

SCHEMA_1 = """
PRAGMA journal_mode = WAL; PRAGMA application_id = 1397902412; PRAGMA user_version = 1;
CREATE TABLE agent(
  agent_no INTEGER PRIMARY KEY, agent_id TEXT NOT NULL UNIQUE, lineage TEXT NOT NULL, parent TEXT,
  role TEXT NOT NULL CHECK(role IN ('main','frozen','anchor','heldout')), step INTEGER NOT NULL,
  spec_json TEXT NOT NULL, created_ms INTEGER NOT NULL) STRICT;
CREATE TABLE env(env_no INTEGER PRIMARY KEY, env_id TEXT NOT NULL, options_json TEXT NOT NULL,
  UNIQUE(env_id, options_json)) STRICT;
CREATE TABLE match(
  match_no INTEGER PRIMARY KEY, match_id TEXT NOT NULL, env_no INTEGER NOT NULL REFERENCES env,
  split TEXT NOT NULL CHECK(split IN ('train','eval')), purpose TEXT NOT NULL,
  schedule TEXT NOT NULL, number INTEGER NOT NULL, attempt INTEGER NOT NULL, cluster TEXT NOT NULL,
  seed TEXT NOT NULL,
  termination TEXT NOT NULL CHECK(termination IN ('ok','forfeit','truncated','void')),
  turns INTEGER NOT NULL, trajectory_sha256 TEXT NOT NULL, recorded_ms INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX match_played ON match(match_id) WHERE termination <> 'void';
CREATE UNIQUE INDEX match_void ON match(match_id) WHERE termination = 'void';
CREATE TABLE seat(
  match_no INTEGER NOT NULL REFERENCES match, seat INTEGER NOT NULL,
  agent_no INTEGER NOT NULL REFERENCES agent, learner INTEGER NOT NULL CHECK(learner IN (0, 1)),
  outcome REAL CHECK(outcome BETWEEN -1 AND 1), reward REAL,
  invalid INTEGER NOT NULL, forfeited INTEGER NOT NULL CHECK(forfeited IN (0, 1)),
  tokens INTEGER NOT NULL, PRIMARY KEY(match_no, seat)) STRICT, WITHOUT ROWID;
CREATE TRIGGER agent_no_update BEFORE UPDATE ON agent
  BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;
CREATE TRIGGER agent_no_delete BEFORE DELETE ON agent
  BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;
"""


@pytest.fixture
def old_store(tmp_path: Path, store: LeagueStore) -> tuple[Path, str]:
    """A store of schema 1 with the contents of a present one, and their digest."""
    for n, outcomes in enumerate([(1.0, -1.0), (0.0, 0.0), (-1.0, 1.0)]):
        store.report(spec(n), result(spec(n), outcomes))
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    old.executescript(SCHEMA_1)
    old.execute("ATTACH ? AS new", (str(store.path),))
    for table in ("agent", "env", "match"):
        columns = ", ".join(row[1] for row in old.execute(f"PRAGMA main.table_info({table})"))
        old.execute(f"INSERT INTO main.{table} SELECT {columns} FROM new.{table}")
    old.execute(
        "INSERT INTO main.seat SELECT match_no, seat, agent_no, learner, outcome, reward, invalid,"
        " forfeited, tokens FROM new.seat"
    )
    old.commit()
    old.close()
    return path, store.content_digest()


def test_an_older_store_can_be_read_as_it_is(
    old_store: tuple[Path, str], store: LeagueStore
) -> None:
    path, digest = old_store
    with LeagueStore(path, mode="read") as reader:
        assert reader.content_digest() == digest
        assert reader.matches() == store.matches()
        assert reader.pair_counts() == store.pair_counts()
        assert reader.leases() == []
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()


def test_an_older_store_is_migrated_when_it_is_written(
    old_store: tuple[Path, str], store: LeagueStore
) -> None:
    path, digest = old_store
    with LeagueStore(path) as writer:
        assert writer.content_digest() == digest
        assert writer.pair_counts() == store.pair_counts()
        writer.add_agent(agent("new", role="league_exploiter"))
        team = spec(9, seats=("new", "c"), teams=(0, 1))
        writer.report(team, result(team))
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA user_version").fetchone() == (3,)
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        database.execute("DELETE FROM agent")
    database.close()


def test_a_store_from_before_branches_is_read_as_it_is_and_migrated(
    tmp_path: Path, store: LeagueStore
) -> None:
    team = spec(3, teams=(0, 1))
    store.report_many([(spec(0), result(spec(0))), (team, result(team))])
    digest, path = store.content_digest(), tmp_path / "second.db"
    second = sqlite3.connect(path)
    with closing(sqlite3.connect(store.path)) as present:
        present.backup(second)
    second.executescript("ALTER TABLE match DROP COLUMN branch; PRAGMA user_version = 2;")
    second.close()
    with LeagueStore(path, mode="read") as reader:
        assert reader.content_digest() == digest
        assert reader.matches() == store.matches()
        assert reader.pair_counts() == store.pair_counts()
    with LeagueStore(path) as writer:
        assert writer.content_digest() == digest
        assert writer.report(spec(1), result(spec(1)))
        assert writer.matches()[:2] == store.matches()
