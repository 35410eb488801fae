"""`srl leaderboard plan`: what a run will take, before the first request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from leaderboards.cli.shared.options import AGENTS, EntrantOptions, GamesOptions
from leaderboards.contents.fields import visible
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, ReplyOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.bundles.plan import AgentPlan, Assumed, Plan

DESCRIPTION = f"""Say what a run will ask for and cost, before its first request.

{AGENTS}
Examples:
  srl leaderboard plan nim kuhn_poker --agent me=openai:thinker-1@example
  srl leaderboard plan --all --agent me=openai:thinker-1@example --reply-tokens 60
  srl leaderboard plan connect_four-v0.5x5x3 --agent tiny --seeds 8

No endpoint is asked and no model is loaded. A bot plays some of the entrant's matches in its seats, and its
replies and the texts before them are counted. Money needs a price file (`srl docs endpoints`). Hours are
the least that the provider's limits and the assumed seconds allow.
"""


@dataclass(frozen=True, kw_only=True)
class PlanOptions(GamesOptions, EntrantOptions, ReplyOptions, JSONOptions):
    """A run, and what is assumed of it."""

    reply_tokens: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Tokens of a mean reply; without it each is as long as its limit."""


def main(argv: list[str]) -> int:
    """Exit code 0: planned."""
    options = read_options(
        PlanOptions, command="srl leaderboard plan", description=DESCRIPTION, argv=argv
    )

    from leaderboards.bundles.agents import parse_entrants
    from leaderboards.bundles.plan import Assumed, plan
    from leaderboards.protocol import load_protocol, protocol_names

    if bool(options.envs) == options.all:
        raise ConfigError("name environments, or give --all.")
    if not options.agent:
        raise ConfigError("give --agent: the references are bots and send no request.")
    assumed = Assumed(
        reply_tokens=options.reply_tokens,
        in_flight=options.in_flight,
    )
    protocols = [load_protocol(name) for name in (options.envs or protocol_names())]
    entering = {
        protocol.name: (protocol, parse_entrants(options.agent, protocol, listening=False))
        for protocol in protocols
    }
    found = plan(
        entering, assumed, seeds=options.counted()[0], max_new_tokens=options.max_new_tokens
    )
    if options.json:
        print(plain_json({**asdict(found), "assumed": asdict(assumed)}))
    else:
        print(visible("\n".join(_lines(found, assumed))))
    return 0


def _lines(found: Plan, assumed: Assumed) -> Iterable[str]:
    """The plan as lines for the terminal."""
    several, total = len(found.seconds) > 1, sum(found.seconds.values())
    for protocol, seconds in found.seconds.items():
        rows = [row for row in found.agents if row.protocol == protocol]
        yield f"{protocol}: {_hours(seconds) if seconds else 'no endpoint is asked'}"
        yield from (f"  {row.agent}: {_sums([row])}" for row in rows)
    for agent in dict.fromkeys(row.agent for row in found.agents) if several else ():
        yield f"{agent} in all: {_sums([row for row in found.agents if row.agent == agent])}"
    if several and total > 0:
        yield f"all environments, one after another: {_hours(total)}"
    length = "its limit" if assumed.reply_tokens is None else f"{assumed.reply_tokens} tokens"
    yield (
        f"Assumed: replies of {length}, {assumed.characters_per_token:g} characters of a prompt per token, "
        f"{assumed.seconds_per_reply:g} s per reply, as many moves as a bot makes. At most: every reply is "
        "as long as its limit and refused as often as the protocol allows. Time that models take on this "
        "machine is left out."
    )


def _sums(rows: Sequence[AgentPlan]) -> str:
    requests, most = sum(r.requests for r in rows), sum(r.most_requests for r in rows)
    return (
        f"{sum(r.matches for r in rows):,} matches, {requests:,} requests (at most {most:,}), "
        f"{sum(r.prompt_tokens for r in rows):,} prompt and {sum(r.reply_tokens for r in rows):,} reply "
        f"tokens, {_money(rows)}"
    )


def _money(rows: Sequence[AgentPlan]) -> str:
    costs, most = [r.cost for r in rows], [r.most_cost for r in rows]
    if any(cost is None for cost in costs):
        return "price unknown"
    total, bound = sum(c or 0.0 for c in costs), sum(c or 0.0 for c in most)
    currency = next((r.currency for r in rows if r.currency), "")
    return f"{total:.2f} {currency} (at most {bound:.2f})" if currency else "no price: it runs here"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
