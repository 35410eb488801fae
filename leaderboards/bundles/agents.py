"""Entrants of a board: names as users write them, versions with hashes, policies that play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboards.bundles.agent_specs import SAMPLER, Contents, refuse_unaudited
from leaderboards.bundles.roster import catalog_fault, roster
from leaderboards.contents.bases import base_hint
from leaderboards.names import confused, default_name, name_fault
from leaderboards.protocol import ROOT_SEED, Protocol
from srl_agents.agents import ModelPolicy, Policy
from srl_agents.agents.contents import SHOWN
from srl_agents.agents.first_look import first_look
from srl_agents.agents.grammar import BotName, EndpointName, ModelName
from srl_agents.agents.prompt_file import NO_PROMPT, Examples, shown
from srl_agents.agents.resolver import (
    Asking,
    Candidate,
    Playing,
    Seated,
    find,
    refuse_human,
    seat,
)
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.league.agents import AgentVersion
from srl_envs.errors import ConfigError, gather

if TYPE_CHECKING:  # torch comes with it
    from srl_agents.engines.embedded.engine import TransformersEngine


@dataclass(frozen=True, slots=True)
class Entrant:
    """An agent that enters a board."""

    name: str
    """Agent id on the board."""
    candidate: Candidate
    """Parsed name of the agent."""

    @property
    def source(self) -> str:
        """Name as the user wrote it."""
        return str(self.candidate.name)

    @property
    def is_bot(self) -> bool:
        """Whether it belongs to the environment."""
        return isinstance(self.candidate.name, BotName)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A loaded model, for scoring its replies again."""

    engine: TransformersEngine
    version: str | None
    """Name on the engine's base; None is the base itself."""
    examples: Examples
    """Shown behind those of the base's prompt."""


@dataclass(slots=True)
class Built:
    """Agents that are loaded and can play."""

    policies: dict[str, Policy]
    versions: list[AgentVersion] = field(default_factory=list)
    """References first, in the protocol's order, then entrants by name."""
    models: dict[str, LoadedModel] = field(default_factory=dict)
    """Models whose weights are loaded here, by agent id."""


def parse_entrants(
    texts: Sequence[str],
    protocol: Protocol,
    *,
    maker: str = "",
    when: str = "",
    listening: bool = True,
) -> list[Entrant]:
    """Read ``AGENT`` or ``NAME=AGENT``; nothing is loaded.

    An adapter that was trained behind a prompt brings it along.

    Args:
        texts: who enters.
        protocol: what they play.
        maker: whose names they may use; see `registration.Request.maker`.
        when: they were registered, UTC; names that were reserved later do not count. Now if empty.
        listening: whether a server has to listen at an endpoint's address.

    Raises:
        ConfigError: a name is taken, used twice or unfit; an agent is a person; a prompt or an adapter
            cannot be read; or several agents have such mistakes, which are all named.
        ModelError: no server listens at an endpoint's address.
        UnknownPolicyError: no agent has the name.
    """
    entrants: list[Entrant] = []
    gather(
        *(partial(_enter, entrants, text, protocol, maker=maker, when=when) for text in texts),
        *(
            [partial(first_look, [(_split(text)[1], protocol.env) for text in texts])]
            if listening
            else []
        ),
    )
    entrants.sort(key=lambda entrant: entrant.name)
    names = [entrant.name for entrant in entrants]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"agent {name!r} is given twice; write NAME=AGENT to tell them apart."
            )
    if pair := confused([*protocol.references, *names]):
        raise ConfigError(
            f"agents {pair[0]!r} and {pair[1]!r}: their names read alike; rename one."
        )
    return entrants


def _enter(
    entrants: list[Entrant], text: str, protocol: Protocol, *, maker: str, when: str
) -> None:
    entrant = _entrant(text, protocol)
    refuse_human(entrant.candidate.name, "on a board")
    if entrant.name in protocol.references:
        raise ConfigError(
            f"{entrant.name} is a reference of {protocol.name} and plays in every run: leave it out, or "
            "run without --agent for only the references."
        )
    if not entrant.is_bot and (wrong := name_fault(entrant.name, maker=maker, when=when)):
        raise ConfigError(f"agent name {entrant.name!r}: {wrong}.")
    entrants.append(entrant)


def _entrant(text: str, protocol: Protocol) -> Entrant:
    given, agent = _split(text)
    candidate = find(agent, protocol.env)
    name = candidate.name
    if isinstance(name, BotName):
        if given not in (None, str(name)):
            raise ConfigError(f"{text}: a bot keeps its own name, {name}.")
        return Entrant(str(name), candidate)
    if isinstance(name, ModelName) and name.adapter:
        own = Path(name.adapter).name
    else:
        own = default_name(name.model) if isinstance(name, ModelName | EndpointName) else str(name)
    return Entrant(own if given is None else given, candidate)


def _split(text: str) -> tuple[str | None, str]:
    """(name if one is given, agent); the ``=`` of ``?prompt=`` separates no name."""
    name, equals, agent = text.partition("=")
    return (name, agent) if equals and "?" not in name else (None, text)


def build_agents(
    protocol: Protocol,
    entrants: Sequence[Entrant],
    max_new_tokens: int,
    asking: Asking | None = None,
) -> Built:
    """Policies and versions of references and entrants.

    Raises:
        ConfigError: an agent has the name of a catalog's model, and other weights.
        ModelError: a model or adapter cannot be loaded, or an endpoint does not answer.
    """
    candidates = {name: find(name, protocol.env) for name in protocol.references}
    candidates |= {entrant.name: entrant.candidate for entrant in entrants}
    for candidate in candidates.values():
        refuse_unaudited(candidate.prompt)
    decoding = protocol.decoding
    sampling = SamplingSettings(
        temperature=decoding.temperature, max_new_tokens=max_new_tokens, stop=decoding.stop
    )
    playing = Playing(env_id=protocol.env, sampling=sampling, asking=asking or Asking())
    seated = seat(candidates, playing)
    specs = {name: _spec(candidates[name], found) for name, found in seated.items()}
    for entrant in entrants:
        if wrong := catalog_fault(entrant.name, specs[entrant.name]):
            raise ConfigError(f"agent {entrant.name!r}: {wrong}.")
    order = {name: k for k, name in enumerate(protocol.references)}
    names = sorted(specs, key=lambda name: (order.get(name, len(order)), name))
    return Built(
        policies={name: found.policy for name, found in seated.items()},
        versions=list(roster(protocol, [(name, specs[name]) for name in names])),
        models={name: model for name, found in seated.items() if (model := _loaded(found))},
    )


def _loaded(seated: Seated) -> LoadedModel | None:
    policy = seated.policy
    if seated.engine is None or not isinstance(policy, ModelPolicy):
        return None
    version = None if policy.version is None else str(policy.version)
    return LoadedModel(seated.engine, version, policy.examples)


def _spec(candidate: Candidate, seated: Seated) -> Contents:
    """Contents that a board records of an agent."""
    model, prompt = _loaded(seated), candidate.prompt
    if model is None:
        return seated.contents
    # what is needed to audit it: without a prompt, the key ``shown`` is absent; and the same weights at
    # another alpha are another agent
    base, sampling = model.engine.base, model.engine.sampling
    return {
        **seated.contents,
        **({} if prompt == NO_PROMPT else {SHOWN: shown(prompt)}),
        "base": base_hint(base.name),
        "stop": list(sampling.stop),
        "dtype": str(base.model.dtype).removeprefix("torch."),
        "lora": None if model.version is None else list(seated.shape),
        "sampler": SAMPLER,
        "root_seed": ROOT_SEED,
    }
