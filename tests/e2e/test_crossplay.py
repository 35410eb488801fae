"""Learners of independent runs meet; runs that cannot meet are refused before anything is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.crossplay import players_of
from srl_envs.errors import ConfigError
from tests.training_runs import train_run

RECIPE = """
name: pair
models:
  deep: {{model: tiny, learners: [alice]}}
  shallow: {{model: tiny-shallow, learners: [bob]}}
env: {env}
seed: {seed}
updates: 1
lora: {{rank: 2, alpha: 4}}
seats: {{alice: [0], bob: [1]}}
rollout: {{start_states: 1, group_size: 2, max_new_tokens: 4}}
survival: {{allow_nothing_learned: true}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
"""


def finished(folder: Path, seed: int) -> Path:
    path = folder / "pair.yaml"
    path.write_text(RECIPE.format(env="kuhn_poker-v0", seed=seed))
    run = folder / f"run{seed}"
    train_run(load(LeagueRecipe, path), run)
    return run


@pytest.mark.slow
def test_learners_of_runs_with_two_bases_meet_in_their_seats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [finished(tmp_path, seed) for seed in (0, 1)]
    capsys.readouterr()
    plot = tmp_path / "matrix.svg"
    asked = ["league", "crossplay", *map(str, runs), "--seeds", "3", "--json", "--plot", str(plot)]
    assert main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    met = {(cell["row"], cell["column"]): cell for cell in told["cells"]}
    assert {tuple(sorted(pair)) for pair in met} == {
        tuple(sorted((f"run{a}:alice", f"run{b}:bob"))) for a in (0, 1) for b in (0, 1)
    }
    for (a, b), cell in met.items():
        assert cell["mean"] == pytest.approx(-met[b, a]["mean"])
        assert cell["seeds"] == 3
    assert told["together"]["seeds"] == told["strangers"]["seeds"] == 3
    assert plot.read_text().count("<rect") == len(met)


def test_runs_that_cannot_meet_are_refused(tmp_path: Path) -> None:
    for name, env in (("a", "kuhn_poker-v0"), ("b", "nim-v0"), ("c", "kuhn_poker-v0")):
        (tmp_path / name / "adapters/alice").mkdir(parents=True)
        (tmp_path / name / "adapters/bob").mkdir()
        (tmp_path / name / "recipe.yaml").write_text(RECIPE.format(env=env, seed=0))
    shutil.rmtree(tmp_path / "c/adapters/bob")

    for names, words in (
        (("a",), "name two or more"),
        (("a", "b"), "only runs of one game meet"),
        (("a", "c"), "has not exported 'bob'"),
        (("a", "nowhere"), "holds no run"),
    ):
        with pytest.raises(ConfigError, match=words):
            players_of([tmp_path / name for name in names])
