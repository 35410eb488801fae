"""Replies of engines to what matches wait for, with a deadline on every wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from srl_agents.engines.protocol import Engine, Generation, RepeatableEngine
from srl_agents.engines.tasks import all_of
from srl_agents.rollouts.match import Ask
from srl_agents.rollouts.request_trace import RequestTrace
from srl_envs.errors import ConfigError, DeadlineError


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """What engines that tell tokens were given to read."""

    all: int = 0
    cached: int = 0
    """Of them, tokens whose keys and values were there already."""


class Asking:
    """Asks engines.

    Args:
        deadline_s: for one reply, the wait for a place in the engine included; for replies that are
            asked for together, as many times that. Engines have their own, shorter as a rule.
        trace: keeps every request; None keeps none.

    Raises:
        ConfigError: it is not above 0.
    """

    def __init__(self, deadline_s: float, trace: RequestTrace | None = None) -> None:
        if not deadline_s > 0:
            raise ConfigError(f"reply_deadline_s={deadline_s}: use more than 0.")
        self._deadline_s, self._trace = deadline_s, trace
        self._prompts = PromptTokens()

    def take_prompt_tokens(self) -> PromptTokens:
        """Of all replies since the last call."""
        taken, self._prompts = self._prompts, PromptTokens()
        return taken

    async def one_by_one(self, asks: Sequence[Ask]) -> list[Generation]:
        """Replies in the order of ``asks``, each a request of its own.

        Raises:
            DeadlineError: an engine gave no reply in time.
        """
        return await all_of(self._one(ask) for ask in asks)

    async def together(self, asks: Sequence[Ask]) -> list[Generation]:
        """Replies in the order of ``asks``: one batch for each engine that takes batches.

        Raises:
            DeadlineError: an engine gave no reply in time.
        """
        places: dict[int, list[int]] = {}
        for place, ask in enumerate(asks):
            places.setdefault(id(ask.engine), []).append(place)
        groups = list(places.values())
        answered = await all_of(self._batch([asks[i] for i in group]) for group in groups)
        replies = dict[int, Generation]()
        for group, generations in zip(groups, answered, strict=True):
            replies.update(zip(group, generations, strict=True))
        return [replies[place] for place in range(len(asks))]

    async def _batch(self, asks: Sequence[Ask]) -> list[Generation]:
        """Replies of one engine."""
        engine = asks[0].engine
        if not isinstance(engine, RepeatableEngine):
            return await self.one_by_one(asks)
        asked_s = self._now_s()
        async with _limit(engine, self._deadline_s * len(asks), len(asks)):
            replies = await engine.generate_together([ask.request for ask in asks])
        for ask, reply in zip(asks, replies, strict=True):
            self._book(asked_s, ask, reply)
        return replies

    async def _one(self, ask: Ask) -> Generation:
        asked_s = self._now_s()
        async with _limit(ask.engine, self._deadline_s, 1):
            reply = await ask.engine.generate(ask.request)
        self._book(asked_s, ask, reply)
        return reply

    def write_trace(self) -> None:
        """Put what was asked since the last call on the disk."""
        if self._trace is not None:
            self._trace.write()

    def _now_s(self) -> float:
        return 0.0 if self._trace is None else self._trace.now_s()

    def _book(self, asked_s: float, ask: Ask, reply: Generation) -> None:
        if self._trace is not None:
            self._trace.add(asked_s, ask.request, reply)
        self._prompts = PromptTokens(
            self._prompts.all + len(reply.prompt_ids), self._prompts.cached + reply.cached_tokens
        )


@asynccontextmanager
async def _limit(engine: Engine, deadline_s: float, replies: int) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(deadline_s) as limit:
            yield
    except TimeoutError:
        if not limit.expired():  # the engine's own
            raise
        raise DeadlineError(
            f"{type(engine).__name__} gave {replies} replies not within {deadline_s:g} s: it hangs, or "
            "it is too slow for so many matches at once; raise the deadline or lower the concurrency."
        ) from None
