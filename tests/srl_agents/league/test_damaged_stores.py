"""A store that is damaged, emptied, replaced or out of space: a named error, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srl_agents.league.ratings.tables import rate
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.errors import StoreError

WRITER = Path(__file__).parent / "endless_writer.py"
LOST = "0 matches, and 60 were acknowledged.*srl league rebuild"


def match(number: int) -> tuple[MatchSpec, MatchResult]:
    spec = MatchSpec(
        env_id="duel-v0", seed=number, split="eval", purpose="eval", seats=("a", "b"), number=number
    )
    outcomes = (1.0, -1.0) if number % 3 else (-1.0, 1.0)
    return spec, MatchResult(
        match_id=spec.match_id, outcomes=outcomes, rewards=outcomes, termination="ok"
    )


def fill(path: Path, matches: int = 60) -> LeagueStore:
    store = LeagueStore(path)
    for name in ("a", "b"):
        store.add_agent(AgentVersion(agent_id=name, lineage=name, role="frozen"))
    store.report_many([match(number) for number in range(matches)])
    return store


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    fill(folder / "league.db").close()
    return folder


@pytest.fixture
def run(good: Path, tmp_path: Path) -> Path:
    """A store of 60 matches, and its lock."""
    return Path(shutil.copytree(good, tmp_path / "run")) / "league.db"


def read_all(path: Path) -> None:
    with LeagueStore(path, mode="read") as store:
        store.agents()
        store.matches()
        store.leases()
        store.pair_counts()
        store.content_digest()
        rate(store.pairs("duel-v0"))


# --- damage ----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_is_overwritten_or_cut_off_only_named_errors_come(
    good: Path, tmp_path: Path, data: st.DataObject
) -> None:
    whole = bytearray((good / "league.db").read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1), "place")
    if data.draw(st.booleans(), "cut"):
        del whole[place:]
    else:
        junk = data.draw(
            st.one_of(st.binary(min_size=1, max_size=64), st.just(bytes(4096))), "junk"
        )
        whole[place : place + len(junk)] = junk
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    path = Path(shutil.copytree(good, tmp_path / "run")) / "league.db"
    path.write_bytes(whole)
    for use in (lambda: read_all(path), lambda: fill(path).close()):
        with contextlib.suppress(StoreError):  # any other error fails
            use()


@pytest.mark.parametrize("mode", ["read", "write", "continue"])
def test_a_damaged_file_says_what_it_is_and_what_to_do(run: Path, mode: str) -> None:
    whole = run.read_bytes()
    for damaged, words in (
        (whole[: len(whole) // 2], "is damaged.*Restore it"),
        (b"x" * 4096 + whole[4096:], "is not a database.*Restore it"),
    ):
        run.write_bytes(damaged)
        with pytest.raises(StoreError, match=rf"league\.db: the file {words}"):
            LeagueStore(run, mode=mode).matches()  # type: ignore[arg-type]
    with pytest.raises(StoreError):  # the lock is free for the repair
        LeagueStore(run)
    run.write_bytes(whole)
    LeagueStore(run).close()


@pytest.mark.parametrize("table", ["match", "seat"])
def test_a_store_without_a_table_is_refused(run: Path, table: str) -> None:
    database = sqlite3.connect(run)
    database.execute("PRAGMA foreign_keys = OFF")
    database.execute(f"DROP TABLE {table}")
    database.close()
    for mode in ("read", "write"):
        with pytest.raises(StoreError, match=f"without its table {table}"):
            LeagueStore(run, mode=mode)


def test_rows_that_no_league_wrote_are_named(run: Path) -> None:
    database = sqlite3.connect(run)
    database.execute("DROP TRIGGER agent_no_update")
    database.execute("UPDATE agent SET spec_json = '{'")
    database.commit()
    database.close()
    with LeagueStore(run, mode="read") as store, pytest.raises(StoreError, match="no league wrote"):
        store.agents()


# --- matches that are gone -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["write", "continue"])
@pytest.mark.parametrize("loss", ["gone", "empty", "new"])
def test_an_emptied_store_is_noticed(run: Path, loss: str, mode: str) -> None:
    run.unlink()
    if loss == "empty":
        run.touch()
    elif loss == "new":
        with LeagueStore(run.with_name("other.db")):
            pass
        run.with_name("other.db").rename(run)
    with pytest.raises(StoreError, match=LOST if loss == "new" else "missing or empty"):
        LeagueStore(run, mode)  # type: ignore[arg-type]


def test_an_older_copy_is_noticed_and_taken_when_told(tmp_path: Path, good: Path) -> None:
    path = tmp_path / "league.db"
    fill(path, matches=80).close()
    shutil.copy(good / "league.db", path)
    with pytest.raises(StoreError, match="60 matches, and 80 were acknowledged"):
        LeagueStore(path)
    path.with_name("league.db.lock").unlink()
    with LeagueStore(path) as store:
        assert store.count() == 60


def test_a_store_without_its_log_is_noticed(tmp_path: Path) -> None:
    """A killed writer leaves two files; the first without its log lacks acknowledged matches."""
    path = tmp_path / "league.db"
    command = [sys.executable, str(WRITER), str(path), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for _ in range(20):
            child.stdout.readline()
        child.kill()
    path.with_name("league.db-wal").unlink()
    with pytest.raises(StoreError, match=r"acknowledged|missing or empty"):
        LeagueStore(path)


# --- no space, no right ----------------------------------------------------------------------


def test_a_full_disk_is_named_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "league.db"
    with fill(path) as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        acknowledged, message = 60, ""
        while not message and acknowledged < 2000:
            try:
                store.report_many([match(acknowledged + k) for k in range(5)])
                acknowledged += 5
            except StoreError as error:
                message = str(error)
        assert "league.db: the disk is full" in message
        assert store.count() == acknowledged
        store._db.execute("PRAGMA max_page_count = 100000")  # space was freed
        store.report_many([match(acknowledged + k) for k in range(5)])
    with LeagueStore(path, "continue") as store:
        assert [spec.number for spec, _ in store.matches()] == list(range(acknowledged + 5))


def test_a_refused_write_is_named_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    """The log may not grow beyond a limit, as on a full disk or under a quota."""
    path = tmp_path / "league.db"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    command = [sys.executable, str(WRITER), str(path), "0"]
    child = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)
    numbers = [int(line) for line in child.stdout.splitlines()[1:]]
    assert len(numbers) > 5
    assert "srl_envs.errors.StoreError" in child.stderr.splitlines()[-1]
    assert "disk" in child.stderr.splitlines()[-1]
    with LeagueStore(path, "continue") as store:
        assert [spec.number for spec, _ in store.matches()][: len(numbers)] == numbers


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("mode", ["write", "continue"])
def test_a_folder_that_can_only_be_read_is_named(run: Path, mode: str) -> None:
    run.chmod(0o444)
    run.with_name("league.db.lock").chmod(0o444)
    run.parent.chmod(0o555)
    try:
        with pytest.raises(StoreError, match=r"league\.db cannot be opened.*the right to write"):
            LeagueStore(run, mode)  # type: ignore[arg-type]
        read_all(run)
    finally:
        run.parent.chmod(0o755)
