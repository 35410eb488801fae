"""Contents of an agent's record: the keys, and functions that read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from leaderboards.protocol import BOT, HELD_OUT, Protocol
from leaderboards.registration.tickets import Committed
from srl_agents.agents.contents import ENDPOINT, SHOWN, bot_contents
from srl_agents.agents.prompt_file import NO_PROMPT, PromptSettings, shown
from srl_agents.league.agents import AgentVersion
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build

SAMPLER = "inverse-cdf/1"
"""How `srl_agents.engines.token_choice` turns a reply's random numbers into tokens."""

Contents = dict[str, Any]
"""All that an agent's replies depend on, as `leaderboards.contents.schemas` describes it."""


def bot_version(name: str, protocol: Protocol) -> AgentVersion:
    """The version of a bot; its code belongs to the environment's version."""
    bot = name.removeprefix(BOT)
    return AgentVersion(
        agent_id=name,
        lineage=name,
        role="anchor" if bot in protocol.anchors else "heldout" if name == HELD_OUT else "frozen",
        spec=bot_contents(bot, protocol.env),
    )


def shown_to(spec: Mapping[str, Any]) -> PromptSettings:
    """The prompt that a model's ``spec`` declares.

    Raises:
        ConfigError: the content is not a prompt, or the prompt shows nothing.
    """
    if SHOWN not in spec:
        return NO_PROMPT
    prompt = build(PromptSettings, spec[SHOWN], SHOWN)
    refuse_unaudited(prompt)
    if prompt == NO_PROMPT or shown(prompt) != spec[SHOWN]:
        raise ConfigError(f"{SHOWN}: it shows nothing, or lacks a field.")
    try:
        json.dumps(shown(prompt), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"{SHOWN}: it holds half of a surrogate pair, which is not text."
        ) from None
    return prompt


def refuse_unaudited(prompt: PromptSettings) -> None:
    """Refuse what a replay of single observations cannot check.

    Raises:
        ConfigError: the prompt has thoughts or a memory.
    """
    if prompt.thoughts is not None or prompt.memory is not None:
        raise ConfigError(
            "a board checks every reply from what its seat was shown in that turn: an agent with "
            "thoughts or a memory cannot be entered."
        )


def is_model(version: AgentVersion) -> bool:
    """Whether an agent has tokens, and weights to audit."""
    return "base" in version.spec


def is_served(version: AgentVersion) -> bool:
    """Whether an agent answered through an endpoint, so that its replies cannot be audited."""
    return ENDPOINT in version.spec


def committed(versions: Sequence[AgentVersion]) -> list[Committed]:
    """What a registration names of these agents; bots need none."""
    return [
        Committed(version.agent_id, version.contents)
        for version in versions
        if not version.agent_id.startswith(BOT)
    ]


def version_data(version: AgentVersion) -> Contents:
    """Version of an agent as JSON for a manifest."""
    return {"agent_id": version.agent_id, "spec": version.spec}
