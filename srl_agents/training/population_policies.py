"""The policies of a population's recipe, and what each is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_agents.agents import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.agents.prompt_file import Examples, read_prompt
from srl_agents.recipes.population_settings import PopulationRecipe
from srl_agents.records import WeightVersion
from srl_envs import spec
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.models.base_model import BaseModel


def build_policies(
    recipe: PopulationRecipe,
) -> tuple[dict[str, Policy], dict[str, dict[str, Any]]]:
    """Policies and contents by agent id; a model is loaded only if there is an agent that needs it.

    Raises:
        ConfigError: an adapter needs a system message.
        ModelError: the model or an adapter cannot be loaded.
    """
    env_id = spec(recipe.env).id
    policies: dict[str, Policy] = {}
    contents: dict[str, dict[str, Any]] = {}
    models = {recipe.agent_id(a): a.adapter for a in recipe.agents if not a.bot}
    for agent in recipe.agents:
        if agent.bot:
            name = recipe.agent_id(agent)
            policies[name] = ScriptedPolicy(agent.bot)
            contents[name] = {"bot": agent.bot, "env": env_id}
    if not models:
        return policies, contents

    from srl_agents.engines.protocol import SamplingSettings  # noqa: PLC0415
    from srl_agents.engines.transformers_engine import TransformersEngine  # noqa: PLC0415
    from srl_agents.models.base_model import BaseModel  # noqa: PLC0415 - torch comes with it
    from srl_agents.training.contents import contents_of  # noqa: PLC0415

    base = BaseModel.load(recipe.model, lora_rank=recipe.lora_rank, lora_alpha=recipe.lora_alpha)
    sampling = SamplingSettings(
        temperature=recipe.temperature, max_new_tokens=recipe.max_new_tokens
    )
    engine = TransformersEngine(base, sampling)
    for number, (name, folder) in enumerate(models.items()):
        version: WeightVersion | None = None
        examples: Examples = ()
        if folder:
            prompt = read_prompt(Path(folder))
            if prompt.system is not None:
                raise ConfigError(
                    f"agent {name}: {folder} was trained behind a system message; all agents of a "
                    "population share one base, which has none."
                )
            examples = prompt.pairs
            version = _freeze(base, f"agent_{number}", Path(folder), examples)
        policies[name] = ModelPolicy(engine, version, examples)
        adapter = None if version is None else str(version)
        contents[name] = contents_of(base, adapter, sampling, env_id, examples)
    return policies, contents


def _freeze(base: BaseModel, name: str, folder: Path, examples: Examples) -> WeightVersion:
    """Add what a folder holds to the base, under a name of ours: agents' ids may hold dots."""
    from srl_agents.models.digests import version_of  # noqa: PLC0415 - torch comes with it

    base.load_frozen(name, folder)
    tensors = base.adapter_tensors(name)
    base.forget(name)
    version = version_of(name, 0, tensors, examples)
    base.freeze(str(version), tensors)
    return version
