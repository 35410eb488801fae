"""Which parts of a run leave memory in which phase of an update."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from srl_agents.engines.protocol import Engine
from srl_agents.memory.phase_manager import TRACE, PhaseManager, Role
from srl_agents.models.base_model import BaseModel
from srl_agents.models.tensor_roles import gauge_of, tensor_role
from srl_agents.rewards.learned_reward import LearnedReward
from srl_agents.training.single_parts import Learners

_PLAY = frozenset({"base", "versions", "engine"})
_READ = frozenset({"base", "adapters", "critic"})
_JUDGE = frozenset({"base", "reward model"})
NEEDS = {
    "play": _PLAY,
    "judge": _JUDGE,
    "credit": _READ,
    "gradients": _READ,
    "steps": frozenset({"adapters", "critic", "optimizer state"}),
    "reward learning": _JUDGE | {"reward optimizer"},
    "sharing": _READ | {"optimizer state"},
    "publish": frozenset({"adapters", "versions"}),
    "look": _PLAY,
    "snapshot": _PLAY | {"adapters"},
    "checkpoint": frozenset(
        {"adapters", "critic", "optimizer state", "reward model", "reward optimizer"}
    ),
}
"""Phase -> what it touches."""
_GIB = 2**30


class EngineRole:
    """What an engine keeps between calls.

    Args:
        engine: sleeps and wakes.
        wait: runs its coroutines.
    """

    def __init__(self, engine: Engine, wait: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._engine, self._wait = engine, wait

    def leave(self) -> None:
        """See `Role`."""
        self._wait(self._engine.sleep())

    def come(self) -> None:
        """See `Role`."""
        self._wait(self._engine.wake())


def make_phase_manager(
    base: BaseModel,
    learners: Learners,
    judge: LearnedReward | None,
    engine: Role,
    *,
    budget_gib: float | None,
    folder: Path,
    opened: ExitStack,
) -> PhaseManager:
    """A manager of everything that a run holds.

    Args:
        base: shared by all learners.
        learners: by name.
        judge: the reward model, if there is one.
        engine: plays.
        budget_gib: see `MemorySettings`.
        folder: of the run; gets the trace and, while the run lasts, files of what left memory.
        opened: closes what must be closed.
    """
    if budget_gib is None:
        return PhaseManager({}, NEEDS, gauge_of(base.device), trace=folder / TRACE)
    files = Path(opened.enter_context(TemporaryDirectory(dir=folder, prefix="left_memory_")))

    def of_learners(part: str) -> Iterator[torch.Tensor]:
        for learner in learners.values():
            yield from getattr(learner, part)

    def frozen() -> Iterator[torch.Tensor]:
        for name in base.frozen:
            yield from base.tensors_of(name).values()

    tensors: dict[str, Callable[[], Any]] = {
        "base": lambda: base.frozen_parameters,
        "adapters": lambda: of_learners("weights"),
        "critic": lambda: of_learners("critic_weights"),
        "optimizer state": lambda: of_learners("optimizer_tensors"),
        "versions": frozen,
    }
    if judge is not None:
        tensors["reward model"] = lambda: [*judge.learner.weights, *judge.learner.critic_weights]
        tensors["reward optimizer"] = lambda: judge.learner.optimizer_tensors
    roles = {name: tensor_role(some, base.device, files) for name, some in tensors.items()}
    return PhaseManager(
        {**roles, "engine": engine},
        NEEDS,
        gauge_of(base.device),
        budget=int(budget_gib * _GIB),
        trace=folder / TRACE,
    )
