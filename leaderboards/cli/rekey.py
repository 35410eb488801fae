"""`srl leaderboard rekey`: verify a whole board again and sign it with a new key."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from leaderboards.cli.parser import OneLineParser
from leaderboards.cli.progress import ProgressBar
from leaderboards.cli.verify import sources_of, weights_option
from srl_agents.records import plain_json

EXAMPLES = """\
examples:
  srl leaderboard rekey my-board
  srl leaderboard rekey my-board --model alice@30=tiny+snapshots/alice@30 --workers 2
  srl leaderboard rekey my-board --at-most L2

For a key that was lost, or that somebody else has seen. Every bundle is checked again at the level that it
has; one that does not hold is set aside. Then a new key signs the rest, and vouches for the registrations so
far. The old key signs nothing from then on.
"""


def main(argv: list[str]) -> int:
    """Exit code: 0 all signed again, 1 one was set aside, 2 the user has something to fix."""
    options = _parser().parse_args(argv)

    from leaderboards.charter import read_charter
    from leaderboards.publishing import rekey

    board, told = Path(options.board), []
    with ProgressBar(options.json) as bar:
        for done in rekey(
            board,
            at_most=options.at_most,
            sources=sources_of(options.model),
            workers=options.workers,
            told=bar.told,
        ):
            told.append(done)
            if not options.json:
                held = f"{done.level} holds" if done.level else f"set aside: {done.reason}"
                print(f"{done.bundle}: {held}", flush=True)
    charter = read_charter(board)
    key = charter.fingerprint if charter else ""
    if options.json:
        print(plain_json({"fingerprint": key, "bundles": [asdict(done) for done in told]}))
    else:
        print(f"the board's key is now {key}")
    return 0 if all(done.level for done in told) else 1


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser("rekey", "Verify a board again and sign it with a new key.", EXAMPLES)
    parser.add_argument("board", metavar="DIR", help="folder of the board")
    parser.add_argument(
        "--at-most",
        choices=("L1", "L2", "L3"),
        default="L3",
        help="check no higher, where agents' weights are not here; rows then stand at this level",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes that replay")
    weights_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, and no progress")
    return parser
