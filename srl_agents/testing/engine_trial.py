"""An engine under test, with a deadline on every wait of the checks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from srl_agents.engines.protocol import Engine, Generation, GenerationRequest
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.testing.advice import require
from srl_envs.errors import UnknownVersionError
from srl_envs.testing import ConformanceError

T = TypeVar("T")


@dataclass(slots=True)
class Trial:
    """What the checks of one engine share; see `check_engine` for the fields."""

    make: Callable[[], Engine]
    updates: tuple[WeightUpdate, ...]
    broken: tuple[WeightUpdate, ...]
    requests: int
    patience_s: float
    engine_name: str = "the engine"
    _engine: Engine | None = field(default=None, init=False)

    @property
    def engine(self) -> Engine:
        """The engine of the check that runs."""
        if self._engine is None:
            raise RuntimeError("no check runs.")
        return self._engine

    def takes_versions(self) -> bool:
        """Whether the engine reports that it takes versions."""

        async def ask() -> bool:
            async with self.opened() as engine:
                return engine.capabilities.versions

        return asyncio.run(ask())

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Engine]:
        """A new engine, closed at the end."""
        self._engine = engine = self.make()
        self.engine_name = type(engine).__name__
        require(isinstance(engine, Engine), "a method of `Engine` is missing")
        try:
            yield engine
        finally:
            self._engine = None
            with suppress(asyncio.TimeoutError):
                async with asyncio.timeout(self.patience_s):
                    await engine.close()

    def ask(
        self,
        number: int,
        version: WeightVersion | None = None,
        *,
        deadline_s: float | None = None,
        observation: str | None = None,
    ) -> GenerationRequest:
        """Request number so and so; equal arguments give equal requests."""
        if observation is None:
            observation = f"Position {number}. Reply with <action>NUMBER</action>."
        return GenerationRequest(
            observation=observation,
            version=version,
            key=(7, number, number % 2, 0),
            deadline_s=deadline_s,
        )

    def asks(self, version: WeightVersion | None = None) -> list[GenerationRequest]:
        """Many requests."""
        return [self.ask(number, version) for number in range(self.requests)]

    async def within(self, work: Awaitable[T], what: str) -> T:
        """The result of ``work``, which must come."""
        try:
            async with asyncio.timeout(self.patience_s) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
        raise ConformanceError(f"{what} did not end within {self.patience_s:g} s")

    async def reply(self, request: GenerationRequest, what: str = "a request") -> Generation:
        """One reply, which must come and name its version."""
        given = await self.within(self.engine.generate(request), what)
        require(
            given.version == request.version,
            f"{what} for version {request.version} was answered by {given.version}",
        )
        return given

    async def replies(
        self, requests: Sequence[GenerationRequest], what: str = "requests at once"
    ) -> list[Generation]:
        """All replies to requests that are asked at once."""
        return list(await asyncio.gather(*(self.reply(r, what) for r in requests)))

    def start(self, requests: Sequence[GenerationRequest]) -> list[asyncio.Task[Generation]]:
        """Send a request without waiting for its reply."""
        return [asyncio.ensure_future(self.engine.generate(request)) for request in requests]

    async def install(self, update: WeightUpdate) -> None:
        """Install a version, which must end."""
        await self.within(self.engine.install(update), f"installing {update.version}")

    async def playable(self, version: WeightVersion) -> bool:
        """Whether requests for a version are taken."""
        try:
            await self.reply(self.ask(0, version), f"a request for {version}")
        except UnknownVersionError:
            return False
        return True

    def require_same(
        self, given: Sequence[Generation], expected: Sequence[Generation], what: str
    ) -> None:
        """Require equal texts and tokens where the engine reports that it is seeded."""
        require(
            len(given) == len(expected), f"{what}: {len(given)} of {len(expected)} replies came"
        )
        if not self.engine.capabilities.seeded:
            return
        for number, (one, other) in enumerate(zip(given, expected, strict=True)):
            require(
                (one.text, one.token_ids) == (other.text, other.token_ids),
                f"{what}: request {number} got {one.text!r}, and {other.text!r} before",
            )
