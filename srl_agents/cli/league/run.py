"""`srl league run RECIPE` and `srl league resume RUN`: train learners, or let fixed agents play."""

from __future__ import annotations

import shlex
from pathlib import Path

from srl_agents.agents.first_look import first_look
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import NewRunOptions, RunFolderOptions
from srl_agents.recipes.loading import find_recipe
from srl_agents.recipes.population_settings import PopulationRecipe
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.training.folder.layout import RECIPE
from srl_envs.errors import ConfigError

RUN = """Run a league until its recipe is done. `srl league resume RUN` continues an interrupted run.

A recipe with `learners` trains them (the same as `srl train`); one with `agents` lets them play, and rates
them. An agent is one of  bot:NAME  MODEL[+ADAPTER]  openai:MODEL@URL  (`srl docs agents`).

Examples:
  srl league run population-connect-four
  srl league run population-connect-four --set workers=2 --set matches=5000
  srl league run league-roles-tiny --seed 3 --out runs/roles
"""
RESUME = """Continue an interrupted run of either kind with the recipe that its folder holds.

Example:
  srl league resume runs/quickstart-tiny-seed0
"""


def run(argv: list[str]) -> int:
    """Run the command; see `srl league run --help`."""
    options = read_options(NewRunOptions, command="srl league run", description=RUN, argv=argv)
    overrides = list(options.set)
    if options.seed is not None:
        overrides.append(f"seed={options.seed}")
    path = find_recipe(options.recipe)
    recipe = read_recipe(path, overrides, rows=options.data)
    folder = options.out or Path("runs") / f"{recipe.name}-seed{recipe.seed}"
    if isinstance(recipe, PopulationRecipe):
        first_look((agent.agent, recipe.env) for agent in recipe.agents)
        return play(recipe, folder)

    from srl_agents.cli.train import TrainOptions, train

    return train(
        TrainOptions(
            recipe=str(path), out=folder, seed=options.seed, set=options.set, data=options.data
        )
    )


def resume(argv: list[str]) -> int:
    """Run the command; see `srl league resume --help`."""
    options = read_options(
        RunFolderOptions, command="srl league resume", description=RESUME, argv=argv
    )
    path = options.run / RECIPE
    if not path.is_file():
        raise ConfigError(f"{options.run} holds no {RECIPE}: it is not a run's folder.")
    recipe = read_recipe(path)
    if isinstance(recipe, PopulationRecipe):
        return play(recipe, options.run)

    from srl_agents.cli.train import TrainOptions, train

    return train(TrainOptions(recipe=str(path), out=options.run))


def play(recipe: PopulationRecipe, folder: Path) -> int:
    """Exit code: 0 all matches are in.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM ended the run; its text gives the command that continues it.
        SRLError: a fault ended the run; its text gives that command, too.
    """
    from srl_agents.cli.league.live_view import PopulationView
    from srl_agents.interrupts import naming
    from srl_agents.training.population.rounds import PopulationRun

    with naming(shlex.join(["srl", "league", "resume", str(folder)])):
        league = PopulationRun(recipe, folder)
        try:
            with PopulationView(league) as view:
                league.run(view.show_batch)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; {league.done} of {league.matches} matches are kept."
            ) from None
        finally:
            league.close()
    print(f"The run is in {folder}. Its ratings:  srl league status {folder}")
    return 0
