"""What a recipe may say of its engine, and which engines there are: frozen data, without torch.

An engine is one settings class of `ENGINES`: its fields are the keys of a recipe's ``engine`` section, and
it makes the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srl_agents.kinds import Kinds, Section, settings_of

if TYPE_CHECKING:
    import torch

    from srl_agents.engines.protocol import Engine, SamplingSettings
    from srl_agents.models.base_model import BaseModel
    from srl_agents.records import WeightUpdate


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSite:
    """What a run has to offer to its engine."""

    base: BaseModel
    """The model that the learners share; an engine of another process needs its name and template."""
    sampling: SamplingSettings
    """Of requests that bring none."""
    batch_rows: int
    """Most replies in one call of the model."""
    open_update: Callable[[WeightUpdate], dict[str, torch.Tensor]]
    """The transport's `open`, for `Engine.install`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings(ABC):
    """What samples replies: the base of every engine's settings."""

    kind: str
    """Name of the engine, or its ``package.module:Class``."""

    @abstractmethod
    def make_engine(self, site: EngineSite) -> Engine:
        """The engine of one run; whoever asks for it closes it.

        Args:
            site: what the run offers.

        Raises:
            ConfigError: it cannot work with this base or sampling.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformersSettings(EngineSettings):
    """The embedded engine: transformers in this process, on the learners' own base."""

    kind: str = "transformers"

    def make_engine(self, site: EngineSite) -> Engine:
        """See `EngineSettings`."""
        from srl_agents.engines.transformers_engine import (  # noqa: PLC0415 - torch: seconds
            TransformersEngine,
        )

        engine: Engine = TransformersEngine(
            site.base,
            site.sampling,
            open_update=site.open_update,
            max_batch_rows=site.batch_rows,
        )
        return engine


ENGINES: Kinds[type[EngineSettings]] = Kinds(
    what="engine",
    group="srl_agents.engines",
    built_in={"transformers": "srl_agents.engines.settings:TransformersSettings"},
    fault=settings_of(EngineSettings, "kind"),
)
ENGINE: Section[EngineSettings] = Section(kinds=ENGINES, key="kind", default="transformers")
"""How a recipe's ``engine`` section is read."""
