"""What a checkpoint of a league run holds: all that later updates depend on, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from srl_agents import checkpoints
from srl_agents.checkpoints import Checkpoint
from srl_agents.models.memory.mapped_tensors import MappedTensors
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.layout import CHECKPOINTS
from srl_agents.training.loop import side_files
from srl_agents.training.loop.stages import Parts
from srl_envs.errors import CheckpointError, ConfigError

FILES = "files"
"""Key of a checkpoint's state: lengths of the run's side files, in which are times of the clock."""
AGENTS = "agents"
"""Likewise: who may play from here on, as the store has them; a store that is rebuilt gets them from here."""
COORDINATION = "coordination"
"""Begins the names of groups of a checkpoint's tensors."""
Groups = dict[str, dict[str, Any]]
"""Named tensors by group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """All that a checkpoint holds."""

    done: int
    """Updates that are finished."""
    tensors: Groups
    state: dict[str, Any]
    score: float | None
    """Mean score of the learners in this update's look, if it had one."""

    def copied(self, folder: Path | None = None) -> Gathered:
        """The same where later updates do not change it.

        Args:
            folder: of a file for the copy, which then takes no memory until it is read; memory if absent.
        """
        own = {
            name: {key: tensor.detach().cpu() for key, tensor in group.items()}
            for name, group in self.tensors.items()
        }
        if folder is not None:
            MappedTensors(
                [tensor for group in own.values() for tensor in group.values()], folder
            ).leave_memory()
        else:
            own = {
                name: {key: tensor.clone() for key, tensor in group.items()}
                for name, group in own.items()
            }
        return replace(self, tensors=own, state=copy.deepcopy(self.state))

    def write(
        self, recipe: LeagueRecipe, folder: Path, whole: Callable[[], object] = lambda: None
    ) -> Path:
        """Make it a checkpoint of the run in a folder; returns the checkpoint's.

        Args:
            recipe: of the run.
            folder: of the run.
            whole: called when all is written, just before the checkpoint can be found.
        """
        return checkpoints.save(
            folder / CHECKPOINTS,
            self.done,
            self.tensors,
            self.state,
            keep=recipe.keep_checkpoints,
            score=self.score,
            keep_best=recipe.keep_best_checkpoints,
            whole=whole,
        )


def restore(parts: Parts) -> int:
    """Go to the newest whole checkpoint; returns the number of updates that it holds.

    Raises:
        CheckpointError: no checkpoint is whole, or it is of an older SRL, or a snapshot is gone.
        ConfigError: it holds more updates than the recipe asks for.
    """
    found = checkpoints.latest(parts.folder / CHECKPOINTS)
    if found is None:
        side_files.cut(parts.folder, 0, {}, parts.store, parts.view.say)
        return 0
    checkpoint = checkpoints.load(found)
    if checkpoint.step > parts.recipe.updates:
        raise ConfigError(
            f"updates={parts.recipe.updates}: the run in {parts.folder} has {checkpoint.step} already. "
            f"Give {checkpoint.step} or more, or another folder with --out."
        )
    try:
        _take_over(parts, checkpoint)
    except (KeyError, ConfigError) as error:
        lack = f"has no {error}" if isinstance(error, KeyError) else f"is not as expected: {error}"
        raise CheckpointError(
            f"{found} was written by an older SRL and {lack}: finish the run with that version, or "
            "start it in another folder."
        ) from error
    parts.versions.load_frozen()
    side_files.cut(
        parts.folder, checkpoint.step, checkpoint.state[FILES], parts.store, parts.view.say
    )
    parts.view.say(f"resuming after update {checkpoint.step} of {parts.recipe.updates}")
    return checkpoint.step


def gather(parts: Parts, done: int, score: float | None) -> Gathered:
    """Everything between two updates; tensors are the run's own where they can be.

    Args:
        parts: of the run.
        done: updates so far.
        score: of the learners in this update's look, if there was one.
    """
    tensors: Groups = {}
    state: dict[str, Any] = {
        "league": parts.league.state(),
        "learners": {},
        "credit": parts.credit.state(),
        "survival": parts.survival.state(),
        "budgets": parts.matches.budgets.state(),
        FILES: side_files.lengths(parts.folder),
        AGENTS: [asdict(agent) for agent in parts.store.playing(parts.league.playing)],
    }
    shared, state["coordination"] = parts.coordinator.state()
    tensors |= {f"{COORDINATION}.{group}": own for group, own in shared.items()}
    if parts.sharing is not None:
        groups, state["sharing"] = parts.sharing.state()
        tensors |= groups
    if parts.exchange is not None:
        state["exchange"] = parts.exchange.state()
    if parts.learned_reward is not None:
        groups, state["reward_model"] = parts.learned_reward.state()
        tensors |= groups
    for name, learner in parts.learners.items():
        own = learner.base.trainable_parameters(name)
        tensors[f"{name}.adapter"] = {key: tensor.detach() for key, tensor in own.items()}
        tensors[f"{name}.optimizer"], state["learners"][name] = learner.state()
    return Gathered(done=done, tensors=tensors, state=state, score=score)


def _take_over(parts: Parts, checkpoint: Checkpoint) -> None:
    """Be where the checkpoint was written."""
    tensors, state = checkpoint.tensors, checkpoint.state
    if FILES not in state:
        raise KeyError(FILES)
    parts.league.load_state(state["league"])
    for name, learner in parts.learners.items():
        learner.base.set_adapter_tensors(name, tensors[f"{name}.adapter"])
        learner.load_state(tensors[f"{name}.optimizer"], state["learners"][name])
    parts.credit.load_state(state["credit"])
    parts.survival.load_state(state["survival"])
    parts.matches.budgets.load_state(state["budgets"])
    parts.coordinator.load_state(
        {
            name.removeprefix(f"{COORDINATION}."): own
            for name, own in tensors.items()
            if name.startswith(f"{COORDINATION}.")
        },
        state["coordination"],
        like=lambda name: dict(parts.learners[name].base.trainable_parameters(name)),
    )
    if parts.sharing is not None:
        parts.sharing.load_state(tensors, state["sharing"])
    if parts.exchange is not None:
        parts.exchange.load_state(state["exchange"])
    if parts.learned_reward is not None:
        parts.learned_reward.load_state(tensors, state["reward_model"])
