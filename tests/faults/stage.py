"""Where faults are injected: a real run of a tiny random model through the real command, with one thing
broken."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.cli.main import main
from srl_agents.models.sources import random_model
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.trainers.ppo import PPOLearner

RECIPE = """
name: faults
model: {model}
env: math_duel-v0
env_options: {{difficulty: 2, problems: 1, max_retries: 0}}
learners: [alice]
updates: 2
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 2, group_size: 2, max_new_tokens: 8}}
opponents: {{mirror: 0, live: 0, past: 1}}
training: {{algorithm: ppo, learning_rate: 0.001, iterations: 1, minibatches: 1}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
snapshot_every: 99
checkpoint_every: 1
"""


@dataclass
class Stage:
    """One run in an empty folder."""

    folder: Path
    patch: pytest.MonkeyPatch
    model: str = ""
    settings: list[str] = field(default_factory=list)

    @property
    def run(self) -> Path:
        """Its folder."""
        return self.folder / "run"

    @property
    def recipe(self) -> Path:
        """Its recipe, written on the way."""
        path = self.folder / "faults.yaml"
        model = self.model or str(random_folder(self.folder / "model"))
        path.write_text(RECIPE.format(model=model))
        return path

    def train(self, *settings: str, options: Sequence[str] = ()) -> int:
        """`srl train` with these settings over the recipe's; its exit code."""
        given = [part for setting in settings for part in ("--set", setting)]
        return main(["train", str(self.recipe), "--out", str(self.run), *given, *options])

    def events(self) -> list[dict[str, Any]]:
        """What the run wrote down about faults."""
        path = self.run / "faults.jsonl"
        return (
            [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
        )

    @property
    def exported(self) -> bool:
        """Whether it left an adapter for others."""
        return (self.run / "adapters/alice").is_dir()

    # --- what can be broken ------------------------------------------------------------------

    def after_backward(
        self, change: Callable[[AdapterLearner[Any], float], float], *calls: int
    ) -> None:
        """Let `change` see learner and loss after these gradients, counted from 1 (all if none is given),
        and return the loss to report."""
        whole, count = PPOLearner._backward, [0]

        def broken(learner: PPOLearner, batch: Any) -> tuple[float, dict[str, float]]:
            loss, metrics = whole(learner, batch)
            count[0] += 1
            return change(learner, loss) if not calls or count[0] in calls else loss, metrics

        self.patch.setattr(PPOLearner, "_backward", broken)

    def before_step(self, change: Callable[[torch.Tensor], Any], call: int) -> None:
        """Let `change` have every weight before this optimizer step, counted from 1."""
        whole, count = AdapterLearner.apply_gradients, [0]

        def broken(learner: AdapterLearner[Any]) -> None:
            count[0] += 1
            if count[0] == call:
                for weight in learner.base.trainable_parameters(learner.name).values():
                    change(weight.data)
            whole(learner)

        self.patch.setattr(AdapterLearner, "apply_gradients", broken)

    def raise_in(self, owner: object, name: str, error: Exception, *calls: int) -> None:
        """Let a function raise in these calls, counted from 1, or in all if none is given."""
        whole, count = getattr(owner, name), [0]

        def broken(*arguments: Any, **named: Any) -> Any:
            count[0] += 1
            if not calls or count[0] in calls:
                raise error
            return whole(*arguments, **named)

        self.patch.setattr(owner, name, broken)


def random_folder(folder: Path) -> Path:
    """A model of random weights, too small to be good for anything."""
    if not folder.is_dir():
        random_model.build(folder, hidden=32, layers=1)
    return folder


def in_child(work: Callable[[], int]) -> int:
    """What a forked process returns or exits with; minus the number of the signal that killed it."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
