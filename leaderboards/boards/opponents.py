"""Agents of a board as opponents in training: the settings of a recipe that hold them to their weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboards.boards.archive import Board, Entry, mentioned_names
from leaderboards.bundles.agent_specs import is_model, is_served
from leaderboards.bundles.submission import adapter_folder
from leaderboards.contents.bases import base_source
from leaderboards.contents.intake import ADAPTER_WEIGHTS
from srl_agents.agents.contents import SHOWN
from srl_agents.agents.grammar import ModelName, parse
from srl_agents.league.agents import AgentVersion
from srl_envs.errors import ConfigError, nearest

PINNED = ("base_sha256", "adapter", "lora", "prompt", "tokenizer")
"""Pinned keys of an agent's contents; its recipe determines how it is sampled and parsed."""


@dataclass(frozen=True, slots=True)
class Published:
    """An agent of a board."""

    agent: AgentVersion
    entry: Entry
    """The one of its bundles that was verified furthest."""

    @property
    def protocol(self) -> str:
        """Protocol by which the agent was rated."""
        return self.entry.bundle.protocol.name


def published(board: Board, name: str, protocol: str = "") -> Published:
    """An agent of a board.

    Args:
        board: whose signatures were checked.
        name: of the agent there.
        protocol: that it was rated by; empty where only one agent has the name.

    Raises:
        ConfigError: there is none, or several different ones.
    """
    found: dict[str, Published] = {}
    for group in board.groups:
        for entry in sorted(group.entries, key=lambda entry: entry.level):
            for agent in entry.bundle.agents:
                if agent.agent_id == name and protocol in ("", group.protocol.name):
                    found[group.protocol.name] = Published(agent, entry)
    if not found:
        names = {a.agent_id for g in board.groups for e in g.entries for a in e.bundle.agents}
        aside = f" {len(board.set_aside)} bundles are set aside." if board.set_aside else ""
        if not names:
            raise ConfigError(
                f"no bundle of a board was found, so no agent is called {name!r}.{aside}"
            )
        raise _unknown(name, protocol, names, aside)
    first, *others = found.values()
    if any(_weights(first.agent) != _weights(other.agent) for other in others):
        raise ConfigError(
            f"{name!r} is another agent under each of {', '.join(found)}: choose one with --protocol."
        )
    return max(found.values(), key=lambda one: (_holds_weights(one), one.entry.level))


def check_mentioned(folder: Path, name: str, protocol: str = "") -> None:
    """Refuse a name that no bundle mentions, before a board's signatures and schedules are checked.

    A name that passes may still be of a bundle that does not count; `published` decides that.

    Args:
        folder: of the board.
        name: of the agent there.
        protocol: that it was rated by; empty for any.

    Raises:
        ConfigError: names the agents that are mentioned.
    """
    by_protocol = mentioned_names(folder)
    allowed = [by_protocol.get(protocol, set())] if protocol else by_protocol.values()
    if by_protocol and not any(name in names for names in allowed):
        raise _unknown(name, protocol, set().union(*by_protocol.values()))


def _unknown(name: str, protocol: str, names: set[str], aside: str = "") -> ConfigError:
    return ConfigError(
        f"no agent {name!r} on this board{' by ' + protocol if protocol else ''}."
        f"{nearest(name, names)} It has: {', '.join(sorted(names))}.{aside}"
    )


def opponent_settings(
    one: Published, *, model: str = "", prompt_file: Path | None = None
) -> dict[str, Any]:
    """Settings of a recipe that meet an agent.

    Args:
        one: from a board.
        model: MODEL or MODEL+ADAPTER that has its weights, where the board does not hold them.
        prompt_file: file to write the agent's prompt to, if it has one.

    Raises:
        ConfigError: the agent's weights cannot be proved, or its weights or prompt are missing.
    """
    agent = one.agent
    if is_served(agent):
        raise ConfigError(
            f"{agent.agent_id!r} answered through an endpoint, whose weights cannot be proved. To "
            "meet what it serves today, name it in opponents.agents as openai:MODEL@URL, with a budget."
        )
    if not is_model(agent):
        return {"opponents": {"bots": {str(agent.spec["bot"]): 1.0}}}
    if SHOWN in agent.spec and prompt_file is None:
        raise ConfigError(
            f"{agent.agent_id!r} is shown a prompt, which must be written down somewhere: give --out."
        )
    name = _named(one, model)
    if SHOWN in agent.spec:
        name = ModelName(name.model, name.adapter, str(prompt_file))
    pinned = {part: agent.spec[part] for part in PINNED if agent.spec[part] is not None}
    return {"opponents": {"agents": {str(name): 1.0}, "pinned": {str(name): pinned}}}


def _named(one: Published, model: str) -> ModelName:
    """Model and adapter that hold the agent's weights."""
    agent, spec = one.agent, one.agent.spec
    if model:
        given = parse(model)
        if not isinstance(given, ModelName) or given.prompt:
            raise ConfigError(f"--model {model}: give MODEL or MODEL+ADAPTER.")
        if bool(given.adapter) != (spec["adapter"] is not None):
            wanted = (
                "a base without an adapter: give MODEL"
                if given.adapter
                else "an adapter: give MODEL+ADAPTER"
            )
            raise ConfigError(f"--model {model}: {agent.agent_id!r} is {wanted}.")
        return given
    base = base_source(spec)
    if base is None:
        raise ConfigError(
            f"the base of {agent.agent_id!r}, {spec['base']}, is a folder on another machine: give it with "
            "--model."
        )
    if spec["adapter"] is None:
        return ModelName(base)
    folder = adapter_folder(one.entry.bundle.folder, agent.agent_id)
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ConfigError(
            f"the board does not hold the adapter of {agent.agent_id!r}: give it with "
            f"--model '{base}+FOLDER'."
        )
    return ModelName(base, str(folder.resolve()))


def _holds_weights(one: Published) -> bool:
    """Whether the bundle itself has what it takes to load the agent."""
    if one.agent.spec.get("adapter") is None:
        return True
    return (adapter_folder(one.entry.bundle.folder, one.agent.agent_id) / ADAPTER_WEIGHTS).is_file()


def _weights(agent: AgentVersion) -> list[Any]:
    """What makes two agents of one name the same opponent."""
    return [agent.spec.get(part) for part in (*PINNED, "bot", SHOWN)]
