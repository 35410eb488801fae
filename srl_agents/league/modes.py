"""Default opponents for each kind of game.

Source of the competitive mixture and of the exploiters: "Grandmaster level in StarCraft II using
multi-agent reinforcement learning", Nature 575 (2019). ``small`` follows "Dota 2 with Large Scale
Deep Reinforcement Learning", arXiv:1912.06680, section 3: mostly itself, sometimes its past.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType

from srl_agents.league.settings import OpponentSettings, Preset
from srl_envs.core import Mode
from srl_envs.errors import ConfigError

PRESETS: Mapping[Preset, OpponentSettings] = MappingProxyType(
    {
        "competitive": OpponentSettings(mirror=0.35, live=0, past=0.5, verify=0.15),
        "small": OpponentSettings(mirror=0.8, live=0, past=0.2, past_sampler="pfsp_variance"),
        # a partner from elsewhere first: a pair that trains together invents a private language
        "cooperative": OpponentSettings(mirror=0.5, live=0.25, past=0.25, strangers=True),
        "mixed": OpponentSettings(mirror=0.2, live=0.3, past=0.5, past_sampler="uniform_past"),
        "free_for_all": OpponentSettings(mirror=0.35, live=0, past=0.65),
    }
)
_FREE = ("preset", "bots", "agents", "budgets", "past_limit", "retention", "payoff_pairs")
"""Settings that a recipe may add to a preset."""


def resolve(settings: OpponentSettings, mode: Mode, seats: int) -> OpponentSettings:
    """The settings with their preset filled in; unchanged without one.

    Raises:
        ConfigError: a setting that the preset decides was given too.
    """
    if not settings.preset:
        return settings
    untouched = OpponentSettings()
    for item in fields(OpponentSettings):
        given = getattr(settings, item.name)
        if item.name not in _FREE and given != getattr(untouched, item.name):
            raise ConfigError(
                f"opponents: preset={settings.preset!r} decides {item.name}, which is given too: "
                "leave one out."
            )
    name = settings.preset
    if name == "auto":
        name = "free_for_all" if mode == "competitive" and seats > 2 else mode
    added = {key: getattr(settings, key) for key in _FREE}
    return replace(PRESETS[name], **(added | {"preset": name}))
