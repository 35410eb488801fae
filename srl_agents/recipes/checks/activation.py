"""Refuses, by name, settings that cannot learn or play adapters which act from the reply on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srl_agents.league.settings import require

if TYPE_CHECKING:
    from srl_agents.recipes.sections.base_models import Base
    from srl_agents.recipes.settings import LeagueRecipe


def check_activation(base: Base, recipe: LeagueRecipe) -> None:
    """Refuse parts that would let such adapters act on whole prompts.

    Raises:
        ConfigError: the recipe has one.
    """
    what = "lora.activation='reply'"
    require(
        base.engine.activates,
        f"{what}, engine.kind={base.engine.kind!r}: it lets adapters act on whole prompts. Use kind "
        "'transformers', or activation 'start'.",
    )
    require(
        base.training.activates,
        f"{what}, training.algorithm={base.training.algorithm!r}: it trains adapters on whole prompts. Use "
        "'grpo', or activation 'start'.",
    )
    require(
        not base.training.gradient_checkpointing,
        f"{what}, training.gradient_checkpointing: layers would run again without knowing where replies "
        "begin. Leave out one of the two.",
    )
    imitates = recipe.sharing is not None and recipe.sharing.kind in ("sft", "dpo")
    others = {
        "warm_start": recipe.warm_start is not None,
        "reward_model": recipe.reward_model is not None,
        "sharing of kind 'sft' or 'dpo'": imitates,
    }
    found = [name for name, there in others.items() if there]
    require(
        not found,
        f"{what}, {', '.join(found)}: trained on whole prompts. Leave out one of the two.",
    )
