"""Which instance reads a prompt: in turn, where least waits, or where its prefix is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from srl_agents.caching.instance import Instance, Job

Routing = Literal["affinity", "round-robin", "least-loaded"]


class Router(Protocol):
    """Chooses among instances that are alive; there is at least one."""

    def choose(self, job: Job, instances: Sequence[Instance]) -> Instance:
        """The instance that reads the job's prompt."""
        ...


class RoundRobin:
    """One after the other."""

    def __init__(self) -> None:
        self._turn = -1

    def choose(self, job: Job, instances: Sequence[Instance]) -> Instance:
        """The next."""
        del job
        self._turn += 1
        return instances[self._turn % len(instances)]


class LeastLoaded:
    """Where the fewest seconds of prompts wait."""

    def choose(self, job: Job, instances: Sequence[Instance]) -> Instance:
        """The first of the least loaded."""
        del job
        return min(instances, key=load_s)


class Affinity:
    """Where the first token is expected soonest: waiting prompts, fetching and what is left to read.

    It knows who read each block last, so two instances are compared: the last reader of the deepest
    known block, and the least loaded. Source: arXiv:2407.00079 section 5 (its conductor); there without
    patience.
    """

    def __init__(self, patience: float = 16.0) -> None:
        """``patience``: a request also waits so many times the device time that its prefix saves."""
        self._patience = patience
        self._readers: dict[int, int] = {}

    def choose(self, job: Job, instances: Sequence[Instance]) -> Instance:
        """The reader of the prefix, unless the other gives the first token much sooner."""
        idle = min(instances, key=load_s)
        near = self._nearest(job, instances)
        best = idle
        if near is not None and near is not idle:
            near_s, idle_s = reading_s(near, job), reading_s(idle, job)
            saved_s = idle_s - near_s
            if load_s(near) + near_s <= load_s(idle) + idle_s + self._patience * saved_s:
                best = near
        self._readers.update(dict.fromkeys(job.request.blocks, best.number))
        return best

    def _nearest(self, job: Job, instances: Sequence[Instance]) -> Instance | None:
        """Who read the deepest known block last, if it is alive."""
        number = next(
            (self._readers[key] for key in reversed(job.request.blocks) if key in self._readers),
            None,
        )
        return next((instance for instance in instances if instance.number == number), None)


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


def make_router(routing: Routing, patience: float) -> Router:
    """The router of this name; only affinity has patience."""
    if routing == "affinity":
        return Affinity(patience)
    return RoundRobin() if routing == "round-robin" else LeastLoaded()
