"""Limits per minute, on a clock that the tests move."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.engines.endpoint.rate_limits import BURST_S, Bucket, RateLimit

RATES = st.floats(1, 6000, allow_nan=False)
EPSILON = 1e-2


class VirtualTime:
    """A clock that jumps to the next sleeper as soon as no other task has anything to do."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        until = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now_s + max(seconds, 0.0), next(self._order), until))
        await until

    async def run(self, *work: asyncio.Task[object]) -> None:
        while not all(task.done() for task in work):
            for _ in range(20):
                await asyncio.sleep(0)
            if self._sleepers and not all(task.done() for task in work):
                self.now_s, _, until = heapq.heappop(self._sleepers)
                if not until.done():
                    until.set_result(None)


def admitted(
    requests: Sequence[tuple[float, int]], rpm: float | None, tpm: float | None
) -> list[tuple[float, int]]:
    """(time, tokens) of each request, in the order in which they were let through."""
    virtual = VirtualTime()
    limit = RateLimit(rpm, tpm, clock=virtual.clock, sleep=virtual.sleep)
    through: list[tuple[float, int]] = []

    async def ask(at_s: float, tokens: int) -> None:
        await virtual.sleep(at_s)
        await limit.admit(tokens)
        through.append((virtual.now_s, tokens))

    async def all_requests() -> None:
        await virtual.run(*(asyncio.ensure_future(ask(*request)) for request in requests))

    asyncio.run(all_requests())
    return through


@settings(max_examples=25)
@given(
    requests=st.lists(st.tuples(st.floats(0, 30), st.integers(1, 500)), min_size=1, max_size=12),
    rpm=RATES,
    tpm=st.floats(60, 60_000),
)
def test_no_stretch_of_time_has_more_than_the_bucket_and_its_rate_allow(
    requests: list[tuple[float, int]], rpm: float, tpm: float
) -> None:
    through = admitted(requests, rpm, tpm)
    assert len(through) == len(requests)
    for first, last in itertools.combinations_with_replacement(range(len(through)), 2):
        stretch = through[first : last + 1]
        seconds = stretch[-1][0] - stretch[0][0]
        assert len(stretch) <= max(1, rpm / 60 * BURST_S) + rpm / 60 * seconds + EPSILON
        # the last one may be larger than the bucket, and leaves a debt
        before = sum(tokens for _, tokens in stretch[:-1])
        assert before <= max(1, tpm / 60 * BURST_S) + tpm / 60 * seconds + EPSILON


@settings(max_examples=25)
@given(count=st.integers(1, 10), rpm=RATES)
def test_a_busy_provider_is_asked_at_its_full_rate(count: int, rpm: float) -> None:
    """Fails for a bucket that fills too slowly, or loses parts of requests."""
    through = admitted([(0.0, 1)] * count, rpm, None)
    burst = max(1.0, rpm / 60 * BURST_S)
    assert through[-1][0] <= max(0.0, count - burst) * 60 / rpm + EPSILON


@given(taken=st.integers(1, 1000), used=st.integers(0, 1000), tpm=st.floats(60, 6000))
def test_what_was_not_used_is_given_back(taken: int, used: int, tpm: float) -> None:
    corrected, exact = Bucket(tpm, 0.0), Bucket(tpm, 0.0)
    corrected.take(taken, 0.0)
    corrected.give_back(taken - used, 0.0)
    exact.take(used, 0.0)
    assert corrected.wait_s(50, 0.0) == pytest.approx(exact.wait_s(50, 0.0))


def test_models_of_one_provider_wait_while_it_asks_for_a_pause() -> None:
    virtual = VirtualTime()
    limit = RateLimit(None, None, clock=virtual.clock, sleep=virtual.sleep)
    limit.hold(7.0)
    limit.hold(3.0)  # a shorter one does not end it

    async def both() -> None:
        await virtual.run(*(asyncio.ensure_future(limit.admit(1)) for _ in range(2)))

    asyncio.run(both())
    assert virtual.now_s == pytest.approx(7.0)
