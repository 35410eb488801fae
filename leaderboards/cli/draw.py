"""`srl leaderboard draw`: number registrations and draw their seeds, as a board's operator."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from leaderboards.cli.parser import OneLineParser
from srl_envs.errors import ConfigError

EXAMPLES = """\
examples:
  srl leaderboard draw runs/entry --board my-board --out runs/entry
  srl leaderboard draw mail/connect_four-v0.request.json --board my-board --out mail

Adds each request NAME.request.json to the board's registrations.jsonl and writes DIR/NAME.ticket.json for
the entrant. A request that was drawn before gets its old ticket again. The board's key is made on first
use, in ~/.config/srl/keys or $SRL_KEYS, never in the board.
"""


def main(argv: list[str]) -> int:
    """Exit code: 0 drawn, 2 the user has something to fix."""
    options = _parser().parse_args(argv)

    from leaderboards.charter import register
    from leaderboards.registration import read_request, write_json

    requests = [(path, read_request(path)) for text in options.requests for path in _files(text)]
    targets = [_target(path, options.out) for path, _ in requests]
    if twice := next((target for target in targets if targets.count(target) > 1), None):
        raise ConfigError(f"{twice} would hold two tickets: rename a request, or leave out --out.")
    told = []
    for target, (_, request) in zip(targets, requests, strict=True):
        ticket = register(Path(options.board), request)
        write_json(target, ticket.data)
        told.append({"protocol": request.protocol, "number": ticket.number, "file": str(target)})
        if not options.json:
            names = ", ".join(agent.agent_id for agent in request.agents)
            print(f"{target}: ticket {ticket.number} for {names} in {request.protocol}")
    if options.json:
        print(json.dumps(told))
    return 0


def _target(request: Path, out: str | None) -> Path:
    """The ticket's file, named like its request: two entrants of one protocol get one each."""
    name = request.name.removesuffix(".json").removesuffix(".request")
    return Path(out or request.parent) / f"{name}.ticket.json"


def _files(text: str) -> list[Path]:
    """The request at a path, or all in a folder.

    Raises:
        ConfigError: the folder has none.
    """
    path = Path(text)
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.request.json"))
    if not found:
        raise ConfigError(
            f"{path} holds no *.request.json. `srl leaderboard register` writes them."
        )
    return found


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser("draw", "Number registrations and draw their seeds.", EXAMPLES)
    parser.add_argument(
        "requests", nargs="+", metavar="PATH", help="a request, or a folder of some"
    )
    parser.add_argument("--board", required=True, metavar="DIR", help="folder of the board")
    parser.add_argument(
        "--out", metavar="DIR", help="folder for the tickets; beside the requests if absent"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
