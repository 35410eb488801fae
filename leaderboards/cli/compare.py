"""`srl leaderboard compare`: compare bundles with a board, and change nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from leaderboards.cli.shared.options import BoardOptions, BundlesOptions
from leaderboards.cli.shared.progress import ProgressBar
from leaderboards.cli.verify import given_paths
from leaderboards.contents.fields import visible
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.boards.comparing import Comparison

DESCRIPTION = """Hold bundles against a board; change nothing.

Examples:
  srl leaderboard compare runs/board/bundles --board leaderboards/published

A bundle of fewer seeds is compared in the matches that it has. Nothing is written.

exit codes: 0 every match is on the board with the same result, 1 one differs or is missing,
2 a mistake in the command, or a damaged bundle.
"""


@dataclass(frozen=True, kw_only=True)
class CompareOptions(BundlesOptions, BoardOptions, JSONOptions):
    """Bundles to compare, and the board."""


def main(argv: list[str]) -> int:
    """Exit code: 0 all reproduced, 1 something was not, 2 the user has something to fix."""
    options = read_options(
        CompareOptions, command="srl leaderboard compare", description=DESCRIPTION, argv=argv
    )

    from leaderboards.boards.comparing import compare
    from leaderboards.bundles.submission import find_bundles, open_bundle

    board = options.board
    if not board.is_dir():
        raise ConfigError(f"{board} is not a board: give the folder that `publish` writes to.")
    found = []
    for folder in [
        bundle for path in given_paths(options.bundles) for bundle in find_bundles(path)
    ]:
        with ProgressBar(options.json) as bar:
            found.append(compare(open_bundle(folder), board, bar.show))
        if not options.json:
            print(sentence(found[-1]), flush=True)
    if options.json:
        print(plain_json([{**asdict(c), "reproduced": c.reproduced} for c in found]))
    return 0 if all(comparison.reproduced for comparison in found) else 1


def sentence(comparison: Comparison) -> str:
    """A comparison as a sentence."""
    return visible(_sentence(comparison))


def _sentence(c: Comparison) -> str:
    if c.difference:
        return f"{c.bundle}: differs from the board: {c.difference}"
    if c.shared < c.matches:
        return (
            f"{c.bundle}: the board has {c.shared} of its {c.matches} matches; those are the same"
        )
    return f"{c.bundle}: reproduced, {c.matches} matches are the same on the board"
