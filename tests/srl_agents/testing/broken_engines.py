"""Engines with one fault each; a docstring begins with the check that must find it."""

from __future__ import annotations

import asyncio
import itertools
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch

from srl_agents.engines.protocol import Capabilities, Generation, GenerationRequest
from srl_agents.engines.scripted import Latency, ScriptedEngine, key_uniform
from srl_agents.records import WeightUpdate, WeightVersion
from srl_envs.errors import ModelError

CAPACITY = 5


def numbered(request: GenerationRequest) -> str:
    """A number that is a function of the key and the version."""
    version = 0 if request.version is None else request.version.number
    return f"<action>{int(key_uniform((*request.key, version)) * 10**6)}</action>"


class Sound(ScriptedEngine):
    """Keeps every promise."""

    def __init__(self) -> None:
        super().__init__(
            numbered,
            latency=Latency(kind="lognormal", median_s=0.001),
            capacity=CAPACITY,
            install_s=0.004,
            check_update=_refuse_without_handle,
        )


def _refuse_without_handle(update: WeightUpdate) -> None:
    if not update.handle:
        raise ModelError(f"{update.version} has no handle.")


class ClaimsTokens(Sound):
    """capabilities: claims to report tokens, and reports none."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, token_ids=True)


class TellsTokens(Sound):
    """capabilities: reports tokens although it claims not to."""

    async def generate(self, request: GenerationRequest) -> Generation:
        return replace(await super().generate(request), token_ids=(1, 2))


class LogprobsAboveZero(Sound):
    """capabilities: log-probabilities above 0."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, token_ids=True, logprobs=True)

    async def generate(self, request: GenerationRequest) -> Generation:
        given = await super().generate(request)
        return replace(given, prompt_ids=(1,), token_ids=(1, 2), logprobs=(-0.5, 0.5))


class RefusesLongPrompts(Sound):
    """no_room: raises where the prompt fills the context."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, context_length=64)

    async def generate(self, request: GenerationRequest) -> Generation:
        if len(request.observation.split()) > 64:
            raise ModelError("too long")
        return await super().generate(request)


class DrawsFromAStream(Sound):
    """equal_requests: its random numbers depend on what it was asked before."""

    def __init__(self) -> None:
        super().__init__()
        self._count = itertools.count()

    async def generate(self, request: GenerationRequest) -> Generation:
        return await super().generate(replace(request, key=(next(self._count),)))


class BatchesOutOfOrder(Sound):
    """batches: replies in the order in which they became ready."""

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return (await super().generate_together(requests))[::-1]


class BatchesRound(Sound):
    """batches: equal batches get other log-probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self._count = itertools.count()

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        noise = -1e-9 * next(self._count)
        given = await super().generate_together(requests)
        return [replace(one, logprobs=(noise,)) for one in given]


class PlaysTheNewest(Sound):
    """versions: whatever a request names, the last installed version writes."""

    newest: WeightVersion | None = None

    async def install(self, update: WeightUpdate) -> None:
        await super().install(update)
        self.newest = update.version

    async def generate(self, request: GenerationRequest) -> Generation:
        given = await super().generate(request)
        if request.version is None or self.newest is None:
            return given
        return replace(given, text=numbered(replace(request, version=self.newest)))


class PlaysUnknownVersions(Sound):
    """versions: takes requests for what was never installed."""

    async def generate(self, request: GenerationRequest) -> Generation:
        given = await super().generate(replace(request, version=None))
        return replace(given, version=request.version)


class SwapsUnderLoad(Sound):
    """install_under_load: requests in flight are answered with the new weights."""

    async def generate(self, request: GenerationRequest) -> Generation:
        before = set(self._versions)
        given = await super().generate(request)
        new = self._versions - before
        if request.version is None or not before or not new:
            return given
        return replace(given, text=numbered(replace(request, version=new.pop())))


class HalfInstalled(Sound):
    """interrupted_install: a version that is cut off in the middle plays, with half of its weights."""

    def __init__(self) -> None:
        super().__init__()
        self._half: set[WeightVersion] = set()

    async def install(self, update: WeightUpdate) -> None:
        known = update.version in self._versions
        self._versions.add(update.version)
        self._half.add(update.version)
        if not known:
            await asyncio.sleep(0.004)
            _refuse_without_handle(update)
        self._half.discard(update.version)

    async def generate(self, request: GenerationRequest) -> Generation:
        given = await super().generate(request)
        return replace(given, text="half") if request.version in self._half else given


class KeepsRefusedVersions(Sound):
    """interrupted_install: an update that is refused stays playable."""

    async def install(self, update: WeightUpdate) -> None:
        try:
            await super().install(update)
        except ModelError:
            self._versions.add(update.version)
            raise


class KeepsCancelledPlaces(Sound):
    """cancellation: what is cancelled keeps its place."""

    def _drop(self, request: object) -> None:
        if not request.reply.cancelled():  # type: ignore[attr-defined]
            super()._drop(request)  # type: ignore[arg-type]


class ShedsLoad(Sound):
    """back_pressure: refuses what finds no place in a short line."""

    async def generate(self, request: GenerationRequest) -> Generation:
        if len(self._waiting) > 6 * CAPACITY:
            raise ModelError("busy")
        return await super().generate(request)


class IgnoresDeadlines(Sound):
    """deadlines: waits without end."""

    async def generate(self, request: GenerationRequest) -> Generation:
        return await super().generate(replace(request, deadline_s=None))


class DropsTheRetired(Sound):
    """retire: refuses what is in flight."""

    async def generate(self, request: GenerationRequest) -> Generation:
        await super().generate(request)
        return await super().generate(request)


class NeverRetires(Sound):
    """retire: a retired version plays on."""

    async def retire(self, version: WeightVersion) -> None:
        """Nothing."""


class ForgetsTheReinstalled(Sound):
    """retire: a version that comes back while it retires goes all the same."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: Counter[WeightVersion] = Counter()
        self._going: set[WeightVersion] = set()

    async def retire(self, version: WeightVersion) -> None:
        if self._asked[version]:
            self._going.add(version)
        await super().retire(version)

    async def generate(self, request: GenerationRequest) -> Generation:
        version = request.version
        if version is None:
            return await super().generate(request)
        self._asked[version] += 1
        try:
            return await super().generate(request)
        finally:
            self._asked[version] -= 1
            if version in self._going and not self._asked[version]:
                self._going.discard(version)
                await super().retire(version)


class LosesCompanyOfTheCancelled(Sound):
    """cancellation: cancelling one request cancels its batch, too."""

    def __init__(self) -> None:
        super().__init__()
        self._cancelled = 0

    async def generate(self, request: GenerationRequest) -> Generation:
        self._cancelled = 0
        try:
            given = await super().generate(request)
        except asyncio.CancelledError:
            self._cancelled += 1
            raise
        if self._cancelled == 1:
            raise ModelError("gone with another")
        return given


class ForgetsWhatSleeps(Sound):
    """sleep: what waits is lost."""

    async def sleep(self) -> None:
        await super().sleep()
        self._waiting.clear()


class ClosesTwice(Sound):
    """close: the second time raises."""

    async def close(self) -> None:
        if self._ended:
            raise RuntimeError("already closed")
        await super().close()


class LeavesWaiters(Sound):
    """close: what waits is never answered."""

    def _end(self, ended: str) -> None:
        self._ended = ended


class OpenAfterClose(Sound):
    """close: takes versions afterwards."""

    async def close(self) -> None:
        await super().close()
        self._ended = ""


class KeepsItsWeights(Sound):
    """close_frees: tensors stay."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.zeros(1024)


class LeavesAThread(Sound):
    """close_frees: a thread goes on."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=threading.Event().wait, args=(20,), daemon=True).start()


class LeavesASocket(Sound):
    """close_frees: a socket stays open."""

    def __init__(self) -> None:
        super().__init__()
        self.listener = socket.socket()

    def __del__(self) -> None:
        self.listener.close()


class LeavesAProcess(Sound):
    """close_frees: a child process goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.child = subprocess.Popen(["sleep", "20"])

    def __del__(self) -> None:
        self.child.kill()
        self.child.wait()
