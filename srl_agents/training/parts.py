"""The parts of a league run that follow from its recipe alone, built one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.transformers_engine import TransformersEngine
from srl_agents.league.manager import Arena, League
from srl_agents.league.modes import resolve
from srl_agents.models.base_model import BaseModel, Prompt
from srl_agents.recipes.environment import surroundings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.rewards.learned_reward import LearnedReward
from srl_agents.rewards.weighing import RecipeRewards
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.training.sharing_rounds import Sharing
from srl_envs import spec as env_spec
from srl_envs.errors import ConfigError
from srl_envs.registry import count_seats

Learners = dict[str, AdapterLearner[Any]]


def load_base(recipe: LeagueRecipe) -> BaseModel:
    """The model that all learners share.

    Raises:
        ConfigError: a reply alone would fill its context.
        ModelError: it cannot be fetched or loaded.
    """
    base = BaseModel.load(
        recipe.model,
        lora_rank=recipe.lora.rank,
        lora_alpha=recipe.lora.alpha,
        lora_targets=recipe.lora.target_modules,
        parameters=recipe.parameters,
        frozen_in_memory=recipe.full.snapshots_in_memory,
        dtype=recipe.dtype,
        device=recipe.device,
        prompt=Prompt(system=recipe.prompt.system, examples=recipe.prompt.pairs),
    )
    budget = recipe.rollout.max_new_tokens
    if budget >= base.context_length:
        raise ConfigError(
            f"rollout.max_new_tokens={budget}: {recipe.model} reads {base.context_length} "
            "tokens in all, prompt and reply together."
        )
    return base


def make_engine(recipe: LeagueRecipe, base: BaseModel) -> TransformersEngine:
    """What replies are sampled with."""
    sampling = SamplingSettings(
        temperature=recipe.rollout.temperature, max_new_tokens=recipe.rollout.max_new_tokens
    )
    return TransformersEngine(base, sampling, max_batch_rows=recipe.rollout.batch_rows)


def make_league(recipe: LeagueRecipe) -> League:
    """Who plays whom."""
    known = env_spec(recipe.env)
    arena = Arena(
        env_id=known.id,
        options=recipe.match_options,
        seats=count_seats(recipe.env, **recipe.match_options),
        mode=known.mode,
        teams=recipe.teams,
    )
    return League(
        arena=arena,
        learners=recipe.learners,
        start=recipe.model,
        opponents=resolve(recipe.opponents, known.mode, arena.seats),
        seed=recipe.seed,
        roles=recipe.roles,
        exploiters=recipe.exploiters,
    )


def seeds_of(recipe: LeagueRecipe) -> dict[str, int]:
    """Learner -> seed of its first weights; one for all where coordination combines them."""
    alike = recipe.coordination.starts_alike
    return {name: _derived(recipe.seed, "all" if alike else name) for name in recipe.learners}


def make_learners(recipe: LeagueRecipe, base: BaseModel, seeds: Mapping[str, int]) -> Learners:
    """By name, each around its adapter, which a warm start may have made already."""
    temperature = recipe.rollout.temperature
    return {
        name: recipe.training.make_learner(name, base, temperature=temperature, seed=seed)
        for name, seed in seeds.items()
    }


def make_sharing(
    recipe: LeagueRecipe, base: BaseModel, learners: Learners, seeds: Mapping[str, int]
) -> Sharing | None:
    """Rounds in which learners read each other, if the recipe has them."""
    if recipe.sharing is None:
        return None
    return Sharing(recipe.sharing, base, learners, seeds, recipe.rollout.max_new_tokens)


def make_recipe_rewards(recipe: LeagueRecipe) -> RecipeRewards | None:
    """What the recipe's rewards make of episodes, if it has a section of them."""
    if recipe.rewards is None:
        return None
    around = surroundings(recipe.env, recipe.env_options, recipe.wrappers)
    return RecipeRewards(
        recipe.rewards,
        paid=around.paid,
        statistics=around.statistics,
        max_new_tokens=recipe.rollout.max_new_tokens,
    )


def make_learned_reward(recipe: LeagueRecipe, base: BaseModel) -> LearnedReward | None:
    """The judge beside the rules, if the recipe has one."""
    if recipe.reward_model is None:
        return None
    return LearnedReward(recipe.reward_model, base, _derived(recipe.seed, "reward_model"))


def _derived(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:4], "big")
