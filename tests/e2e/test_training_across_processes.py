"""A run that torchrun spreads over two processes is the run of one process, coordination included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics.sinks import read_lines
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import MatchSpec, label_of
from tests.forked_commands import finish_as_torchrun
from tests.training_runs import train_run

pytestmark = pytest.mark.slow

UPDATES = 2
RECIPE = f"""
name: spread
model: tiny
env: connect_four-v0
env_options: {{rows: 4, cols: 4, k: 3}}
updates: {UPDATES}
learners: [alice, bob]
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 1, group_size: 4, max_new_tokens: 6}}
opponents: {{mirror: 1, live: 1, past: 1}}
training: {{optimizer: sgd, learning_rate: 0.3, max_grad_norm: 0}}
evaluation: {{every: 2, pairs: 1, final_pairs: 1, bots: [random]}}
snapshot_every: {UPDATES}
checkpoint_every: 1
keep_checkpoints: {UPDATES}
"""
KINDS = {
    "synchronized": ("coordination={kind: synchronized}",),
    "played ahead": ("asynchronous={ahead: 1}",),
    "federated, ppo": (
        "coordination={kind: federated, every: 2, weights: even}",
        "training={algorithm: ppo, optimizer: sgd, learning_rate: 0.1, critic: shared}",
    ),
}


def train(folder: Path, settings: tuple[str, ...], processes: int, by: str = "fork") -> None:
    """Train in so many processes, which torchrun starts, or which are forked with its variables."""
    recipe = folder.with_suffix(".yaml")
    recipe.write_text(RECIPE)
    if processes == 1:
        train_run(load(LeagueRecipe, recipe, settings), folder)
        return
    command = ["train", str(recipe), "--out", str(folder)]
    for setting in settings:
        command += ["--set", setting]
    if by == "torchrun":
        spread = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        done = subprocess.run(
            [sys.executable, *spread, "-m", "srl_agents.cli.main", *command],
            capture_output=True,
            text=True,
            timeout=400,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed = done.stdout
    else:
        log = folder.with_suffix(".log")
        log.unlink(missing_ok=True)
        finish_as_torchrun(command, log, processes)
        printed = log.read_text()
    assert printed.count("The run is in") == 1


def last_weights(run: Path, learner: str) -> dict[str, torch.Tensor]:
    """Of the adapter, and of what learns beside it."""
    last = run / f"checkpoints/step-{UPDATES:08}"
    beside = load_file(last / f"{learner}.optimizer.safetensors")
    critic = {key: tensor for key, tensor in beside.items() if key.startswith("extra/")}
    return load_file(last / f"{learner}.adapter.safetensors") | critic


def position(spec: MatchSpec) -> tuple[object, ...]:
    """What a match is but for the last digits of the weights, which rounding decides."""
    labels = tuple(label_of(seat) for seat in spec.seats)
    return (spec.schedule, spec.number, spec.attempt, spec.seed, labels)


def played(run: Path) -> list[str]:
    """Play-throughs in any order, without match ids and seats: these hold digests of weights."""
    lines = map(json.loads, (run / "transcripts.jsonl").read_text().splitlines())
    return sorted(
        json.dumps({key: item for key, item in line.items() if key not in ("match_id", "match")})
        for line in lines
    )


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_train_what_one_does(tmp_path: Path, kind: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    train(one, KINDS[kind], 1)
    train(two, KINDS[kind], 2, by="torchrun" if kind == "synchronized" else "fork")
    matches = []
    for run in (one, two):
        with LeagueStore(run / "league.db", mode="read") as store:
            matches.append({position(s): r.outcomes for s, r in store.matches()})
    assert matches[0] == matches[1]
    for learner in ("alice", "bob"):
        weights, other = last_weights(one, learner), last_weights(two, learner)
        for key, tensor in weights.items():  # rows stand in other batches: equal up to rounding
            torch.testing.assert_close(other[key], tensor, atol=1e-6, rtol=1e-4)
        assert any(tensor.abs().max() > 1e-3 for key, tensor in weights.items() if "lora_B" in key)
    records = [read_lines(run / "metrics.jsonl") for run in (one, two)]
    assert [list(r["learners"]["alice"]) for r in records[0]] == [
        list(r["learners"]["alice"]) for r in records[1]
    ]
    transcripts = [played(run) for run in (one, two)]
    assert transcripts[0] == transcripts[1]
    assert transcripts[0]


def test_the_rows_of_one_learner_are_divided_over_two_processes_and_then_over_four(
    tmp_path: Path,
) -> None:
    """The run goes on in another number of them."""
    single, spread = tmp_path / "single", tmp_path / "spread"
    rows = "rollout={start_states: 1, group_size: 5, max_new_tokens: 6}"
    settings = ("learners=[alice]", "opponents={mirror: 1, past: 1}", rows)
    train(single, settings, 1)
    train(spread, (*settings, "updates=1"), 2)
    recipe = spread / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("updates: 1", f"updates: {UPDATES}", 1))
    train(spread, settings, 4)
    weights, other = last_weights(single, "alice"), last_weights(spread, "alice")
    assert weights.keys() == other.keys()
    for key, tensor in weights.items():
        torch.testing.assert_close(other[key], tensor, atol=1e-6, rtol=0)
    assert any(tensor.abs().max() > 1e-3 for key, tensor in weights.items() if "lora_B" in key)
    metrics = [read_lines(run / "metrics.jsonl") for run in (single, spread)]
    for name in ("loss", "grad_norm", "entropy", "reward"):
        of_one, of_many = ([line["learners"]["alice"][name] for line in lines] for lines in metrics)
        assert of_many == pytest.approx(of_one, rel=1e-3, abs=1e-6)
