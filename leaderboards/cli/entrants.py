"""Options that say who enters, for every command that takes agents."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.agents import Entrant
    from leaderboards.protocol import Protocol

AGENTS = """\
an agent is
  bot:NAME                   a bot that is no reference already
  tiny, smollm2-135m         a language model that is fetched for you
  HUB_ID or FOLDER           any other one
  MODEL+ADAPTER_FOLDER       a model with a trained adapter
and NAME=AGENT gives it a name on the board.

any other engine or provider enters as an OpenAI-compatible endpoint; the key, if it wants one, comes from
the environment (SRL_ENDPOINT_API_KEY). Nobody can audit its weights: such bundles reach L2 at most.

"""


def entrants_from(options: argparse.Namespace, protocol: Protocol) -> list[Entrant]:
    """The entrants that the options name.

    Raises:
        ConfigError: an endpoint without a model, or the other way round; and as `parse_entrants`.
    """
    from leaderboards.agents import endpoint_source, parse_entrants

    if bool(options.endpoint) != bool(options.endpoint_model):
        raise ConfigError("--endpoint URL and --endpoint-model NAME belong together.")
    agents = list(options.agent)
    for text in options.endpoint_model:
        name, equals, model = text.partition("=")
        agents.append(f"{name}={endpoint_source(options.endpoint, model if equals else text)}")
    return parse_entrants(agents, protocol, options.prompt)


def entrant_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--agent``, ``--prompt``, ``--endpoint``, ``--endpoint-model`` and ``--max-new-tokens``."""
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="AGENT",
        help="who enters; may be repeated; without, the references play alone",
    )
    parser.add_argument(
        "--prompt",
        action="append",
        default=[],
        metavar="[AGENT=]FILE",
        help="what all models, or one, are shown before every observation: a prompt.json, a recipe, "
        "or the folder of an adapter or a run; adapters bring the one that they were trained behind",
    )
    parser.add_argument(
        "--endpoint", default="", metavar="URL", help="an OpenAI-compatible API, as a rule .../v1"
    )
    parser.add_argument(
        "--endpoint-model",
        action="append",
        default=[],
        metavar="[AGENT=]NAME",
        help="a model that it serves enters; may be repeated",
    )
    parser.add_argument(
        "--max-new-tokens",
        type=int,
        metavar="N",
        help="per reply of a model; at most the protocol's",
    )
