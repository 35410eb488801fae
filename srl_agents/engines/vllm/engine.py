"""An engine on vLLM, a server's or this process's own: tokens in and out, adapters while it serves.

Each time that a version is loaded it gets a new name: vLLM 0.32 takes two adapters of one name for the same
one, in its batches and in its prefix cache, also after the first was unloaded. Where there are adapters, the
base replies through one of zeros: on a CPU, vLLM 0.32 takes a row without adapter, index -1, for one of the
last slot. A server that died is started again, gets its adapters back, and is asked again under the same
seed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from srl_agents.engines.meter import EngineSpeed
from srl_agents.engines.protocol import (
    Capabilities,
    Generation,
    GenerationRequest,
    SamplingSettings,
)
from srl_agents.engines.thinking import Piece, thinking_of, written_in_pieces
from srl_agents.engines.vllm.answers import BASE
from srl_agents.engines.vllm.handshake import Handshake
from srl_agents.engines.vllm.link import AdaptersLostError, VLLMLink
from srl_agents.engines.vllm.metrics import Counters, read_counters, speed_between
from srl_agents.engines.waiting import EVERY_S, Say, SilenceWatch, Waiting, to_stderr
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.probe import Probe
from srl_agents.own_folders import new_folder
from srl_agents.records import TensorHeader, WeightUpdate, WeightVersion
from srl_agents.tensor_files import save_tensors
from srl_envs.errors import ConfigError, DeadlineError, ModelError, UnknownVersionError

_PATIENCE_S = 600.0
"""Default deadline of one reply."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
"""Before a request is asked again: twice as long each time."""
_RETRY_S = 0.5
"""Before a vLLM that does not answer is asked what it serves again."""
_MOST_LOST = 5
"""Times that one request or one adapter is lost before the server is given up."""
_LOOK_S = 0.01
"""Seconds between two looks whether the last request has ended."""


def seed_of(key: tuple[int, ...]) -> int:
    """The server's seed for a request's key: equal keys, equal random numbers there."""
    text = ",".join(str(int(part)) for part in key)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedAdapters:
    """What the adapters of a served base are."""

    config: Mapping[str, Any]
    """PEFT's, as in ``adapter_config.json``."""
    tensors: tuple[TensorHeader, ...]
    """Tensors of every adapter. The server would load one that lacks some, and play something else."""


class VLLMEngine:
    """Samples replies on vLLM.

    Args:
        link: to vLLM; closed with the engine.
        chat: the served model's tokenizer and prompt.
        sampling: for requests that set none of their own.
        context_length: longest prompt and reply together, in tokens.
        adapters: what versions are made of; None serves only the base.
        open_update: the transport's `open`.
        max_versions: adapters that the server holds at once.
        folder: for the adapters' files, which vLLM reads, and for nothing else; what lies there goes. A
            temporary one if absent.
        concurrency: requests at the server at once; the others wait here.
        tells_cache: tell vLLM what its eviction can use, where that is `srl_agents.caching.vllm_policy`.
        probe: what vLLM is compared with in `open`, after each of its ends, and with every version that
            brings log-probabilities; None: it is not compared.
        start_timeout_s: for its first token, and to come back after its end.
        say: shows a line while it is waited for.
        say_every_s: between two such lines.
    """

    def __init__(
        self,
        link: VLLMLink,
        chat: ChatTokenizer,
        sampling: SamplingSettings,
        *,
        context_length: int,
        adapters: ServedAdapters | None = None,
        open_update: Callable[[WeightUpdate], Mapping[str, torch.Tensor]] | None = None,
        max_versions: int = 8,
        folder: Path | None = None,
        concurrency: int = 256,
        tells_cache: bool = False,
        probe: Probe | None = None,
        start_timeout_s: float = _PATIENCE_S,
        say: Say = to_stderr,
        say_every_s: float = EVERY_S,
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: use 1 or more.")
        self._link, self._place = link, link.place
        self._chat, self.sampling = chat, sampling
        self._thinking = thinking_of(chat)
        self._context_length = context_length
        self._adapters, self._open_update = adapters, open_update
        self._max_versions, self._tells_cache = max_versions, tells_cache
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)  # of an engine whose process was killed
            folder.mkdir(parents=True)
        self._folder = (folder or new_folder("adapters")).absolute()
        self._installed: dict[WeightVersion, str] = {}
        """Version -> its name at the server, which is that of its folder."""
        self._in_flight: Counter[WeightVersion] = Counter()
        self._retired: set[WeightVersion] = set()
        self._base = BASE
        """Name of the adapter that replies for the base: zeros, from the first install on."""
        self._slots = asyncio.Semaphore(concurrency)
        self._asked: set[asyncio.Task[Generation]] = set()
        """Requests at the server."""
        self._awake = asyncio.Event()
        self._awake.set()
        self._changes = asyncio.Lock()
        self._counters: Counters = {}
        """vLLM's counters at the last `take_speed`."""
        self._start_timeout_s, self._say, self._say_every_s = start_timeout_s, say, say_every_s
        self._silence = SilenceWatch(self._place, say, say_every_s)
        self._handshake = None
        if probe is not None:
            self._handshake = Handshake(
                link, probe, chat.decode, limit_s=start_timeout_s, say=say, every_s=say_every_s
            )
        self._expected: dict[str, tuple[float, ...]] = {}
        """Name at the server -> log-probabilities of the probe, where the trainer gave them."""
        self._proven = True
        """Whether it has answered since it was compared."""
        self._closed = False

    @property
    def capabilities(self) -> Capabilities:
        """See `Engine`."""
        return Capabilities(
            token_ids=True,
            logprobs=True,
            seeded=True,
            versions=self._adapters is not None,
            context_length=self._context_length,
            thoughts=True,
            memory=True,
        )

    async def open(self) -> None:
        """Compare vLLM with what is trained; call it once, from any event loop, before the first match.

        Raises:
            DeadlineError: it gave no reply in time.
            ModelError: it does not answer, or serves something else.
        """
        try:
            if self._handshake is not None:
                await self._handshake.greet()
                if self._adapters is not None:
                    await self._load_zeros(self._adapters)
        finally:
            await self._link.part()

    async def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine`."""
        version, started = request.version, time.monotonic()
        self._require(version)
        sampling = request.sampling or self.sampling
        longest = self._context_length - self._chat.reply_tokens(sampling.max_new_tokens)
        prompt = self._chat.encode_prompt(
            request.observation, request.examples, request.earlier, longest
        )
        if len(prompt) > longest:
            return Generation(text="", version=version, prompt_ids=prompt, finish="length")
        patience_s = _PATIENCE_S if request.deadline_s is None else request.deadline_s
        if version is not None:
            self._in_flight[version] += 1
        try:
            async with asyncio.timeout(patience_s):
                await self._awake.wait()
                async with self._slots, self._silence.request(patience_s):
                    asked = asyncio.create_task(
                        self._reply(prompt, request, sampling, started + patience_s)
                    )
                    self._asked.add(asked)
                    try:
                        return await asked
                    finally:
                        asked.cancel()
                        self._asked.discard(asked)
        except asyncio.CancelledError:
            self._require_open()  # it was `close` that cancelled
            raise
        except TimeoutError:
            raise DeadlineError(f"{self._place} gave no reply within {patience_s:g} s.") from None
        finally:
            if version is not None:
                self._in_flight[version] -= 1

    async def install(self, update: WeightUpdate) -> None:
        """See `Engine`."""
        version = update.version
        async with self._changes:
            self._require_open()
            if version in self._installed:
                self._retired.discard(version)
                return
            if self._adapters is None or self._open_update is None:
                raise ModelError(
                    f"{self._place} serves only the base; {version} cannot be installed."
                )
            if sorted(update.tensors, key=repr) != sorted(self._adapters.tensors, key=repr):
                raise ModelError(
                    f"{version}: its tensors are not those of an adapter on {self._place}; was it made "
                    "with another lora_rank or base?"
                )
            if len(self._installed) >= self._max_versions:
                raise ModelError(
                    f"{self._place} holds {len(self._installed)} versions, and max_versions is "
                    f"{self._max_versions}. Retire one first, or raise it: the server would evict one."
                )
            tensors = await asyncio.to_thread(self._open_update, update)
            if self._base == BASE:
                await self._load_zeros(self._adapters)
            name = f"{version}.{secrets.token_hex(4)}"
            if update.logprobs:
                self._expected[name] = update.logprobs
            await asyncio.to_thread(self._write, name, tensors, self._adapters.config)
            try:
                await self._load_surely(name)
            except BaseException:
                await asyncio.shield(self._unload(name))
                raise
            self._installed[version] = name

    async def retire(self, version: WeightVersion) -> None:
        """See `Engine`; the server unloads it when its last request was answered."""
        if version not in self._installed:
            return
        self._retired.add(version)
        while self._in_flight[version]:
            await asyncio.sleep(_LOOK_S)
        async with self._changes:
            if version in self._retired:  # it was not installed again meanwhile
                self._retired.discard(version)
                await self._unload(self._installed.pop(version))

    async def sleep(self) -> None:
        """See `Engine`; requests wait here while the server gives memory back."""
        self._require_open()
        self._awake.clear()
        while self._asked:
            await asyncio.sleep(_LOOK_S)
        await self._link.sleep()

    async def wake(self) -> None:
        """See `Engine`."""
        self._require_open()
        await self._link.wake()
        self._awake.set()

    async def take_speed(self) -> EngineSpeed:
        """See `MeteredEngine`; of everybody whom this vLLM answers."""
        after = read_counters(await self._link.metrics())
        before, self._counters = self._counters, after or self._counters
        return speed_between(before, self._counters)

    async def close(self) -> None:
        """See `Engine`."""
        if self._closed:
            return
        self._closed = True
        self._awake.set()
        for asked in self._asked:
            asked.cancel()
        async with self._changes:  # what is being loaded is then unloaded, too
            for name in (self._base, *self._installed.values()):
                if name != BASE:
                    await self._unload(name)
        shutil.rmtree(self._folder, ignore_errors=True)
        await self._link.close()

    # --- one reply ---------------------------------------------------------------------------

    async def _reply(
        self,
        prompt: tuple[int, ...],
        request: GenerationRequest,
        sampling: SamplingSettings,
        end: float,
    ) -> Generation:
        """A whole reply, its thoughts included."""

        async def sample(
            ids: tuple[int, ...], most: int, stops: tuple[str, ...], number: int
        ) -> Piece:
            seed = seed_of((*request.key, number) if number else request.key)
            settings = replace(sampling, max_new_tokens=most, stop=stops)
            return await self._sample(ids, request, settings, seed, end)

        return await written_in_pieces(
            self._chat, self._thinking, prompt, request, sampling=sampling, sample=sample
        )

    async def _sample(
        self,
        prompt: tuple[int, ...],
        request: GenerationRequest,
        sampling: SamplingSettings,
        seed: int,
        end: float,
    ) -> Piece:
        """Ask until all tokens come: a server that dies, or that aborts, is asked again."""
        pause_s, lost = 0.0, 0
        while True:
            await asyncio.sleep(pause_s)
            pause_s = min(max(2 * pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._require_open()
            version = request.version
            name = self._base if version is None else self._installed[version]
            try:
                left_s = end - time.monotonic()
                piece = await self._link.sample(
                    name,
                    prompt,
                    sampling,
                    seed,
                    left_s,
                    priority=round(request.priority),
                    cache_hints=_cache_hints(request, len(prompt)) if self._tells_cache else None,
                )
            except AdaptersLostError as error:
                lost += 1
                if lost > _MOST_LOST:
                    raise ModelError(
                        f"{self._place} lost one request {lost} times. {error} See its log."
                    ) from None
                self._lose(error)
                await self._restore()
                continue
            if piece is not None:
                return piece

    # --- the server --------------------------------------------------------------------------

    def _lose(self, error: AdaptersLostError) -> None:
        """Note that it has to be compared again before it answers."""
        if self._proven:
            self._proven = False
            self._say(f"{error} Waiting for it, at most {self._start_timeout_s:g} s")

    async def _restore(self) -> None:
        """Bring a server back that does not answer, or that lost its adapters."""
        async with self._changes:
            self._require_open()
            await self._bring_back()

    async def _bring_back(self) -> None:
        """Wait until it answers, compare it again, and load what it lost; the caller holds `_changes`.

        Raises:
            DeadlineError: it did not come back in time.
            ModelError: it cannot be started again, or serves something else now.
        """
        wait = Waiting(
            f"{self._place}, to come back", self._start_timeout_s, self._say, self._say_every_s
        )
        async with wait.said():
            while True:
                self._require_open()
                with suppress(AdaptersLostError, TimeoutError):
                    served = await self._link.revived(max(wait.left_s, _RETRY_S))
                    if served is not None:
                        await self._load_lost(served)
                        return
                if wait.left_s <= 0:
                    raise DeadlineError(
                        f"{self._place} stopped answering and did not come back within {wait.limit_s:g} s. "
                        "Start the server again."
                    )
                await asyncio.sleep(min(_RETRY_S, max(wait.left_s, 0.0)))

    async def _load_lost(self, served: set[str]) -> None:
        """Compare it with the probe where it was lost, and load the adapters that it does not list."""
        if not self._proven and self._handshake is not None:
            await self._handshake.greet()
        for name in (self._base, *self._installed.values()):
            if name not in served:
                await self._load(name)
        self._proven = True

    async def _load_zeros(self, adapters: ServedAdapters) -> None:
        """Load an adapter that changes nothing; the base replies through it from now on."""
        name = f"{BASE}.{secrets.token_hex(4)}"
        zeros = {header.name: torch.zeros(header.shape) for header in adapters.tensors}
        await asyncio.to_thread(self._write, name, zeros, adapters.config)
        if self._handshake is not None:
            self._expected[name] = self._handshake.base_logprobs
        await self._load_surely(name)
        self._base = name

    async def _load_surely(self, name: str) -> None:
        """Load a new adapter, also where the server ends meanwhile and comes back; holds `_changes`."""
        for _ in range(_MOST_LOST):
            try:
                await self._load(name)
                return
            except AdaptersLostError as error:
                self._lose(error)
                await self._bring_back()
        raise ModelError(
            f"{self._place} ended {_MOST_LOST} times while {_label(name)} was loaded. See its log."
        )

    async def _load(self, name: str) -> None:
        await self._link.load(name, self._folder / name)
        if self._handshake is not None and name in self._expected:
            others = {
                _label(other): logprobs
                for other, logprobs in self._expected.items()
                if other != name and not other.startswith(f"{BASE}.")
            }
            await self._handshake.require(_label(name), name, self._expected[name], others)

    async def _unload(self, name: str) -> None:
        self._expected.pop(name, None)
        await self._link.unload(name)
        shutil.rmtree(self._folder / name, ignore_errors=True)

    def _write(
        self,
        name: str,
        tensors: Mapping[str, torch.Tensor],
        config: Mapping[str, Any],
    ) -> None:
        """A folder that PEFT and vLLM load."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        save_tensors(dict(tensors), folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps(dict(config)))

    def _require(self, version: WeightVersion | None) -> None:
        self._require_open()
        if version is not None and (version not in self._installed or version in self._retired):
            raise UnknownVersionError(
                f"{version.label} ({version.digest}) is not installed on {self._place}; there are "
                f"{sorted(v.label for v in self._installed)}."
            )

    def _require_open(self) -> None:
        if self._closed:
            raise ModelError(f"the engine on {self._place} is closed.")


def _label(name: str) -> str:
    """How messages call an adapter, by its name at the server."""
    known = name.rpartition(".")[0]
    return known.rpartition("-")[0] or known


def _cache_hints(request: GenerationRequest, prompt_tokens: int) -> dict[str, Any]:
    """What `srl_agents.caching.vllm_policy` reads of a request."""
    return {
        "srl_session": "/".join(map(str, request.key[:-1])),
        "srl_turns_ahead": request.turns_ahead,
        "srl_prompt_tokens": prompt_tokens,
    }
