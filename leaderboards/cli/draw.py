"""`srl leaderboard draw`: number registrations and draw their seeds, as a board's operator."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from leaderboards.cli.shared.options import BoardOptions
from leaderboards.contents.fields import visible
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, ResultOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

DESCRIPTION = """Number registrations and draw their seeds.

Examples:
  srl leaderboard draw runs/entry --board my-board --out runs/entry
  srl leaderboard draw mail/connect_four-v0.request.json --board my-board --out mail

Adds each request NAME.request.json to the board's registrations.jsonl and writes DIR/NAME.ticket.json for
the entrant. A request that was drawn before gets its old ticket again. The board's key is made on first
use, in ~/.config/srl/keys or $SRL_KEYS, never in the board. A request that cannot be drawn is set aside with
its reason; the others are drawn. In a day of UTC a key gets 32 tickets for 64 agents, and 64 new keys are
taken; --no-limits draws for entrants whom you know.

exit codes: 0 all are drawn, 1 some were set aside, 2 a mistake in the command, or a board that cannot draw.
"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Outcome of one request."""

    request: str
    """File of the request."""
    ticket: str = ""
    """File of the ticket; empty if the request was set aside."""
    protocol: str = ""
    number: int | None = None
    """Number of the ticket."""
    agents: tuple[str, ...] = ()
    reason: str = ""
    """Why it was set aside; empty if it was drawn."""


@dataclass(frozen=True, kw_only=True)
class DrawOptions(BoardOptions, ResultOptions, JSONOptions):
    """Requests to draw, and their board."""

    requests: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="PATH ...")]
    """Requests, or folders of some."""
    no_limits: bool = False
    """Draw also what a key registers beyond the limits of a day."""


def main(argv: list[str]) -> int:
    """Exit code: 0 all drawn, 1 some set aside, 2 the user has something to fix."""
    options = read_options(
        DrawOptions, command="srl leaderboard draw", description=DESCRIPTION, argv=argv
    )
    if not options.requests:
        raise ConfigError("give PATH: requests, or folders of some.")
    requests = [path for given in options.requests for path in _files(given)]
    targets = [_target(path, options.out) for path in requests]
    if twice := next((target for target in targets if targets.count(target) > 1), None):
        raise ConfigError(f"{twice} would hold two tickets: rename a request, or leave out --out.")
    results = []
    for path, target in zip(requests, targets, strict=True):
        done = _draw(path, target, options)
        results.append(done)
        if done.reason:
            reason = done.reason.removeprefix(str(path)).lstrip(": ")
            print(visible(f"set aside: {path}: {reason}"), file=sys.stderr)
        elif not options.json:
            names = ", ".join(done.agents)
            print(f"{target}: ticket {done.number} for {names} in {done.protocol}")
    bad = sum(bool(done.reason) for done in results)
    if bad:
        rest = ", the others are drawn" if bad < len(results) else ""
        print(f"{bad} of {len(results)} requests set aside{rest}", file=sys.stderr)
    if options.json:
        print(plain_json([asdict(done) for done in results]))
    return 1 if bad else 0


def _draw(path: Path, target: Path, options: DrawOptions) -> Drawn:
    """Draw one request, or say why not; what is wrong with the board itself is raised."""
    from leaderboards.registration.ticket_log import LIMITS, register
    from leaderboards.registration.tickets import TicketError, read_request, write_json

    try:
        request = read_request(path)
        ticket = register(options.board, request, limits=None if options.no_limits else LIMITS)
    except TicketError as error:
        return Drawn(str(path), reason=str(error))
    try:
        write_json(target, ticket.data)
    except ConfigError as error:  # a folder of the ticket's name, for example
        return Drawn(str(path), reason=f"{error} It has ticket {ticket.number}: draw it again.")
    names = tuple(agent.agent_id for agent in request.agents)
    return Drawn(str(path), str(target), request.protocol, ticket.number, names)


def _target(request: Path, out: Path | None) -> Path:
    """The ticket's file, named like its request: two entrants of one protocol get one each."""
    name = request.name.removesuffix(".json").removesuffix(".request")
    return (out or request.parent) / f"{name}.ticket.json"


def _files(path: Path) -> list[Path]:
    """The request at a path, or all in a folder.

    Raises:
        ConfigError: the folder has none, or nothing is there.
    """
    if not os.path.lexists(path):
        raise ConfigError(f"{path} does not exist: give requests, or folders of some.")
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.request.json"))
    if not found:
        raise ConfigError(
            f"{path} holds no *.request.json. `srl leaderboard register` writes them."
        )
    return found
