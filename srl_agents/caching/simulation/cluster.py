"""Replay of a trace on a described cluster: waiting, decoding and moves of blocks."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from srl_agents.caching.objectives import Admission, Candidate, Objectives
from srl_agents.caching.placement import CAPACITY, PATIENCE
from srl_agents.caching.simulation.hardware import Device, Link, ModelShape, Tier
from srl_agents.caching.simulation.instance import Instance, Job
from srl_agents.caching.simulation.replay import BlockPolicy, Known, knowledge_of, make_policy
from srl_agents.caching.simulation.routing import Routing, make_router, reading_s
from srl_agents.caching.simulation.tiered_cache import LinkTraffic, Lookup, TieredCache
from srl_agents.caching.simulation.traces import Request, Trace
from srl_envs.errors import ConfigError

By = Literal["memory", "objectives"]
"""Rule by which a waiting prompt begins."""
LONGEST_S = 1e7
"""Longest time of a replay, in seconds; beyond it two steps cannot be distinguished."""
MOST_NODES = 100_000
USUAL = Objectives(first_token_s=2.0, between_tokens_s=0.1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """Description of the cluster on which a trace is replayed."""

    shape: ModelShape
    device: Device
    tiers: tuple[Tier, ...]
    """Tiers of each node, fastest first."""
    policy: str = "lru"
    nodes: int = 1
    prefill_nodes: int | None = None
    """So many nodes only read prompts, the others only decode; None: every node does both."""
    link: Link | None = None
    """Between nodes; None: cached prefixes stay where they are."""
    routing: Routing = "affinity"
    patience: float = PATIENCE
    """Of affinity: a prompt waits behind so many times the work that its prefix saves; see `Placement`."""
    known: Known = "nothing"
    minimum_mfu: float = 0.3
    """Share of the device's peak that reading prompts must reach; it sets the size of a chunk."""
    speed: float = 1.0
    """Arrivals come so many times faster than recorded."""
    objectives: Objectives = USUAL
    """Times that are to be held."""
    admission: By = "memory"
    """``memory``: prompts are read in the order of arrival, each once it has room; ``objectives``: likewise,
    by the rules of `Admission`."""
    failures: tuple[tuple[int, float], ...] = ()
    """(node, second): the node dies then, with its caches."""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MOST_NODES:
            raise ConfigError(f"nodes={self.nodes}: expected 1 to {MOST_NODES}.")
        if not 0 <= self.patience < math.inf:
            raise ConfigError(f"patience={self.patience}: expected a number of 0 or more.")
        if self.admission not in get_args(By):
            raise ConfigError(
                f"admission={self.admission!r}: expected one of {', '.join(get_args(By))}."
            )
        if not self.speed > 0 or math.isinf(self.speed):
            raise ConfigError(f"speed={self.speed}: expected above 0.")
        prefill = self.prefill_nodes
        if prefill is not None and not 0 < prefill < self.nodes:
            raise ConfigError(
                f"prefill_nodes={prefill}: expected 1 to {self.nodes - 1} of nodes={self.nodes}, so that "
                "some nodes are left to decode. Leave it out for nodes that do both."
            )
        if prefill is not None and self.link is None:
            raise ConfigError("prefill_nodes: prompts are handed over; name a link.")
        if not 0 < self.minimum_mfu <= self.device.mfu:
            raise ConfigError(
                f"minimum_mfu={self.minimum_mfu}: expected above 0 and at most mfu={self.device.mfu}."
            )
        for node, second in self.failures:
            if not (0 <= node < self.nodes and 0 <= second < math.inf):
                raise ConfigError(
                    f"fail={node}@{second:g}: expected a node from 0 to {self.nodes - 1} and a second "
                    "of 0 or more."
                )

    def chunk_tokens(self) -> int:
        """The smallest power of two, from 512 tokens on, that reaches the minimum MFU."""
        tokens = 512
        while self._chunk_mfu(tokens) < self.minimum_mfu * (1 - 1e-9):
            tokens *= 2
        return tokens

    def _chunk_mfu(self, tokens: int) -> float:
        flops = 2.0 * self.shape.multiplied_parameters * tokens
        step_s = self.device.step_seconds(self.shape, prefill_flops=flops)
        return flops / step_s / self.device.peak_flops

    def context_limit(self, longest: int) -> float:
        """Tokens of running requests that fit on a device beside weights and cached blocks.

        Raises:
            ConfigError: not even the longest request fits.
        """
        cached = next(
            (t.size_bytes for t in self.tiers if t.name == "device" and t.size_bytes < math.inf),
            0.0,
        )
        usable = self.device.memory_bytes * self.device.usable
        weights = self.shape.weight_bytes
        left = usable - weights - cached
        if left < longest * self.shape.kv_bytes_per_token:
            raise ConfigError(
                f"{self.device.name}: of {usable / 1e9:.0f} usable GB, {weights / 1e9:.1f} GB "
                f"of weights and {cached / 1e9:g} GB of cached blocks leave {left / 1e9:.1f} GB; the longest "
                f"request needs {longest * self.shape.kv_bytes_per_token / 1e9:.1f} GB. Give the device "
                "tier less, or take a larger device."
            )
        return left / self.shape.kv_bytes_per_token


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that a replay left behind."""

    jobs: list[Job]
    instances: list[Instance]
    links: LinkTraffic
    orders: list[list[Request]]
    """Prompts that each node read, in order."""
    read_blocks: int
    """Blocks asked for, those of prompts that were read twice included."""


class Simulation:
    """One replay; use `simulate`."""

    def __init__(self, trace: Trace, cluster: Cluster) -> None:
        if trace.seconds / cluster.speed > LONGEST_S:
            raise ConfigError(
                f"the trace takes {trace.seconds / cluster.speed:.3g} s at speed={cluster.speed:g}: expected "
                f"at most {LONGEST_S:g}. Are its timestamps milliseconds? Else raise the speed."
            )
        longest = max(r.prompt_tokens + r.reply_tokens for r in trace.requests)
        self.cluster = cluster
        self.trace = trace
        limit, chunk = cluster.context_limit(longest), cluster.chunk_tokens()
        readers = cluster.prefill_nodes or cluster.nodes

        def policy(capacity: int) -> BlockPolicy:
            return make_policy(cluster.policy, capacity, trace)

        self.instances = [
            Instance(
                cluster.shape, cluster.device, number,
                TieredCache(cluster.tiers, cluster.shape, cluster.device, trace.tokens_per_block, policy)
                if number < readers
                else None,
                chunk, limit,
            )
            for number in range(cluster.nodes)
        ]  # fmt: skip
        block_bytes = trace.tokens_per_block * cluster.shape.kv_bytes_per_token
        room = sum(tier.size_bytes for tier in cluster.tiers) / block_bytes
        capacity = CAPACITY if math.isinf(room) else max(int(room), 1)
        self.router = make_router(cluster.routing, cluster.patience, [capacity] * readers)
        self.admission = (
            Admission(cluster.objectives) if cluster.admission == "objectives" else None
        )
        self.links = LinkTraffic()
        self.orders: list[list[Request]] = [[] for _ in self.instances]
        self.read_blocks = 0
        self._last_reader: dict[int, int] = {}
        self._events: list[tuple[float, int, int]] = []

    def run(self, progress: Callable[[int], Any] | None = None) -> Outcome:
        """Play all events in order of time."""
        start = self.trace.requests[0].arrival_s
        jobs = [
            Job(number, request, (request.arrival_s - start) / self.cluster.speed)
            for number, request in enumerate(self.trace.requests)
        ]
        outer = [(job.arrival_s, 1, job.number) for job in jobs]
        outer += [(second, 0, node) for node, second in self.cluster.failures]
        for time_s, kind, number in sorted(outer):
            self._events_until(time_s)
            if kind:
                self._route(jobs[number], time_s)
                if progress is not None:
                    progress(number)
            else:
                self._fail(self.instances[number], time_s)
        self._events_until(math.inf)
        return Outcome(jobs, self.instances, self.links, self.orders, self.read_blocks)

    def _events_until(self, time_s: float) -> None:
        while self._events and self._events[0][0] <= time_s and self._events[0][0] < math.inf:
            event_s, number, version = heapq.heappop(self._events)
            instance = self.instances[number]
            if instance.version == version:
                instance.advance(max(event_s, instance.now_s))
                self._settle(instance)

    def _settle(self, instance: Instance) -> None:
        """After time has passed on an instance: finish what is done, start what waits."""
        for job in instance.decode_done():
            self._done(job, instance.now_s)
        read = instance.read_done()
        if read is not None:
            self._after_reading(instance, read)
        instance.take_handed_over()
        place = self._next(instance) if instance.reading is None else None
        if place is not None:
            job = instance.waiting[place]
            del instance.waiting[place]
            self._start(instance, job)
        self._announce(instance)

    def _next(self, instance: Instance) -> int | None:
        """Place of the prompt that is read next; None where all wait."""
        waiting = instance.waiting
        if self.admission is None:
            return 0 if waiting and instance.has_room(waiting[0]) else None
        line = [
            Candidate(instance.now_s - job.arrival_s, job.prefill_s, instance.gap_s(job))
            for job in waiting
        ]
        return self.admission.next(
            line, instance.batch, lambda place: instance.has_room(waiting[place])
        )

    def _announce(self, instance: Instance) -> None:
        instance.version += 1
        event_s = instance.next_event_s()
        if event_s < math.inf:
            heapq.heappush(self._events, (event_s, instance.number, instance.version))

    def _route(self, job: Job, time_s: float) -> None:
        readers = [i for i in self.instances if i.alive and i.cache is not None]
        if not readers:
            raise ConfigError("fail: no node that reads prompts is left; let one live.")
        instance = self.router.choose(job, readers)
        job.node = instance.number
        job.prefill_s = reading_s(instance, job)
        instance.advance(max(time_s, instance.now_s))
        instance.backlog_s += job.prefill_s
        instance.waiting.append(job)
        self._settle(instance)

    def _start(self, instance: Instance, job: Job) -> None:
        cache = instance.cache
        if cache is None:  # only instances with a cache are routed to
            raise ConfigError(f"node {instance.number} reads no prompts.")
        instance.backlog_s = (
            max(0.0, instance.backlog_s - job.prefill_s) if instance.waiting else 0.0
        )
        found = cache.look(job.request)
        moved, fetch_s = self._from_another(instance, job, found)
        knowledge = knowledge_of(job.request, self.cluster.known)
        cache.admit(job.request, found, knowledge)
        job.reader = instance.number
        self._last_reader.update(dict.fromkeys(job.request.blocks, instance.number))
        self.orders[instance.number].append(job.request)
        self.read_blocks += len(job.request.blocks)
        block = self.trace.tokens_per_block
        instance.start(job, (found.hits + moved) * block, found.fetch_s + fetch_s)

    def _from_another(self, instance: Instance, job: Job, found: Lookup) -> tuple[int, float]:
        """Blocks beyond ``found`` that another node has, and the time to fetch them, if it pays."""
        link, first = self.cluster.link, found.hits
        if link is None:
            return 0, 0.0
        moved = self._most_elsewhere(instance, job.request.blocks[first:])
        size = self.trace.tokens_per_block
        bytes_moved = moved * size * self.cluster.shape.kv_bytes_per_token
        fetch_s = link.latency_s + bytes_moved / link.bytes_per_s
        flops = self.cluster.shape.prefill_flops(first * size, (first + moved) * size)
        if fetch_s >= flops / (self.cluster.device.peak_flops * self.cluster.device.mfu):
            return 0, 0.0
        self.links.cached += bytes_moved
        self.links.transfers += 1
        self.links.blocks += moved
        return moved, fetch_s

    def _most_elsewhere(self, instance: Instance, blocks: Sequence[int]) -> int:
        """How many of these, from the first on, one of the other nodes has that read them last."""
        readers = {self._last_reader[key] for key in blocks if key in self._last_reader}
        others = (self.instances[number] for number in readers - {instance.number})
        return max(
            (
                sum(1 for _ in itertools.takewhile(other.cache.holds, blocks))
                for other in others
                if other.alive and other.cache is not None
            ),
            default=0,
        )

    def _after_reading(self, instance: Instance, job: Job) -> None:
        if math.isnan(job.first_token_s):
            job.first_token_s = instance.now_s
        if job.request.reply_tokens <= 1:
            self._done(job, instance.now_s)
            return
        if self.cluster.prefill_nodes is None:
            instance.decode(job, written=1)
            return
        link = self.cluster.link
        writers = [i for i in self.instances if i.alive and i.cache is None]
        if not writers or link is None:
            raise ConfigError("fail: no node that decodes is left; let one live.")
        writer = min(writers, key=lambda i: i.running_context + sum(j.context for j in i.held_back))
        size = job.request.prompt_tokens * self.cluster.shape.kv_bytes_per_token
        self.links.handed_over += size
        self.links.transfers += 1
        moving_s = link.latency_s + size / link.bytes_per_s
        job.fetched_s = instance.now_s + moving_s
        writer.token_gaps.append((moving_s, 1.0))
        job.node = writer.number
        writer.advance(max(instance.now_s, writer.now_s))
        writer.held_back.append(job)
        self._settle(writer)

    def _done(self, job: Job, now_s: float) -> None:
        job.done_s = now_s
        self.router.ended(job)
        cache = self.instances[job.reader].cache
        if cache is not None:
            cache.replied(job.request)

    def _fail(self, instance: Instance, time_s: float) -> None:
        if not instance.alive:
            return
        instance.advance(max(time_s, instance.now_s))
        lost = instance.fail()
        instance.version += 1
        if instance.cache is not None:
            self.router.lost(instance)
        for job in lost:
            job.restarts += 1
            self.router.ended(job)
            self._route(job, time_s)


def simulate(
    trace: Trace, cluster: Cluster, progress: Callable[[int], Any] | None = None
) -> Outcome:
    """Replay ``trace`` on ``cluster``; ``progress`` is called with the number of each arrived request.

    Raises:
        ConfigError: the longest request does not fit, the policy is not known, the oracle is asked to
            drive several nodes, or all nodes of a kind have died.
    """
    if cluster.policy == "oracle" and (cluster.prefill_nodes or cluster.nodes) > 1:
        raise ConfigError(
            "policy='oracle' needs the order in which a node will read its prompts, which on several "
            "nodes depends on the policy. Take another; the oracle is reported beside it."
        )
    return Simulation(trace, cluster).run(progress)
