"""`srl leaderboard publish`: put bundles that hold into a board."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboards.cli.parser import OneLineParser
from leaderboards.cli.progress import ProgressBar
from leaderboards.cli.verify import weights_option
from srl_agents.records import plain_json

if TYPE_CHECKING:
    from leaderboards.verify import Verdict

EXAMPLES = """\
examples:
  srl leaderboard publish runs/board/bundles --board my-board
  srl leaderboard publish submission/connect_four-v0/* --board my-board --level L3 --reason "spring round"

Every bundle is verified first; those that hold are copied, and never changed again. A claim that the
board has already is not added a second time: it was reproduced. The board keeps changelog.jsonl, and
beside each bundle what was checked and when.
"""


def main(argv: list[str]) -> int:
    """Exit code: 0 all are on the board, 1 one was rejected, 2 the user has something to fix."""
    options = _parser().parse_args(argv)

    from leaderboards.board import describe, read_board
    from leaderboards.bundle import find_bundles
    from leaderboards.cli.verify import sentence, sources_of, weights

    board, code = Path(options.board), 0
    told = []
    given = sources_of(options.model)
    folders = [found for path in options.bundles for found in find_bundles(Path(path))]
    for folder, own in zip(folders, weights(given, folders), strict=True):
        verdict, new = _publish(folder, own, board, options)
        if not verdict.accepted:
            code = 1
            print(sentence(verdict), file=sys.stderr)
        told.append({"bundle": str(folder), "accepted": verdict.accepted, "new": new})
        if verdict.accepted and not options.json:
            print(f"{folder}: {'added' if new else 'the board has the same claim: reproduced'}")
    if options.json:
        print(plain_json(told))
    elif board.is_dir():
        print(*describe(read_board(board)), sep="\n")
    return code


def _publish(
    folder: Path, sources: Mapping[str, str], board: Path, options: argparse.Namespace
) -> tuple[Verdict, bool]:
    """The verdict on a private copy of the folder, and whether that copy is new on the board."""
    from leaderboards.bundle import open_bundle
    from leaderboards.intake import BundleError, private_copy
    from leaderboards.publishing import publish
    from leaderboards.verify import Verdict, verify

    try:
        with private_copy(folder) as copy:
            with ProgressBar(options.json) as bar:
                verdict = verify(
                    copy, options.level, workers=options.workers, sources=sources, told=bar.told
                )
            new = verdict.accepted and publish(
                open_bundle(copy.folder), verdict, board, reason=options.reason
            )
    except BundleError as error:
        return Verdict(str(folder), options.level, rejected=str(error)), False
    return verdict, new


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        "publish", "Verify bundles and put those that hold into a board.", EXAMPLES
    )
    parser.add_argument("bundles", nargs="+", metavar="PATH", help="a bundle, or a folder of some")
    parser.add_argument("--board", required=True, metavar="DIR", help="folder of the board")
    parser.add_argument("--level", choices=("L2", "L3"), default="L2")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes that replay")
    weights_option(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="for the changelog")
    parser.add_argument("--json", action="store_true", help="print JSON, and no progress")
    return parser
