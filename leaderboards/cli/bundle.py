"""`srl leaderboard bundle`: turn finished runs into folders that can be checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, ResultOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

DESCRIPTION = """Make the bundle of every finished run below a folder.

Examples:
  srl leaderboard bundle runs/board
  srl leaderboard bundle runs/board/connect_four-v0 --out submission --with-adapters

Without --out the bundles lie in DIR/bundles. A bundle holds every match of the schedule, or is not made.
"""


@dataclass(frozen=True, kw_only=True)
class BundleOptions(ResultOptions, JSONOptions):
    """Which runs, and where their bundles go."""

    dir: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder given as --out to `srl leaderboard run`."""
    with_adapters: bool = False
    """Put the adapters' weights in, so that L3 needs nothing else."""


def main(argv: list[str]) -> int:
    """Exit code: 0 made, 2 the user has something to fix."""
    options = read_options(
        BundleOptions, command="srl leaderboard bundle", description=DESCRIPTION, argv=argv
    )

    from leaderboards.bundles.run import HEADER
    from leaderboards.bundles.submission import write_bundle

    folder = options.dir
    runs = (
        [folder]
        if (folder / HEADER).is_file()
        else sorted(p.parent for p in folder.glob(f"*/{HEADER}"))
    )
    if not runs:
        raise ConfigError(
            f"{folder} holds no run. `srl leaderboard run ENV --out {folder}` makes one."
        )
    out = options.out or folder / "bundles"
    made = [write_bundle(run, out, with_adapters=options.with_adapters) for run in runs]
    if options.json:
        summaries = [
            {"env": b.protocol.name, "root": b.root, "folder": str(b.folder)} for b in made
        ]
        print(plain_json(summaries))
        return 0
    for bundle in made:
        print(f"{bundle.protocol.name}: {len(bundle.specs)} matches in {bundle.folder}")
        for line in rows(bundle.ratings):
            print(f"  {line}")
    print(f"next: srl leaderboard verify {out} --level L2")
    return 0


_SCORES = {"elo": ("elo", "half_width"), "cross_play": ("cross_play", "cross_play_half_width")}
"""By measure: the keys of a row's score and of half its interval."""


def rows(ratings: Mapping[str, Any]) -> list[str]:
    """One line per agent, best first, of the content of ``ratings.json``; none for mixed games."""
    if ratings["measure"] not in _SCORES:
        return []
    score, half = _SCORES[ratings["measure"]]
    lines = []
    for row in ratings["rows"]:
        width = "interval unknown" if row[half] is None else f"± {row[half]:.4g}"
        lines.append(f"{row['agent']}: {ratings['measure']} {row[score]:.4g}, {width}")
    return lines
