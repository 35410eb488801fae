"""The option ``--agent``, for every command that takes agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from leaderboards.bundles.agents import Entrant
    from leaderboards.protocol import Protocol

AGENTS = """\
an agent is one of (docs/guides/agents.md)
  bot:NAME                   a bot that is not a reference already
  MODEL                      a language model: tiny, smollm2-135m, a hub id or a folder
  MODEL+ADAPTER              a model with the trained adapter in a folder
  openai:MODEL@URL           a model behind an OpenAI-compatible endpoint
  openai:MODEL@PROVIDER      the same, at a provider of the providers file (docs/guides/endpoints.md)

A model or endpoint with ?prompt=FILE behind it is shown that prompt before every observation: a
prompt.json, a recipe, or the folder of an adapter or a run. Adapters bring the one that they were trained
behind. NAME=AGENT gives an agent a name on the board. Names of makers and known models are reserved: put
your own before them, alice/gpt-5=AGENT.

The key of an endpoint, if it requires one, comes from the environment (SRL_ENDPOINT_API_KEY, or the variable
that the providers file names). Its weights cannot be audited: such bundles reach L2 at most.

"""


Agents = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="[NAME=]AGENT")
]
"""The type of ``--agent``."""


def entrants_from(
    agents: Sequence[str], protocol: Protocol, *, maker: str = "", when: str = ""
) -> list[Entrant]:
    """The entrants that ``--agent`` names; arguments and errors as `parse_entrants`."""
    from leaderboards.bundles.agents import parse_entrants

    return parse_entrants(agents, protocol, maker=maker, when=when)
