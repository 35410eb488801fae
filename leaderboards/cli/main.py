"""`srl leaderboard COMMAND`: find the command and run it; only its own module is imported."""

from __future__ import annotations

import importlib

from srl_envs.errors import ConfigError, nearest

SUBCOMMANDS = {
    "register": "announce agents before their seeds are drawn",
    "draw": "number registrations and draw their seeds (a board's operator)",
    "maker": "list the key of a maker of models (a board's operator)",
    "plan": "say what a run will ask for and cost, before its first request",
    "run": "play an agent by an environment's protocol",
    "bundle": "turn a finished run into a folder that can be checked",
    "verify": "check bundles",
    "compare": "hold bundles against a board, match by match",
    "opponent": "let learners meet an agent of a board (settings of a recipe)",
    "exploit": "say how far an agent of a board can be beaten, at least",
    "publish": "put verified bundles into a board",
    "rekey": "verify a board again and sign it with a new key",
    "build": "make the static site of a board or a league store",
}
HELP = "\n".join(
    [
        "usage: srl leaderboard COMMAND [OPTIONS]",
        "",
        *(f"  {name:8} {what}" for name, what in SUBCOMMANDS.items()),
        "",
        "`srl leaderboard COMMAND --help` explains one. From an agent to a site:",
        "  srl leaderboard register connect_four-v0 --agent tiny --out runs/entry",
        "  srl leaderboard draw runs/entry --board my-board",
        "  srl leaderboard run connect_four-v0 --agent tiny --tickets runs/entry --out runs/board",
        "  srl leaderboard bundle runs/board",
        "  srl leaderboard verify runs/board/bundles --level L3",
        "  srl leaderboard publish runs/board/bundles --board my-board",
        "  srl leaderboard build --board my-board --out my-site",
    ]
)


def main(argv: list[str]) -> int:
    """Exit code: 0 done, 1 a bundle or request was rejected.

    Raises:
        SRLError: the user has something to fix.
    """
    name, *rest = argv or [""]
    if name in ("--help", "-h"):
        print(HELP)
        return 0
    if name not in SUBCOMMANDS:
        given = f"no COMMAND {name!r}.{nearest(name, SUBCOMMANDS)}" if name else "give a COMMAND."
        raise ConfigError(f"{given} There are: {', '.join(SUBCOMMANDS)}.")
    return int(importlib.import_module(f"leaderboards.cli.{name}").main(rest))
