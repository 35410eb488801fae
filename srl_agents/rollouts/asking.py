"""Requests of matches to engines, with a deadline on every wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from srl_agents.engines.meter import EngineSpeed, MeteredEngine
from srl_agents.engines.protocol import Engine, Generation, RepeatableEngine
from srl_agents.engines.tasks import all_of
from srl_agents.records import WeightVersion
from srl_agents.rollouts.match import Ask
from srl_agents.rollouts.request_trace import RequestTrace
from srl_envs.errors import ConfigError, DeadlineError


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Prompt tokens of engines that report tokens, and seconds in which they were idle."""

    all: int = 0
    cached: int = 0
    """Prompt tokens among them whose keys and values were cached."""
    possible: int = 0
    """Tokens that a cache without limit, empty at the last call, would have had."""
    in_flight: float = 0.0
    """Requests that engines had at once, in the mean over the time in which they had any."""
    idle_s: float = 0.0
    """Seconds of play in which no engine was asked for anything: environments stepped."""
    speed: EngineSpeed = field(default_factory=EngineSpeed)
    """Speed that engines report, at the end of each play."""


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
        self._prompts: dict[WeightVersion | None, list[tuple[int, ...]]] = {}
        self._cached = 0
        self._asked = 0
        """Requests that have no reply yet."""
        self._playing = False
        self._since_s = 0.0
        """When the number of requests or the playing changed last."""
        self._idle_s = self._busy_s = self._request_s = 0.0
        self._engines: dict[int, Engine] = {}
        """Engines that were asked since `take_speeds`, by identity."""
        self._speed = EngineSpeed()

    def take_prompt_tokens(self) -> PromptTokens:
        """Prompt tokens of all replies since the last call."""
        self._pass()
        total = sum(len(prompt) for own in self._prompts.values() for prompt in own)
        least = sum(map(least_computed, self._prompts.values()))
        in_flight = self._request_s / self._busy_s if self._busy_s else 0.0
        taken = PromptTokens(
            total, self._cached, total - least, in_flight, self._idle_s, self._speed
        )
        self._speed = EngineSpeed()
        self._prompts, self._cached = {}, 0
        self._idle_s = self._busy_s = self._request_s = 0.0
        return taken

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Inside, matches are played; the trace is written at the end."""
        self._pass()
        self._playing = True
        try:
            yield
        finally:
            self._pass()
            self._playing = False
            if self._trace is not None:
                self._trace.write()

    async def take_speeds(self) -> None:
        """Ask the engines that were asked for replies how fast they were."""
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            if isinstance(engine, MeteredEngine):
                self._speed.merge(await engine.take_speed())

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
        async with (
            self._counted(len(asks)),
            _limit(engine, self._deadline_s * len(asks), len(asks)),
        ):
            replies = await engine.generate_together([ask.request for ask in asks])
        for ask, reply in zip(asks, replies, strict=True):
            self._book(asked_s, ask, reply)
        return replies

    async def _one(self, ask: Ask) -> Generation:
        asked_s = self._now_s()
        async with self._counted(1), _limit(ask.engine, self._deadline_s, 1):
            reply = await ask.engine.generate(ask.request)
        self._book(asked_s, ask, reply)
        return reply

    @asynccontextmanager
    async def _counted(self, requests: int) -> AsyncIterator[None]:
        self._pass()
        self._asked += requests
        try:
            yield
        finally:
            self._pass()
            self._asked -= requests

    def _pass(self) -> None:
        """Book the time since something changed."""
        now_s = time.monotonic()
        passed_s, self._since_s = now_s - self._since_s, now_s
        if self._asked:
            self._busy_s += passed_s
            self._request_s += passed_s * self._asked
        elif self._playing:
            self._idle_s += passed_s

    def _now_s(self) -> float:
        return 0.0 if self._trace is None else self._trace.now_s()

    def _book(self, asked_s: float, ask: Ask, reply: Generation) -> None:
        if self._trace is not None:
            self._trace.add(asked_s, ask.request, reply)
        if reply.prompt_ids:
            self._prompts.setdefault(reply.version, []).append(reply.prompt_ids)
        self._cached += reply.cached_tokens
        self._engines[id(ask.engine)] = ask.engine


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


def least_computed(prompts: Iterable[Sequence[int]]) -> int:
    """Tokens that a cache without limit computes: every different prefix once, and each prompt's last token.

    The last one has to pass, since the first token of a reply is drawn from what it gives.
    """
    least, before = 0, tuple[int, ...]()
    for prompt in sorted(tuple(prompt) for prompt in prompts):
        pairs = zip(before, prompt[:-1], strict=False)
        most = min(len(before), len(prompt) - 1)
        least += len(prompt) - next((n for n, (a, b) in enumerate(pairs) if a != b), most)
        before = prompt[:-1]
    return least
