"""Memory of each phase of a run's last update, as it was measured and as it would be planned here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srl_agents.memory.phase_manager import TRACE
from srl_agents.metrics.sinks import read_lines
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import SRLError

_GIB = 2**30
_PLANNED = {
    "play": ("rollout",),
    "look": ("rollout",),
    "judge": ("judge",),
    "credit": ("judge",),
    "gradients": ("reference", "train"),
    "steps": ("step",),
    "update": ("reference", "train", "step"),
    "checkpoint": ("checkpoint",),
}
"""Phase of a run -> phases of the planner that make it up."""
_FIXED = ("process", "allocator")
"""Parts of a plan that torch's account of a GPU does not hold."""


def phase_memory(recipe: Path, done: int) -> dict[str, Any] | None:
    """Data of the page's memory chart; None where no memory was measured.

    Args:
        recipe: file in the run's folder, beside the trace.
        done: updates so far; a trace of later ones belongs to an update that is not over.

    Returns:
        ``update``, ``phases`` (in the order in which they ended: ``phase``, and bytes ``before``, ``peak``,
        ``after`` and ``planned``, which may be None), ``budget`` in bytes or None, and ``planned_for``, a
        device, or why nothing is planned.
    """
    lines = [line for line in read_lines(recipe.parent / TRACE) if line["update"] <= done]
    if not lines:
        return None
    update = max(line["update"] for line in lines)
    measured: dict[str, dict[str, Any]] = {}
    for line in (line for line in lines if line["update"] == update):
        one = measured.setdefault(
            line["phase"], {"phase": line["phase"], "before": line["entered"], "peak": 0}
        )
        one["peak"] = max(one["peak"], line["peak"])
        one["after"] = line["left"]
    budget, planned, planned_for = _planned(recipe)
    return {
        "update": update,
        "budget": budget,
        "planned_for": planned_for,
        "phases": [one | {"planned": planned.get(name)} for name, one in measured.items()],
    }


def _planned(path: Path) -> tuple[float | None, Mapping[str, float], str]:
    """Budget in bytes, planned bytes by phase of a run, and for which device."""
    from srl_agents.memory.phase_peaks import phases
    from srl_agents.recipes.plan_description import describe
    from srl_agents.training.start.plan_target import target_for

    budget = None
    try:
        recipe = read_recipe(path)
        if not isinstance(recipe, LeagueRecipe):
            return None, {}, "not planned: no learners"
        budget = recipe.memory.budget_gib and recipe.memory.budget_gib * _GIB
        target = target_for(recipe.device)
        found = phases(describe(recipe, accelerator=target.accelerator), target)
    except SRLError as error:
        return budget, {}, f"not planned: {error}"
    unseen = _FIXED if target.accelerator else ()
    sizes = {
        one.name: sum(size for part, size in one.parts.items() if part not in unseen)
        for one in found
    }
    planned = {
        phase: max(sizes[name] for name in names if name in sizes)
        for phase, names in _PLANNED.items()
        if any(name in sizes for name in names)
    }
    return budget, planned, f"planned for {target.name} of this machine"
