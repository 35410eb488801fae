"""Rows read from a damaged store were in it, and all readable rows are read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srl_agents.league.store.history import LeagueStore
from srl_agents.league.store.salvage import salvage
from srl_agents.records import MatchResult, MatchSpec
from tests.srl_agents.league.test_damaged_stores import fill

MATCHES = 400
PAGE = 4096


def contents(path: Path) -> dict[str, tuple[MatchSpec, MatchResult]]:
    with LeagueStore(path, "read") as store:
        return {spec.match_id: (spec, result) for spec, result in store.matches()}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "league.db"
    for matches in range(50, MATCHES + 1, 50):
        fill(path, matches).close()
    return path


def test_a_whole_store_is_read_as_it_is(good: Path) -> None:
    found = salvage(good)
    assert {spec.match_id: (spec, result) for spec, result in found.matches} == contents(good)
    assert [agent.agent_id for agent in found.agents] == ["a", "b"]


def test_what_only_the_log_of_a_killed_writer_holds_is_read(good: Path, tmp_path: Path) -> None:
    store = fill(tmp_path / "league.db", 20)
    killed = tmp_path / "killed"
    killed.mkdir()
    for part in ("league.db", "league.db-wal"):
        shutil.copy(tmp_path / part, killed / part)
    store.close()
    assert len(salvage(killed / "league.db").matches) == 20


@pytest.mark.parametrize("junk", [b"x" * PAGE, bytes(PAGE), b"not a database"])
def test_an_overwritten_first_page_loses_nothing(good: Path, tmp_path: Path, junk: bytes) -> None:
    path, whole = tmp_path / "league.db", good.read_bytes()
    path.write_bytes(junk + whole[len(junk) :])
    assert len(salvage(path).matches) == MATCHES
    assert path.read_bytes().startswith(junk)  # the file stays as it is


def test_a_file_that_is_cut_short_loses_only_what_was_cut(good: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "league.db", good.read_bytes()
    counts = []
    for share in (0.4, 0.7, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        counts.append(len(salvage(path).matches))
    assert counts == sorted(counts)
    assert counts[-1] > MATCHES // 2


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_nothing_is_read_that_was_not_there(
    good: Path, tmp_path: Path, data: st.DataObject
) -> None:
    whole = bytearray(good.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1), "place")
    if data.draw(st.booleans(), "cut"):
        del whole[place:]
    else:
        junk = data.draw(st.one_of(st.binary(min_size=1, max_size=64), st.just(bytes(PAGE))))
        whole[place : place + len(junk)] = junk
    path = tmp_path / "league.db"
    path.write_bytes(whole)
    before = contents(good)
    for spec, _ in salvage(path).matches:
        assert spec.match_id in before
        assert spec == before[spec.match_id][0]


@pytest.mark.parametrize("content", [None, b"", b"SQLite format 3\0", bytes(range(256)) * 99])
def test_a_foreign_or_missing_file_gives_nothing(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "league.db"
    if content is not None:
        path.write_bytes(content)
    assert salvage(path).matches == []
