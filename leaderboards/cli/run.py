"""`srl leaderboard run`: play agents by the protocol of an environment."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from leaderboards.cli.shared.options import AGENTS, EntrantOptions, GamesOptions, OutOptions
from leaderboards.cli.shared.progress import ProgressBar
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, ReplyOptions
from srl_agents.engines.endpoint.settings import RequestSettings
from srl_agents.engines.protocol import OrderSettings
from srl_agents.interrupts import naming
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.bundles.agents import Entrant
    from leaderboards.protocol import Protocol
    from leaderboards.registration.tickets import Ticket
    from srl_agents.agents.resolver import Asking

DESCRIPTION = f"""Play agents against the references of an environment's protocol.

{AGENTS}
Examples:
  srl leaderboard run connect_four-v0 --agent tiny --tickets runs/entry --out runs/board
  srl leaderboard run connect_four-v0 --out runs/board --max-new-tokens 8 --register my-board \\
      --agent tiny --agent alice@30=tiny+runs/quickstart-tiny-seed0/snapshots/alice@30
  srl leaderboard run kuhn_poker nim --seeds 8 --out runs/look
  srl leaderboard run kuhn_poker --out runs/look --unregistered \\
      --agent me=openai:org/model@http://localhost:8000/v1
  srl leaderboard run nim --seeds apart --unregistered --out runs/apart \\
      --agent a=anthropic:MODEL --agent b=google:MODEL
  srl leaderboard run --all --out runs/references

A model or endpoint plays for a board (--tickets, --register) or for no board (--unregistered). On a terminal
you are asked; a script that gives none of them ends before the first reply, because an unregistered run can
never be published.

Each environment gets a folder below DIR. Interrupted, or killed? The same command goes on where it was.
"""


@dataclass(frozen=True, kw_only=True)
class RunOptions(
    OutOptions,
    GamesOptions,
    EntrantOptions,
    OrderSettings,
    RequestSettings,
    ReplyOptions,
    JSONOptions,
):
    """Agents, environments and limits of a run."""

    tickets: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """A board's ticket, or the folder of several: half of the seeds come from it, and the board takes the
    result; see `srl leaderboard register --help`."""
    register: Annotated[Path | None, tyro.conf.arg(metavar="BOARD")] = None
    """Register the agents now, with the board in this folder, whose key is on this machine."""
    unregistered: bool = False
    """Play public seeds for yourself: no board takes the result."""
    attempts: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Declare how many runs this one is chosen from."""
    training_data: Annotated[str, tyro.conf.arg(metavar="TEXT")] = ""
    """Declare what agents were trained on."""
    submitter: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """Declare the submitter."""


def main(argv: list[str]) -> int:
    """Exit code: 0 played, 2 the user has something to fix.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM ended it; its text names what is kept and how to go on.
        SRLError: the same for any other end.
    """
    options = read_options(
        RunOptions, command="srl leaderboard run", description=DESCRIPTION, argv=argv
    )

    from leaderboards.cli.shared.admission import Wanted, admitted
    from leaderboards.contents.served import usage_text
    from leaderboards.protocol import load_protocol, protocol_names
    from srl_agents.agents.resolver import Asking

    if bool(options.envs) == options.all:
        raise ConfigError("name environments, or give --all.")
    seeds, until = options.counted()
    if until and not options.unregistered:
        raise ConfigError(
            f"--seeds {options.seeds} is for --unregistered runs: a ticket fixes the number of seeds."
        )
    protocols = [load_protocol(name) for name in (options.envs or protocol_names())]
    asking = Asking(
        concurrency=options.concurrency,
        in_flight=options.in_flight,
        timeout_s=options.timeout_s,
        deadline_s=options.deadline_s,
    )
    wanted = Wanted(
        agents=options.agent,
        out=options.out,
        tickets=options.tickets,
        register=options.register,
        unregistered=options.unregistered,
        seeds=seeds,
        max_new_tokens=options.max_new_tokens,
        asking=asking,
    )
    players = admitted(protocols, wanted)
    command = shlex.join(["srl", "leaderboard", "run", *argv])
    played = []
    with naming(command), ProgressBar(options.json) as bar:
        for protocol, (entrants, ticket) in zip(protocols, players, strict=True):
            played.append(
                _play(
                    protocol, entrants, options,
                    ticket=ticket, asking=asking, command=command, bar=bar,
                )
            )  # fmt: skip
    if options.json:
        print(plain_json(played))
        return 0
    for entry in played:
        print(f"{entry['env']}: {entry['matches']} matches in {entry['folder']}")
        for agent, usage in entry["endpoints"].items():
            print(f"  {agent}: {usage_text(usage)}")
        for line in entry["apart"]:
            print(f"  {_compared(line)}")
    print(f"next: srl leaderboard bundle {shlex.quote(str(options.out))}")
    return 0


def _play(
    protocol: Protocol,
    entrants: Sequence[Entrant],
    options: RunOptions,
    *,
    ticket: Ticket | None,
    asking: Asking,
    command: str,
    bar: ProgressBar,
) -> dict[str, Any]:
    """Play one environment; its summary for the JSON output."""
    from leaderboards.bundles.run import BoardRun, Declared, opened

    run = BoardRun(
        protocol,
        entrants,
        options.out / protocol.name,
        seeds=options.counted()[0],
        until=options.counted()[1],
        max_new_tokens=options.max_new_tokens,
        declared=Declared(
            attempts=options.attempts,
            training_data=options.training_data,
            submitter=options.submitter,
        ),
        command=command,
        asking=asking,
        ticket=ticket,
        order=options.order,
    )
    with opened(run):
        before = len(run.done)
        bar.show(protocol.name, before, len(run.specs))
        try:
            run.play(lambda done, of: bar.show(protocol.name, done, of))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; {len(run.done)} of {len(run.specs)} matches of {protocol.name} are kept."
            ) from None
        for name in run.motionless():
            print(
                f"srl leaderboard: warning: {name} never made a move that {protocol.name} takes: see its "
                f"prompt, its stop text and its replies in {run.folder}.",
                file=sys.stderr,
            )
        usage, apart = run.usage(), [asdict(found) for found in run.comparisons()]
    return {
        "env": protocol.name,
        "folder": str(run.folder),
        "matches": len(run.specs),
        "played_before": before,
        "agents": [entrant.name for entrant in entrants],
        "endpoints": usage,
        "apart": apart,
    }


def _compared(line: dict[str, Any]) -> str:
    """A comparison of two agents as a sentence."""
    apart = "apart" if line["low"] > 0 or line["high"] < 0 else "not apart"
    return (
        f"{line['one']} - {line['other']}: {line['mean']:+.3f} in [{line['low']:+.3f}, {line['high']:+.3f}] "
        f"per match after {line['seeds']} seeds, {apart}"
    )
