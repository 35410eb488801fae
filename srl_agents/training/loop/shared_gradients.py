"""Gradients that several processes of one run compute together.

Each process computes those of some learners, and receives the others. Where that would leave a process
idle, each computes a share of every learner's rows instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from srl_agents.coordination.members import Tensors
from srl_agents.coordination.processes import Processes
from srl_agents.records import TrainingBatch
from srl_agents.trainers.learner import Batch, DivisibleBatch, joined_shares
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.loop.stages import Parts
from srl_agents.training.parts.single import Learners
from srl_envs.errors import FaultError, ModelError

Alone = Callable[[str, Batch], tuple[dict[str, float], Finding | None]]
"""Puts the gradient of all of its rows on a learner; returns metrics, or a fault."""
Added = Callable[[str, Batch, Batch], tuple[float, dict[str, float]]]
"""Adds the gradient of a share of its rows to a learner: name, all rows, the share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedGradients:
    """Shares the gradients of learners out to processes."""

    processes: Processes
    learners: Learners
    sharded: bool
    """Whether layers are divided over the processes, which then wait for each other in each of them."""

    @classmethod
    def of_run(cls, parts: Parts) -> SharedGradients | None:
        """Those of a run; None where it has one process."""
        if parts.processes.size == 1:
            return None
        return cls(
            processes=parts.processes,
            learners=parts.learners,
            sharded=parts.recipe.memory.sharded,
        )

    def of(
        self, batches: Mapping[str, Batch], alone: Alone, added: Added
    ) -> dict[str, tuple[dict[str, float], Finding | None]]:
        """Put its gradient on every learner of one base; returns each learner's metrics, or its fault.

        Args:
            batches: by learner.
            alone: computes the gradient of a learner here.
            added: computes a share of one here.
        """
        divided = {
            name: self._divided(name, batch, added)
            for name, batch in batches.items()
            if (len(batches) % self.processes.size or self.sharded)
            and isinstance(batch, DivisibleBatch)
        }
        whole = [name for name in batches if name not in divided]
        at = spread_learners({name: batches[name].rows for name in whole}, self.processes.size)
        computed: dict[str, tuple[dict[str, float], Finding | None, Tensors]] = {}
        for name in [name for name in whole if at[name] == self.processes.rank]:
            metrics, finding = alone(name, batches[name])
            computed[name] = (metrics, finding, self.learners[name].exported_gradients())
        everywhere = {
            name: gradients
            for part in self.processes.gather(computed)
            for name, gradients in part.items()
        }
        for name in whole:
            if name not in computed:
                self.learners[name].import_gradients(everywhere[name][2])
        return {name: divided.get(name) or everywhere[name][:2] for name in batches}

    def _divided(
        self, name: str, batch: DivisibleBatch, added: Added
    ) -> tuple[dict[str, float], Finding | None]:
        """One learner's, of which every process computes a share.

        Raises:
            MemoryLimitError: not even one row at a time fits.
        """
        learner, processes = self.learners[name], self.processes
        learner.begin(batch)
        own, summed = batch.share(processes.rank, processes.size), (0.0, dict[str, float]())
        behind = self._passes_behind(name, own) if self.sharded else 0
        if own is not None:
            summed = added(name, batch, own)
        if behind:
            self._keep_pace(name, batch, behind)
        whole = joined_shares(processes.gather(summed))
        learner.import_gradients(processes.sum(learner.exported_gradients()))
        try:
            return learner.checked(*whole), None
        except FaultError as error:
            return {}, Finding(fault=error.fault, message=str(error), learner=name)

    def _passes_behind(self, name: str, own: Batch | None) -> int:
        """Passes that the process with most makes and this one does not.

        All say it before their first pass: within one, each waits for the others in every layer.
        """
        made = 0 if own is None else self.learners[name].passes(own)
        return max(self.processes.gather(made)) - made

    def _keep_pace(self, name: str, batch: Batch, passes: int) -> None:
        """Make passes over one row that change nothing, as each layer is gathered from all processes."""
        if not isinstance(batch, TrainingBatch):
            raise ModelError(f"memory.sharded: batches of learner {name!r} cannot be divided.")
        one = batch.take(np.flatnonzero(batch.learned_RT.any(axis=1))[:1])
        self.learners[name].keep_pace(one, passes)


def spread_learners(costs: Mapping[str, float], devices: int) -> dict[str, int]:
    """Share learners out so that the busiest device has little more to do than the others.

    The costliest learner goes first, each to the device that has least. The busiest one has at most the mean
    plus (1 - 1/devices) of the costliest learner. Source: Graham, SIAM J. Appl. Math. 17(2), 1969.

    Args:
        costs: learner -> work, such as tokens that it learns from; 0 or more.
        devices: how many there are, 1 or more.

    Returns:
        Learner -> number of its device, from 0, whatever the order in which learners are given.
    """
    loads = [(0.0, 0)] * devices
    placed: dict[str, int] = {}
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        device = min(range(devices), key=lambda number: (*loads[number], number))
        load, learners = loads[device]
        loads[device] = (load + costs[name], learners + 1)
        placed[name] = device
    return placed
