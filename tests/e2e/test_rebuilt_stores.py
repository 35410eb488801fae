"""A run whose store is damaged: rebuilt, it has the same ratings, and the run goes on."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.ratings.tables import rate
from srl_agents.league.store.history import LeagueStore

RECIPE = """
name: rebuilt
model: tiny
env: nim-v0
updates: 2
learners: [alice]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 2, max_new_tokens: 4, trace: 16}
credit: {estimator: c3, level: turn}
forks: {alternatives: 2, share: 0.3}
training: {learning_rate: 0.01}
evaluation: {every: 2, pairs: 1, final_pairs: 3, bots: [random, middle]}
survival: {allow_nothing_learned: true}
snapshot_every: 1
checkpoint_every: 1
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    (folder / "recipe.yaml").write_text(RECIPE)
    assert main(["train", str(folder / "recipe.yaml"), "--out", str(folder / "run")]) == 0
    with closing(sqlite3.connect(folder / "run/league.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # all of it is in the file that is damaged
    return folder / "run"


def final_ratings(run: Path) -> object:
    with LeagueStore(run / "league.db", "read") as store:
        pairs = store.pairs("nim-v0", schedule=FINAL)
        return [(rating.agent, rating.elo) for rating in rate(pairs).ratings]


def learned_from(run: Path) -> set[str]:
    """Ids of the matches of training; branches are among them."""
    with LeagueStore(run / "league.db", "read") as store:
        assert store.matches(purpose="fork")
        return {spec.match_id for spec, _ in store.matches(split="train")}


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _garbage(path: Path) -> None:
    with path.open("r+b") as file:
        for page in range(0, path.stat().st_size, 4096):
            file.seek(page)
            file.write(b"garbage!" * 400)


def _foreign(path: Path) -> None:
    path.write_text("this is my shopping list")


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        _half,
        *(pytest.param(f, marks=pytest.mark.nightly) for f in (_garbage, Path.unlink, _foreign)),
    ],
)
def test_a_damaged_store_is_rebuilt_and_the_run_goes_on(
    damage: Callable[[Path], None],
    good: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Path(shutil.copytree(good, tmp_path / "run", symlinks=True))
    damage(run / "league.db")
    assert main(["train", "--more", "1", str(run)]) == 2
    assert f"srl league rebuild {run}" in capsys.readouterr().err.replace("\n", " ")

    assert main(["league", "rebuild", str(run)]) == 0
    said = capsys.readouterr().out
    assert "Lost: " in said  # looks are
    assert learned_from(run) == learned_from(good)
    assert final_ratings(run) == final_ratings(good)
    assert main(["league", "rebuild", str(run)]) == 0
    assert "is whole; nothing was changed" in capsys.readouterr().out

    assert main(["train", "--more", "1", str(run)]) == 0
    with LeagueStore(run / "league.db", "read") as store:
        assert store.count(split="train") > 0
        assert FINAL in store.schedules()
