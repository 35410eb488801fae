"""Requirements of estimators on the forks of a recipe."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.league.settings import require
from srl_agents.recipes.checks.opponents import trained_games
from srl_agents.records import canonical_json
from srl_envs import make, make_bot, play

if TYPE_CHECKING:
    from srl_agents.recipes.sections.fork_choice import ForkSettings
    from srl_agents.recipes.sections.games import Game
    from srl_agents.recipes.settings import LeagueRecipe


def check_fork_needs(recipe: LeagueRecipe) -> None:
    """Refuse an estimator that compares alternatives where the recipe makes none, and forks of no use.

    Raises:
        ConfigError: names the estimator and the game, or the section that forks do not work with.
    """
    forks = recipe.forks
    if forks is not None:
        _check_forks(recipe, forks)
    for game in trained_games(recipe):
        name = game.credit.estimator
        kind = ESTIMATORS.find(name)
        require(
            forks is not None or not kind.reads_forks,
            f"credit.estimator={name!r} of {game.name}: it compares the alternatives of a decision, and the "
            "recipe makes none. Add a section `forks`, or use 'group'.",
        )
        require(
            forks is None or kind.reads_forks,
            f"forks: credit.estimator={name!r} of {game.name} compares no alternatives of a decision. Use "
            "c3, vine, tree, at_grpo, magrpo or magrpo_crossed, or leave out forks.",
        )
        if forks is not None:
            beyond = [seat for seat in forks.seats if seat >= game.seats]
            require(
                not beyond, f"forks.seats: {beyond} in {game.name}, which has {game.seats} seats."
            )
        require(
            not kind.needs_answers or "answer" in game.references,
            f"credit.estimator={name!r} of {game.name}: it asks how likely the right answer was, and "
            "the game holds none in words. Use solve_and_verify-v0 with one player, or 'group'.",
        )
        require(
            not kind.needs_answers or _asks_again(game),
            f"credit.estimator={name!r} of {game.name}: no seat is asked the same question twice, so no turn "
            "makes its answer more likely. Use solve_and_verify-v0 with env_options.players 1, or 'group'.",
        )
        others = [b.training.algorithm for b in recipe.bases if b.training.algorithm != "grpo"]
        require(
            not (kind.needs_answers and others),
            f"credit.estimator={name!r} of {game.name}: {', '.join(others)} reads no advantages; use "
            "algorithm 'grpo'.",
        )


def _asks_again(game: Game) -> bool:
    """Whether a seat answers one question in several turns, seen in a game of random moves."""
    asked: dict[int, list[str]] = {seat: [] for seat in range(game.seats)}
    env: Any = make(game.env_id, **game.options)
    bots = [make_bot(game.env_id, "random", seed=seat) for seat in asked]

    def reply(seat: int, text: str) -> str:
        references = env.references(env.possible_agents[seat])
        if references:
            asked[seat].append(canonical_json(references))
        return bots[seat](text)

    with closing(env):
        play(env, {seat: partial(reply, seat) for seat in asked}, seed=0)
    return any(len(set(own)) < len(own) for own in asked.values())


def _check_forks(recipe: LeagueRecipe, forks: ForkSettings) -> None:
    """Refuse forks beside what plays or learns otherwise."""
    generation = recipe.generation
    require(
        generation is None or generation.in_flight == "keep",
        "forks, asynchronous.in_flight='switch': the replies to one decision are compared, so one version "
        "writes them all. Use in_flight 'keep'.",
    )
    require(
        generation is None or not generation.refill_limit,
        "forks, asynchronous.refill_limit: a group is flat by its matches, and alternatives of its decisions "
        "may differ all the same. Leave out refill_limit.",
    )
    require(
        generation is None or not set(recipe.opponents.agents) & set(recipe.opponents.budgets),
        "forks, asynchronous: what the branches of a match will ask of an endpoint is not known when it is "
        "ordered, and no budget could hold it. Leave out opponents.agents behind endpoints, asynchronous "
        "(placement 'disaggregated'), or forks.",
    )
    other = [base.training.algorithm for base in recipe.bases if base.training.algorithm != "grpo"]
    require(
        not other, f"forks: {', '.join(other)} has no use for alternatives; use algorithm 'grpo'."
    )
    require(
        recipe.sharing is None or recipe.sharing.kind != "rollouts",
        "forks: sharing kind 'rollouts' compares whole attempts; leave out one of the two.",
    )
    names = [game.credit.estimator for game in trained_games(recipe)]
    biased = [name for name in names if name != "at_grpo"]
    require(
        forks.path != "best" or not biased,
        f"forks.path='best': {', '.join(biased)} averages over what comes later, which is biased behind a "
        "best alternative; only at_grpo is not. Use path 'sampled' or 'parent'.",
    )
    joint = {ESTIMATORS.find(name).needs_joint for name in names}
    require(
        len(joint) == 1,
        f"forks: of {', '.join(names)} some compare joint actions and others do not; use one kind.",
    )
