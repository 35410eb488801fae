"""`srl leaderboard publish`: put verified bundles into a board."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from leaderboards.cli.shared.options import (
    BoardOptions,
    BundlesOptions,
    LevelOptions,
    ReplayOptions,
)
from leaderboards.cli.shared.progress import ProgressBar
from leaderboards.contents.fields import visible
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.bundles.verify import Verdict

DESCRIPTION = """Verify bundles and put those that hold into a board.

Examples:
  srl leaderboard publish runs/board/bundles --board my-board
  srl leaderboard publish submission/connect_four-v0/* --board my-board --level L3 --reason "spring round"

Every bundle is verified first; those that hold are copied, and never changed again. A claim that the
board has already is not added a second time: it was reproduced. The board keeps changelog.jsonl, and
beside each bundle what was checked and when.
"""


@dataclass(frozen=True, kw_only=True)
class PublishOptions(BundlesOptions, BoardOptions, LevelOptions, ReplayOptions, JSONOptions):
    """Bundles to publish, and the board."""

    reason: Annotated[str, tyro.conf.arg(metavar="TEXT")] = ""
    """Reason to record in the changelog."""


def main(argv: list[str]) -> int:
    """Exit code: 0 all are on the board, 1 one was rejected, 2 the user has something to fix."""
    options = read_options(
        PublishOptions, command="srl leaderboard publish", description=DESCRIPTION, argv=argv
    )
    if options.level < "L2":
        raise ConfigError(f"--level {options.level}: a board takes L2 or L3.")

    from leaderboards.boards.archive import describe, read_board
    from leaderboards.bundles.submission import find_bundles
    from leaderboards.cli.verify import given_paths, sentence, sources_of, weights

    board, code = options.board, 0
    published = []
    given = sources_of(options.model)
    folders = [found for path in given_paths(options.bundles) for found in find_bundles(path)]
    groups = read_board(board).groups if board.is_dir() else []
    there = [entry.bundle.folder for group in groups for entry in group.entries]
    for folder, own in zip(folders, weights(given, folders, there), strict=True):
        verdict, new = _publish(folder, own, board, options)
        if not verdict.accepted:
            code = 1
            print(sentence(verdict), file=sys.stderr)
        published.append({"bundle": str(folder), "accepted": verdict.accepted, "new": new})
        if verdict.accepted and not options.json:
            print(f"{folder}: {'added' if new else 'the board has the same claim: reproduced'}")
    if options.json:
        print(plain_json(published))
    elif board.is_dir():
        print(visible("\n".join(describe(read_board(board)))))
    return code


def _publish(
    folder: Path, sources: Mapping[str, str], board: Path, options: PublishOptions
) -> tuple[Verdict, bool]:
    """The verdict on a private copy of the folder, and whether that copy is new on the board."""
    from leaderboards.boards.publishing import publish
    from leaderboards.bundles.submission import open_bundle
    from leaderboards.bundles.verify import Verdict, verify
    from leaderboards.contents.intake import BundleError, private_copy

    try:
        with private_copy(folder) as copy:
            with ProgressBar(options.json) as bar:
                verdict = verify(
                    copy, options.level, workers=options.workers, sources=sources, progress=bar.show
                )
            new = verdict.accepted and publish(
                open_bundle(copy.folder), verdict, board, reason=options.reason
            )
    except BundleError as error:
        return Verdict(str(folder), options.level, rejected=str(error)), False
    return verdict, new
