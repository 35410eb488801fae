"""Ratings of a store, and each learner's gain over its start: `srl league status`, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from srl_agents.league.ratings.diagnostics import Diagnostics, diagnose
from srl_agents.league.ratings.focal_returns import (
    CrossPlay,
    FocalReturn,
    SeatedResult,
    cross_play,
    focal_returns,
)
from srl_agents.league.ratings.overall import overall
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.tables import Interval, RatingTable, head_to_head, rate, rate_teams
from srl_agents.league.ratings.transfer import MeasuredGame, transfer_table
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_envs import spec as env_spec
from srl_envs.errors import UnknownEnvironmentError

ALL_GAMES = "all games"
"""In the place of an environment: one scale over all games with winners. A bot is another in each."""


@dataclass(frozen=True)
class Status:
    """Ratings of one environment of a store."""

    env_id: str
    schedule: str
    table: RatingTable | None
    """None in games of one seat, and in those that are scored among strangers: a rating would count seats
    that an agent shares with its copies."""
    gains: dict[str, Interval]
    """Learner's last version -> mean outcome difference to its start over mirrored pairs; without a table
    the difference of their returns over common seeds, in one seat beside the same others."""
    without_errors: RatingTable | None = None
    """The same without games that a forfeit ended; None where a forfeit ended all games or none."""
    partners: CrossPlay | None = None
    """Cross-play of cooperative games."""
    focal: list[FocalReturn] = field(default_factory=list)
    """Of mixed games; without a table from the best agent to the worst."""
    diagnostics: Diagnostics | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the environment."""
    title: str = ""
    """The environment, with the options in which it differs from others of the same id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """A learner's last version against the version that it started as, in one game."""

    agent: str
    """Id of the last version."""
    start: str
    """Id of the version at the start."""
    game: str
    """`Status.title`."""
    unit: str
    """What differs: ``score`` against each other, or in games of one seat ``return``."""
    difference: Interval
    """Last version minus start; outcomes in [-1, 1], returns in [0, 1]."""

    @property
    def better(self) -> bool:
        """Whether the whole 95 % interval is above 0."""
        return self.difference.low > 0


def read_status(store: LeagueStore, *, with_diagnostics: bool = False) -> list[Status]:
    """Ratings per environment, from the last evaluation schedule of each; of a run of several, one over
    all of them comes last."""
    agents = store.agents()
    anchors = [a.agent_id for a in agents if a.role == "anchor"]
    statuses = []
    with store.snapshot():
        games: dict[str, RatingTable] = {}
        for env_id, options in store.environments():
            schedule = store.last_schedule(env_id, options)
            if schedule is None:
                continue
            pairs = store.pairs(env_id, options=options, schedule=schedule)
            teams = store.team_results(env_id, options=options, schedule=schedule)
            if not pairs.a_M.size:
                seated = store.seated(env_id, options=options, schedule=schedule)
                if any(len(result.seats) == 1 for result in seated):
                    found = _alone(env_id, schedule, agents, seated)
                    statuses.append(replace(found, options=options))
                continue
            if _among_strangers(env_id):
                seated = store.seated(env_id, options=options, schedule=schedule)
                found = _alone(env_id, schedule, agents, seated)
                statuses.append(replace(found, options=options))
                continue
            table = rate_teams(teams, anchors=anchors) if teams else rate(pairs, anchors=anchors)
            clean = store.pairs(env_id, options=options, schedule=schedule, errors=False)
            mode = _mode(env_id)
            if mode != "cooperative" and not teams:
                games[f"{env_id} {options}" if env_id in games else env_id] = table
            seated = (
                store.seated(env_id, options=options, schedule=schedule)
                if mode != "competitive"
                else []
            )
            lineages = {a.agent_id: a.lineage for a in agents}
            statuses.append(
                Status(
                    env_id,
                    schedule,
                    table,
                    _gains(agents, pairs),
                    without_errors=_without_errors(pairs, clean, anchors) if not teams else None,
                    partners=cross_play(seated, lineages, _strangers(store, env_id, lineages))
                    if mode == "cooperative"
                    else None,
                    focal=focal_returns(seated) if mode == "mixed" else [],
                    diagnostics=diagnose(pairs, steps={a.agent_id: a.step for a in agents})
                    if with_diagnostics
                    else None,
                    options=options,
                )
            )
    if len(games) > 1 and store.count(split="train"):
        together = overall(games)
        if together is not None:
            title = f"{len(games)} games, each counts alike"
            statuses.append(Status(ALL_GAMES, title, together, {}))
    return [replace(status, title=_title(status, statuses)) for status in statuses]


def _title(status: Status, statuses: list[Status]) -> str:
    others = [other.options for other in statuses if other.env_id == status.env_id]
    names = dict.fromkeys(name for options in others for name in options)
    differing = [
        f"{name}={status.options[name]}"
        for name in names
        if name in status.options and any(o.get(name) != status.options[name] for o in others)
    ]
    return f"{status.env_id} ({', '.join(differing)})" if differing else status.env_id


def _alone(
    env_id: str, schedule: str, agents: list[AgentVersion], seated: list[SeatedResult]
) -> Status:
    """Status by what agents earn in one seat, there being no other or only strangers in the others."""
    present = {name for result in seated for name in result.seats}
    begun = {a.agent_id: a.parent for a in agents if a.parent in present and a.agent_id in present}
    measured = MeasuredGame(
        name=env_id, mode=_mode(env_id), trained=True, results=seated, one_seat=True
    )
    gains = transfer_table([measured], {who: start for who, start in begun.items() if start})
    returns = sorted(
        focal_returns(seated, one_seat=True), key=lambda row: (-row.focal.estimate, row.agent)
    )
    return Status(env_id, schedule, None, {row.learner: row.gain for row in gains}, focal=returns)


def _strangers(
    store: LeagueStore, env_id: str, lineages: Mapping[str, str]
) -> dict[str, list[str]]:
    """Agent that was trained -> agents that its training never met; `bot:NAME` and such are their own."""
    met = store.met(env_id)
    return {
        agent: [
            other for other, theirs in lineages.items() if theirs not in {*met[lineage], lineage}
        ]
        for agent, lineage in lineages.items()
        if lineage in met
    }


def _among_strangers(env_id: str) -> bool:
    try:
        return env_spec(env_id).strangers
    except UnknownEnvironmentError:  # a store from elsewhere
        return False


def _mode(env_id: str) -> str:
    try:
        return env_spec(env_id).mode
    except UnknownEnvironmentError:  # a store from elsewhere
        return "competitive"


def _gains(agents: list[AgentVersion], pairs: Pairs) -> dict[str, Interval]:
    return {
        agent.agent_id: head_to_head(pairs, agent.agent_id, agent.parent)
        for agent in agents
        if agent.parent in pairs.agents and agent.agent_id in pairs.agents
    }


def _without_errors(pairs: Pairs, clean: Pairs, anchors: list[str]) -> RatingTable | None:
    if clean.a_M.size in (0, pairs.a_M.size):
        return None
    return rate(clean, anchors=anchors)


def gains_of(found: Status, agents: Mapping[str, AgentVersion]) -> list[Gain]:
    """Each learner against its start.

    Args:
        found: of one game.
        agents: of the store, by id.

    Returns:
        None in cooperative games, in which both would be paid alike.
    """
    if found.partners is not None:
        return []
    unit = "return" if found.table is None else "score"
    return [
        Gain(agent=agent, start=start, game=found.title, unit=unit, difference=difference)
        for agent, difference in found.gains.items()
        if (start := agents[agent].parent) is not None
    ]
