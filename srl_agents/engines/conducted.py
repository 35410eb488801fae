"""Several engines as one: a conductor picks the engine that writes a reply, and all hold every version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence

from srl_agents.caching.conductor import Conductor, Placed
from srl_agents.caching.objectives import Objectives
from srl_agents.caching.placement import CAPACITY
from srl_agents.engines.meter import EngineSpeed, MeteredEngine
from srl_agents.engines.protocol import Capabilities, Engine, Generation, GenerationRequest
from srl_agents.engines.tasks import all_of
from srl_agents.records import WeightUpdate, WeightVersion
from srl_envs.errors import DeadlineError, ModelError


class ConductedEngine:
    """Instances with equal capabilities, each with a prefix cache of its own.

    An instance that fails a request that another one answers is not asked again; its requests go to others.

    Args:
        instances: engines; closed with this one.
        blocks_of: names of the blocks of a request's prompt, each covering all before it.
        places: requests that one instance works on at once.
        capacity: see `Conductor`; None stands for unlimited.
        reply_blocks: of a request's reply, at most.
        objectives: see `Conductor`.
    """

    def __init__(
        self,
        instances: Sequence[Engine],
        blocks_of: Callable[[GenerationRequest], Sequence[Hashable]],
        *,
        places: int,
        capacity: Sequence[int] | None = None,
        reply_blocks: Callable[[GenerationRequest], int] = lambda _: 1,
        objectives: Objectives | None = None,
    ) -> None:
        self._instances, self._blocks_of = tuple(instances), blocks_of
        self._reply_blocks = reply_blocks
        count = len(self._instances)
        self._conductor = Conductor(
            count,
            places=places,
            capacity=capacity or [CAPACITY] * count,
            objectives=objectives,
        )
        self._begun: dict[Placed, asyncio.Event] = {}

    @property
    def capabilities(self) -> Capabilities:
        """See `Engine`."""
        return self._instances[0].capabilities

    async def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine`; another instance is asked where one fails."""
        blocks, room = self._blocks_of(request), self._reply_blocks(request)
        failed: set[int] = set()
        while True:
            placed = self._conductor.place(blocks, request.priority, failed, room)
            try:
                async with asyncio.timeout(request.deadline_s):
                    reply = await self._at(placed, request)
            except TimeoutError:
                raise DeadlineError(
                    f"no reply of {len(self._conductor.alive)} engines within {request.deadline_s} s. Allow "
                    "more, or ask for fewer at once."
                ) from None
            except ModelError:
                failed.add(placed.instance)
                if failed.issuperset(self._conductor.alive):
                    raise
                continue
            for instance in failed:
                self._conductor.lose(instance)
            return reply

    async def install(self, update: WeightUpdate) -> None:
        """See `Engine`; on every instance that is alive."""
        await all_of(instance.install(update) for instance in self._alive())

    async def retire(self, version: WeightVersion) -> None:
        """See `Engine`."""
        await all_of(instance.retire(version) for instance in self._alive())

    async def sleep(self) -> None:
        """See `Engine`."""
        await all_of(instance.sleep() for instance in self._alive())

    async def wake(self) -> None:
        """See `Engine`."""
        await all_of(instance.wake() for instance in self._alive())

    async def take_speed(self) -> EngineSpeed:
        """See `MeteredEngine`; of all instances together."""
        together = EngineSpeed(conducted=self._conductor.take_done())
        for instance in self._alive():
            if isinstance(instance, MeteredEngine):
                together.merge(await instance.take_speed())
        return together

    async def close(self) -> None:
        """See `Engine`."""
        await all_of(instance.close() for instance in self._instances)

    def _alive(self) -> list[Engine]:
        return [self._instances[number] for number in self._conductor.alive]

    async def _at(self, placed: Placed, request: GenerationRequest) -> Generation:
        """The reply, once the instance has a place for it."""
        begun = self._begun[placed] = asyncio.Event()
        tokens = 0
        try:
            self._start(placed.instance)
            await begun.wait()
            reply = await self._instances[placed.instance].generate(request)
            tokens = len(reply.token_ids)
            return reply
        finally:
            self._begun.pop(placed, None)
            self._conductor.end(placed, tokens)
            self._start(placed.instance)

    def _start(self, instance: int) -> None:
        for placed in self._conductor.take(instance):
            self._begun[placed].set()
