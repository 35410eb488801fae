"""`srl league swap RUN`: learners with seats of their own exchange them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srl_agents.cli.command_line import read_options
from srl_agents.cli.league.crossplay import text_of
from srl_agents.cli.options import JSONOptions, RunFolderOptions, SeedsOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:  # torch comes with it
    from srl_agents.training.swap_test import SwapTest

DESCRIPTION = """Let the exported learners of a run exchange their seats, on eval seeds.

For runs whose learners have seats of their own (`seats: {alice: [0], bob: [1]}`). A team that took on roles
plays worse when its members exchange seats; a team whose members learned the same does not. Several games are
tested one by one (with --json a list, `games`); the last line is the mean drop over them, each game alike.

Examples:
  srl league swap runs/roles-hanabi-seed0
  srl league swap runs/roles-hanabi-seed0 --seeds 128 --json
"""
SEEDS = 64
"""Of each game, where no number is given."""


@dataclass(frozen=True)
class SwapOptions(SeedsOptions, RunFolderOptions, JSONOptions):
    """Whose seats, and how much is played."""


def swap(argv: list[str]) -> int:
    """Run the command; see `srl league swap --help`."""
    options = read_options(
        SwapOptions, command="srl league swap", description=DESCRIPTION, argv=argv
    )
    seeds = SEEDS if options.seeds is None else options.seeds
    if seeds < 2:
        raise ConfigError(f"--seeds {seeds}: use 2 or more; an interval needs them.")
    from srl_agents.league.ratings.transfer import mean_of_independent
    from srl_agents.training.swap_test import numbers, swap_test

    def show_progress(done: int, count: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done} of {count} matches", end="", file=sys.stderr)

    try:
        found = swap_test(options.run, seeds, show_progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "interrupted. Nothing is kept; the same command begins again."
        ) from None
    if options.json:
        games = [numbers(game) for game in found]
        print(plain_json(games[0] if len(games) == 1 else {"games": games}, indent=2))
        return 0
    for game in found:
        show(game)
    if len(found) > 1:
        drop = mean_of_independent([game.drop for game in found])
        print(f"drop over all {len(found)} games: {text_of(drop)}")
    return 0


def show(found: SwapTest) -> None:
    """Print what came of it in one game."""
    print(
        f"{found.game} ({found.mode}), mean return, (1 + outcome) / 2, on {found.own.clusters} seeds"
    )
    for name, cell in (
        ("own seats:", found.own),
        ("exchanged seats:", found.swapped),
        ("untrained:", found.start),
    ):
        low, high = max(0.0, cell.low), min(1.0, cell.high)
        print(f"{name:16} {cell.estimate:.3f} [{low:.3f}, {high:.3f}]")
    print(f"{'drop:':16} {text_of(found.drop)}")
    for learner, cell in found.learners.items():
        print(f"{learner}, own seats minus others': {text_of(cell)}")
