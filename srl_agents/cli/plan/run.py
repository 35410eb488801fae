"""`srl plan RECIPE`: memory and time of a run, before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import DeviceOptions, JSONOptions, PlotOptions, RecipeOptions
from srl_agents.memory.devices import DEVICES, Target, target_of
from srl_agents.memory.planner import Plan, plan
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

DESCRIPTION = f"""Compute a recipe's memory and time on a device, only from its model's config.json.

Exit code: 0 it fits, 1 it does not (the cheapest change is printed), 2 something in the command is wrong.
Devices: {", ".join(DEVICES)}, cpu (this machine), or a size such as 48GB.

Examples:
  srl plan quickstart-tiny --device cpu
  srl plan qwen2.5-7b-80gb --device a100-80gb
  srl plan my_recipe.yaml --device 40GB --set training.gradient_checkpointing=true --json
  srl plan my_recipe.yaml --plot plan.svg
  srl plan my_recipe.yaml --set memory.sharded=true --processes 4
  srl plan qwen2.5-7b-80gb --rehearse
"""

DEVICE = "a100-80gb"
"""Planned for where no device is named."""


@dataclass(frozen=True)
class PlanOptions(RecipeOptions, DeviceOptions, PlotOptions, JSONOptions):
    """What is planned, and for what."""

    prompt_tokens: int | None = None
    """Longest prompt, instead of what a bot reads in a few episodes."""
    processes: int | None = None
    """Processes that torchrun starts, each with such a device; for recipes with memory.sharded."""
    rehearse: bool = False
    """Also run learning and generation at full size on a device without numbers, and compare peaks."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl plan --help`."""
    options = read_options(PlanOptions, command="srl plan", description=DESCRIPTION, argv=argv)
    if options.plot is not None and options.plot.suffix != ".svg":
        raise ConfigError(f"plot={options.plot}: expected a file that ends in .svg.")
    target = target_of(options.device or DEVICE)
    if options.rehearse:
        _check_rehearsal(options, target)
    made = plan_of(
        options.recipe,
        target,
        options.set,
        options.prompt_tokens,
        rows=options.data,
        processes=options.processes,
    )
    if options.plot is not None:
        from srl_agents.cli.plan.phase_figure import figure

        options.plot.write_text(figure(made), encoding="utf-8")
    rehearsal = _rehearsed(options) if options.rehearse else None
    if options.json:
        print(
            plain_json(made.numbers() | ({"rehearsal": rehearsal} if rehearsal else {}), indent=2)
        )
    else:
        show(made)
        if rehearsal:
            _show_rehearsal(rehearsal)
    return 0 if made.fits else 1


def _check_rehearsal(options: PlanOptions, target: Target) -> None:
    """Raise ConfigError where a rehearsal cannot follow the plan."""
    if not target.accelerator:
        raise ConfigError(
            f"--rehearse --device {options.device}: give a card; a CPU needs no rehearsal."
        )
    if options.data or options.prompt_tokens is not None or options.processes is not None:
        raise ConfigError("--rehearse: leave out --data, --prompt-tokens and --processes.")


def _rehearsed(options: PlanOptions) -> dict[str, Any]:
    from srl_agents.training.rehearsal.own_process import rehearsed

    return rehearsed(str(options.recipe), options.set, options.device or DEVICE)


def _show_rehearsal(rehearsal: dict[str, Any]) -> None:
    print(
        f"Rehearsed in {rehearsal['seconds']:.0f} s: GB without process, allocator and kept prefixes."
    )
    for name, own in rehearsal["phases"].items():
        print(
            f"  {name:8} {own['rehearsed'] / 1e9:8.3f} rehearsed {own['planned'] / 1e9:8.3f} planned, "
            f"planned / rehearsed {own['planned'] / own['rehearsed']:.3f}, {own['flops'] / 1e12:,.1f} TFLOP"
        )
    print(f"Attention: {rehearsal['attention']}.")


def plan_of(
    name: str,
    target: Target,
    overrides: tuple[str, ...] = (),
    prompt_tokens: int | None = None,
    *,
    rows: Path | None = None,
    processes: int | None = None,
) -> Plan:
    """Plan a recipe file.

    Raises:
        ConfigError: the recipe is wrong, has no learners, or its model cannot be planned.
    """
    from dataclasses import replace

    from srl_agents.recipes.loading import find_recipe
    from srl_agents.recipes.plan_description import describe
    from srl_agents.recipes.recipe_kinds import read_recipe
    from srl_agents.recipes.settings import LeagueRecipe

    recipe = read_recipe(find_recipe(name), overrides, rows=rows)
    if not isinstance(recipe, LeagueRecipe):
        raise ConfigError(
            f"{name} is a population, which has no learners: there is nothing to plan."
        )
    if processes is not None and not recipe.memory.sharded:
        raise ConfigError(
            f"--processes {processes}: only processes that divide a base are planned. Add --set "
            "memory.sharded=true, or leave it out."
        )
    described = describe(recipe, accelerator=target.accelerator, processes=processes or 1)
    if prompt_tokens is not None:
        context = min(base.model.context for base in described.bases)
        room = context - described.traffic.reply_tokens
        if prompt_tokens > room:
            raise ConfigError(
                f"prompt_tokens={prompt_tokens}: a context of {context} tokens has room for {room} and a "
                f"reply of {described.traffic.reply_tokens}."
            )
        longer = replace(
            described.traffic,
            prompt_tokens=prompt_tokens,
            mean_prompt_tokens=float(prompt_tokens),
            mean_new_tokens=None,
            source="the command's --prompt-tokens; every reply at its limit",
        )
        others = tuple(replace(other, traffic=longer) for other in described.others)
        described = replace(described, traffic=longer, others=others)
    return plan(described, target)


def show(made: Plan) -> None:
    """Print the tables."""
    from rich.console import Console
    from rich.table import Table

    console, described, traffic = Console(), made.description, made.description.traffic
    roles = list(dict.fromkeys(role for phase in made.phases for role in phase.parts))
    sizes = [
        f"{base.model.name} ({base.model.parameters / 1e9:.2f} billion weights, {base.base_type})"
        for base in described.bases
    ]
    each = f" in each of {described.processes} processes" if described.processes > 1 else ""
    name, unit = made.target.unit
    print(f"{name} by phase{each}: {described.name}, {' and '.join(sizes)}")
    table = Table()
    table.add_column("")
    for phase in made.phases:
        table.add_column(phase.name, justify="right")
    for role in roles:
        cells = [phase.parts.get(role) for phase in made.phases]
        table.add_row(role, *("" if c is None else f"{c / unit:.3f}" for c in cells))
    table.add_section()
    table.add_row("all", *(f"{phase.bytes / unit:.3f}" for phase in made.phases))
    console.print(table)
    learners = sum(base.learners for base in described.bases)
    print(
        f"{learners} learners, each {traffic.rows} replies per update; prompts of "
        f"{traffic.prompt_tokens} tokens at most, replies of {traffic.reply_tokens} ({traffic.source})."
    )
    for base in described.bases:
        name = base.base or base.model.name
        if base.placement:
            print(f"Placement of {name}: {base.placement}.")
        if base.sharing:
            print(f"Shared prefixes of {name}: {base.sharing}.")
    pace = made.pace
    phases = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in pace.seconds.items())
    print(
        f"Expected on {made.target.name} at {made.target.mfu:.0%} of its peak (assumed): {phases}; "
        f"{pace.written_per_s:,.0f} reply tokens/s while they are written, {pace.learned_per_s:,.0f} over "
        f"the "
        f"update; model FLOP utilisation {pace.mfu:.1%}."
    )
    if described.processes > 1:
        print("The time in which layers travel between processes is not counted.")
    print(f"{made.target.name}: {made.target.source}.")
    print(made.line)
    if made.advice:
        print(f"It fits with: {', then '.join(made.advice)}.")
    elif not made.fits:
        print("The planner found no change that makes it fit.")
