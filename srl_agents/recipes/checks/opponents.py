"""Checks of a recipe's opponents other than its learners: names, hashes and budgets of agents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from srl_agents.agents.grammar import EndpointName, ModelName, parse
from srl_agents.agents.resolver import known_name
from srl_agents.engines.endpoint.providers import find_model
from srl_agents.league.settings import require

if TYPE_CHECKING:
    from srl_agents.recipes.sections.games import Game
    from srl_agents.recipes.settings import LeagueRecipe


def trained_games(recipe: LeagueRecipe) -> list[Game]:
    """The games that learners train in; the others only measure them."""
    return [game for game in recipe.games if game.weight > 0]


def check_agents(recipe: LeagueRecipe) -> None:
    """Models, adapters and endpoints that learners meet, as far as their names show."""
    bases = {base.name for base in recipe.bases}
    for section in ("opponents", "evaluation"):
        for name in getattr(recipe, section).agents:
            require(
                name not in bases,
                f"{section}.agents: {name!r} is what learners start as, and is met as such.",
            )
            for game in recipe.games:
                known_name(name, game.env_id)
    unpinned = [
        name
        for name in recipe.opponents.pinned
        if name not in recipe.guests or isinstance(parse(name), EndpointName)
    ]
    require(
        not unpinned,
        f"opponents.pinned: {', '.join(map(repr, unpinned))}: only models and adapters of opponents.agents "
        "or evaluation.agents can be held to their weights.",
    )
    _check_pinned_adapters(recipe)


def _check_pinned_adapters(recipe: LeagueRecipe) -> None:
    """Hashes of adapters are those of agents that have one."""
    for text, pinned in recipe.opponents.pinned.items():
        name = parse(text)
        has = isinstance(name, ModelName) and bool(name.adapter)
        require(
            has == (pinned.adapter is not None),
            f"opponents.pinned: {text!r} {'is an' if has else 'has no'} adapter: "
            + ("give" if has else "leave out")
            + " adapter and lora.",
        )


def check_anybody_met(recipe: LeagueRecipe) -> None:
    """Opponents in training need a game of several seats."""
    trained = trained_games(recipe)
    if any(game.seats > 1 for game in trained):
        return
    games = ", ".join(game.name for game in trained)
    roles = [name for name, role in recipe.roles.items() if role != "main"]
    for section, names in (
        ("roles", roles),
        ("opponents.agents", list(recipe.opponents.agents)),
        ("opponents.bots", list(recipe.opponents.bots)),
    ):
        require(
            not names,
            f"{section}: {', '.join(names)}: learners meet no opponents in training, because {games} "
            "has one seat. Leave them out, or train in a game with more seats.",
        )


def check_budgets(recipe: LeagueRecipe) -> None:
    """Every endpoint has a budget for training or for looks at the learners; other agents have none."""
    budgets = recipe.opponents.budgets
    served = [text for text in recipe.guests if isinstance(parse(text), EndpointName)]
    strangers = [text for text in budgets if text not in served]
    require(
        not strangers,
        f"opponents.budgets: {strangers} are not endpoints of opponents.agents or evaluation.agents, "
        "and cost nothing; leave them out.",
    )
    for text in served:
        require(
            text in budgets,
            f"opponents.budgets: {text!r} is an endpoint without a budget, and a run asks thousands of "
            f"times. Say how often, `opponents: {{budgets: {{{text!r}: {{requests: 1000}}}}}}`, and with "
            "`cost` for how much.",
        )
        budget, endpoint = budgets[text], parse(text)
        require(
            budget.cost is None
            or not isinstance(endpoint, EndpointName)
            or find_model(endpoint.url, endpoint.model).price is not None,
            f"opponents.budgets: {text!r}: what it costs is not known. Name a price file in the "
            "providers file (`srl docs endpoints`), or leave out cost.",
        )
        _check_shares(recipe, text)


def _check_shares(recipe: LeagueRecipe, text: str) -> None:
    """A budget covers the start states of some game, and each share of it those of the share's game."""
    budget = recipe.opponents.budgets[text]
    trains = text in recipe.opponents.agents
    attempts = recipe.rollout.group_size if trains else 1
    games = {game.name: game for game in recipe.games if game.weight > 0 or not trains}
    for name in budget.games:
        require(
            name in games,
            f"opponents.budgets: {text!r}: games.{name}: it plays {', '.join(games)}; name some of these.",
        )
    shortest = min(games.values(), key=_most_asked)
    for game, share in ((shortest, 1.0), *((games[n], own) for n, own in budget.games.items())):
        least = math.ceil(attempts * _most_asked(game) / share)
        part = "" if share == 1 else f"games.{game.name}={share:g} of "
        require(
            budget.requests >= least,
            f"opponents.budgets: {text!r}: {part}requests={budget.requests} would never be asked: {attempts} "
            f"attempts at one start state of {game.name} may ask {attempts * _most_asked(game)} times. Use "
            f"{least} or more.",
        )


def _most_asked(game: Game) -> int:
    """Most replies of all seats but one."""
    return game.most_replies * (game.seats - 1)
