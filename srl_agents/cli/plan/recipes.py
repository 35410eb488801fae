"""`srl recipes [NAME]`: list the shipped recipes with hardware, time and what is proven, or print one."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from srl_agents.cli.command_line import print_table, read_options
from srl_agents.cli.options import ListingOptions
from srl_agents.cli.plan.run import plan_of
from srl_agents.memory.devices import target_of
from srl_agents.recipes.loading import SHIPPED, find_recipe
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import plain_json

DESCRIPTION = """List every shipped recipe, or print one of them.

Memory is the planner's for the device that the recipe names. Hours are the planner's for all updates of
a card's recipe, without evaluations, and measured for recipes that ran to their end on a CPU.

Examples:
  srl recipes
  srl recipes qwen2.5-7b-80gb
  srl recipes quickstart-tiny > mine.yaml
  srl recipes --json
"""
NEEDS = re.compile(
    r"# (Needs|Would need) ([\d.]+) (?:of the [\d.]+ )?GiB[^:]*:[\s#]*srl plan (\S+)(?: --device (\S+))?"
)
"""What a recipe's header states of its memory: verb, size, the recipe's name and the device."""
PROVEN = SHIPPED / "proven.json"
"""Written by `python -m benchmarks.learning.shipped_recipes`: by recipe, where it ran and what came out."""


@dataclass(frozen=True, slots=True)
class RecipeSummary:
    """One shipped recipe."""

    name: str
    what: str
    """First sentence of its header."""
    games: tuple[str, ...]
    models: tuple[str, ...]
    algorithm: str
    device: str
    memory_gib: float | None
    """Peak by plan; None of a population, which has no learners."""
    hours: float | None
    """Of the whole run; None where it is neither planned nor measured."""
    proven: str


def main(argv: list[str]) -> int:
    """Run the command; see `srl recipes --help`."""
    options = read_options(
        ListingOptions, command="srl recipes", description=DESCRIPTION, argv=argv
    )
    if options.name:
        path = find_recipe(options.name)
        text = path.read_text(encoding="utf-8")
        found = asdict(summary(path.stem)) if options.json and path.parent == SHIPPED else None
        print(plain_json(found, indent=2) if found else text, end="\n" if found else "")
        return 0
    rows = [summary(path.stem) for path in sorted(SHIPPED.glob("*.yaml"))]
    if options.json:
        print(plain_json([asdict(row) for row in rows], indent=2))
    else:
        _list(rows)
    return 0


def summary(name: str) -> RecipeSummary:
    """What a shipped recipe is, and what it needs."""
    path = SHIPPED / f"{name}.yaml"
    recipe, proof = read_recipe(path), json.loads(PROVEN.read_text(encoding="utf-8")).get(name, {})
    header = " ".join(
        line.lstrip("# ")
        for line in path.read_text(encoding="utf-8").split("\nname:")[0].splitlines()
    )
    what = re.split(r"(?<=[.:]) ", header, maxsplit=1)[0].rstrip(".:")
    if not isinstance(recipe, LeagueRecipe):
        hours = proof.get("hours")
        return RecipeSummary(
            name, what, (recipe.env,), (), "no training", "cpu", None, hours, _proven(proof)
        )
    device = _device(path.read_text(encoding="utf-8"))
    made = plan_of(name, target_of(device))
    planned = recipe.updates * sum(made.pace.seconds.values()) / 3600 if device != "cpu" else None
    return RecipeSummary(
        name=name,
        what=what,
        games=tuple(game.env_id for game in recipe.games),
        models=tuple(base.model for base in recipe.bases),
        algorithm=" and ".join(dict.fromkeys(base.training.algorithm for base in recipe.bases)),
        device=device,
        memory_gib=made.peak.bytes / 2**30,
        hours=planned if planned is not None else proof.get("hours"),
        proven=_proven(proof),
    )


def _device(text: str) -> str:
    stated = NEEDS.search(text)
    return "cpu" if stated is None else stated[4] or "a100-80gb"


def _proven(proof: dict[str, Any]) -> str:
    if not proof:
        return "planned only"
    if "learners" not in proof:
        return f"whole updates, random weights: {proof['on']}"
    if not proof["learners"]:
        return "ran"
    return f"ran: {proof['better']} of {proof['learners']} learners better than their start"


def _hours(hours: float | None) -> str:
    if hours is None:
        return ""
    return f"{max(1, hours * 60):.0f} min" if hours < 1 else f"{hours:.1f} h"


def _list(rows: list[RecipeSummary]) -> None:
    heads = ("recipe", "games", "models", "algorithm", "on", "GiB", "time", "proven")
    cells = [
        (
            row.name, ", ".join(row.games), ", ".join(model.split("/")[-1] for model in row.models),
            row.algorithm, row.device, "" if row.memory_gib is None else f"{row.memory_gib:.1f}",
            _hours(row.hours), row.proven,
        )
        for row in rows
    ]  # fmt: skip
    print_table(
        heads, cells, "`srl recipes NAME` prints one, `srl plan NAME` has its memory by phase."
    )
