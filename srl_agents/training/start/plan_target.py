"""The device that a run is going to have, as the planner describes devices."""

from __future__ import annotations

from dataclasses import replace

import torch

from srl_agents.memory.devices import DEVICES, Target, target_of, this_machine
from srl_agents.memory.planner import plan
from srl_agents.models.base_model import device_named
from srl_agents.recipes.plan_description import describe
from srl_agents.recipes.settings import LeagueRecipe


def target_for(device: str) -> Target:
    """A recipe's ``device``: this machine's CPU, or the GPU with the memory that is free on it.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:0``.

    Raises:
        ConfigError: this machine has no such device.
    """
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return this_machine()
    place = device_named(device)
    free, _ = torch.cuda.mem_get_info(place)
    name = torch.cuda.get_device_name(place)
    for known, like in DEVICES.items():
        if known.partition("-")[0].removeprefix("rtx").upper() in name:
            return replace(like, name=name, memory_bytes=float(free) + like.overhead_bytes)
    return replace(target_of(f"{free}B"), name=name)


def checkpointing_by_plan(recipe: LeagueRecipe, processes: int) -> bool:
    """Whether a recipe with ``gradient_checkpointing: auto`` needs it here and now.

    Args:
        recipe: what is trained.
        processes: that share the run.

    Raises:
        ConfigError: a model is of a kind that cannot be planned.
    """
    if all(base.training.gradient_checkpointing != "auto" for base in recipe.bases):
        return False
    target = target_for(recipe.bases[0].device)
    described = describe(recipe, accelerator=target.accelerator, processes=processes)
    made = plan(described, target).description
    return made.checkpointing or any(other.checkpointing for other in made.others)
