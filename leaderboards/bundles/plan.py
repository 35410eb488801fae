"""What a run will ask for, before the first request: matches, requests, tokens, money, hours.

Games differ in length and text, so some of the entrant's own matches are played by a bot in its seats, at no
cost, and counted. What a model writes is not known before: its limit stands for it unless a number is given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from typing import Any

from leaderboards.bundles.agents import Entrant
from leaderboards.protocol import BOT, Protocol, schedule
from srl_agents.agents.grammar import EndpointName
from srl_agents.agents.prompt_file import PromptSettings
from srl_agents.engines.endpoint.prices import Price
from srl_agents.engines.endpoint.providers import FoundModel, Provider, find_model
from srl_agents.records import MatchSpec, Served
from srl_envs import make
from srl_envs.api.episode import Step, play
from srl_envs.core import Split
from srl_envs.errors import ConfigError

_MINUTE_S = 60
Tables = tuple[tuple[int, Split, tuple[str, ...]], ...]
"""Matches: seed, split, and bots by seat, the empty name where an entrant sits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumed:
    """Assumptions of a plan, which its user may change."""

    characters_per_token: float = 4.0
    reply_tokens: int | None = None
    """Tokens of a mean reply; None: as many as its limit allows."""
    seconds_per_reply: float = 2.0
    sample: int = 12
    """Matches of a protocol that a bot plays for the entrant, to count."""
    concurrency: int = 16
    """Requests to one model at once."""
    in_flight: int = 64
    """Requests to all endpoints at once."""

    def __post_init__(self) -> None:
        for name in ("characters_per_token", "seconds_per_reply"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name}={getattr(self, name)}: use more than 0.")
        for name in ("reply_tokens", "sample", "concurrency", "in_flight"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}={value}: use 1 or more.")


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentPlan:
    """What one entrant takes in one protocol."""

    agent: str
    protocol: str
    matches: int
    requests: int
    """Replies that a game asks for, none of them refused."""
    most_requests: int
    """Where every reply is refused as often as the protocol allows, in as many moves."""
    prompt_tokens: int
    reply_tokens: int
    cost: float | None
    """Of ``requests``; None where no price is known, 0 for weights on this machine."""
    most_cost: float | None
    """Of ``most_requests``, each reply as long as its limit."""
    currency: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A run of some protocols."""

    agents: tuple[AgentPlan, ...]
    seconds: dict[str, float]
    """Protocol -> what requests to endpoints take at least; weights on this machine come on top."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """Means per match of an entrant with any name."""

    replies: float
    characters: float
    """Characters of all observations of the entrant."""


def plan(
    protocols: Mapping[str, tuple[Protocol, Sequence[Entrant]]],
    assumed: Assumed,
    *,
    seeds: int | None = None,
    max_new_tokens: int | None = None,
) -> Plan:
    """Plan a run; asks no endpoint and loads no model.

    Args:
        protocols: name -> protocol and its entrants.
        assumed: what is not known before.
        seeds: as in `BoardRun`, as is ``max_new_tokens``.

    Raises:
        ConfigError: a number that a protocol does not allow, or a provider that the file does not have.
    """
    rows: list[AgentPlan] = []
    seconds: dict[str, float] = {}
    for protocol, entrants in protocols.values():
        limit = protocol.decoding.max_new_tokens
        tokens = limit if max_new_tokens is None else max_new_tokens
        if not 1 <= tokens <= limit:
            raise ConfigError(f"max_new_tokens={tokens}: {protocol.name} allows 1 to {limit}.")
        asked: list[tuple[AgentPlan, FoundModel]] = []
        known: dict[Tables, _Counted] = {}
        for entrant in entrants:
            if entrant.is_bot:
                continue
            found = _endpoint(entrant)
            every = schedule(protocol, [entrant.name], seeds or protocol.seeds)
            own = [spec for spec in every if entrant.name in spec.seats]
            tables = _tables(entrant.name, _spread(own, assumed.sample))
            counted = known[tables] = known.get(tables) or _counted(protocol, tables)
            row = _agent(
                counted, len(own), protocol, entrant, found=found, assumed=assumed, limit=tokens
            )
            rows.append(row)
            if found is not None:
                asked.append((row, found))
        seconds[protocol.name] = _seconds(asked, assumed)
    return Plan(agents=tuple(rows), seconds=seconds)


def _agent(
    counted: _Counted,
    matches: int,
    protocol: Protocol,
    entrant: Entrant,
    *,
    found: FoundModel | None,
    assumed: Assumed,
    limit: int,
) -> AgentPlan:
    """An entrant's row, from what was counted in some of its matches."""
    requests = ceil(counted.replies * matches)
    before = _prompt_characters(entrant.candidate.prompt) * requests
    characters = counted.characters * matches + before
    prompt_tokens = ceil(characters / assumed.characters_per_token)
    tries = 1 + protocol.limits.max_retries
    thoughts = found.model.max_thought_tokens or 0 if found is not None else 0
    mean = min(limit, assumed.reply_tokens or limit) + thoughts
    price = None if found is None else found.price
    local = found is None
    return AgentPlan(
        agent=entrant.name,
        protocol=protocol.name,
        matches=matches,
        requests=requests,
        most_requests=requests * tries,
        prompt_tokens=prompt_tokens,
        reply_tokens=requests * mean,
        cost=0.0 if local else _cost(price, prompt_tokens, requests * mean),
        most_cost=0.0
        if local
        else _cost(price, prompt_tokens * tries, requests * tries * (limit + thoughts)),
        currency="" if price is None else price.currency,
    )


def _tables(agent: str, specs: Sequence[MatchSpec]) -> Tables:
    """These matches, in which no agent's name counts: all agents that sit there have one count."""
    return tuple(
        (spec.seed, spec.split, tuple("" if name == agent else name for name in spec.seats))
        for spec in specs
    )


def _counted(protocol: Protocol, tables: Tables) -> _Counted:
    """Play matches with the middle anchor in the agent's seats."""
    stand_in = protocol.anchors[len(protocol.anchors) // 2]
    replies = characters = 0
    with closing(make(protocol.env, **protocol.env_options)) as env:
        for seed, split, seats in tables:
            own = {seat for seat, name in enumerate(seats) if not name}

            def count(
                observations: dict[str, dict[str, Any]], step: Step, own: set[int] = own
            ) -> None:
                nonlocal replies, characters
                for seat in own & step.replies.keys():
                    replies += 1
                    characters += len(observations[env.possible_agents[seat]]["text"])

            bots = {
                seat: name.removeprefix(BOT) if name else stand_in
                for seat, name in enumerate(seats)
            }
            play(env, bots, seed=seed, split=split, on_step=count)
    return _Counted(replies / len(tables), characters / len(tables))


def _spread(specs: Sequence[MatchSpec], most: int) -> list[MatchSpec]:
    """Matches at equal distances: of all opponents, seats and seeds."""
    step = max(1.0, len(specs) / most)
    return [specs[int(k * step)] for k in range(min(most, len(specs)))]


def _prompt_characters(prompt: PromptSettings) -> int:
    """Number of characters before every observation: system message and shown turns."""
    return len(prompt.system or "") + sum(len(seen) + len(said) for seen, said in prompt.pairs)


def _endpoint(entrant: Entrant) -> FoundModel | None:
    name = entrant.candidate.name
    return find_model(name.url, name.model) if isinstance(name, EndpointName) else None


def _cost(price: Price | None, prompt: int, reply: int) -> float | None:
    if price is None:
        return None
    return price.cost(Served(finish="stop", prompt_tokens=prompt, completion_tokens=reply))


def _seconds(asked: Sequence[tuple[AgentPlan, FoundModel]], assumed: Assumed) -> float:
    """Time of one protocol: its providers are asked side by side, each within its limits."""
    shared: dict[str, list[tuple[AgentPlan, Provider]]] = defaultdict(list)
    for row, found in asked:
        shared[found.provider.url].append((row, found.provider))
    busy = [assumed.seconds_per_reply * row.requests for row, _ in asked]
    times = [sum(busy) / assumed.in_flight, *(one / assumed.concurrency for one in busy)]
    for rows in shared.values():
        provider = rows[0][1]
        requests = sum(row.requests for row, _ in rows)
        tokens = sum(row.prompt_tokens + row.reply_tokens for row, _ in rows)
        if provider.concurrency:
            times.append(assumed.seconds_per_reply * requests / provider.concurrency)
        if provider.requests_per_minute:
            times.append(_MINUTE_S * requests / provider.requests_per_minute)
        if provider.tokens_per_minute:
            times.append(_MINUTE_S * tokens / provider.tokens_per_minute)
    return max(times)
