"""The engine ``vllm_process`` of a recipe: vLLM loaded by the run itself, without a server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from srl_agents.engines.settings import EngineSettings, EngineSite, TransformersSettings
from srl_agents.engines.vllm.memory_share import BESIDE_TRAINER
from srl_agents.engines.vllm.options import VLLMOptions, server_settings
from srl_agents.engines.vllm.settings import (
    ADAPTERS,
    VLLMEngineSettings,
    open_all,
    require_room,
    served_adapters,
)
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.engines.protocol import Engine


@dataclass(frozen=True, kw_only=True)
class VLLMProcessSettings(VLLMEngineSettings, VLLMOptions):
    """vLLM in the run's own environment, where SRL is installed beside it; otherwise as ``vllm``.

    A vLLM that dies ends the run, which goes on from its checkpoint; a server is started again.
    """

    samples_base: ClassVar[bool] = False
    is_compared: ClassVar[bool] = True

    kind: str = "vllm_process"

    def __post_init__(self) -> None:
        VLLMEngineSettings.__post_init__(self)
        VLLMOptions.__post_init__(self)

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
        settings = server_settings(
            self,
            model=str(catalog.resolve(base.name)),
            lora_rank=int(adapters.config["r"]),
            max_running=site.batch_rows,
            max_length=context,
            dtype=dtype,
        )
        process = VLLMProcess(settings, BESIDE_TRAINER)
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
