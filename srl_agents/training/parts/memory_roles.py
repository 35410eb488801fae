"""Which parts of a run leave memory in which phase of an update."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from srl_agents.engines.protocol import Engine
from srl_agents.memory.phase_manager import TRACE, PhaseManager, Role, phase_on
from srl_agents.models.memory.tensor_roles import gauge_of, tensor_role
from srl_agents.rewards.learned_reward import LearnedReward
from srl_agents.training.bases import PlayingBase, devices_of
from srl_agents.training.parts.single import Learners
from srl_envs.errors import ConfigError

_PLAY = frozenset({"base", "versions", "engine"})
_READ = frozenset({"base", "adapters", "critic"})
_JUDGE = frozenset({"base", "reward model"})
_KEPT = frozenset({"adapters", "critic", "optimizer state", "reward model", "reward optimizer"})
NEEDS = {
    "play": _PLAY,
    "branch": _PLAY,
    "judge": _JUDGE,
    "credit": _READ,
    "gradients": _READ,
    "steps": frozenset({"adapters", "critic", "optimizer state"}),
    "reward learning": _JUDGE | {"reward optimizer"},
    "sharing": _READ | {"optimizer state"},
    "count": frozenset(
        {"adapters", "versions"}
    ),  # as in the phase behind it, so nothing moves twice
    "publish": frozenset({"adapters", "versions"}),
    "look": _PLAY,
    "snapshot": _PLAY | {"adapters"},
    "checkpoint": _KEPT,
    "hold": _KEPT,
}
"""Phase -> what it touches."""
IN_TURN = ("credit", "gradients")
"""Phases in which one base after the other has its turn, so that the others may leave memory."""
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
    bases: Sequence[PlayingBase],
    learners: Learners,
    judge: LearnedReward | None,
    wait: Callable[[Coroutine[Any, Any, None]], None],
    *,
    budget_gib: float | None,
    folder: Path,
    opened: ExitStack,
) -> PhaseManager:
    """A manager of everything that a run holds.

    Args:
        bases: with their engines, all on one device where there is a budget.
        learners: by name.
        judge: the reward model, if there is one; on the first base, or on one of its own.
        wait: runs what engines are asked for.
        budget_gib: see `MemorySettings`; without one only a reward model's own base moves.
        folder: of the run; gets the trace and, while the run lasts, files of what left memory.
        opened: closes what must be closed.

    Raises:
        ConfigError: a budget for several devices.
    """
    devices, first = devices_of(bases), bases[0]
    own = judge is not None and judge.base is not first.model
    needs = needs_of(
        [base.settings.folder for base in bases],
        own_judge=own,
        copied=[base.settings.folder for base in bases if base.settings.copied],
    )
    roles: dict[str, Role] = {}
    if budget_gib is None:
        if judge is not None and own:
            files = Path(
                opened.enter_context(TemporaryDirectory(dir=folder, prefix="left_memory_"))
            )
            roles = {
                role_of(name, first.settings.folder): tensor_role(some, judge.base.device, files)
                for name, some in _tensors_of_judge(judge, own_base=True).items()
            }
        return PhaseManager(roles, needs, gauge_of(devices[0]), trace=folder / TRACE)
    if len(devices) > 1:
        raise ConfigError(
            f"memory.budget_gib: bases are on {', '.join(map(str, devices))}, and a budget is of one device. "
            "Put them on one, or leave it out."
        )
    for base in bases:
        learning: Learners = {name: learners[name] for name in base.settings.learners}
        files = Path(opened.enter_context(TemporaryDirectory(dir=folder, prefix="left_memory_")))
        tensors = _tensors(base, learning)
        if judge is not None and base is first:
            tensors |= _tensors_of_judge(judge, own_base=own)
        found: dict[str, Role] = {
            name: tensor_role(some, base.model.device, files) for name, some in tensors.items()
        }
        found["engine"] = EngineRole(base.engine, wait)
        roles |= {role_of(name, base.settings.folder): role for name, role in found.items()}
    return PhaseManager(
        roles,
        needs,
        gauge_of(devices[0]),
        budget=int(budget_gib * _GIB),
        trace=folder / TRACE,
    )


def needs_of(
    bases: Sequence[str], *, own_judge: bool = False, copied: Sequence[str] = ()
) -> dict[str, frozenset[str]]:
    """Phase -> roles that it touches, of all bases; where there are several, phases of one base too.

    Args:
        bases: their folders; the reward model is the first one's.
        own_judge: the reward model has a base of its own.
        copied: those of which the engine has a copy, with which it plays.
    """

    def touched(phase: str, base: str) -> frozenset[str]:
        roles = NEEDS[phase]
        if base in copied and "engine" in roles:
            roles = roles - {"base"} | {"engine base"}
        return frozenset(role_of(name, base) for name in roles)

    in_turn = IN_TURN if len(bases) > 1 else ()
    needs = {
        phase: frozenset[str]().union(*(touched(phase, base) for base in bases))
        for phase in NEEDS
        if phase not in in_turn
    }
    if own_judge:
        judging = {role_of("reward base", bases[0]), role_of("reward model", bases[0])}
        needs["judge"] = frozenset(judging)
        needs["reward learning"] = frozenset(judging | {role_of("reward optimizer", bases[0])})
    return needs | {
        phase_on(phase, base): touched(phase, base) for phase in in_turn for base in bases
    }


def role_of(name: str, base: str) -> str:
    """A role of one base, by the base's folder; empty where it is the only one."""
    return f"{name} of {base}" if base else name


def _tensors_of_judge(judge: LearnedReward, *, own_base: bool) -> dict[str, Callable[[], Any]]:
    learner = judge.learner
    own = {"reward base": lambda: judge.base.frozen_parameters} if own_base else {}
    return own | {
        "reward model": lambda: [*learner.weights, *learner.critic_weights],
        "reward optimizer": lambda: learner.optimizer_tensors,
    }


def _tensors(base: PlayingBase, learners: Learners) -> dict[str, Callable[[], Any]]:
    """Role -> its tensors, at any moment."""
    copied = {"engine base": lambda: base.played.frozen_parameters} if base.settings.copied else {}

    def of_learners(part: str) -> Iterator[torch.Tensor]:
        for learner in learners.values():
            yield from getattr(learner, part)

    def frozen() -> Iterator[torch.Tensor]:
        for name in base.played.frozen:
            yield from base.played.tensors_of(name).values()

    return copied | {
        "base": lambda: base.model.frozen_parameters,
        "adapters": lambda: of_learners("weights"),
        "critic": lambda: of_learners("critic_weights"),
        "optimizer state": lambda: of_learners("optimizer_tensors"),
        "versions": frozen,
    }
