"""The ``engine`` section of a recipe, and the engines that there are: frozen data, without torch.

An engine is one settings class of `ENGINES`: its fields are the keys of a recipe's ``engine`` section, and
it makes the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from srl_agents.engines.embedded.decoding_settings import DecodingRules, StepSettings
from srl_agents.engines.waiting import to_stderr
from srl_agents.kinds import Kinds, KindSettings, Section, settings_of
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import Removed

if TYPE_CHECKING:
    import torch

    from srl_agents.engines.protocol import Engine, SamplingSettings
    from srl_agents.models.base_model import BaseModel
    from srl_agents.records import WeightUpdate

CacheType = Literal["model", "int8"]
"""How the embedded engine keeps keys and values that no reply reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSite:
    """What a run has to offer to its engine."""

    base: BaseModel
    """The model that the learners share; an engine of another process needs its name and template."""
    sampling: SamplingSettings
    """Sampling of requests that bring none."""
    batch_rows: int
    """Replies in one call of the model, at most."""
    open_update: Callable[[WeightUpdate], dict[str, torch.Tensor]]
    """The transport's `open`, for `Engine.install`."""
    folder: Path
    """Folder of the run, for an engine's logs."""
    say: Callable[[str], None] = to_stderr
    """Shows a line, for example while a server is waited for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings(KindSettings, ABC):
    """What samples replies: the base of every engine's settings."""

    activates: ClassVar[bool] = False
    """Whether its adapters can act from the reply on (``lora.activation``)."""
    samples_base: ClassVar[bool] = True
    """Whether it samples with `EngineSite.base` itself; otherwise it reads there only what the model is."""
    is_server: ClassVar[bool] = False
    """Whether it is a process of its own, which the engine calls."""
    is_compared: ClassVar[bool] = False
    """Whether it compares each version with `WeightUpdate.logprobs`, so that a run publishes them."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of servers that must run before the engine is made."""
        return ()

    @abstractmethod
    def make_engine(self, site: EngineSite) -> Engine:
        """The engine of one run; the caller closes it.

        Args:
            site: what the run offers.

        Raises:
            ConfigError: it cannot work with this base or sampling.
        """

    def beside_generation(self) -> EngineSettings:
        """What the training process itself plays with, looks and round robins, where another process has
        this engine and plays the matches that are learned from (section ``asynchronous``)."""
        return self

    def require_repeatable(self) -> None:
        """Refuse a run in order ``exact`` that this engine would not play with the trainer's own numbers.

        Raises:
            ConfigError: which setting does not fit.
        """

    def look(self) -> None:
        """Refuse servers that cannot be used, by what they answer within seconds; imports nothing heavy.

        Raises:
            ConfigError: names each of them.
            ModelError: names the only one.
        """

    def require_versions(self, least: int) -> None:
        """Refuse a run that will need more versions at once than the engine takes; called with the recipe.

        Args:
            least: so many will be installed at once.

        Raises:
            ConfigError: they are too many.
        """


@dataclass(frozen=True, kw_only=True)
class TransformersSettings(EngineSettings, StepSettings):
    """The embedded engine: transformers in this process, on the learners' own base.

    ``rollout.batch_rows`` is its largest batch. All of this but ``cache_type`` changes speed and memory, and
    of replies the rounding at most.
    """

    activates: ClassVar[bool] = True
    kind: str = "transformers"
    live_gib: float | None = None
    """GiB of keys and values of the replies that are being written, at most: a further reply waits where
    they would be more, and one that needs more by itself is refused. Absent: 0.4 of free memory, in order
    ``exact`` 0.2 of all memory."""
    cache_gib: float | None = None
    """GiB of keys and values of prompts that are kept for later ones, at most; 0 keeps none. Absent: 0.2 of
    free memory, in order ``exact`` 0.2 of all memory."""
    cache_type: CacheType = "model"
    """What keys and values are while no reply reads them, in ``cache_gib``, ``host_gib`` and ``disk_gib``.
    ``model``: as they were computed. ``int8``: 8 bits with one scale per token and head, about a quarter of
    float32's bytes and half of bfloat16's; it moves log-probabilities, and replies tell theirs. Not in order
    ``exact``."""
    host_gib: float = 0.0
    """GiB of host memory for prompts that ``cache_gib`` has no room for, at most; each is written and fetched
    only where that is faster than computing, by what was measured. Not in order ``exact``."""
    disk_gib: float = 0.0
    """GiB of files for those that ``host_gib`` has no room for, likewise; in the run's folder, until the
    engine is closed."""

    removed: ClassVar[Removed] = {
        "disk_folder": ("", "link RUN/kv to a faster disk"),
        "share_prefixes": (True, "set engine.cache_gib: 0"),
        "refill": (True, "set rollout.batch_rows"),
        "read_in_place": (192, "set rollout.batch_rows"),
    }

    def __post_init__(self) -> None:
        if self.live_gib is not None and not 0 < self.live_gib < float("inf"):
            raise ConfigError(f"live_gib={self.live_gib}: use more than 0.")
        if self.cache_gib is not None and not 0 <= self.cache_gib < float("inf"):
            raise ConfigError(f"cache_gib={self.cache_gib}: use 0 or more.")
        for name in ("host_gib", "disk_gib"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{name}={getattr(self, name)}: use 0 or more.")
        if self.cache_type not in get_args(CacheType):
            raise ConfigError(
                f"cache_type={self.cache_type!r}: use one of {', '.join(get_args(CacheType))}."
            )
        self.decoding()

    def require_repeatable(self) -> None:
        """See `EngineSettings`."""
        if self.cache_type == "int8":
            raise ConfigError(
                "engine.cache_type='int8', rollout.order='exact': 8 bits change what replies read. Set "
                "rollout.order to 'free', or leave out cache_type."
            )

    def make_engine(self, site: EngineSite) -> Engine:
        """See `EngineSettings`."""
        from srl_agents.engines.embedded.engine import TransformersEngine  # noqa: PLC0415 - torch: seconds
        from srl_agents.engines.embedded.places.kv_tiers import TierLimits  # noqa: PLC0415 - torch: seconds

        engine: Engine = TransformersEngine(
            site.base,
            site.sampling,
            open_update=site.open_update,
            max_batch_rows=site.batch_rows,
            live_bytes=_bytes(self.live_gib),
            cache_bytes=_bytes(self.cache_gib),
            decoding=self.decoding(),
            tiers=TierLimits(
                host_bytes=int(self.host_gib * 2**30),
                disk_bytes=int(self.disk_gib * 2**30),
                folder=site.folder / "kv",
                eviction=self.eviction,
            ),
        )
        return engine

    def decoding(self) -> DecodingRules:
        """What the engine's loop may do."""
        shared = {f.name: getattr(self, f.name) for f in fields(StepSettings)}
        return DecodingRules(**shared, eight_bits=self.cache_type == "int8")


def _bytes(gib: float | None) -> int | None:
    return None if gib is None else int(gib * 2**30)


ENGINES: Kinds[type[EngineSettings]] = Kinds(
    what="engine",
    group="srl_agents.engines",
    built_in={
        "transformers": "srl_agents.engines.settings:TransformersSettings",
        "vllm": "srl_agents.engines.vllm.settings:VLLMSettings",
        "vllm_process": "srl_agents.engines.vllm.process_settings:VLLMProcessSettings",
    },
    fault=settings_of(EngineSettings, "kind"),
)
ENGINE: Section[EngineSettings] = Section(kinds=ENGINES, key="kind", default="transformers")
"""Reads a recipe's ``engine`` section."""
