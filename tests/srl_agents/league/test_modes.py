"""Presets by kind of game."""

from __future__ import annotations

from typing import Any

import pytest

from srl_agents.league.modes import PRESETS, resolve
from srl_agents.league.settings import OpponentSettings
from srl_envs.core import Mode
from srl_envs.errors import ConfigError


def test_without_a_preset_nothing_changes() -> None:
    settings = OpponentSettings(mirror=3)
    assert resolve(settings, "mixed", 4) is settings


@pytest.mark.parametrize(
    ("mode", "seats", "expected"),
    [
        ("competitive", 2, "competitive"), ("competitive", 4, "free_for_all"),
        ("cooperative", 2, "cooperative"), ("mixed", 3, "mixed"),
    ],
)  # fmt: skip
def test_auto_goes_by_the_game(mode: Mode, seats: int, expected: Any) -> None:
    given = OpponentSettings(preset="auto", bots={"random": 0.1}, past_limit=9)
    found = resolve(given, mode, seats)
    wanted = PRESETS[expected]
    assert (found.mirror, found.past, found.verify) == (wanted.mirror, wanted.past, wanted.verify)
    assert (found.strangers, found.focal_shares) == (wanted.strangers, expected == "mixed")
    assert (found.bots, found.past_limit) == ({"random": 0.1}, 9)


def test_the_competitive_mixture_is_the_published_one() -> None:
    mixture = PRESETS["competitive"]
    assert (mixture.mirror, mixture.past, mixture.verify) == (0.35, 0.5, 0.15)
    assert mixture.past_sampler == "pfsp_hard"


def test_a_preset_and_its_own_settings_do_not_go_together() -> None:
    with pytest.raises(ConfigError, match="decides mirror"):
        resolve(OpponentSettings(preset="auto", mirror=2), "competitive", 2)
