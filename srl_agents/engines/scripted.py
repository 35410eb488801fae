"""An engine without a model: replies of a function, after a latency, within a capacity.

For tests, dry runs and load tests of callers of engines: it batches nothing and computes nothing, so
only the calls are measured. It keeps the whole contract, and dies where its settings demand it.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from srl_agents.engines.protocol import Capabilities, Generation, GenerationRequest
from srl_agents.engines.tasks import all_of
from srl_agents.records import WeightUpdate, WeightVersion
from srl_envs.errors import ConfigError, DeadlineError, ModelError, UnknownVersionError

ReplyFunction = Callable[[GenerationRequest], str]
"""The reply to a request; it depends only on the observation, examples, version and key."""
_CAPABILITIES = Capabilities(
    token_ids=False, logprobs=False, seeded=True, versions=True, context_length=None
)
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """How long replies take: a distribution, from which each key draws its own."""

    kind: Literal["constant", "lognormal", "pareto"] = "constant"
    median_s: float = 0.0
    tail: float = 1.0
    """lognormal: standard deviation of the logarithm. pareto: the exponent; heavier below 2."""

    def __post_init__(self) -> None:
        if self.kind not in ("constant", "lognormal", "pareto"):
            raise ConfigError(f"kind={self.kind!r}: use 'constant', 'lognormal' or 'pareto'.")
        if not 0 <= self.median_s < math.inf:
            raise ConfigError(f"median_s={self.median_s}: use 0 or more seconds.")
        if not 0 < self.tail < math.inf:
            raise ConfigError(f"tail={self.tail}: use more than 0.")

    def seconds(self, key: Sequence[int]) -> float:
        """Latency of a request; equal for equal keys."""
        if self.kind == "constant":
            return self.median_s
        share = key_uniform(key)
        if self.kind == "lognormal":
            return self.median_s * math.exp(self.tail * _NORMAL.inv_cdf(share))
        return self.median_s * math.pow(2 * (1 - share), -1 / self.tail)


@dataclass(frozen=True, kw_only=True, slots=True)
class Deaths:
    """When the engine dies, for tests of its callers. None: never by this cause."""

    at_reply: int | None = None
    """When this many replies were given, in the middle of the next one."""
    at_install: int | None = None
    """When this many versions were installed, in the middle of the next one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What an engine was asked since it was made."""

    replies: int
    most_in_flight: int
    """Requests that were being answered at once."""
    wall_s: float
    """Seconds from the first request to the last look."""
    busy_s: float
    """Seconds of these with at least one request in flight."""
    full_s: float
    """Seconds of these with as many in flight as the capacity allows."""
    occupancy: float
    """Mean number of requests in flight over these seconds, divided by the capacity."""


class _Request:
    """A request from `generate` to its reply."""

    __slots__ = ("asked", "reply", "timer")

    def __init__(self, asked: GenerationRequest, reply: asyncio.Future[Generation]) -> None:
        self.asked, self.reply = asked, reply
        self.timer: asyncio.TimerHandle | None = None


class ScriptedEngine:
    """Answers with a function's texts.

    Args:
        reply: writes the texts.
        latency: of each reply, from when it has a place.
        capacity: requests that are answered at once; the others wait in line.
        install_s: seconds that installing a version takes.
        check_update: called with each update in the middle of its install, for example a transport's
            ``open``; what it raises leaves the version uninstalled.
        deaths: when it dies.

    Raises:
        ConfigError: a value is impossible.
    """

    def __init__(
        self,
        reply: ReplyFunction,
        *,
        latency: Latency | None = None,
        capacity: int = 64,
        install_s: float = 0.0,
        check_update: Callable[[WeightUpdate], object] | None = None,
        deaths: Deaths | None = None,
    ) -> None:
        if capacity < 1:
            raise ConfigError(f"capacity={capacity}: use 1 or more.")
        if not 0 <= install_s < math.inf:
            raise ConfigError(f"install_s={install_s}: use 0 or more seconds.")
        self._write = reply
        self._latency = latency or Latency()
        self._capacity = capacity
        self._install_s = install_s
        self._check_update = check_update or (lambda _: None)
        self._deaths = deaths or Deaths()
        self._versions: set[WeightVersion] = set()
        self._installed = 0
        self._waiting: deque[_Request] = deque()
        self._running: set[_Request] = set()
        self._ended = ""
        self._asleep = False
        self._meter = _Meter(capacity)

    @property
    def capabilities(self) -> Capabilities:
        """Seeded, with versions, without tokens."""
        return _CAPABILITIES

    @property
    def load(self) -> Load:
        """What it was asked until now."""
        return self._meter.load(len(self._running))

    async def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine.generate`."""
        self._require_open()
        if request.version is not None and request.version not in self._versions:
            raise UnknownVersionError(
                f"version {request.version} is not installed on the scripted engine, or was retired."
            )
        waiting = _Request(request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._start_waiting()
        try:
            async with asyncio.timeout(request.deadline_s) as limit:
                return await waiting.reply
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineError(
                f"the scripted engine gave no reply within {request.deadline_s:g} s; "
                f"{len(self._waiting)} requests wait for a place."
            ) from None
        finally:
            self._drop(waiting)

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """See `RepeatableEngine.generate_together`; the capacity holds here, too."""
        return await all_of(self.generate(request) for request in requests)

    async def install(self, update: WeightUpdate) -> None:
        """See `Engine.install`."""
        self._require_open()
        if update.version in self._versions:
            return
        await asyncio.sleep(self._install_s / 2)
        self._check_update(update)
        if self._installed == self._deaths.at_install:
            self.die("its settings end it in the middle of an install")
        await asyncio.sleep(self._install_s / 2)
        self._require_open()
        self._versions.add(update.version)
        self._installed += 1

    async def retire(self, version: WeightVersion) -> None:
        """See `Engine.retire`."""
        self._versions.discard(version)

    async def sleep(self) -> None:
        """See `Engine.sleep`: what has a place is answered, and nothing else gets one."""
        self._asleep = True

    async def wake(self) -> None:
        """See `Engine.wake`."""
        self._asleep = False
        self._start_waiting()

    async def close(self) -> None:
        """See `Engine.close`."""
        if not self._ended:
            self._end("is closed")

    def die(self, why: str) -> None:
        """End as an engine does that loses its process: nothing that waits is answered."""
        self._end(f"has died: {why}")

    def _end(self, ended: str) -> None:
        self._ended = ended
        for request in (*self._running, *self._waiting):
            if not request.reply.done():
                request.reply.set_exception(ModelError(f"the scripted engine {ended}."))

    def _require_open(self) -> None:
        if self._ended:
            raise ModelError(f"the scripted engine {self._ended}.")

    def _start_waiting(self) -> None:
        """Give free places to those that wait, in the order of arrival."""
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._running) < self._capacity and not self._asleep:
            request = self._waiting.popleft()
            self._meter.pass_time(len(self._running))
            self._running.add(request)
            delay_s = self._latency.seconds(request.asked.key)
            request.timer = loop.call_later(delay_s, self._answer, request)

    def _answer(self, request: _Request) -> None:
        if self._meter.replies == self._deaths.at_reply:
            self.die("its settings end it in the middle of a reply")
        if request.reply.done():
            return
        asked = request.asked
        try:
            text = self._write(asked)
        except Exception as error:  # noqa: BLE001 - foreign code: raised where it is awaited
            request.reply.set_exception(error)
            return
        self._meter.replies += 1
        request.reply.set_result(Generation(text=text, version=asked.version, finish="stop"))

    def _drop(self, request: _Request) -> None:
        """Give a request's place to others, answered or not."""
        if request.timer is not None:
            request.timer.cancel()
        if request in self._running:
            self._meter.pass_time(len(self._running))
            self._running.discard(request)
            if not self._ended:
                self._start_waiting()
        elif request in self._waiting:
            self._waiting.remove(request)


class _Meter:
    """Seconds with so many requests in flight."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._first_s: float | None = None
        self._last_s = 0.0
        self._busy_s = self._full_s = self._requests_s = 0.0
        self._most = 0
        self.replies = 0

    def pass_time(self, in_flight: int) -> None:
        """Book the time since the last look, in which so many were in flight."""
        now = time.perf_counter()
        if self._first_s is None:
            self._first_s = self._last_s = now
        passed_s, self._last_s = now - self._last_s, now
        self._busy_s += passed_s * (in_flight > 0)
        self._full_s += passed_s * (in_flight == self._capacity)
        self._requests_s += passed_s * in_flight
        self._most = max(self._most, in_flight)

    def load(self, in_flight: int) -> Load:
        self.pass_time(in_flight)
        wall_s = self._last_s - (self._first_s or 0.0)
        return Load(
            replies=self.replies,
            most_in_flight=self._most,
            wall_s=wall_s,
            busy_s=self._busy_s,
            full_s=self._full_s,
            occupancy=self._requests_s / (wall_s * self._capacity) if wall_s else 0.0,
        )


def key_uniform(key: Sequence[int]) -> float:
    """A number strictly between 0 and 1 that is a function of the key."""
    words = ",".join(map(str, key)).encode()
    whole = int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "big")
    return ((whole >> 11) + 0.5) / 2**53
