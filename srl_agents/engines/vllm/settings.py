"""The engine ``vllm`` of a recipe: a real vLLM server, started for the run or at an address."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from srl_agents.caching.blocks import block_hashes
from srl_agents.engines.endpoint.settings import is_address, without_credentials
from srl_agents.engines.protocol import ConcurrencySettings, ObjectiveSettings
from srl_agents.engines.settings import EngineSettings, EngineSite, TransformersSettings
from srl_agents.engines.vllm.memory_share import BESIDE_TRAINER
from srl_agents.engines.vllm.options import VLLMStartOptions, server_settings
from srl_agents.interrupts import EventLoop
from srl_agents.records import TensorHeader
from srl_envs.errors import ConfigError, DeadlineError, ModelError, gather
from srl_envs.foreign_code import refuse
from srl_envs.reading.settings import Removed, with_defaults

if TYPE_CHECKING:
    from srl_agents.engines.protocol import Engine, GenerationRequest
    from srl_agents.engines.vllm.engine import ServedAdapters, VLLMEngine
    from srl_agents.models.base_model import BaseModel

BLOCK = 16
"""Tokens by which prompts are compared where ``block_tokens`` is not said; vLLM's own on a GPU."""
LOG = "vllm.log"
"""Log of a server that a run starts, in the run's folder."""
ADAPTERS = "served"
"""Folder in a run's folder of the adapters that vLLM reads."""
_SHAPE = "shape"
_PATIENCE_S = 5.0
"""Longest wait for a server to report the size of its cache."""
_MUCH = 2**17
"""Blocks of a server that does not say it."""


@dataclass(frozen=True, kw_only=True)
@with_defaults(concurrency=256)
class VLLMEngineSettings(EngineSettings, ConcurrencySettings):
    """How a run uses vLLM as its engine."""

    logprob_bound: float | None = None
    """Largest mean difference between vLLM's log-probabilities of a fixed text and the trainer's, in nats per
    token; a vLLM beyond it serves another model and is refused. None takes what rounding explains for the two
    number types."""

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError(f"concurrency={self.concurrency}: use 1 or more.")
        if self.logprob_bound is not None and not 0 < self.logprob_bound < math.inf:
            raise ConfigError(
                f"logprob_bound={self.logprob_bound}: use more than 0, in nats per token."
            )


@dataclass(frozen=True, kw_only=True)
class VLLMSettings(VLLMEngineSettings, VLLMStartOptions, ObjectiveSettings):
    """A vLLM server that samples every learner's replies through its own LoRA adapter.

    Its batches are its own affair, so runs repeat seeds and schedule and not rounding.
    """

    samples_base: ClassVar[bool] = False
    is_server: ClassVar[bool] = True
    is_compared: ClassVar[bool] = True

    kind: str = "vllm"
    url: str | tuple[str, ...] = ""
    """Address of a server that ``srl serve`` runs, such as http://127.0.0.1:8000; empty starts one. Of
    several servers of one model, in a list, each reply is asked of the one that has most of its prompt in its
    prefix cache and not too much to do; all hold every version."""

    removed: ClassVar[Removed] = {"urls": ([], "write engine.url: [FIRST, SECOND, ...]")}

    def __post_init__(self) -> None:
        VLLMEngineSettings.__post_init__(self)
        VLLMStartOptions.__post_init__(self)
        if self.python:
            refuse(
                f"python={self.python!r}",
                "Give vLLM's interpreter as SRL_VLLM_PYTHON in the environment.",
            )
        if self.arguments:
            refuse(
                f"arguments={list(self.arguments)}", "Start the server yourself and give its url."
            )
        if self.url and self.python:
            raise ConfigError("url, python: a server at an address is not started; leave out one.")
        for url in self.addresses:
            if not is_address(url) or without_credentials(url) != url:
                raise ConfigError(
                    f"url={without_credentials(url)!r}: give an address such as http://127.0.0.1:8000, "
                    "without user, query or fragment: no key is sent to vLLM."
                )

    @property
    def addresses(self) -> tuple[str, ...]:
        """See `EngineSettings`."""
        url = self.url
        return url if isinstance(url, tuple) else (url,) * bool(url)

    def look(self) -> None:
        """See `EngineSettings`."""
        if self.addresses:
            from srl_agents.engines.vllm.answers import look_at_server  # noqa: PLC0415 - an extra

            gather(*(partial(look_at_server, url) for url in self.addresses))

    def require_versions(self, least: int) -> None:
        """See `EngineSettings`."""
        require_room(self.max_versions, least)

    def make_engine(self, site: EngineSite) -> Engine:
        """See `EngineSettings`; waits for the server's first reply.

        Raises:
            ConfigError: learners own whole weights, or no interpreter is named.
            ModelError: the server ends before it replies.
            DeadlineError: it does not reply in time.
        """
        from srl_agents.engines.conducted import ConductedEngine  # noqa: PLC0415
        from srl_agents.engines.vllm.engine import VLLMEngine  # noqa: PLC0415 - torch: seconds
        from srl_agents.engines.vllm.http import HTTPLink  # noqa: PLC0415
        from srl_agents.engines.vllm.server import VLLMServer  # noqa: PLC0415
        from srl_agents.models.probe import probe_of  # noqa: PLC0415
        from srl_agents.models.sources import catalog  # noqa: PLC0415

        base = site.base
        if base.parameters != "lora":
            raise ConfigError("engine vllm serves adapters: use parameters 'lora'.")
        adapters = served_adapters(base)
        context = min(base.context_length, self.max_length or base.context_length)
        dtype = str(base.model.get_base_model().dtype).removeprefix("torch.")
        probe = probe_of(base, "" if self.url else dtype)
        if self.logprob_bound is not None:
            probe = replace(probe, bound=self.logprob_bound)
        servers: tuple[VLLMServer | str, ...] = self.addresses
        if not servers:
            settings = server_settings(
                self,
                model=str(catalog.resolve(base.name)),
                lora_rank=int(adapters.config["r"]),
                max_running=site.batch_rows,
                max_length=context,
                dtype=dtype,
            )
            own = VLLMServer(settings, site.folder / LOG, site.say, BESIDE_TRAINER)
            own.start()
            servers = (own,)
        instances = [
            VLLMEngine(
                HTTPLink(one, ends_server=True),
                base.chat,
                site.sampling,
                context_length=context,
                adapters=adapters,
                open_update=site.open_update,
                max_versions=self.max_versions,
                folder=site.folder / ADAPTERS / str(number),
                concurrency=self.concurrency,
                tells_cache=not self.url and self.cache.learns,
                probe=probe,
                start_timeout_s=self.start_timeout_s,
                say=site.say,
            )
            for number, one in enumerate(servers)
        ]
        open_all(instances)
        engines: list[Engine] = [*instances]
        if len(engines) == 1 and not self.objectives.any:
            return engines[0]
        size = self.block_tokens or BLOCK
        return ConductedEngine(
            engines,
            _blocks_of(base, size),
            places=self.concurrency,
            capacity=[
                capacity_of(one if isinstance(one, str) else one.url, size) for one in servers
            ],
            objectives=self.objectives,
            reply_blocks=lambda request: math.ceil(
                base.chat.reply_tokens((request.sampling or site.sampling).max_new_tokens) / size
            ),
        )

    def beside_generation(self) -> EngineSettings:
        """See `EngineSettings`; the server only generates, so the embedded engine plays the rest."""
        return TransformersSettings()


def open_all(engines: Sequence[VLLMEngine]) -> None:
    """Compare every vLLM with what is trained; where one is refused, close all.

    Raises:
        ConfigError: one does not answer, gave no reply in time, or serves something else.
    """

    async def compare() -> None:
        try:
            for engine in engines:
                await engine.open()
        except BaseException:
            for engine in engines:
                await engine.close()
            raise

    try:
        with EventLoop() as loop:
            loop.run(compare())
    except (
        ModelError,
        DeadlineError,
    ) as error:  # the user's to mend: a process that met it is not restarted
        raise ConfigError(str(error)) from None


def require_room(max_versions: int, least: int) -> None:
    """Refuse a run that plays more versions at once than vLLM is to hold.

    Raises:
        ConfigError: how many it plays.
    """
    if least > max_versions:
        raise ConfigError(
            f"engine.max_versions={max_versions}: this run plays {least} versions at once, its learners and "
            f"their past. Use {least} or more, or lower opponents.past_limit."
        )


def _blocks_of(base: BaseModel, size: int) -> Callable[[GenerationRequest], tuple[int, ...]]:
    """Names of the blocks of a request's prompt, as its version reads them."""

    def blocks(request: GenerationRequest) -> tuple[int, ...]:
        prompt = base.encode_prompt(request.observation, request.examples, request.earlier)
        version = "" if request.version is None else str(request.version)
        return block_hashes(prompt, size, model=version)

    return blocks


def capacity_of(url: str, size: int) -> int:
    """Blocks that a server reports memory for; where it reports none, more than any request needs."""
    import httpx2  # noqa: PLC0415 - only with several servers

    from srl_agents.engines.vllm.metrics import cache_tokens  # noqa: PLC0415

    try:
        found = httpx2.get(f"{url}/metrics", timeout=_PATIENCE_S, trust_env=False)
    except httpx2.TransportError:
        return _MUCH
    tokens = cache_tokens(found.text) if found.status_code == httpx2.codes.OK else None
    return _MUCH if tokens is None else max(1, tokens // size)


def served_adapters(base: BaseModel) -> ServedAdapters:
    """What a server must know of the adapters on a base; where there is none, one is added and not used."""
    from srl_agents.engines.vllm.engine import ServedAdapters  # noqa: PLC0415 - torch: seconds

    if not base.adapters:
        base.add_adapter(_SHAPE, 0)
    name = base.adapters[0]
    with tempfile.TemporaryDirectory() as folder:
        base.save_adapter(name, Path(folder))
        config: dict[str, Any] = json.loads((Path(folder) / "adapter_config.json").read_text())
    headers = tuple(
        TensorHeader(name=key, dtype="F32", shape=tuple(tensor.shape))
        for key, tensor in base.adapter_tensors(name).items()
    )
    return ServedAdapters(config=config, tensors=headers)
