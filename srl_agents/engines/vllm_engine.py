"""An engine on a vLLM server: tokens in, tokens and log-probabilities out, adapters while it serves.

Each time that a version is loaded it gets a new name: vLLM 0.32 takes two adapters of one name for the same
one, in its batches and in its prefix cache, also after the first was unloaded. Where there are adapters, the
base replies through one of zeros: on a CPU, vLLM 0.32 takes a row without adapter, index -1, for one of the
last slot. A server that died is started again, gets its adapters back, and is asked again under the same
seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import torch
from safetensors.torch import save_file

from srl_agents.engines.protocol import (
    Capabilities,
    Generation,
    GenerationRequest,
    SamplingSettings,
)
from srl_agents.engines.thinking import Piece, thinking_of, written_in_pieces
from srl_agents.engines.vllm_server import BASE, VLLMServer
from srl_agents.models.chat import ChatTokenizer
from srl_agents.records import TensorHeader, WeightUpdate, WeightVersion
from srl_envs.errors import ConfigError, DeadlineError, ModelError, UnknownVersionError

_GENERATE, _LOAD, _UNLOAD = (
    "/inference/v1/generate",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
)
_QUOTED = 300
"""Characters of a server's own words in our messages."""
_PATIENCE_S = 600.0
"""For one reply, where a request says nothing else."""
_CONTROL_S = 60.0
"""For loading or unloading an adapter, and for sleeping."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
"""Before a request is asked again: twice as long each time."""
_ROUNDING = 1e-3
"""How far above 0 rounding may put the log-probability of a sure token."""
_LOOK_S = 0.01
"""Between two looks whether the last request has ended."""


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
    """Of every adapter. The server would load one that lacks some, and play something else."""


class VLLMEngine:
    """Samples replies on a vLLM server.

    Args:
        server: that was started, or the address of one that somebody else started as ``srl serve`` does.
        chat: the served model's tokenizer and prompt.
        sampling: where a request says nothing else.
        context_length: longest prompt and reply together, in tokens.
        adapters: what versions are made of; None serves the base alone.
        open_update: the transport's `open`.
        max_versions: adapters that the server holds at once.
        concurrency: requests at the server at once; the others wait here.
        ends_server: `close` ends the server, too.
    """

    def __init__(
        self,
        server: VLLMServer | str,
        chat: ChatTokenizer,
        sampling: SamplingSettings,
        *,
        context_length: int,
        adapters: ServedAdapters | None = None,
        open_update: Callable[[WeightUpdate], Mapping[str, torch.Tensor]] | None = None,
        max_versions: int = 8,
        concurrency: int = 256,
        ends_server: bool = False,
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: use 1 or more.")
        self._server = server if isinstance(server, VLLMServer) else None
        self._url = server.url if isinstance(server, VLLMServer) else server.rstrip("/")
        self._chat, self.sampling = chat, sampling
        self._thinking = thinking_of(chat)
        self._context_length = context_length
        self._adapters, self._open_update = adapters, open_update
        self._max_versions = max_versions
        self._concurrency, self._ends_server = concurrency, ends_server
        self._folder = Path(tempfile.mkdtemp(prefix="srl-adapters-"))
        self._installed: dict[WeightVersion, str] = {}
        """Version -> its name at the server, which is that of its folder."""
        self._in_flight: Counter[WeightVersion] = Counter()
        self._retired: set[WeightVersion] = set()
        self._base = BASE
        """What replies for the base: an adapter of zeros from the first install on."""
        self._client: httpx2.AsyncClient | None = None
        self._slots = asyncio.Semaphore(concurrency)
        self._asked: set[asyncio.Task[Generation]] = set()
        """Requests at the server."""
        self._awake = asyncio.Event()
        self._awake.set()
        self._changes = asyncio.Lock()
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
                async with self._slots:
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
            raise DeadlineError(f"{self._url} gave no reply within {patience_s:g} s.") from None
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
                    f"{self._url} serves the base alone; {version} cannot be installed."
                )
            if sorted(update.tensors, key=repr) != sorted(self._adapters.tensors, key=repr):
                raise ModelError(
                    f"{version}: its tensors are not those of an adapter on {self._url}; was it made "
                    "with another lora_rank or base?"
                )
            if len(self._installed) >= self._max_versions:
                raise ModelError(
                    f"{self._url} holds {len(self._installed)} versions, and max_versions is "
                    f"{self._max_versions}. Retire one first, or raise it: the server would evict one."
                )
            tensors = await asyncio.to_thread(self._open_update, update)
            if self._base == BASE:
                self._base = await self._add_zeros(self._adapters)
            name = f"{version}.{secrets.token_hex(4)}"
            await asyncio.to_thread(self._write, name, tensors, self._adapters.config)
            try:
                await self._load(name)
            except BaseException:
                await asyncio.shield(self._unload(name))
                raise
            self._installed[version] = name

    async def retire(self, version: WeightVersion) -> None:
        """See `Engine`; the server forgets it when its last request was answered."""
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
        await self._call("/sleep", None, {"level": 1})

    async def wake(self) -> None:
        """See `Engine`."""
        self._require_open()
        await self._call("/wake_up", None)
        self._awake.set()

    async def close(self) -> None:
        """See `Engine`; a server that was given by its address goes on."""
        if self._closed:
            return
        self._closed = True
        self._awake.set()
        for asked in self._asked:
            asked.cancel()
        for name in (self._base, *self._installed.values()):
            if name != BASE:
                await self._unload(name)
        if self._client is not None:
            await self._client.aclose()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._server is not None and self._ends_server:
            await asyncio.to_thread(self._server.close)

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
            return await self._sample(ids, request.version, settings, seed, end)

        return await written_in_pieces(
            self._chat, self._thinking, prompt, request, sampling=sampling, sample=sample
        )

    async def _sample(
        self,
        prompt: tuple[int, ...],
        version: WeightVersion | None,
        sampling: SamplingSettings,
        seed: int,
        end: float,
    ) -> Piece:
        """Ask until all tokens come: a server that dies, or that aborts, is asked again."""
        body = {
            "token_ids": list(prompt),
            "output_mode": "tokens",
            "sampling_params": {
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "min_p": sampling.min_p,
                "max_tokens": sampling.max_new_tokens,
                "stop": list(sampling.stop),
                "include_stop_str_in_output": True,
                "logprobs": 0,
                "seed": seed,
            },
        }
        pause_s = 0.0
        while True:
            await asyncio.sleep(pause_s)
            pause_s = min(max(2 * pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._require_open()
            name = self._base if version is None else self._installed[version]
            try:
                found = await self._http().post(
                    _GENERATE, json={"model": name, **body}, timeout=end - time.monotonic()
                )
            except httpx2.TimeoutException:
                raise TimeoutError from None
            except httpx2.TransportError:
                await self._restore()
                continue
            if found.status_code == httpx2.codes.NOT_FOUND:
                await self._restore()  # it was started again by somebody else, without our adapters
                continue
            if found.status_code >= httpx2.codes.INTERNAL_SERVER_ERROR and self._server is not None:
                await self._restore()  # its engine died, and the process ends soon
                continue
            if found.status_code != httpx2.codes.OK:
                raise ModelError(
                    f"{self._url} answered {found.status_code}: {found.text[:_QUOTED]}"
                )
            piece = self._read(found, name, prompt, sampling)
            if piece is not None:
                return piece

    def _read(
        self,
        found: httpx2.Response,
        name: str,
        prompt: tuple[int, ...],
        sampling: SamplingSettings,
    ) -> Piece | None:
        """The tokens in an answer; None if the server cut them off.

        Raises:
            ModelError: the answer is none of a reply to this request.
        """
        try:
            answer = found.json()
            choice = answer["choices"][0]
            finish, tokens = choice["finish_reason"], choice["token_ids"]
            if finish == "abort":
                return None
            told = [entry["logprob"] for entry in choice["logprobs"]["content"]]
            drawn = [entry["token_id"] for entry in choice["logprobs"]["content"]] if tokens else []
            details = answer["usage"].get("prompt_tokens_details") or {}
            sound = (
                finish in ("stop", "length")
                and answer["model"] == name
                and all(type(token) is int and token >= 0 for token in tokens)
                and 1 <= len(tokens) <= sampling.max_new_tokens
                and drawn == tokens
                and all(isinstance(value, float | int) and value <= _ROUNDING for value in told)
                and answer["usage"]["prompt_tokens"] == len(prompt)
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            sound = False
        if not sound:
            raise ModelError(
                f"{self._url} answered with something else than a reply of {name}: {found.text[:_QUOTED]!r}"
            )
        return Piece(
            token_ids=tuple(tokens),
            logprobs=tuple(min(float(value), 0.0) for value in told),
            finish=finish,
            cached_tokens=int(details.get("cached_tokens") or 0),
        )

    # --- the server --------------------------------------------------------------------------

    async def _restore(self) -> None:
        """Bring a server back that does not answer, or that lost its adapters."""
        async with self._changes:
            self._require_open()
            if self._server is not None:
                await asyncio.to_thread(self._server.revive)
            try:
                listed = await self._http().get("/v1/models", timeout=_CONTROL_S)
                served = {model["id"] for model in listed.json()["data"]}
            except httpx2.TransportError:
                await asyncio.sleep(0.5)  # of somebody else's; whoever asks has a deadline
                return
            for name in (self._base, *self._installed.values()):
                if name not in served:
                    await self._load(name)

    async def _add_zeros(self, adapters: ServedAdapters) -> str:
        """Load an adapter that changes nothing; returns its name."""
        name = f"{BASE}.{secrets.token_hex(4)}"
        zeros = {header.name: torch.zeros(header.shape) for header in adapters.tensors}
        await asyncio.to_thread(self._write, name, zeros, adapters.config)
        await self._load(name)
        return name

    async def _load(self, name: str) -> None:
        await self._call(_LOAD, {"lora_name": name, "lora_path": str(self._folder / name)})

    async def _unload(self, name: str) -> None:
        """Let the server forget an adapter; one that is gone or does not answer has forgotten it."""
        with contextlib.suppress(ModelError, DeadlineError):
            await self._call(_UNLOAD, {"lora_name": name})
        shutil.rmtree(self._folder / name, ignore_errors=True)

    async def _call(
        self, path: str, body: Any, parameters: Mapping[str, Any] | None = None
    ) -> None:
        try:
            found = await self._http().post(
                path, json=body, params=dict(parameters or {}), timeout=_CONTROL_S
            )
        except httpx2.TimeoutException:
            raise DeadlineError(
                f"{self._url}{path} gave no answer within {_CONTROL_S:g} s."
            ) from None
        except httpx2.TransportError as error:
            raise ModelError(f"{self._url} does not answer: {error}") from None
        if found.status_code != httpx2.codes.OK:
            raise ModelError(
                f"{self._url}{path} answered {found.status_code}: {found.text[:_QUOTED]}"
            )

    def _write(
        self,
        name: str,
        tensors: Mapping[str, torch.Tensor],
        config: Mapping[str, Any],
    ) -> None:
        """A folder that PEFT and vLLM load."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        save_file(dict(tensors), folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps(dict(config)))

    def _require(self, version: WeightVersion | None) -> None:
        self._require_open()
        if version is not None and (version not in self._installed or version in self._retired):
            raise UnknownVersionError(
                f"{version.label} ({version.digest}) is not installed on {self._url}; there are "
                f"{sorted(v.label for v in self._installed)}."
            )

    def _require_open(self) -> None:
        if self._closed:
            raise ModelError(f"the engine on {self._url} is closed.")

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            limits = httpx2.Limits(max_connections=self._concurrency + 8)
            self._client = httpx2.AsyncClient(base_url=self._url, limits=limits, trust_env=False)
        return self._client
