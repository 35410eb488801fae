"""Requirements of an exchange of rollouts on the rest of a recipe."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from srl_agents.league.curricula import FixedShares
from srl_agents.league.settings import require
from srl_agents.recipes.checks.opponents import trained_games
from srl_envs.errors import ConfigError, within

if TYPE_CHECKING:
    from srl_agents.recipes.settings import LeagueRecipe

_WHAT = "sharing.kind 'rollouts'"


def check_exchange(recipe: LeagueRecipe) -> None:
    """Refuse an exchange that could bring no row, or rows that cannot be compared.

    Raises:
        ConfigError: names the setting.
    """
    for base in recipe.bases:
        try:
            base.training.check_exchange()
        except ConfigError as error:
            raise (within(f"models.{base.name}", error) if recipe.models else error) from None
    for one, other in combinations(recipe.learners, 2):
        own, others = (set(recipe.seats.get(name, ())) for name in (one, other))
        require(
            not own or not others or bool(own & others),
            f"{_WHAT}, seats: {one} holds {sorted(own)} and {other} {sorted(others)}: they meet no common "
            "state. Give them a common seat, or use another kind of sharing.",
        )
    for game in trained_games(recipe):
        require(
            game.credit.mode == "individual",
            f"{_WHAT}, credit.mode={game.credit.mode!r} of {game.name}: rows are compared by what their own "
            "seats earned. Use 'individual', in the `credit` of a game of several where games differ.",
        )
        require(
            game.credit.normalise == "none",
            f"{_WHAT}, credit.normalise={game.credit.normalise!r}: rows of others would keep another scale. "
            "Use scale_advantages.",
        )
    require(
        isinstance(recipe.curriculum, FixedShares),
        f"{_WHAT}, curriculum.kind={recipe.curriculum.kind!r}: learners meet the same start states, so none "
        "has lessons of its own. Use 'fixed'.",
    )
