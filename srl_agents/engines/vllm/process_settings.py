"""The engine ``vllm_process`` of a recipe: vLLM loaded by the run itself, without a server."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from srl_agents.engines.settings import EngineSettings, EngineSite, TransformersSettings
from srl_agents.engines.vllm.cache import VLLMCache
from srl_agents.engines.vllm.memory_share import BESIDE_TRAINER, require_share
from srl_agents.engines.vllm.settings import (
    ADAPTERS,
    open_all,
    require_bound,
    require_room,
    served_adapters,
)
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.engines.protocol import Engine


@dataclass(frozen=True, kw_only=True, slots=True)
class VLLMProcessSettings(EngineSettings):
    """vLLM in the run's own environment, where SRL is installed beside it; otherwise as ``vllm``.

    A vLLM that dies ends the run, which goes on from its checkpoint; a server is started again.
    """

    samples_base: ClassVar[bool] = False
    is_compared: ClassVar[bool] = True

    kind: str = "vllm_process"
    max_versions: int = 16
    """Adapters that vLLM holds at once: learners, and their frozen versions that play."""
    concurrency: int = 256
    """Requests at vLLM at once; the others wait before it."""
    max_length: int | None = None
    """Prompt and reply together, in tokens; None takes the model's own."""
    block_tokens: int | None = None
    """Tokens in one block of the prefix cache: only whole blocks are shared. None takes vLLM's own."""
    cache_gib: int | None = None
    """Whole GiB of keys and values on a CPU."""
    cache: VLLMCache = field(default_factory=VLLMCache)
    """The prefix cache: its place, its type and its eviction."""
    memory_share: float | None = None
    """Of the device's memory, for vLLM's weights and cache; the trainer needs the rest. None: 0.4 of a GPU;
    on a CPU at most that, and at most half of what is free."""
    logprob_bound: float | None = None
    """Largest mean difference between vLLM's log-probabilities of a fixed text and the trainer's, in nats per
    token; None takes what rounding explains for the two number types."""
    compiled: bool = True
    """Compile and capture the model, which takes a minute at the start; False starts at once."""

    def __post_init__(self) -> None:
        for name in ("max_versions", "concurrency"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: use 1 or more.")
        require_share(self.memory_share)
        require_bound(self.logprob_bound)

    def require_versions(self, least: int) -> None:
        """See `EngineSettings`."""
        require_room(self.max_versions, least)

    def beside_generation(self) -> EngineSettings:
        """See `EngineSettings`; vLLM is in generation's process, so the embedded engine plays the rest."""
        return TransformersSettings()

    def make_engine(self, site: EngineSite) -> Engine:
        """See `EngineSettings`; waits for vLLM's first reply.

        Raises:
            ConfigError: learners own whole weights, or vLLM is not installed here.
            ModelError: vLLM does not start.
        """
        from srl_agents.engines.vllm.engine import VLLMEngine  # noqa: PLC0415 - torch: seconds
        from srl_agents.engines.vllm.process import VLLMProcess  # noqa: PLC0415
        from srl_agents.engines.vllm.server import VLLMServerSettings  # noqa: PLC0415
        from srl_agents.models.probe import probe_of  # noqa: PLC0415
        from srl_agents.models.sources import catalog  # noqa: PLC0415

        base = site.base
        if base.parameters != "lora":
            raise ConfigError("engine vllm_process serves adapters: use parameters 'lora'.")
        adapters = served_adapters(base)
        context = min(base.context_length, self.max_length or base.context_length)
        dtype = str(base.model.get_base_model().dtype).removeprefix("torch.")
        probe = probe_of(base, dtype)
        if self.logprob_bound is not None:
            probe = replace(probe, bound=self.logprob_bound)
        process = VLLMProcess(
            VLLMServerSettings(
                model=str(catalog.resolve(base.name)),
                lora_rank=int(adapters.config["r"]),
                max_versions=self.max_versions,
                max_running=site.batch_rows,
                max_length=context,
                dtype=dtype,
                block_tokens=self.block_tokens,
                cache_gib=self.cache_gib,
                cache=self.cache,
                memory_share=self.memory_share,
                gpu_share=BESIDE_TRAINER,
                compiled=self.compiled,
            )
        )
        engine = VLLMEngine(
            process,
            base.chat,
            site.sampling,
            context_length=context,
            adapters=adapters,
            open_update=site.open_update,
            max_versions=self.max_versions,
            folder=site.folder / ADAPTERS,
            concurrency=self.concurrency,
            tells_cache=self.cache.learns,
            probe=probe,
            say=site.say,
        )
        open_all([engine])
        return engine
