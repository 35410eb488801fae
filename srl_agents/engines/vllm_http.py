"""How a vLLM server is asked: over HTTP, tokens in, tokens and log-probabilities out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.server_metrics import event_lines
from srl_agents.engines.thinking import Piece
from srl_agents.engines.vllm_link import ROUNDING, AdaptersLostError
from srl_agents.engines.vllm_server import VLLMServer
from srl_envs.errors import DeadlineError, ModelError

_GENERATE, _LOAD, _UNLOAD = (
    "/inference/v1/generate",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
)
_QUOTED = 300
"""Characters of a server's own words in our messages."""
_CONTROL_S = 60.0
"""For loading or unloading an adapter, and for sleeping."""
_METRICS_S = 5.0
"""For its counters, which nobody has to have."""
_MOST_CONNECTIONS = 4096
"""The engine's own limit is below it."""


class HTTPLink:
    """See `VLLMLink`.

    Args:
        server: that was started, or the address of one that somebody else started as ``srl serve`` does.
        ends_server: `close` ends the server, too.
    """

    def __init__(self, server: VLLMServer | str, *, ends_server: bool = False) -> None:
        self._server = server if isinstance(server, VLLMServer) else None
        self.place = server.url if isinstance(server, VLLMServer) else server.rstrip("/")
        self._ends_server = ends_server
        self._client: httpx2.AsyncClient | None = None

    async def sample(
        self,
        name: str,
        prompt: tuple[int, ...],
        sampling: SamplingSettings,
        seed: int,
        timeout_s: float,
        *,
        priority: int,
        told: Mapping[str, Any] | None = None,
    ) -> Piece | None:
        """See `VLLMLink`."""
        body: dict[str, Any] = {
            "model": name,
            "token_ids": list(prompt),
            "output_mode": "tokens",
            "priority": priority,
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
        if told is not None:
            body["kv_transfer_params"] = dict(told)
        try:
            found = await self._http().post(_GENERATE, json=body, timeout=timeout_s)
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except httpx2.TransportError as error:
            raise AdaptersLostError(str(error)) from None
        if found.status_code == httpx2.codes.NOT_FOUND:
            # it was started again by somebody else, without our adapters
            raise AdaptersLostError(found.text[:_QUOTED])
        if found.status_code >= httpx2.codes.INTERNAL_SERVER_ERROR and self._server is not None:
            raise AdaptersLostError(found.text[:_QUOTED])  # its engine died, and it ends soon
        if found.status_code != httpx2.codes.OK:
            raise ModelError(f"{self.place} answered {found.status_code}: {found.text[:_QUOTED]}")
        return self._read(found, name, prompt, sampling)

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
                and all(isinstance(value, float | int) and value <= ROUNDING for value in told)
                and answer["usage"]["prompt_tokens"] == len(prompt)
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            sound = False
        if not sound:
            raise ModelError(
                f"{self.place} answered with something else than a reply of {name}: {found.text[:_QUOTED]!r}"
            )
        return Piece(
            token_ids=tuple(tokens),
            logprobs=tuple(min(float(value), 0.0) for value in told),
            finish=finish,
            cached_tokens=int(details.get("cached_tokens") or 0),
        )

    async def revived(self) -> set[str] | None:
        """See `VLLMLink`."""
        if self._server is not None:
            await asyncio.to_thread(self._server.revive)
        try:
            listed = await self._http().get("/v1/models", timeout=_CONTROL_S)
            return {model["id"] for model in listed.json()["data"]}
        except httpx2.TransportError:
            return None  # of somebody else's; whoever asks has a deadline

    async def load(self, name: str, folder: Path) -> None:
        """See `VLLMLink`."""
        await self._call(_LOAD, {"lora_name": name, "lora_path": str(folder)})

    async def unload(self, name: str) -> None:
        """See `VLLMLink`; a server that does not answer has forgotten it."""
        with contextlib.suppress(ModelError, DeadlineError):
            await self._call(_UNLOAD, {"lora_name": name})

    async def sleep(self) -> None:
        """See `VLLMLink`."""
        await self._call("/sleep", None, {"level": 1})

    async def wake(self) -> None:
        """See `VLLMLink`."""
        await self._call("/wake_up", None)

    async def metrics(self) -> str:
        """See `VLLMLink`."""
        try:
            found = await self._http().get("/metrics", timeout=_METRICS_S)
        except httpx2.TransportError:
            return ""
        if found.status_code != httpx2.codes.OK:
            return ""
        lines = [] if self._server is None else event_lines(self._server)
        return "\n".join([found.text.rstrip(), *lines, ""])

    async def close(self) -> None:
        """See `VLLMLink`; a server that was given by its address goes on."""
        if self._client is not None:
            await self._client.aclose()
        if self._server is not None and self._ends_server:
            await asyncio.to_thread(self._server.close)

    async def _call(
        self, path: str, body: Any, parameters: Mapping[str, Any] | None = None
    ) -> None:
        try:
            found = await self._http().post(
                path, json=body, params=dict(parameters or {}), timeout=_CONTROL_S
            )
        except httpx2.TimeoutException:
            raise DeadlineError(
                f"{self.place}{path} gave no answer within {_CONTROL_S:g} s."
            ) from None
        except httpx2.TransportError as error:
            raise ModelError(f"{self.place} does not answer: {error}") from None
        if found.status_code != httpx2.codes.OK:
            raise ModelError(
                f"{self.place}{path} answered {found.status_code}: {found.text[:_QUOTED]}"
            )

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            limits = httpx2.Limits(max_connections=_MOST_CONNECTIONS)
            self._client = httpx2.AsyncClient(base_url=self.place, limits=limits, trust_env=False)
        return self._client
