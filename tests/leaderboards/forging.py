"""Bundles small enough to make in a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leaderboards.bundles.agent_specs import committed
from leaderboards.bundles.agents import build_agents, parse_entrants
from leaderboards.bundles.run import BoardRun, opened
from leaderboards.bundles.submission import Bundle, write_bundle
from leaderboards.keys import owner_key
from leaderboards.protocol import load_protocol
from leaderboards.registration.ticket_log import register
from leaderboards.registration.tickets import Request, Ticket


def make_bundle(
    folder: Path,
    env: str,
    agents: tuple[str, ...] = (),
    tokens: int | None = None,
    ticket: Ticket | None = None,
    **options: Any,
) -> Bundle:
    """One seed of a protocol, two with a ticket, played and bundled."""
    protocol = load_protocol(env)
    run = BoardRun(
        protocol,
        parse_entrants(agents, protocol),
        folder / "run",
        seeds=None if ticket else 1,
        max_new_tokens=tokens,
        ticket=ticket,
    )
    with opened(run):
        run.play()
    return write_bundle(folder / "run", folder / "bundles", **options)


def registered(board: Path, env: str, agents: tuple[str, ...], tokens: int | None = None) -> Ticket:
    """The board's ticket for these agents, which the owner of this test's key registers."""
    protocol = load_protocol(env)
    most = tokens or protocol.decoding.max_new_tokens
    built = build_agents(protocol, parse_entrants(agents, protocol), most)
    return register(board, Request.sign(protocol, committed(built.versions), owner_key(), seeds=2))
