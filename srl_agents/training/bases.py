"""The bases of a run in memory, each with the engine that samples its versions and with its learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from srl_agents.engines.protocol import Engine
from srl_agents.models.base_model import BaseModel
from srl_agents.recipes.sections.base_models import Base
from srl_agents.transports.protocol import Transport


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedBase:
    """A base that learners are adapters of."""

    settings: Base
    model: BaseModel

    @property
    def name(self) -> str:
        """Agent id of what its learners begin as."""
        return self.settings.name


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayingBase(LoadedBase):
    """A base whose versions play."""

    engine: Engine
    transport: Transport
    played: BaseModel
    """Model that the engine samples with: the base itself, or its own copy of it."""


def site_of(bases: Sequence[PlayingBase], learner: str) -> PlayingBase:
    """The base of a learner; versions of learners of another run are of the only base.

    Raises:
        KeyError: there are several, and none has this learner.
    """
    if len(bases) == 1:
        return bases[0]
    return {name: base for base in bases for name in base.settings.learners}[learner]


def below(folder: Path, base: Base) -> Path:
    """Where files of one base are below a folder of the run: in the folder itself, if it is the only base."""
    return folder / base.folder if base.folder else folder


def devices_of(bases: Sequence[LoadedBase]) -> tuple[torch.device, ...]:
    """Where the bases are, each device once."""
    return tuple(dict.fromkeys(base.model.device for base in bases))


def starts_of(bases: Sequence[Base]) -> Mapping[str, str]:
    """Learner -> agent id of what it begins as."""
    return {learner: base.name for base in bases for learner in base.learners}
