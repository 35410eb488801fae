"""One simulated instance: a queue of prompts to read and a batch of replies to write.

Between two events the batch is constant, so every reply in it advances at one rate: each step writes one
token per reply and, where prompts wait, reads one chunk. No step is simulated by itself.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

from srl_agents.caching.simulation.hardware import Device, ModelShape
from srl_agents.caching.simulation.tiered_cache import TieredCache
from srl_agents.caching.simulation.traces import Request


@dataclass(slots=True, eq=False)
class Job:
    """A request on its way."""

    number: int
    request: Request
    arrival_s: float
    node: int = -1
    reader: int = -1
    """The node that read the prompt last; -1 before."""
    cached_tokens: int = 0
    prefill_s: float = 0.0
    """Device time left to read the prompt; an estimate until it starts."""
    chunk_flops: float = 0.0
    """Operations of every chunk in which the prompt is read."""
    fetched_s: float = 0.0
    """When the cached part, or a prompt read elsewhere, is in the device."""
    first_token_s: float = math.nan
    done_s: float = math.nan
    restarts: int = 0

    @property
    def context(self) -> float:
        """Tokens of keys and values while it decodes, on average."""
        return self.request.prompt_tokens + self.request.reply_tokens / 2


@dataclass(slots=True, eq=False)
class Instance:
    """State of one node at `now_s`."""

    shape: ModelShape
    device: Device
    number: int
    cache: TieredCache | None
    """None on a node that only decodes."""
    chunk_tokens: int
    context_limit: float
    """Tokens of keys and values that running requests may hold."""
    alive: bool = True
    now_s: float = 0.0
    waiting: deque[Job] = field(default_factory=deque)
    reading: Job | None = None
    version: int = 0
    """Goes up with every change, so that older events are recognised."""
    backlog_s: float = 0.0
    """Device time that the waiting prompts are expected to need."""
    read_s: float = 0.0
    """Device time spent reading prompts."""
    flops: float = 0.0
    """Operations spent on it."""
    running_context: float = 0.0
    token_gaps: list[tuple[float, float]] = field(default_factory=list)
    """(seconds, tokens): so many tokens came so long after the one before."""
    batch_s: float = 0.0
    """Integral of the batch over time."""
    held_back: deque[Job] = field(default_factory=deque)
    """Read elsewhere; on their way here, or waiting for memory."""
    _decoding: list[tuple[float, int, Job]] = field(default_factory=list)
    _tokens: float = 0.0
    """Tokens that a reply of the batch would have written if it had been there from the start."""

    @property
    def batch(self) -> int:
        """Replies being written."""
        return len(self._decoding)

    def _step_s(self) -> float:
        """Time of one step, as things are."""
        flops = self.reading.chunk_flops if self.reading is not None and self._reads_now() else 0.0
        return self.device.step_seconds(
            self.shape, prefill_flops=flops, batch=self.batch, context=self.running_context
        )

    def _reads_now(self) -> bool:
        return self.reading is not None and self.now_s >= self.reading.fetched_s

    def next_event_s(self) -> float:
        """When the next of these happens: a prompt is read, keys and values arrive, a reply is done."""
        times = [math.inf]
        if self.reading is not None:
            if self._reads_now():
                times.append(self.now_s + self.reading.prefill_s * self._slowdown())
            else:
                times.append(self.reading.fetched_s)
        if self.held_back and self.held_back[0].fetched_s > self.now_s:
            times.append(self.held_back[0].fetched_s)
        if self._decoding:
            left = max(0.0, self._decoding[0][0] - self._tokens)
            times.append(self.now_s + left * self._step_s())
        return min(times)

    def _slowdown(self) -> float:
        """Time of the current step over the time that its prompt chunk would take without other work."""
        if self.reading is None:
            return 1.0
        chunk_s = self.device.step_seconds(self.shape, prefill_flops=self.reading.chunk_flops)
        return self._step_s() / chunk_s

    def advance(self, until_s: float) -> None:
        """Let time pass; no event may lie before ``until_s``."""
        passed = until_s - self.now_s
        if passed > 0:
            if self._decoding:
                token_s = self._step_s()
                self._tokens += passed / token_s
                self.token_gaps.append((token_s, self.batch * passed / token_s))
                self.batch_s += self.batch * passed
            if self._reads_now() and self.reading is not None:
                worked = passed / self._slowdown()
                self.reading.prefill_s = max(0.0, self.reading.prefill_s - worked)
                self.read_s += worked
        self.now_s = until_s

    def read_done(self) -> Job | None:
        """The prompt that is read by now, if one is; its place is free."""
        job = self.reading
        if job is None or not self._reads_now() or job.prefill_s > 1e-9:
            return None
        self.reading = None
        return job

    def decode(self, job: Job, written: int) -> None:
        """Take the job, of whose reply ``written`` tokens are there, into the batch."""
        left = max(0, job.request.reply_tokens - written)
        self.running_context += job.context
        heapq.heappush(self._decoding, (self._tokens + left, job.number, job))

    def decode_done(self) -> list[Job]:
        """Jobs whose reply is complete; they leave the batch."""
        done = []
        while self._decoding and self._decoding[0][0] <= self._tokens + 1e-6:
            job = heapq.heappop(self._decoding)[2]
            self.running_context -= job.context
            done.append(job)
        if not self._decoding:
            self.running_context = 0.0
        return done

    def take_handed_over(self) -> None:
        """Decode what was read elsewhere and is here, as far as memory allows."""
        while self.held_back:
            job = self.held_back[0]
            if job.fetched_s > self.now_s or not self.has_room(job):
                return
            self.decode(
                self.held_back.popleft(), written=2
            )  # the second token came with the handover

    def has_room(self, job: Job) -> bool:
        """Whether the job's keys and values fit beside those of the batch; a lone job always fits."""
        reading = self.reading.context if self.reading else 0.0
        held = self.running_context + reading
        return held == 0 or held + job.context <= self.context_limit

    def gap_s(self, job: Job) -> float:
        """Between tokens of all replies, at most, if the job's prompt is read now and its reply written."""
        prompt = job.request.prompt_tokens
        last = self.shape.prefill_flops(max(0, prompt - self.chunk_tokens), prompt)
        step, context = self.device.step_seconds, self.running_context
        return max(
            step(self.shape, prefill_flops=last, batch=self.batch, context=context),
            step(self.shape, prefill_flops=0, batch=self.batch + 1, context=context + job.context),
        )

    def start(self, job: Job, cached_tokens: int, fetch_s: float) -> None:
        """Begin to read a prompt whose first ``cached_tokens`` are cached."""
        prompt = job.request.prompt_tokens
        job.cached_tokens = min(cached_tokens, prompt - 1)  # the last token is always computed
        flops = self.shape.prefill_flops(job.cached_tokens, prompt)
        chunks = -(-(prompt - job.cached_tokens) // self.chunk_tokens)
        job.chunk_flops = flops / chunks
        job.prefill_s = chunks * self.device.step_seconds(self.shape, prefill_flops=job.chunk_flops)
        job.fetched_s = self.now_s + fetch_s
        self.flops += flops
        self.reading = job

    def fail(self) -> list[Job]:
        """Die: everything that was here is lost; returns the jobs."""
        lost = [*self.waiting, *self.held_back, *(job for _, _, job in self._decoding)]
        if self.reading is not None:
            lost.append(self.reading)
        self.alive = False
        self.waiting.clear()
        self.held_back.clear()
        self._decoding.clear()
        self.reading = None
        self.running_context = self.backlog_s = 0.0
        return sorted(lost, key=lambda job: job.number)
