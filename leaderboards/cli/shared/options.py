"""Options that several commands of boards have, each declared once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from srl_agents.cli.options import EverythingOptions, positional
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.bundles.agents import Entrant
    from leaderboards.protocol import Protocol

APART = "apart"
"""In place of a number of seeds; see `leaderboards.bundles.adaptive_seeds`."""
AGENTS = """\
an agent is one of (`srl docs agents`)
  bot:NAME                   a bot that is not a reference already
  MODEL                      a language model: tiny, smollm2-135m, a hub id or a folder
  MODEL+ADAPTER              a model with the trained adapter in a folder
  openai:MODEL@URL           a model behind an OpenAI-compatible endpoint
  PROVIDER:MODEL             the same, at openai, anthropic, google, ... or a provider of your file
                             (`srl docs endpoints`)

A model or endpoint with ?prompt=FILE behind it is shown that prompt before every observation: a
prompt.json, a recipe, or the folder of an adapter or a run. Adapters bring the one that they were trained
behind. NAME=AGENT gives an agent a name on the board. Names of makers and known models are reserved: put
your own before them, alice/gpt-5=AGENT.

The key of an endpoint, if it requires one, comes from the environment (SRL_ENDPOINT_API_KEY, or the variable
that the providers file names). Its weights cannot be audited: such bundles reach L2 at most.

"""


_MOST_DIGITS = 18
"""Of a number of seeds; Python reads no number of thousands."""
Agents = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="[NAME=]AGENT")
]
"""The type of ``--agent``."""


@dataclass(frozen=True, kw_only=True)
class BoardOptions:
    """The board that a command reads or changes."""

    board: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of the board."""


@dataclass(frozen=True, kw_only=True)
class OutOptions:
    """Folder that a command writes to."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder to write to; made if absent."""


@dataclass(frozen=True, kw_only=True)
class FingerprintOptions:
    """Key that must have signed the board."""

    fingerprint: Annotated[str | None, tyro.conf.arg(metavar="HEX")] = None
    """Refuse a board that another key signed; the 16 digits that its operator publishes."""


@dataclass(frozen=True, kw_only=True)
@positional("board", "DIR")
class OneBoardOptions(BoardOptions):
    """The board that a command is about."""


@dataclass(frozen=True, kw_only=True)
class BoardAgentOptions(OneBoardOptions):
    """One agent of a board."""

    agent: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT")]
    """Name of the agent on the board."""
    protocol: str = ""
    """Protocol that rated the agent, where several agents have the name."""


@dataclass(frozen=True, kw_only=True)
class BundlesOptions:
    """The bundles that a command reads."""

    bundles: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="PATH ...")]
    """Bundles, or folders of some."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """How matches of bundles are played again."""

    workers: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Number of processes that replay matches."""
    model: Annotated[
        tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="AGENT=MODEL")
    ] = ()
    """Where an agent's weights are, if the bundle does not hold them; may be repeated."""


@dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """How far bundles are checked."""

    level: Literal["L0", "L1", "L2", "L3"] = "L2"
    """Level to check up to; a board takes bundles that were checked to L2 or L3."""


@dataclass(frozen=True, kw_only=True)
class EnvsOptions:
    """Environments by their ids."""

    envs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[ENV ...]")] = ()
    """Ids of environments."""


@dataclass(frozen=True, kw_only=True)
class GamesOptions(EnvsOptions, EverythingOptions):
    """The environments that are played."""

    in_flight: Annotated[int, tyro.conf.arg(metavar="N")] = 64
    """Requests to all endpoints at once."""


@dataclass(frozen=True, kw_only=True)
class EntrantOptions:
    """The agents that enter a board, and how much they play."""

    agent: Agents = ()
    """Agent that enters; may be repeated; without it, only the references play."""
    seeds: Annotated[str | None, tyro.conf.arg(metavar="N")] = None
    """Play the first N seeds only, decided before the first match; a ticket sets their number, and rows of
    few seeds stay provisional. `apart`, or `apart:N`, adds seeds in --unregistered runs until every two
    agents are apart, up to N."""

    def __post_init__(self) -> None:
        self.counted()

    def counted(self) -> tuple[int | None, str]:
        """Seeds, all if None, and what a run stops at.

        Raises:
            ConfigError: it is neither a number nor ``apart``.
        """
        if self.seeds is None:
            return None, ""
        word, colon, number = self.seeds.partition(":")
        text = number if colon else ("" if word == APART else word)
        until = APART if colon or word == APART else ""
        if (colon and word != APART) or not (
            text.isascii()
            and (text.isdigit() or (until and not colon))
            and len(text) <= _MOST_DIGITS
        ):
            raise ConfigError(f"--seeds {self.seeds[:40]!r}: give a number, {APART}, or {APART}:N.")
        return (int(text) if text else None), until


def entrants_from(
    agents: Sequence[str], protocol: Protocol, *, maker: str = "", when: str = ""
) -> list[Entrant]:
    """The entrants that ``--agent`` names; arguments and errors as `parse_entrants`."""
    from leaderboards.bundles.agents import parse_entrants

    return parse_entrants(agents, protocol, maker=maker, when=when)
