"""The policies of a population's recipe, and what each is made of."""

from __future__ import annotations

from srl_agents.agents.resolver import Playing, Seated, seat
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.recipes.population_settings import PopulationRecipe
from srl_envs import spec


def seat_population(recipe: PopulationRecipe) -> dict[str, Seated]:
    """Agents that can play, by id; a base is loaded only if there is an agent that needs it.

    Raises:
        ModelError: a model or an adapter cannot be loaded, or an endpoint does not answer.
    """
    sampling = SamplingSettings(
        temperature=recipe.temperature, max_new_tokens=recipe.max_new_tokens
    )
    return seat(recipe.candidates(), Playing(env_id=spec(recipe.env).id, sampling=sampling))
