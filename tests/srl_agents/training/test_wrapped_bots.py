"""Bots that cannot read what wrappers show are found before a model is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from srl_agents.recipes.sections.environment import match_options
from srl_agents.training.start.wrapped_bots import require_played
from srl_envs.errors import ConfigError

HISTORY = {"kind": "HistoryWindow", "turns": 2}


@pytest.mark.parametrize(
    ("noise", "reason"),
    [
        ({"rate": 1.0, "level": "line"}, r"the game refused \d+ of its replies"),
        ({"rate": 0.3}, "ValueError: the text holds"),
    ],
)
def test_a_bot_that_cannot_read_through_the_wrappers_is_named(
    noise: dict[str, Any], reason: str
) -> None:
    options = match_options({}, (HISTORY, {"kind": "ObservationNoise", **noise}))
    named = "bot 'strong' cannot play connect_four-v0 through HistoryWindow, ObservationNoise: .*"
    with pytest.raises(ConfigError, match=named + reason):
        require_played("connect_four-v0", options, ["strong"])
    require_played("connect_four-v0", options, [])


def test_bots_play_through_wrappers_that_keep_the_position() -> None:
    require_played("connect_four-v0", match_options({}, (HISTORY,)), ["strong"])
