"""`srl leaderboard rekey`: verify a whole board again and sign it with a new key."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from leaderboards.cli.shared.options import OneBoardOptions, ReplayOptions
from leaderboards.cli.shared.progress import ProgressBar
from leaderboards.cli.verify import sources_of
from leaderboards.contents.fields import visible
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions
from srl_agents.records import plain_json

DESCRIPTION = """Verify a board again and sign it with a new key.

Examples:
  srl leaderboard rekey my-board
  srl leaderboard rekey my-board --model alice@30=tiny+snapshots/alice@30 --workers 2
  srl leaderboard rekey my-board --at-most L2

For a key that was lost, or that another person has seen. Every bundle is checked again at the level that it
has; one that does not hold is set aside. Then a new key signs the rest, and vouches for the registrations so
far. The old key signs nothing from then on.
"""


@dataclass(frozen=True, kw_only=True)
class RekeyOptions(ReplayOptions, JSONOptions, OneBoardOptions):
    """Which board, and how far it is checked."""

    at_most: Literal["L1", "L2", "L3"] = "L3"
    """Check no higher, where agents' weights are not here; rows then stand at this level."""


def main(argv: list[str]) -> int:
    """Exit code: 0 all signed again, 1 one was set aside, 2 the user has something to fix."""
    options = read_options(
        RekeyOptions, command="srl leaderboard rekey", description=DESCRIPTION, argv=argv
    )

    from leaderboards.boards.publishing import rekey
    from leaderboards.registration.charter import read_charter

    board, checked = options.board, []
    with ProgressBar(options.json) as bar:
        for done in rekey(
            board,
            at_most=options.at_most,
            sources=sources_of(options.model),
            workers=options.workers,
            progress=bar.show,
        ):
            checked.append(done)
            if not options.json:
                held = f"{done.level} holds" if done.level else f"set aside: {done.reason}"
                print(visible(f"{done.bundle}: {held}"), flush=True)
    charter = read_charter(board)
    key = charter.fingerprint if charter else ""
    if options.json:
        print(plain_json({"fingerprint": key, "bundles": [asdict(done) for done in checked]}))
    else:
        print(f"the board's key is now {key}")
    return 0 if all(done.level for done in checked) else 1
