"""`srl league crossplay RUN RUN ...`: learners of independent runs play each other."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, PlotOptions, RunsOptions, SeedsOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:  # torch comes with it
    from srl_agents.league.ratings.intervals import Interval
    from srl_agents.training.crossplay import CrossPlay

DESCRIPTION = """Let the exported learners of two or more runs of the same games meet on eval seeds.

A cell is the mean outcome of the row's player in matches with the column's, with a 95 % interval over seeds.
In a cooperative game the lines below are the point: what a run's own learners reach together, what learners
reach with strangers from other runs, and how much more both are than what the bases they began as reach.
Several games have a table each (with --json a list, `games`); the last lines are means over them, each game
alike.

Examples:
  srl league crossplay runs/quickstart-tiny-seed0 runs/quickstart-tiny-seed1
  srl league crossplay runs/a runs/b runs/c --seeds 64 --plot matrix.svg --json
"""
SEEDS = 32
"""Per two players, where no number is given."""
_CELL, _LEFT, _TOP = 76, 190, 60


@dataclass(frozen=True, kw_only=True)
class CrossPlayOptions(SeedsOptions, PlotOptions, JSONOptions, RunsOptions):
    """Who plays, and how much."""


def crossplay(argv: list[str]) -> int:
    """Run the command; see `srl league crossplay --help`."""
    options = read_options(
        CrossPlayOptions, command="srl league crossplay", description=DESCRIPTION, argv=argv
    )
    seeds = SEEDS if options.seeds is None else options.seeds
    if seeds < 1:
        raise ConfigError(f"--seeds {seeds}: use 1 or more.")
    if options.plot is not None and options.plot.suffix != ".svg":
        raise ConfigError(f"--plot {options.plot}: expected a file that ends in .svg.")
    if options.plot is not None and not options.plot.parent.is_dir():
        raise ConfigError(f"--plot {options.plot}: folder {options.plot.parent} does not exist.")
    if len(options.runs) < 2:
        raise ConfigError(
            f"{len(options.runs)} run: name two or more; only learners of different runs are paired."
        )
    from srl_agents.training.crossplay import cross_play, gains_over_games, players_of

    recipe, players = players_of(options.runs)

    def show_progress(done: int, count: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done} of {count} matches", end="", file=sys.stderr)

    try:
        found = cross_play(recipe, players, seeds, show_progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "interrupted. Nothing is kept; the same command begins again."
        ) from None
    if options.plot is not None:
        options.plot.write_text(figure(found), encoding="utf-8")
    if options.json:
        games = [game.numbers() for game in found]
        print(plain_json(games[0] if len(games) == 1 else {"games": games}, indent=2))
        return 0
    for game in found:
        show(game)
    if len(found) > 1:
        for label, gain in gains_over_games(found).items():
            print(f"{label}, more than its start over all {len(found)} games: {text_of(gain)}")
    return 0


def show(found: CrossPlay) -> None:
    """Print the matrix and the line below it."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"mean outcome of the row's player: {found.game} ({found.mode})")
    table.add_column("", no_wrap=True)
    for number, _ in enumerate(found.labels, 1):
        table.add_column(str(number), justify="right")
    for number, row in enumerate(found.labels, 1):
        cells = [found.cells.get((row, column)) for column in found.labels]
        table.add_row(
            f"{number} {row}",
            *("" if c is None else f"{c.estimate:+.2f} ±{c.half_width:.2f}" for c in cells),
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    blocks = {"of one run": found.together, "strangers": found.strangers, "starts": found.starts}
    for name, cell in blocks.items():
        if cell is not None:
            print(f"{name}: {text_of(cell)} per match and seat")
    for name, cell in found.team_gains.items():
        print(f"{name}, more than starts: {text_of(cell)}")
    for label, cell in found.gains.items():
        print(f"{label}, more than its start with the same others: {text_of(cell)} of a return")


def text_of(cell: Interval) -> str:
    """Estimate and ends of an interval."""
    return f"{cell.estimate:+.3f} [{cell.low:+.3f}, {cell.high:+.3f}]"


def figure(found: Sequence[CrossPlay]) -> str:
    """The matrix of each game as SVG, one below the other; blue is above the mean of its cells, red below."""
    n = max(len(game.labels) for game in found)
    width, height = _LEFT + n * _CELL + 20, _TOP + n * _CELL + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height * len(found)}" '
        'font-family="sans-serif" font-size="11">',
        *(line for place, game in enumerate(found) for line in _matrix(game, place * height)),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _matrix(found: CrossPlay, top: int) -> Iterator[str]:
    values = [cell.estimate for cell in found.cells.values()] or [0.0]
    middle = sum(values) / len(values)
    span = max((abs(value - middle) for value in values), default=0.0) or 1.0
    yield f'<text x="10" y="{top + 20}" font-size="13">{escape(found.game)}: mean outcome of the row</text>'
    for i, row in enumerate(found.labels):
        y = top + _TOP + i * _CELL
        yield f'<text x="10" y="{y + _CELL / 2}">{escape(row)}</text>'
        yield f'<text x="{_LEFT + i * _CELL + 4}" y="{top + _TOP - 8}">{i + 1}</text>'
        for j, column in enumerate(found.labels):
            cell = found.cells.get((row, column))
            if cell is None:
                continue
            share = (cell.estimate - middle) / span
            colour = "31,111,235" if share > 0 else "194,65,12"
            x = _LEFT + j * _CELL
            yield (
                f'<rect x="{x}" y="{y}" width="{_CELL - 2}" height="{_CELL - 2}" '
                f'fill="rgba({colour},{abs(share):.2f})" stroke="#bbb"/>'
                f'<text x="{x + 8}" y="{y + 34}">{cell.estimate:+.2f}</text>'
                f'<text x="{x + 8}" y="{y + 50}" fill="#555">±{cell.half_width:.2f}</text>'
            )
