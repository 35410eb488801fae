"""A whole league run: repeatable, and indifferent to being killed at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from srl_agents.engines.random_model import build
from srl_agents.league.store import LeagueStore
from srl_agents.metrics.names import WALL_CLOCK
from srl_agents.metrics.sinks import read_lines

RECIPE = """
name: small
model: {model}
env: math_duel-v0
env_options: {{difficulty: 1, problems: 1, max_retries: 0, invalid: random_legal}}
updates: 4
learners: [alice, bob]
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 2, group_size: 2, max_new_tokens: 2}}
opponents: {{mirror: 1, live: 1, past: 1, bots: {{random: 1}}}}
training: {{learning_rate: 0.01, kl_coef: 0.1, optimizer: adamw_8bit}}
evaluation: {{every: 2, pairs: 1, final_pairs: 2, bots: [random]}}
snapshot_every: 2
checkpoint_every: 1
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    model = build(folder / "model", hidden=32, layers=1)
    path = folder / "small.yaml"
    path.write_text(RECIPE.format(model=model))
    return path


def start(recipe: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-m", "srl_agents.cli.main", "train"]
    return subprocess.Popen(
        [*command, str(recipe), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes]) -> None:
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output.decode()


def state(run: Path) -> dict[str, Any]:
    """Everything a run leaves behind, but for wall-clock times."""
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.content_digest()
    metrics = read_lines(run / "metrics.jsonl")
    for line in metrics:
        for name in WALL_CLOCK:
            line["run"].pop(name)
    return {
        "matches": matches,
        "metrics": metrics,
        "weights": {
            str(path.relative_to(run)): {k: v.tolist() for k, v in load_file(path).items()}
            for pattern in ("snapshots/**/*.safetensors", "checkpoints/step-00000004/*.safetensors")
            for path in sorted(run.glob(pattern))
        },
        "state": json.loads((run / "checkpoints/step-00000004/state.json").read_text()),
    }


@pytest.fixture(scope="module")
def undisturbed(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    finish(start(recipe, run))
    return state(run)


@pytest.mark.slow
def test_the_same_recipe_and_seed_give_the_same_run(
    recipe: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    finish(start(recipe, tmp_path / "run"))
    assert state(tmp_path / "run") == undisturbed
    losses = [
        v["loss"]
        for line in undisturbed["metrics"]
        for v in line["learners"].values()
        if "loss" in v
    ]
    assert losses, "nothing was trained, so nothing was compared"


@pytest.mark.slow
def test_killed_and_resumed_ends_like_an_undisturbed_run(
    recipe: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    kills = 0
    for update in (1, 2, 3):
        process = start(recipe, run)
        while process.poll() is None and len(read_lines(run / "metrics.jsonl")) < update:
            time.sleep(0.01)
        if process.poll() is None:  # somewhere in the update that follows
            time.sleep(0.05 * update)
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    finish(start(recipe, run))
    assert kills
    assert state(run) == undisturbed
    finish(start(recipe, run))  # nothing is left to do
    assert state(run) == undisturbed


@pytest.mark.slow
def test_another_recipe_does_not_touch_the_run(recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").write_text("name: other\n")
    process = start(recipe, run)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 2
    assert b"another recipe" in output
    assert sorted(p.name for p in run.iterdir()) == ["recipe.yaml"]
