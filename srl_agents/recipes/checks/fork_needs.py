"""Requirements of estimators on the forks of a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.league.settings import require
from srl_agents.recipes.checks.opponents import trained_games

if TYPE_CHECKING:
    from srl_agents.recipes.settings import LeagueRecipe


def check_fork_needs(recipe: LeagueRecipe) -> None:
    """Refuse an estimator that compares alternatives where the recipe makes none.

    Raises:
        ConfigError: names the estimator and the game.
    """
    forks = getattr(recipe, "forks", None)
    for game in trained_games(recipe):
        name = game.credit.estimator
        kind = ESTIMATORS.find(name)
        require(
            forks is not None or not kind.reads_forks,
            f"credit.estimator={name!r} of {game.name}: it compares the alternatives of a decision, and the "
            "recipe makes none. Add a section `forks`, or use 'group'.",
        )
        require(
            not kind.needs_answers,
            f"credit.estimator={name!r} of {game.name}: it asks the policy how likely the right answer was, "
            "which a recipe cannot. Pass answer_logprobs to `srl_agents.credit`, or use 'group'.",
        )
