"""`srl leaderboard maker`: list the key of a maker of models, so that it may use the maker's names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import tyro

from leaderboards.cli.shared.options import BoardOptions
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

DESCRIPTION = """List the key of a maker of models with a board.

Examples:
  srl leaderboard maker openai ed25519:0123... --board my-board
  srl leaderboard maker openai ed25519:0123... --board my-board --remove

Names such as gpt-5 are reserved for their makers. The owner of a listed key may use them: `srl leaderboard
register --maker openai` claims them, signed with that key, and `draw` takes the claim. Compare the key with
the maker by another way than a request before you list it. Names that were drawn stay when a key is removed.
"""


@dataclass(frozen=True, kw_only=True)
class MakerOptions(BoardOptions, JSONOptions):
    """The maker's name and key, and the board."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """The maker, as in the list of reserved names."""
    key: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="KEY")]
    """Its public key: ed25519: and 64 hexadecimal digits."""
    remove: bool = False
    """Take the key off the list."""


def main(argv: list[str]) -> int:
    """Exit code: 0 done, 2 the user has something to fix."""
    options = read_options(
        MakerOptions, command="srl leaderboard maker", description=DESCRIPTION, argv=argv
    )

    from leaderboards.keys import fingerprint, public_key_fault
    from leaderboards.registration.charter import (
        Maker,
        locked,
        read_charter,
        signing_key,
        write_charter,
    )
    from leaderboards.reserved import makers
    from srl_envs.errors import nearest

    if options.name not in makers():
        raise ConfigError(
            f"no maker {options.name!r}.{nearest(options.name, makers())} There are: {', '.join(makers())}."
        )
    if fault := public_key_fault(options.key):
        raise ConfigError(f"KEY {options.key[:80]!r}: {fault}.")
    if not options.board.is_dir():  # a mistyped folder is not made
        raise ConfigError(f"--board {options.board}: the folder does not exist.")
    given = Maker(name=options.name, public_key=options.key)
    with locked(options.board):
        charter = read_charter(options.board)
        if charter is None:
            raise ConfigError(f"{options.board} is not a board with a key: draw a ticket first.")
        key = signing_key(options.board)
        others = tuple(maker for maker in charter.makers if maker != given)
        makers_now = others if options.remove else (*others, given)
        write_charter(options.board, replace(charter, makers=makers_now), key)
    listed = [{"name": m.name, "key": m.public_key} for m in makers_now]
    if options.json:
        print(plain_json(listed))
    else:
        for maker in makers_now:
            print(f"{maker.name}: {fingerprint(maker.public_key)}")
    return 0
