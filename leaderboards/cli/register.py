"""`srl leaderboard register`: announce agents before their seeds are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from leaderboards.cli.shared.options import (
    AGENTS,
    EntrantOptions,
    EnvsOptions,
    OutOptions,
    entrants_from,
)
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, ReplyOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

DESCRIPTION = f"""Announce agents before their seeds are drawn.

{AGENTS}
Examples:
  srl leaderboard register connect_four-v0 --agent tiny --out runs/entry
  srl leaderboard draw runs/entry --board my-board --out runs/entry
  srl leaderboard run connect_four-v0 --agent tiny --tickets runs/entry --out runs/board

Writes DIR/PROTOCOL.request.json: digests of all that decides the agents' replies, signed with your key
(made on first use, in ~/.config/srl/keys or $SRL_KEYS). Send it to the board, whose `draw` answers with a
ticket. The agents of one request stay together, and the number of seeds is part of it: a result holds all
of both. Weights are read, nothing is played.
"""


@dataclass(frozen=True, kw_only=True)
class RegisterOptions(EnvsOptions, OutOptions, EntrantOptions, ReplyOptions, JSONOptions):
    """Agents to register, and their protocols."""

    maker: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """Claim the names of a maker of models, such as openai; for boards that list your key for it."""


def main(argv: list[str]) -> int:
    """Exit code: 0 written, 2 the user has something to fix."""
    options = read_options(
        RegisterOptions, command="srl leaderboard register", description=DESCRIPTION, argv=argv
    )
    if not options.envs:
        raise ConfigError("give ENV: ids of environments.")

    from leaderboards.bundles.agent_specs import committed
    from leaderboards.bundles.agents import build_agents
    from leaderboards.keys import fingerprint, owner_key
    from leaderboards.protocol import load_protocol
    from leaderboards.registration.tickets import Request, write_json

    seeds, until = options.counted()
    if until:
        raise ConfigError(f"--seeds {options.seeds}: a ticket fixes the number of seeds; give it.")
    owner = owner_key()
    written = []
    for protocol in [load_protocol(name) for name in options.envs]:
        entrants = entrants_from(options.agent, protocol, maker=options.maker)
        tokens = options.max_new_tokens or protocol.decoding.max_new_tokens
        agents = committed(build_agents(protocol, entrants, tokens).versions)
        if not agents:
            raise ConfigError("give --agent with a model or endpoint: bots need no registration.")
        signed = Request.sign(protocol, agents, owner, seeds, options.maker)
        path = options.out / f"{protocol.name}.request.json"
        write_json(path, signed.data)
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
