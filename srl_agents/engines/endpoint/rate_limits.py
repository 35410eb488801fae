"""How fast a provider may be asked: token buckets for its requests and tokens per minute.

A bucket fills at the provider's rate and holds what comes in within `BURST_S`, at least one request. So in
any ``t`` seconds it lets through at most ``capacity + rate * t``, and one request more where a single one
is larger than the bucket.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

BURST_S = 1.0
"""Seconds of the rate that may be used at once."""
_MINUTE_S = 60.0
_TICK_S = 1e-6
"""Shorter waits are none: added to a time they might not change it."""

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


class Bucket:
    """One limit, as arithmetic on times that the caller passes in.

    Args:
        per_minute: units, above 0.
        now_s: the time at which it is made, full.
    """

    def __init__(self, per_minute: float, now_s: float) -> None:
        self.rate = per_minute / _MINUTE_S
        self.capacity = max(1.0, self.rate * BURST_S)
        self._level, self._at_s = self.capacity, now_s

    def wait_s(self, amount: float, now_s: float) -> float:
        """Seconds until ``amount`` may be taken; 0 if it may be now."""
        missing = min(amount, self.capacity) - self._filled(now_s)
        return max(0.0, missing / self.rate)

    def take(self, amount: float, now_s: float) -> None:
        """Take it; what is larger than the bucket leaves a debt that later ones wait for."""
        self._level, self._at_s = self._filled(now_s) - amount, max(now_s, self._at_s)

    def give_back(self, amount: float, now_s: float) -> None:
        """Put back what was taken and not used; a negative amount takes what was used beyond it."""
        level = self._filled(now_s) + amount
        self._level, self._at_s = min(self.capacity, level), max(now_s, self._at_s)

    def _filled(self, now_s: float) -> float:
        passed_s = max(0.0, now_s - self._at_s)
        return min(self.capacity, self._level + self.rate * passed_s)


class RateLimit:
    """The limits of one provider, shared by all of its models; first come, first served.

    Use it from one event loop.

    Args:
        requests_per_minute: None for no limit.
        tokens_per_minute: of prompts and replies together; None for no limit.
        clock: seconds that only grow.
        sleep: waits so many of them.
    """

    def __init__(
        self,
        requests_per_minute: float | None,
        tokens_per_minute: float | None,
        *,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        now_s = clock()
        self._requests = None if requests_per_minute is None else Bucket(requests_per_minute, now_s)
        self._tokens = None if tokens_per_minute is None else Bucket(tokens_per_minute, now_s)
        self._held_until_s = now_s
        self._turn = asyncio.Lock()

    async def admit(self, tokens: int) -> None:
        """Return when a request may be sent, and count it.

        Args:
            tokens: that it may take at most, as far as they can be counted before; see `settle`.
        """
        async with self._turn:
            while (wait_s := self._wait_s(tokens)) > _TICK_S:
                # in short steps: what others give back meanwhile counts
                await self._sleep(min(wait_s, BURST_S))
            now_s = self._clock()
            if self._requests is not None:
                self._requests.take(1, now_s)
            if self._tokens is not None:
                self._tokens.take(tokens, now_s)

    def settle(self, admitted: int, used: int) -> None:
        """Correct what a request took, once the provider has reported its count."""
        if self._tokens is not None:
            self._tokens.give_back(admitted - used, self._clock())

    def hold(self, seconds: float) -> None:
        """Admit no request for so long, because the provider demanded it."""
        self._held_until_s = max(self._held_until_s, self._clock() + seconds)

    def _wait_s(self, tokens: int) -> float:
        now_s = self._clock()
        waits = [self._held_until_s - now_s]
        if self._requests is not None:
            waits.append(self._requests.wait_s(1, now_s))
        if self._tokens is not None:
            waits.append(self._tokens.wait_s(tokens, now_s))
        return max(waits)
