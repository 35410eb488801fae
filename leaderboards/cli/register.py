"""`srl leaderboard register`: announce agents before their seeds are drawn."""

from __future__ import annotations

import argparse
from pathlib import Path

from leaderboards.cli.entrants import AGENTS, entrant_options, entrants_from
from leaderboards.cli.parser import OneLineParser
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

EXAMPLES = f"""\
{AGENTS}
examples:
  srl leaderboard register connect_four-v0 --agent tiny --out runs/entry
  srl leaderboard draw runs/entry --board my-board --out runs/entry
  srl leaderboard run connect_four-v0 --agent tiny --tickets runs/entry --out runs/board

Writes DIR/PROTOCOL.request.json: digests of all that decides the agents' replies, signed with your key
(made on first use, in ~/.config/srl/keys or $SRL_KEYS). Send it to the board, whose `draw` answers with a
ticket. The agents of one request stay together, and the number of seeds is part of it: a result holds all
of both. Weights are read, nothing is played.
"""


def main(argv: list[str]) -> int:
    """Exit code: 0 written, 2 the user has something to fix."""
    options = _parser().parse_args(argv)

    from leaderboards.agent_specs import committed
    from leaderboards.agents import build_agents
    from leaderboards.keys import fingerprint, owner_key
    from leaderboards.protocol import load_protocol
    from leaderboards.registration import Request, write_json

    owner = owner_key()
    written = []
    for protocol in [load_protocol(name) for name in options.envs]:
        entrants = entrants_from(options, protocol)
        tokens = options.max_new_tokens or protocol.decoding.max_new_tokens
        agents = committed(build_agents(protocol, entrants, tokens).versions)
        if not agents:
            raise ConfigError("give --agent with a model or endpoint: bots need no registration.")
        path = Path(options.out) / f"{protocol.name}.request.json"
        write_json(path, Request.sign(protocol, agents, owner, options.seeds).data)
        written.append({"protocol": protocol.name, "file": str(path), "agents": len(agents)})
        if not options.json:
            print(f"{path}: {', '.join(agent.agent_id for agent in agents)}")
    if options.json:
        print(plain_json({"owner": owner.public, "written": written}))
    else:
        print(
            f"owner {fingerprint(owner.public)}; next: srl leaderboard draw {options.out} --board DIR"
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser("register", "Announce agents before their seeds are drawn.", EXAMPLES)
    parser.add_argument("envs", nargs="+", metavar="ENV", help="environment id")
    entrant_options(parser)
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="play the first N seeds only, decided now; rows of few seeds stay provisional",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the requests")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
