"""The plan of a run, made where it is going to train, before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable

from srl_agents.memory.planner import plan
from srl_agents.models.memory.host_allocator import keep_few_kernels, return_large_blocks
from srl_agents.recipes.checks.opponents import trained_games
from srl_agents.recipes.plan_description import describe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.start.plan_target import target_for
from srl_envs.errors import ConfigError

_DAY_S = 86_400


def plan_first(recipe: LeagueRecipe, say: Callable[[str], None], *, force: bool) -> None:
    """Show the plan's line and how long a promotion gate may take; a run that does not fit, or would take
    a processor days, begins only when forced.

    Args:
        recipe: what is to be trained here.
        say: shows a line.
        force: begin all the same.

    Raises:
        ConfigError: it does not fit, or takes days; the text says what would do.
    """
    if recipe.promotion is not None:
        say(recipe.promotion.line(len(trained_games(recipe))))
    target = target_for(recipe.device)
    if not target.accelerator:
        return_large_blocks()
        keep_few_kernels()
    try:
        made = plan(describe(recipe, accelerator=target.accelerator), target)
    except (
        ConfigError
    ) as error:  # a kind of model that the planner does not know trains all the same
        say(f"not planned: {error}")
        return
    days = recipe.updates * made.pace.total_s / _DAY_S
    say(made.line)
    endless = days > 1 and not target.accelerator and recipe.stop is None
    if force or (made.fits and not endless):
        return
    if days > 1:  # advice that makes it fit would not make it end
        raise ConfigError(
            f"{made.line}, {days:,.0f} days in all. Give a smaller model, such as smollm2-135m, or find a "
            "card with `srl plan --device`. --force begins all the same."
        )
    advice = f"It fits with {', then '.join(made.advice)}." if made.advice else ""
    raise ConfigError(
        f"{made.line}. {advice} `srl plan` shows the parts; --force begins all the same."
    )
