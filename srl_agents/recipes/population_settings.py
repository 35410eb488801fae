"""The recipe of a population: agents that play and are rated, and do not learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from srl_agents.agents.grammar import EndpointName, ModelName, parse
from srl_agents.agents.resolver import Candidate, find, known_name, refuse_human
from srl_agents.engines.protocol import OrderSettings, ReplySettings
from srl_agents.league.agents import AgentVersion, Role
from srl_agents.league.matchmaking.population import MatchmakingSettings
from srl_agents.league.settings import require
from srl_agents.recipes.sections.base_models import NAME, is_name
from srl_agents.recipes.sections.environment import (
    GameOptions,
    NamedSettings,
    RunSettings,
    WorkerSettings,
    match_options,
    surroundings,
)
from srl_envs import spec
from srl_envs.reading.settings import Removed

LEASE_S = 60.0
"""Seconds after which a worker that reported nothing is replaced and its matches issued again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings(NamedSettings):
    """One agent that plays."""

    agent: str
    """Who it is: a bot, a model, a model with an adapter, or an endpoint; see docs/guides/agents.md."""
    lineage: str = ""
    """Training run that it comes from; versions of one lineage are not strangers in cross-play."""
    role: Role = "frozen"
    """``main``: opponents are chosen for it. ``anchor``: defines the rating zero. ``heldout``: met only in
    evaluation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PopulationRecipe(WorkerSettings, RunSettings, GameOptions, ReplySettings, OrderSettings):
    """Agents of one environment that play each other until a number of matches is reached."""

    agents: tuple[AgentSettings, ...]
    """The agents that play."""
    matches: int = 1024
    """Rounded up to whole blocks."""
    matchmaking: MatchmakingSettings = field(default_factory=MatchmakingSettings)
    """Settings that choose the agents of each match."""
    batch: int = 16
    """Matches that are leased, played and stored together."""

    removed: ClassVar[Removed] = {"lease_s": (LEASE_S, "lower batch")}

    def __post_init__(self) -> None:
        require(bool(self.env), "env: name the game; it has no default.")
        for name in ("matches", "batch", "max_new_tokens"):
            require(getattr(self, name) >= 1, f"{name}={getattr(self, name)}: use 1 or more.")
        require(self.seed >= 0, f"seed={self.seed}: use 0 or more.")
        require(self.workers >= 0, f"workers={self.workers}: use 0 or more.")
        require(
            is_name(self.name),
            f"name={self.name!r}: use {NAME}; it becomes a folder.",
        )
        around = surroundings(self.env, self.env_options, self.wrappers)
        object.__setattr__(self, "wrappers", around.wrappers)
        seats = around.seats
        require(
            not self.teams or (len(self.teams) == seats and len(set(self.teams)) > 1),
            f"teams={list(self.teams)}: give one team per seat of {seats}.",
        )
        for agent in self.agents:
            refuse_human(known_name(agent.agent, self.env), "in a population")
        names = [self.agent_id(agent) for agent in self.agents]
        require(len(names) >= 2, "agents: give 2 or more.")
        require(len(set(names)) == len(names), f"agents: {names} has an id twice; give names.")

    @property
    def match_options(self) -> dict[str, Any]:
        """Options of every match: those of the environment, and the wrappers."""
        return match_options(self.env_options, self.wrappers)

    def candidates(self) -> dict[str, Candidate]:
        """The agents that play, by id.

        Raises:
            SRLError: an agent's name cannot be resolved; see `srl_agents.agents.resolver.find`.
        """
        return {self.agent_id(agent): find(agent.agent, self.env) for agent in self.agents}

    def agent_id(self, agent: AgentSettings) -> str:
        """Id of an agent in matches."""
        if agent.name:
            return agent.name
        name = parse(agent.agent, spec(self.env).bots)
        if isinstance(name, ModelName) and name.adapter:
            return Path(name.adapter).name
        return name.model if isinstance(name, ModelName | EndpointName) else str(name)

    def version(self, agent: AgentSettings, contents: dict[str, Any]) -> AgentVersion:
        """An agent as the store records it."""
        name = self.agent_id(agent)
        lineage = agent.lineage or name.partition("@")[0]
        return AgentVersion(agent_id=name, lineage=lineage, role=agent.role, spec=contents)
