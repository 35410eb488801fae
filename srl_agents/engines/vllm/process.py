"""vLLM's own asynchronous engine, loaded by this process: no server, no HTTP.

SRL has to be installed in vLLM's environment. vLLM keeps its scheduler and model in a child process; its
front end lives here, on a thread with an event loop of its own, since it belongs to the loop that it was made
in. Source of names and traps: vLLM 0.32.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import itertools
import os
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.thinking import Piece
from srl_agents.engines.vllm.answers import BASE
from srl_agents.engines.vllm.link import ROUNDING
from srl_agents.engines.vllm.memory_share import WITHOUT_TRAINER, share_of
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.vllm.server import cpu_arguments, served_rank
from srl_envs.errors import ConfigError, ModelError

Result = TypeVar("Result")
_FIRST_REPLY = SamplingSettings(max_new_tokens=1, temperature=0.0, stop=())


class VLLMProcess:
    """See `VLLMLink`; loads the model when it is made, which takes half a minute or more.

    Args:
        settings: of the model; those that only a server has are not read.
        gpu_share: share of a GPU's memory, where ``memory_share`` is None.

    Raises:
        ConfigError: vLLM is not installed in this environment.
        ModelError: vLLM refuses the model or ends before its first reply.
    """

    def __init__(self, settings: VLLMServerSettings, gpu_share: float = WITHOUT_TRAINER) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise ConfigError(
                "engine vllm_process loads vLLM here, and this environment has none: install SRL in "
                "vLLM's environment (`srl docs serve`), or use engine 'vllm'."
            )
        self.place = "vLLM in this process"
        self._settings, self._gpu_share = settings, gpu_share
        self._adapters: dict[str, Any] = {}
        """Name -> vLLM's request for it."""
        self._numbers, self._requests = itertools.count(1), itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vLLM", daemon=True)
        self._thread.start()
        self._llm: Any = None
        self._closed = False
        try:
            self._llm = self._wait(self._load_model())
            self._wait(self._sample(BASE, (1,), _FIRST_REPLY, 0))
        except Exception as error:
            self._end()
            raise ModelError(f"vLLM did not start: {type(error).__name__}: {error}") from error

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
        from vllm.v1.engine.exceptions import EngineDeadError  # noqa: PLC0415 - its environment only

        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(
                    self._sample(
                        name, prompt, sampling, seed, priority=priority, cache_hints=cache_hints
                    )
                )
        except EngineDeadError as error:
            raise ModelError(
                f"{self.place} has died: {error}. It is not started again; go on with the run."
            ) from None

    async def score(
        self, name: str, tokens: tuple[int, ...], timeout_s: float
    ) -> tuple[float, ...]:
        """See `VLLMLink`."""
        async with asyncio.timeout(timeout_s):
            entries = await self._ask(self._score(name, tokens))
        return tuple(
            float(entry[token].logprob)
            for entry, token in zip(entries[1:], tokens[1:], strict=True)
        )

    async def part(self) -> None:
        """See `VLLMLink`; vLLM has a loop of its own."""

    async def revived(self, timeout_s: float) -> set[str] | None:
        """See `VLLMLink`; it is never lost but with this process."""
        return {BASE, *self._adapters}

    async def load(self, name: str, folder: Path) -> None:
        """See `VLLMLink`.

        Raises:
            ModelError: vLLM does not take it.
        """
        from vllm.lora.request import LoRARequest  # noqa: PLC0415 - its environment only

        wanted = LoRARequest(name, next(self._numbers), str(folder))
        try:
            taken = await self._ask(self._llm.add_lora(wanted))
        except Exception as error:  # of vLLM's own kinds, from its other process
            raise ModelError(f"{self.place} does not load {name}: {error}") from error
        if not taken:
            raise ModelError(f"{self.place} does not load {name}.")
        self._adapters[name] = wanted

    async def unload(self, name: str) -> None:
        """See `VLLMLink`."""
        wanted = self._adapters.pop(name, None)
        if wanted is not None and not self._closed:
            with contextlib.suppress(Exception):  # a vLLM that has died has forgotten it
                await self._ask(self._llm.remove_lora(wanted.lora_int_id))

    async def sleep(self) -> None:
        """See `VLLMLink`."""
        await self._ask(self._llm.sleep(1))

    async def wake(self) -> None:
        """See `VLLMLink`."""
        await self._ask(self._llm.wake_up())

    async def metrics(self) -> str:
        """See `VLLMLink`."""
        from prometheus_client import generate_latest  # noqa: PLC0415 - its environment only

        return str(generate_latest().decode())

    async def close(self) -> None:
        """See `VLLMLink`; ends vLLM's child process. Closing again does nothing."""
        await asyncio.to_thread(self._end)

    # On vLLM's loop

    async def _load_model(self) -> Any:
        """The engine; its child process imports what the main module imports, so that is spawned."""
        os.environ.update(
            VLLM_NO_USAGE_STATS="1",
            DO_NOT_TRACK="1",
            VLLM_CPU_OMP_THREADS_BIND="nobind",
            VLLM_WORKER_MULTIPROCESSING_METHOD="spawn",
        )
        settings = self._settings
        if settings.cache_gib is not None:
            os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(settings.cache_gib)
        from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: PLC0415 - its environment only
        from vllm.v1.engine.async_llm import AsyncLLM  # noqa: PLC0415

        cpu_build = _is_installed("vllm-cpu")
        arguments: dict[str, Any] = {
            "model": settings.model,
            "max_num_seqs": settings.max_running,
            "dtype": settings.dtype,
            "logprobs_mode": "processed_logprobs",
            "gpu_memory_utilization": share_of(
                settings.memory_share, self._gpu_share, cpu=cpu_build
            ),
            "enforce_eager": not settings.compiled,
            "disable_log_stats": False,  # `metrics` reads them
            "scheduling_policy": "priority",
        }
        if settings.lora_rank:
            arguments["enable_lora"] = True
            arguments["max_lora_rank"] = served_rank(settings.lora_rank)
            # one more for the adapter of zeros that the base replies through
            arguments["max_loras"] = settings.max_versions + 1
        if settings.max_length is not None:
            arguments["max_model_len"] = settings.max_length
        if settings.block_tokens is not None:
            arguments["block_size"] = settings.block_tokens
        arguments |= settings.cache.arguments(cpu_build=cpu_build)
        if "kv_transfer_config" in arguments:
            from vllm.config import KVTransferConfig  # noqa: PLC0415 - its environment only

            arguments["kv_transfer_config"] = KVTransferConfig(**arguments["kv_transfer_config"])
        if cpu_build:
            arguments |= cpu_arguments(settings.max_length)
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))

    async def _sample(
        self,
        name: str,
        prompt: tuple[int, ...],
        sampling: SamplingSettings,
        seed: int,
        *,
        priority: int = 0,
        cache_hints: Mapping[str, Any] | None = None,
    ) -> Piece | None:
        from vllm import SamplingParams  # noqa: PLC0415 - its environment only
        from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415

        wanted = SamplingParams(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            max_tokens=sampling.max_new_tokens,
            stop=list(sampling.stop),
            include_stop_str_in_output=True,
            logprobs=0,
            seed=seed,
            output_kind=RequestOutputKind.FINAL_ONLY,
            extra_args=None if cache_hints is None else {"kv_transfer_params": dict(cache_hints)},
        )
        said: Any = None
        async for last in self._llm.generate(
            {"prompt_token_ids": list(prompt)},
            wanted,
            f"srl-{next(self._requests)}",
            lora_request=self._adapters.get(name),
            priority=priority,
        ):
            said = last
        if said is None or said.outputs[0].finish_reason not in ("stop", "length"):
            return None
        reply = said.outputs[0]
        logprobs = [
            float(entry[token].logprob)
            for token, entry in zip(reply.token_ids, reply.logprobs, strict=True)
        ]
        if not logprobs or not all(value <= ROUNDING for value in logprobs):
            raise ModelError(
                f"{self.place} returned invalid log-probabilities {logprobs} for a reply of {name}."
            )
        return Piece(
            token_ids=tuple(reply.token_ids),
            logprobs=tuple(min(value, 0.0) for value in logprobs),
            finish=reply.finish_reason,
            cached_tokens=int(said.num_cached_tokens or 0),
        )

    async def _score(self, name: str, tokens: tuple[int, ...]) -> list[Any]:
        """vLLM's entry for each token of the prompt."""
        from vllm import SamplingParams  # noqa: PLC0415 - its environment only
        from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415

        wanted = SamplingParams(
            temperature=0.0,
            max_tokens=1,
            prompt_logprobs=0,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        said: Any = None
        async for last in self._llm.generate(
            {"prompt_token_ids": list(tokens)},
            wanted,
            f"srl-{next(self._requests)}",
            lora_request=self._adapters.get(name),
        ):
            said = last
        if said is None or said.prompt_logprobs is None:
            raise ModelError(f"{self.place} gives no log-probabilities of a prompt under {name}.")
        return list(said.prompt_logprobs)

    # On the caller's

    async def _ask(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run on vLLM's loop; cancelling this aborts the request there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._llm is not None:
            self._loop.call_soon_threadsafe(self._llm.shutdown)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._llm = None


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
