"""What a checkpoint of a league run holds: all that later updates depend on, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from srl_agents import checkpoints
from srl_agents.checkpoints import Checkpoint
from srl_agents.coordination.coordinator import CoordinationGroups
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics import ConsoleView
from srl_agents.models.memory.mapped_tensors import MappedTensors
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.layout import CHECKPOINTS
from srl_agents.training.loop import side_files
from srl_agents.training.loop.stages import Parts
from srl_agents.training.loop.versions import LeagueVersions
from srl_agents.training.parts.single import Learners
from srl_envs.errors import CheckpointError, ConfigError

KEEP_BEST = 1
"""Checkpoints that stay beside the newest: those with the highest score in a look at the same update."""
FILES = "files"
"""Key of a checkpoint's state: lengths of the run's side files, in which are times of the clock."""
AGENTS = "agents"
"""Likewise: who may play from here on, as the store has them; a store that is rebuilt gets them from here."""
CLOCK = "clock"
"""Likewise: seconds of processors, which never repeat themselves."""
SPENT = "spent"
"""Likewise: tokens that the run has spent."""
_NEW = (CLOCK, SPENT)
"""What checkpoints lack that an older SRL wrote: a run that goes on from one counts from 0."""
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
            keep_best=KEEP_BEST,
            whole=whole,
        )


class Kept(Protocol):
    """A part whose state is JSON values."""

    def state(self) -> dict[str, Any]:
        """What later updates depend on."""

    def load_state(self, state: Any) -> None:
        """The inverse of `state`."""


class NothingKept:
    """Stands for a part that the recipe leaves out, whose key a checkpoint has all the same."""

    def state(self) -> dict[str, Any]:
        """See `Kept`."""
        return {}

    def load_state(self, state: Any) -> None:
        """See `Kept`."""


class KeptTensors(Protocol):
    """A part whose state is groups of tensors and JSON values."""

    def state(self) -> tuple[Groups, dict[str, Any]]:
        """What later updates depend on."""

    def load_state(self, groups: Any, state: Any) -> None:
        """The inverse of `state`; ``groups`` may hold others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """Collects the state of a run's parts for a checkpoint, and restores it."""

    folder: Path
    """Folder of the run."""
    updates: int
    """Updates of the whole run."""
    store: LeagueStore
    view: ConsoleView
    league: League
    versions: LeagueVersions
    learners: Learners
    coordinator: CoordinationGroups
    kept: Mapping[str, Kept]
    """Parts by their key in a checkpoint's state."""
    kept_tensors: Mapping[str, KeptTensors]
    """Parts with tensors, by their key in a checkpoint's state."""

    @classmethod
    def of(cls, parts: Parts) -> RunState:
        """The state of a run."""
        kept: dict[str, Kept | None] = {
            "league": parts.league,
            "credit": parts.credit,
            "survival": parts.survival,
            "budgets": parts.matches.budgets or NothingKept(),
            SPENT: parts.spending,
            CLOCK: parts.spending.clock,
            "exchange": parts.exchange,
        }
        tensors: dict[str, KeptTensors | None] = {
            "sharing": parts.sharing,
            "reward_model": parts.learned_reward,
        }
        return cls(
            folder=parts.folder,
            updates=parts.recipe.updates,
            store=parts.store,
            view=parts.view,
            league=parts.league,
            versions=parts.versions,
            learners=parts.learners,
            coordinator=parts.coordinator,
            kept={name: part for name, part in kept.items() if part is not None},
            kept_tensors={name: part for name, part in tensors.items() if part is not None},
        )

    def restore(self) -> int:
        """Go to the newest whole checkpoint; returns the number of updates that it holds.

        Raises:
            CheckpointError: no checkpoint is whole, or it is of an older SRL, or a snapshot is gone.
            ConfigError: it holds more updates than the recipe asks for.
        """
        found = checkpoints.latest(self.folder / CHECKPOINTS)
        if found is None:
            side_files.cut(self.folder, 0, {}, self.store, self.view.say)
            return 0
        checkpoint = checkpoints.load(found)
        if checkpoint.step > self.updates:
            raise ConfigError(
                f"updates={self.updates}: the run in {self.folder} has {checkpoint.step} already. "
                f"Give {checkpoint.step} or more, or another folder with --out."
            )
        try:
            self._take_over(checkpoint)
        except (KeyError, ConfigError) as error:
            lack = (
                f"has no {error}" if isinstance(error, KeyError) else f"is not as expected: {error}"
            )
            raise CheckpointError(
                f"{found} was written by an older SRL and {lack}: finish the run with that version, or "
                "start it in another folder."
            ) from error
        self.versions.load_frozen()
        side_files.cut(
            self.folder, checkpoint.step, checkpoint.state[FILES], self.store, self.view.say
        )
        self.view.say(f"resuming after update {checkpoint.step} of {self.updates}")
        return checkpoint.step

    def gather(self, done: int, score: float | None) -> Gathered:
        """Everything between two updates; tensors are the run's own where they can be.

        Args:
            done: updates so far.
            score: of the learners in this update's look, if there was one.
        """
        state: dict[str, Any] = {name: part.state() for name, part in self.kept.items()}
        state |= {
            "learners": {},
            FILES: side_files.lengths(self.folder),
            AGENTS: [asdict(agent) for agent in self.store.playing(self.league.playing)],
        }
        shared, state["coordination"] = self.coordinator.state()
        tensors: Groups = {f"{COORDINATION}.{group}": own for group, own in shared.items()}
        for name, part in self.kept_tensors.items():
            groups, state[name] = part.state()
            tensors |= groups
        for name, learner in self.learners.items():
            own = learner.base.trainable_parameters(name)
            tensors[f"{name}.adapter"] = {key: tensor.detach() for key, tensor in own.items()}
            tensors[f"{name}.optimizer"], state["learners"][name] = learner.state()
        return Gathered(done=done, tensors=tensors, state=state, score=score)

    def _take_over(self, checkpoint: Checkpoint) -> None:
        """Restore every part of the run to the state that a checkpoint holds."""
        tensors, state = checkpoint.tensors, checkpoint.state
        if FILES not in state:
            raise KeyError(FILES)
        for name, learner in self.learners.items():
            learner.base.set_adapter_tensors(name, tensors[f"{name}.adapter"])
            learner.load_state(tensors[f"{name}.optimizer"], state["learners"][name])
        for key, part in self.kept.items():
            if key in state or key not in _NEW:
                part.load_state(state[key])
        self.coordinator.load_state(
            {
                name.removeprefix(f"{COORDINATION}."): own
                for name, own in tensors.items()
                if name.startswith(f"{COORDINATION}.")
            },
            state["coordination"],
            like=lambda name: dict(self.learners[name].base.trainable_parameters(name)),
        )
        for key, holder in self.kept_tensors.items():
            holder.load_state(tensors, state[key])
