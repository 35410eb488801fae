"""Choice of the simulated instance that reads a prompt: in turn, shortest wait, or by `placement`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from srl_agents.caching.placement import Chosen, Placement
from srl_agents.caching.simulation.instance import Instance, Job

Routing = Literal["affinity", "round-robin", "least-loaded"]


class Router(Protocol):
    """Chooses among instances that are alive; there is at least one."""

    def choose(self, job: Job, instances: Sequence[Instance]) -> Instance:
        """The instance that reads the job's prompt."""
        ...

    def ended(self, job: Job) -> None:
        """The job is answered, or its instance has died."""
        ...

    def lost(self, instance: Instance) -> None:
        """Drop an instance that has died."""
        ...


class _Forgetful:
    """Keeps nothing of jobs."""

    def ended(self, job: Job) -> None:
        """Nothing changes."""

    def lost(self, instance: Instance) -> None:
        """Nothing changes."""


class RoundRobin(_Forgetful):
    """One after the other."""

    def __init__(self) -> None:
        self._turn = -1

    def choose(self, job: Job, instances: Sequence[Instance]) -> Instance:
        """The next."""
        del job
        self._turn += 1
        return instances[self._turn % len(instances)]


class LeastLoaded(_Forgetful):
    """Where the fewest seconds of prompts wait."""

    def choose(self, job: Job, instances: Sequence[Instance]) -> Instance:
        """The first of the least loaded."""
        del job
        return min(instances, key=load_s)


class Affinity:
    """Places requests by the rule of the conductor of real engines.

    Args:
        capacities: blocks that each instance keeps.
        patience: see `Placement`.
    """

    def __init__(self, capacities: Sequence[int], patience: float) -> None:
        self._placement = Placement(capacities, patience=patience)
        self._placed: dict[int, Chosen] = {}

    def choose(self, job: Job, instances: Sequence[Instance]) -> Instance:
        """See `Placement.place`."""
        alive = {instance.number: instance for instance in instances}
        without = [number for number in self._placement.alive if number not in alive]
        chosen = self._placed[job.number] = self._placement.place(job.request.blocks, without)
        return alive[chosen.instance]

    def ended(self, job: Job) -> None:
        """Drop the work of a job that has ended."""
        self._placement.end(self._placed.pop(job.number))

    def lost(self, instance: Instance) -> None:
        """Stop sending prompts to a lost instance."""
        self._placement.lose(instance.number)


def load_s(instance: Instance) -> float:
    """Device time until a new prompt would start, and what the replies in the batch slow it down by."""
    reading = instance.reading.prefill_s if instance.reading else 0.0
    return instance.backlog_s + reading + 1e-3 * instance.batch


def reading_s(instance: Instance, job: Job) -> float:
    """Time to fetch the cached prefix and to read the rest."""
    cache = instance.cache
    if cache is None:
        return 0.0
    found = cache.look(job.request)
    prompt = job.request.prompt_tokens
    cached = min(found.hits * cache.tokens_per_block, prompt - 1)
    flops = instance.shape.prefill_flops(cached, prompt)
    return found.fetch_s + instance.device.step_seconds(instance.shape, prefill_flops=flops)


def make_router(routing: Routing, patience: float, capacities: Sequence[int]) -> Router:
    """The router of this name; only affinity has patience and looks at capacities, in blocks."""
    if routing == "affinity":
        return Affinity(capacities, patience)
    return RoundRobin() if routing == "round-robin" else LeastLoaded()
