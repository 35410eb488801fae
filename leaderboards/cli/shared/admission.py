"""Admission of a run: by its tickets, by a board that registers it now, or without a board."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboards.cli.shared.options import entrants_from
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.bundles.agents import Entrant
    from leaderboards.protocol import Protocol
    from leaderboards.registration.tickets import Ticket
    from srl_agents.agents.resolver import Asking

UNREGISTERED, STOP = "u", ""
"""Answers to the question that a terminal is asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Options of a run that decide whether it may play for a board."""

    agents: Sequence[str]
    out: Path
    tickets: Path | None
    register: Path | None
    unregistered: bool
    seeds: int | None
    max_new_tokens: int | None
    asking: Asking


def admitted(
    protocols: Sequence[Protocol], wanted: Wanted
) -> list[tuple[list[Entrant], Ticket | None]]:
    """Entrants and ticket of each protocol; registers on the user's request.

    A run that was begun keeps the ticket with which it began. No model is asked for a reply before the
    user has chosen; registering an endpoint asks for one token, which shows the model's name.

    Raises:
        ConfigError: agents would play unregistered and the user has not asked for that, or the options
            contradict each other.
        TicketError: a ticket cannot be read, or the board draws none.
    """
    if sum((wanted.tickets is not None, wanted.register is not None, wanted.unregistered)) > 1:
        raise ConfigError("give one of --tickets, --register and --unregistered.")
    tickets = [_known(protocol, wanted) for protocol in protocols]
    entrants = [
        entrants_from(
            wanted.agents, protocol, maker=t.request.maker if t else "", when=t.when if t else ""
        )
        for protocol, t in zip(protocols, tickets, strict=True)
    ]
    open_ = [
        k
        for k, protocol in enumerate(protocols)
        if tickets[k] is None
        and not all(entrant.is_bot for entrant in entrants[k])
        and not _begun(wanted.out / protocol.name)
    ]
    board = wanted.register
    if open_ and board is None and not wanted.unregistered:
        board = _asked([e.name for e in entrants[open_[0]] if not e.is_bot], wanted)
    if board is not None:
        for k in open_:
            tickets[k] = _registered(protocols[k], entrants[k], board, wanted)
    return list(zip(entrants, tickets, strict=True))


def _known(protocol: Protocol, wanted: Wanted) -> Ticket | None:
    """The ticket that is given for this protocol, or with which its run began."""
    from leaderboards.bundles.run import read_header
    from leaderboards.registration.tickets import Ticket, read_ticket

    path = wanted.tickets
    if path is not None:
        return read_ticket(path / f"{protocol.name}.ticket.json" if path.is_dir() else path)
    folder = wanted.out / protocol.name
    data = read_header(folder)["ticket"] if _begun(folder) else None
    return None if data is None else Ticket.from_data(data)


def _begun(folder: Path) -> bool:
    from leaderboards.bundles.run import HEADER

    return (folder / HEADER).is_file()


def _asked(names: Sequence[str], wanted: Wanted) -> Path | None:
    """The board to register with; None to play unregistered.

    Raises:
        ConfigError: no terminal is attached, or the user stops. A script that forgot to register must not
            pay for replies that no board will take.
    """
    agents = ", ".join(names)
    why = (
        f"{agents}: not registered with a board. An unregistered run plays public seeds only and can never "
        "be published, so its replies would have to be paid again."
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(
            f"{why} Give --register BOARD, --tickets PATH (see `srl leaderboard register --help`), or "
            "--unregistered. Nothing was played."
        )
    print(f"{why}\n  BOARD  register now with the board in this folder, whose key is on this machine\n"
          f"  {UNREGISTERED}      play unregistered\n  Enter  stop", file=sys.stderr)  # fmt: skip
    print("Register with: ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip()
    if answer == UNREGISTERED:
        return None
    if answer == STOP:
        given = " ".join(f"--agent {shlex.quote(agent)}" for agent in wanted.agents)
        raise ConfigError(
            f"stopped, nothing was played. For a board elsewhere: srl leaderboard register ENV {given} --out "
            "DIR, send the request, then run with --tickets."
        )
    return Path(answer).expanduser()


def _registered(
    protocol: Protocol, entrants: Sequence[Entrant], board: Path, wanted: Wanted
) -> Ticket:
    """The ticket of a board on this machine for these entrants; kept beside the run."""
    from leaderboards.bundles.agent_specs import committed
    from leaderboards.bundles.agents import build_agents
    from leaderboards.keys import owner_key
    from leaderboards.registration.charter import read_charter
    from leaderboards.registration.ticket_log import register
    from leaderboards.registration.tickets import Request, write_json

    if read_charter(board) is None:  # a mistyped folder is not made a board
        raise ConfigError(
            f"--register {board}: not a board. Give a folder with a board.json; `srl leaderboard register` "
            "and `draw` make the first entry of a new one."
        )
    tokens = wanted.max_new_tokens or protocol.decoding.max_new_tokens
    versions = build_agents(protocol, entrants, tokens, wanted.asking).versions
    request = Request.sign(protocol, committed(versions), owner_key(), wanted.seeds)
    ticket = register(board, request)
    path = wanted.out / f"{protocol.name}.ticket.json"
    write_json(path, ticket.data)
    print(f"registered with {board}: ticket {ticket.number}, {path}", file=sys.stderr)
    return ticket
