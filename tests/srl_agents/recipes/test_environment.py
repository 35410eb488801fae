"""Facts of a recipe's environment with the recipe's options and wrappers around it."""

from __future__ import annotations

from srl_agents.recipes.sections.environment import match_options, surroundings


def test_what_surrounds_a_game() -> None:
    around = surroundings("nim-v0", {}, ({"kind": "TurnLimit", "steps": 9},))
    assert (around.seats, around.paid, around.statistics) == (2, ("outcome", "format"), ("regret",))
    assert match_options({"invalid": "forfeit"}, around.wrappers) == {
        "invalid": "forfeit",
        "wrappers": [{"kind": "TurnLimit", "steps": 9}],
    }
    assert match_options({}, ()) == {}
