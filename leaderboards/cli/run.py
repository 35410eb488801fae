"""`srl leaderboard run`: play agents by the protocol of an environment."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaderboards.cli.entrants import AGENTS, entrant_options, entrants_from
from leaderboards.cli.parser import OneLineParser
from leaderboards.cli.progress import ProgressBar
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.agents import Entrant
    from leaderboards.protocol import Protocol
    from leaderboards.registration import Ticket

INTERRUPTED = 130
EXAMPLES = f"""\
{AGENTS}
examples:
  srl leaderboard run connect_four-v0 --agent tiny --out runs/board
  srl leaderboard run connect_four-v0 --out runs/board --max-new-tokens 8 \\
      --agent tiny --agent alice@30=tiny+runs/quickstart-tiny-seed0/snapshots/alice@30
  srl leaderboard run kuhn_poker nim --seeds 8 --out runs/look
  srl leaderboard run kuhn_poker --out runs/look --agent me=openai:org/model@http://localhost:8000/v1
  srl leaderboard run --all --out runs/references

Each environment gets a folder below DIR. Interrupted, or killed? The same command goes on where it was.
"""


def main(argv: list[str]) -> int:
    """Exit code: 0 played, 2 the user has something to fix, 130 interrupted."""
    options = _parser().parse_args(argv)

    from leaderboards.protocol import load_protocol, protocol_names
    from leaderboards.served import usage_text

    if bool(options.envs) == options.all:
        raise ConfigError("name environments, or give --all.")
    protocols = [load_protocol(name) for name in (options.envs or protocol_names())]
    entrants = [entrants_from(options, protocol) for protocol in protocols]
    tickets = [_ticket(options.tickets, protocol) for protocol in protocols]
    command = shlex.join(["srl", "leaderboard", "run", *argv])
    played = []
    with ProgressBar(options.json) as bar:
        try:
            for protocol, wanted, ticket in zip(protocols, entrants, tickets, strict=True):
                played.append(
                    _play(protocol, wanted, options, ticket=ticket, command=command, bar=bar)
                )
        except KeyboardInterrupt:
            print(f"srl leaderboard run: interrupted; to go on: {command}", file=sys.stderr)
            return INTERRUPTED
    if options.json:
        print(plain_json(played))
        return 0
    for entry in played:
        print(f"{entry['env']}: {entry['matches']} matches in {entry['folder']}")
        for agent, usage in entry["endpoints"].items():
            print(f"  {agent}: {usage_text(usage)}")
    print(f"next: srl leaderboard bundle {shlex.quote(options.out)}")
    return 0


def _play(
    protocol: Protocol,
    entrants: Sequence[Entrant],
    options: argparse.Namespace,
    *,
    ticket: Ticket | None,
    command: str,
    bar: ProgressBar,
) -> dict[str, Any]:
    """Play one environment; what is told of it as JSON."""
    from leaderboards.run import BoardRun, Declared, opened
    from srl_agents.agents.resolver import Asking

    run = BoardRun(
        protocol,
        entrants,
        Path(options.out) / protocol.name,
        seeds=options.seeds,
        max_new_tokens=options.max_new_tokens,
        declared=Declared(
            attempts=options.attempts,
            training_data=options.training_data,
            submitter=options.submitter,
        ),
        command=command,
        asking=Asking(
            concurrency=options.concurrency,
            in_flight=options.in_flight,
            timeout_s=options.timeout_s,
            deadline_s=options.deadline_s,
        ),
        ticket=ticket,
        order=options.order,
    )
    with opened(run):
        before = len(run.done)
        bar.told(protocol.name, before, len(run.specs))
        run.play(lambda done, of: bar.told(protocol.name, done, of))
        usage = run.usage()
    return {
        "env": protocol.name,
        "folder": str(run.folder),
        "matches": len(run.specs),
        "played_before": before,
        "agents": [entrant.name for entrant in entrants],
        "endpoints": usage,
    }


def _ticket(path: str | None, protocol: Protocol) -> Ticket | None:
    """The ticket for this protocol: a file, or ``PROTOCOL.ticket.json`` in a folder."""
    from leaderboards.registration import read_ticket

    if path is None:
        return None
    place = Path(path)
    return read_ticket(place / f"{protocol.name}.ticket.json" if place.is_dir() else place)


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        "run", "Play agents against the references of an environment's protocol.", EXAMPLES
    )
    parser.add_argument("envs", nargs="*", metavar="ENV", help="environment id")
    parser.add_argument("--all", action="store_true", help="every environment with a protocol")
    entrant_options(parser)
    parser.add_argument(
        "--tickets",
        metavar="PATH",
        help="a board's ticket, or the folder of several: half of the seeds come from it, and the board "
        "takes the result; see `srl leaderboard register --help`",
    )
    parser.add_argument(
        "--concurrency",
        type=int,
        default=16,
        metavar="N",
        help="requests to one model behind an endpoint at once",
    )
    parser.add_argument(
        "--in-flight",
        type=int,
        default=64,
        metavar="N",
        help="requests to all endpoints at once",
    )
    parser.add_argument(
        "--timeout-s", type=float, default=120.0, metavar="S", help="for one try of one reply"
    )
    parser.add_argument(
        "--deadline-s", type=float, default=600.0, metavar="S", help="for all tries of one reply"
    )
    parser.add_argument(
        "--order",
        choices=("exact", "free"),
        default="exact",
        help="exact: all matches advance together, and replies are the same each time; free: none waits "
        "for another, which is faster, and a model's replies may differ by rounding",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to play in")
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="play the first N seeds only; rows stay provisional; with a ticket, as many as it says",
    )
    parser.add_argument(
        "--attempts",
        type=int,
        default=1,
        metavar="N",
        help="declare how many runs this one is chosen from",
    )
    parser.add_argument(
        "--training-data", default="", metavar="TEXT", help="declare what agents were trained on"
    )
    parser.add_argument("--submitter", default="", metavar="NAME", help="declare who submits")
    parser.add_argument("--json", action="store_true", help="print JSON, and no progress")
    return parser
