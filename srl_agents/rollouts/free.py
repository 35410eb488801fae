"""The order ``free``: one coroutine per match, and no match waits for the slowest.

Seeds, starts and random numbers are those of ``exact``. Which replies share a batch depends on when
they are asked for, so an engine whose batches round differently may reply otherwise. A reply that an
endpoint lost voids only its own match.
"""

from __future__ import annotations

import asyncio
from functools import partial

from srl_agents.engines.protocol import MatchEngine
from srl_agents.engines.tasks import task_group
from srl_agents.rollouts.asking import Asking
from srl_agents.rollouts.match import Match
from srl_agents.rollouts.match_queue import MatchQueue, Progress
from srl_agents.rollouts.steps import StepPool
from srl_envs.errors import LostReplyError


async def play_free(
    queue: MatchQueue, concurrency: int, steps: StepPool, asking: Asking, progress: Progress
) -> None:
    """Play all matches of the queue, at most ``concurrency`` of them live.

    A match is reported when it ends. The first failure cancels all that are live.
    """
    places = asyncio.Semaphore(concurrency)

    async def play(match: Match) -> None:
        try:
            await _play_one(queue, match, steps, asking)
            for engine in match.engines:
                if isinstance(engine, MatchEngine):
                    await engine.match_over(match.key)
            queue.done(match)
            progress(1)
        finally:
            places.release()

    async with task_group() as group:
        while True:
            await places.acquire()
            matches = queue.take(1)
            if not matches:
                return
            group.create_task(play(matches[0]))


async def _play_one(queue: MatchQueue, match: Match, steps: StepPool, asking: Asking) -> None:
    try:
        asks = await steps.step(match, match.begin)
        while asks:
            try:
                replies = await asking.one_by_one(asks)
            except LostReplyError as error:
                match.void(error)
                return
            written = {ask.seat: reply for ask, reply in zip(asks, replies, strict=True)}
            asks = await steps.step(match, partial(match.advance, written))
    except BaseException:
        queue.give_up(match)
        raise
