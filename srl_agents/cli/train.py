"""`srl train RECIPE`: run a league recipe."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

import srl_agents
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import NewRunOptions, TrialOptions
from srl_agents.recipes.loading import SHIPPED
from srl_envs.errors import FaultError

if TYPE_CHECKING:
    from srl_agents import Run

DESCRIPTION = f"""Train a league of language models and play the final round robin.

A run that was interrupted continues where its last checkpoint left off: `srl train RUN`, with its folder.
Opponents may be  bot:NAME  MODEL[+ADAPTER]  openai:MODEL@URL  (`srl docs agents`).

Examples:
  srl train quickstart-tiny
  srl train qwen2.5-1.5b-80gb --dry-run      # one update, two layers, random weights
  srl train quickstart-tiny --view full      # curves, phases, memory and matches
  srl train my_recipe.yaml --seed 3 --out runs/mine --set training.learning_rate=0.002
  srl train runs/mine                                                 # go on with an interrupted run
  srl train --more 50 runs/mine                                       # go on, 50 updates longer
  srl train my_recipe.yaml --ray auto --set ray.workers=64           # `srl docs cluster`
  srl train my_recipe.yaml --data data                # rows called by name, such as `tasks: gsm8k`
  torchrun --nproc-per-node 2 --no-python srl train my_recipe.yaml    # share the work

`srl docs settings` has the twenty settings that matter most, with typical values.

Shipped recipes: {", ".join(sorted(p.stem for p in SHIPPED.glob("*.yaml")))}.
"""


@dataclass(frozen=True)
class TrainOptions(NewRunOptions, TrialOptions):
    """What to run and where."""

    force: bool = False
    """Begin although the plan finds too little memory."""
    more: int | None = None
    """Updates beyond those of the recipe in the folder of a run; only with such a folder."""
    profile: bool = False
    """Write a torch profiler's trace of one update to RUN/profile."""
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """Train and play on a Ray cluster: auto, local, or HOST:PORT of its head."""
    view: Literal["short", "full"] = "short"
    """What a terminal shows: short, the learners and the progress; full, curves, phases, memory and matches
    as well. Elsewhere each update is a line, or several of at most 100 characters."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl train --help`."""
    options = read_options(TrainOptions, command="srl train", description=DESCRIPTION, argv=argv)
    return train(options)


def train(options: TrainOptions) -> int:
    """Exit code: 0 trained (or nothing left to do), 1 no learner took a step, 3 a fault stopped the run."""
    from srl_agents.recipes.sections.fault_kinds import NOTHING_LEARNED, STOPPED

    if options.dry_run:
        return try_out(options)
    try:
        run = srl_agents.train(
            options.recipe,
            out=options.out,
            seed=options.seed,
            more=options.more,
            overrides=options.set,
            data=options.data,
            force=options.force,
            profile=options.profile,
            ray=options.ray,
            view=options.view,
        )
    except FaultError as error:
        print(f"srl train: {error}", file=sys.stderr)
        return STOPPED
    if run.first:
        _say_where(run)
    outcome = run.outcome
    if outcome is None or outcome.learned or run.recipe.survival.allow_nothing_learned:
        return 0
    why = "".join(f" {name}: {reason}." for name, reason in sorted(outcome.reasons.items()))
    print(
        f"srl train: nothing was learned: no learner took a step in {run.recipe.updates} updates.{why} "
        f"Nothing was exported. `srl doctor {run.folder}` shows what to change; --set "
        "survival.allow_nothing_learned=true ends such a run with 0.",
        file=sys.stderr,
    )
    return NOTHING_LEARNED


def _say_where(run: Run) -> None:
    from srl_agents.training.folder.layout import FOLDERS

    folder, exported = run.folder, FOLDERS[run.recipe.parameters]
    print(
        f"The run is in {folder}. Its ratings:  srl league status {folder}\n"
        f"Its leaderboard:\n  srl leaderboard build --store {folder}/league.db --schedule eval/final "
        f"--out {folder}/site\n"
        f"Its curves:  srl report {folder}\n"
        f"Its {exported}:  {folder / exported}"
    )


def try_out(options: TrainOptions) -> int:
    """Take the update of a dry run."""
    from srl_agents.api.recipe_source import Request

    request = Request(
        recipe=options.recipe,
        out=options.out,
        seed=options.seed,
        overrides=options.set,
        data=options.data,
        more=options.more,
    )
    recipe = request.read(look=False)

    from srl_agents.metrics import ConsoleView
    from srl_agents.training.dry_run import dry_run
    from srl_agents.training.parts.spending import require_budget

    require_budget(recipe.stop, request.folder(recipe))

    with ConsoleView(f"{recipe.name}: dry run", 1) as view:
        lines = dry_run(recipe, view)
    print("\n".join(lines))
    return 0
