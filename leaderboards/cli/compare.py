"""`srl leaderboard compare`: hold bundles against a board, and change nothing."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboards.cli.parser import OneLineParser
from leaderboards.cli.progress import ProgressBar
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.comparing import Comparison

EXAMPLES = """\
examples:
  srl leaderboard compare runs/board/bundles --board leaderboards/published

A bundle of fewer seeds is compared in the matches that it has. Nothing is written.

exit codes: 0 every match is on the board and came to the same, 1 one did not or is not there,
2 a mistake in the command, or a damaged bundle.
"""


def main(argv: list[str]) -> int:
    """Exit code: 0 all reproduced, 1 something was not, 2 the user has something to fix."""
    options = _parser().parse_args(argv)

    from leaderboards.bundle import find_bundles, open_bundle
    from leaderboards.comparing import compare

    board = Path(options.board)
    if not board.is_dir():
        raise ConfigError(f"{board} is no board: give the folder that `publish` writes to.")
    found = []
    for folder in [bundle for path in options.bundles for bundle in find_bundles(Path(path))]:
        with ProgressBar(options.json) as bar:
            found.append(compare(open_bundle(folder), board, bar.told))
        if not options.json:
            print(sentence(found[-1]), flush=True)
    if options.json:
        print(plain_json([{**asdict(c), "reproduced": c.reproduced} for c in found]))
    return 0 if all(comparison.reproduced for comparison in found) else 1


def sentence(comparison: Comparison) -> str:
    """A comparison for people."""
    c = comparison
    if c.difference:
        return f"{c.bundle}: differs from the board: {c.difference}"
    if c.shared < c.matches:
        return (
            f"{c.bundle}: the board has {c.shared} of its {c.matches} matches; those are the same"
        )
    return f"{c.bundle}: reproduced, {c.matches} matches are the same on the board"


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser("compare", "Hold bundles against a board; change nothing.", EXAMPLES)
    parser.add_argument("bundles", nargs="+", metavar="PATH", help="a bundle, or a folder of some")
    parser.add_argument("--board", required=True, metavar="DIR", help="folder of the board")
    parser.add_argument("--json", action="store_true", help="print JSON, and no progress")
    return parser
