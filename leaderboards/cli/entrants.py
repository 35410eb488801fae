"""Options that say who enters, for every command that takes agents."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaderboards.agents import Entrant
    from leaderboards.protocol import Protocol

AGENTS = """\
an agent is one of (docs/guides/agents.md)
  bot:NAME                   a bot that is no reference already
  MODEL                      a language model: tiny, smollm2-135m, a hub id or a folder
  MODEL+ADAPTER              a model with the trained adapter in a folder
  openai:MODEL@URL           a model behind an OpenAI-compatible endpoint
  openai:MODEL@PROVIDER      the same, at a provider of the providers file (docs/guides/endpoints.md)
and a model or endpoint with ?prompt=FILE behind it is shown that prompt before every observation: a
prompt.json, a recipe, or the folder of an adapter or a run. Adapters bring the one that they were trained
behind. NAME=AGENT gives an agent a name on the board.

The key of an endpoint, if it wants one, comes from the environment (SRL_ENDPOINT_API_KEY, or the variable
that the providers file names). Nobody can audit its weights: such bundles reach L2 at most.

"""


def entrants_from(options: argparse.Namespace, protocol: Protocol) -> list[Entrant]:
    """The entrants that the options name; raises as `parse_entrants`."""
    from leaderboards.agents import parse_entrants

    return parse_entrants(options.agent, protocol)


def entrant_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--agent`` and ``--max-new-tokens``."""
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="[NAME=]AGENT",
        help="who enters; may be repeated; without, the references play alone",
    )
    parser.add_argument(
        "--max-new-tokens",
        type=int,
        metavar="N",
        help="per reply of a model; at most the protocol's",
    )
