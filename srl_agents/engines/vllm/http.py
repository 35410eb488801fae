"""Requests to a vLLM server over HTTP: tokens in, tokens and log-probabilities out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.thinking import Piece
from srl_agents.engines.vllm.answers import (
    GENERATE,
    LOAD,
    MODELS,
    names_a_model,
    names_of,
    quoted,
    require_path,
)
from srl_agents.engines.vllm.link import ROUNDING, AdaptersLostError
from srl_agents.engines.vllm.metrics_page import event_lines
from srl_agents.engines.vllm.server import VLLMServer
from srl_envs.errors import DeadlineError, ModelError

_UNLOAD = "/v1/unload_lora_adapter"
_CONNECT_S = 5.0
_CONTROL_S = 60.0
"""Limit for loading or unloading an adapter, and for sleeping."""
_METRICS_S = 5.0
"""Limit for reading the counters, which are optional."""
_MOST_CONNECTIONS = 4096
"""The engine's own limit is below it."""


class HTTPLink:
    """See `VLLMLink`.

    Args:
        server: that was started, or the address of one that runs already, as ``srl serve`` starts it.
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
        cache_hints: Mapping[str, Any] | None = None,
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
        if cache_hints is not None:
            body["kv_transfer_params"] = dict(cache_hints)
        return self._read(await self._generate(body, timeout_s), name, prompt, sampling)

    async def score(
        self, name: str, tokens: tuple[int, ...], timeout_s: float
    ) -> tuple[float, ...]:
        """See `VLLMLink`."""
        body = {
            "model": name,
            "token_ids": list(tokens),
            "output_mode": "tokens",
            "sampling_params": {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0},
        }
        found = await self._generate(body, timeout_s)
        try:
            answer = found.json()
            entries = answer["prompt_logprobs"][1:]
            logprobs = tuple(
                float(entry[str(token)]["logprob"])
                for entry, token in zip(entries, tokens[1:], strict=True)
            )
            named = answer["model"]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            named = None
        if named != name:
            raise ModelError(
                f"{self.place} gives no log-probabilities of a prompt under {name}: {quoted(found)}. "
                "Use vLLM 0.32 or newer."
            )
        return logprobs

    async def _generate(self, body: Mapping[str, Any], timeout_s: float) -> httpx2.Response:
        """The answer to a request for tokens; see `VLLMLink.sample` for what it raises."""
        try:
            found = await self._http().post(GENERATE, json=body, timeout=timeout_s)
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except httpx2.TransportError as error:
            raise AdaptersLostError(f"{self.place} does not answer: {_cause(error)}.") from None
        status = found.status_code
        if status == httpx2.codes.NOT_FOUND and names_a_model(found):
            # another process started it again, without our adapters
            raise AdaptersLostError(f"{self.place} answered 404: {quoted(found)}")
        require_path(self.place, GENERATE, found)
        if status >= httpx2.codes.INTERNAL_SERVER_ERROR and self._server is not None:
            # its engine died, and it ends soon
            raise AdaptersLostError(f"{self.place} answered {status}: {quoted(found)}")
        if status != httpx2.codes.OK:
            raise ModelError(f"{self.place} answered {status}: {quoted(found)}")
        return found

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
            drawn_logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
            drawn = [entry["token_id"] for entry in choice["logprobs"]["content"]] if tokens else []
            details = answer["usage"].get("prompt_tokens_details") or {}
            sound = (
                finish in ("stop", "length")
                and answer["model"] == name
                and all(type(token) is int and token >= 0 for token in tokens)
                and 1 <= len(tokens) <= sampling.max_new_tokens
                and drawn == tokens
                and all(
                    isinstance(value, float | int) and value <= ROUNDING for value in drawn_logprobs
                )
                and answer["usage"]["prompt_tokens"] == len(prompt)
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            sound = False
        if not sound:
            raise ModelError(
                f"{self.place} answered with something else than a reply of {name}: {quoted(found)}"
            )
        return Piece(
            token_ids=tuple(tokens),
            logprobs=tuple(min(float(value), 0.0) for value in drawn_logprobs),
            finish=finish,
            cached_tokens=int(details.get("cached_tokens") or 0),
        )

    async def revived(self, timeout_s: float) -> set[str] | None:
        """See `VLLMLink`."""
        if self._server is not None:
            await asyncio.to_thread(self._server.revive)
        try:
            listed = await self._http().get(
                MODELS, timeout=httpx2.Timeout(timeout_s, connect=_CONNECT_S)
            )
        except httpx2.ConnectTimeout:
            return None
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except httpx2.TransportError:
            return None  # of another process; the caller has a deadline
        return names_of(self.place, listed)

    async def load(self, name: str, folder: Path) -> None:
        """See `VLLMLink`."""
        await self._call(LOAD, {"lora_name": name, "lora_path": str(folder)})

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

    async def part(self) -> None:
        """See `VLLMLink`."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def close(self) -> None:
        """See `VLLMLink`; a server that was given by its address goes on."""
        await self.part()
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
            raise AdaptersLostError(f"{self.place} does not answer: {_cause(error)}.") from None
        if found.status_code != httpx2.codes.OK:
            if path == LOAD and not names_a_model(found):
                require_path(self.place, LOAD, found)
            raise ModelError(f"{self.place}{path} answered {found.status_code}: {quoted(found)}")

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            limits = httpx2.Limits(max_connections=_MOST_CONNECTIONS)
            self._client = httpx2.AsyncClient(base_url=self.place, limits=limits, trust_env=False)
        return self._client


def _cause(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__
