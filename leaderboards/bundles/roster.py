"""Agents of a bundle: which may enter, and their versions on a board.

An entrant gives its name and its contents. Role, lineage, steps and parent follow from these and from
the protocol, so nothing that one entrant writes moves the numbers of another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leaderboards.bundles.agent_specs import SAMPLER, Contents, bot_version, shown_to
from leaderboards.contents.bases import KNOWN
from leaderboards.contents.intake import MANIFEST, BundleError
from leaderboards.names import confused, name_fault, split_name
from leaderboards.protocol import BOT, ROOT_SEED, Protocol
from leaderboards.registration.tickets import Ticket
from leaderboards.reserved import in_catalog, skeleton
from srl_agents.agents.contents import API, ENDPOINT, THINKING
from srl_agents.engines.endpoint.settings import Account, EndpointSettings
from srl_agents.league.agents import AgentVersion
from srl_agents.records import canonical_json
from srl_envs import spec
from srl_envs.errors import ConfigError

_OWN_OF_AN_ADAPTER = ("adapter", "lora", "base")
"""Keys of a model's contents in which a version differs from what it was trained from; the last is a hint
where to load from."""


def roster(protocol: Protocol, agents: Iterable[tuple[str, Contents]]) -> tuple[AgentVersion, ...]:
    """The versions of these agents, in their order.

    Args:
        protocol: whose references they may be.
        agents: (name, contents).
    """
    known = [(name, dict(contents)) for name, contents in agents]
    return tuple(
        version(protocol, name, contents, parent_among(contents, known)) for name, contents in known
    )


def version(
    protocol: Protocol, name: str, contents: Contents, parent: str | None = None
) -> AgentVersion:
    """One agent of a board."""
    if name.startswith(BOT):
        return bot_version(name, protocol)
    lineage, step = split_name(name)
    return AgentVersion(
        agent_id=name,
        lineage=lineage,
        parent=parent,
        role="frozen",
        step=step,
        spec=dict(contents),
    )


def parent_among(contents: Contents, others: Iterable[tuple[str, Contents]]) -> str | None:
    """The first of these agents with the same contents and no adapter: the parent of an adapter."""
    if contents.get("adapter") is None:
        return None
    plain = _without_adapter(contents)
    for name, other in others:
        if "base" in other and other["adapter"] is None and _without_adapter(other) == plain:
            return name
    return None


def check_agents(
    protocol: Protocol, agents: Sequence[Mapping[str, Any]], ticket: Ticket | None = None
) -> None:
    """References as the protocol has them, then entrants that may enter, by name.

    Args:
        protocol: decides.
        agents: of the schema's kind.
        ticket: of the entrants; when it was drawn decides which names were reserved.

    Raises:
        BundleError: names the agent.
    """
    names = [str(agent["agent_id"]) for agent in agents]
    count = len(protocol.references)
    for number, name in enumerate(protocol.references):
        wanted = {"agent_id": name, "spec": bot_version(name, protocol).spec}
        if list(agents[number : number + 1]) != [wanted]:
            raise BundleError(
                f"{MANIFEST}: agent {number} is not the reference {name} of the protocol."
            )
    if names[count:] != sorted(set(names[count:]) - set(names[:count])):
        raise BundleError(f"{MANIFEST}: claim.agents: entrants must be sorted by name, each once.")
    for agent in agents[count:]:
        if wrong := _fault(agent["agent_id"], agent["spec"], protocol, ticket):
            raise BundleError(f"{MANIFEST}: agent {ascii(agent['agent_id'])[1:-1]}: {wrong}.")
    if pair := confused(names):
        raise BundleError(f"{MANIFEST}: agents {pair[0]} and {pair[1]}: their names read alike.")


def catalog_fault(name: str, contents: Contents) -> str:
    """Why an agent may not be called like a model of the catalog; empty if it may: its weights are those."""
    lineage, _ = split_name(name)
    if not in_catalog(lineage):
        return ""
    if contents.get("adapter") is None:
        known = KNOWN.get(str(contents.get("base_sha256")))
        if known is not None and skeleton(known) == skeleton(lineage):
            return ""
    return (
        "the name is a model of SRL's catalog, and these are not its weights: choose another, NAME=AGENT, or "
        f"put your name before it, OWNER/{lineage}"
    )


def _fault(name: str, contents: Contents, protocol: Protocol, ticket: Ticket | None) -> str:
    """Why an entrant may not enter; empty if it may."""
    if name.startswith(BOT):
        known = name.removeprefix(BOT) in spec(protocol.env).bots
        return "" if known and contents == bot_version(name, protocol).spec else "no such bot"
    maker, when = (ticket.request.maker, ticket.when) if ticket else ("", "")
    if wrong := name_fault(name, maker=maker, when=when):
        return f"its name: {wrong}"
    if wrong := catalog_fault(name, contents):
        return f"its name: {wrong}"
    if "bot" in contents:
        return f"a bot keeps its own name, which begins with {BOT}"
    return _sampling_fault(contents, protocol)


def _sampling_fault(contents: Contents, protocol: Protocol) -> str:
    """Why a model may not enter; empty if it may."""
    decoding, most = protocol.decoding, contents["sampling"]["max_new_tokens"]
    wanted: dict[str, Any] = {
        "sampling": {"temperature": decoding.temperature, "max_new_tokens": most},
        "stop": list(decoding.stop),
        "parser": protocol.env,
    }
    if ENDPOINT not in contents:
        wanted |= {"sampler": SAMPLER, "root_seed": ROOT_SEED}
    for key, value in wanted.items():
        if contents[key] != value:
            return f"{key} is {contents[key]!r}, the protocol requires {value!r}"
    if most > decoding.max_new_tokens:
        return f"max_new_tokens is {most}, the protocol allows 1 to {decoding.max_new_tokens}"
    try:
        shown_to(contents)
        if ENDPOINT in contents:
            _check_endpoint(contents)
    except ConfigError as error:
        return str(error)
    if ENDPOINT in contents and contents[ENDPOINT]["api"] != API:
        return f"endpoint.api is {contents[ENDPOINT]['api']!r}, the only one is {API!r}"
    if ENDPOINT not in contents and (contents["adapter"] is None) != (contents["lora"] is None):
        return "adapter and lora are both null, or neither is"
    return ""


def _check_endpoint(contents: Contents) -> None:
    """Whether a model can be asked like this.

    Raises:
        ConfigError: names the reason.
    """
    thinking = contents.get(THINKING, {"max_thought_tokens": 0, "extra": "{}"})
    try:
        extra = json.loads(thinking["extra"])
    except (ValueError, RecursionError):
        extra = None
    if not isinstance(extra, dict):
        raise ConfigError(f"{THINKING}.extra is not a JSON object")
    settings = EndpointSettings(
        account=Account(url=contents[ENDPOINT]["url"]),
        model=contents[ENDPOINT]["model"],
        max_thought_tokens=thinking["max_thought_tokens"],
        extra=extra,
    )
    if canonical_json(extra) != thinking["extra"] or settings.thinks != (THINKING in contents):
        raise ConfigError(
            f"{THINKING} is not as it is written: canonical JSON, and only where needed"
        )


def _without_adapter(contents: Contents) -> dict[str, Any]:
    return {key: value for key, value in contents.items() if key not in _OWN_OF_AN_ADAPTER}
