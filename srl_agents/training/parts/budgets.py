"""Budgets of opponents behind endpoints: requests and cost. An agent without budget leaves the pool.

It leaves game by game: a rest that does not cover matches of a long game may cover those of a short one.

Before matches are played, the most that they can ask is taken from the budget and written down; afterwards
the rest is given back. So a run that is killed never asks more than its budget.

Two counts are kept. What was really asked is a file in the run's folder, match by match: where a match
repeats itself exactly, its replies come from the journal when it is played again, and it is counted once.
What the run had counted up to its checkpoint is part of that checkpoint. Who leaves the pool is decided by
it, as long as the file allows, so that a run that goes on decides as it did before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from srl_agents.league.settings import BudgetSettings
from srl_agents.records import Episode, MatchSpec

SPENT = "budgets.json"
"""Within a run's folder."""


@dataclass(kw_only=True, slots=True)
class MatchSpent:
    """What one agent was asked in one match."""

    requests: int
    """When it was last played; the most that it can be, until then."""
    cost: float
    open: bool = True
    """Whether the match was still open when this was written."""
    before: int = 0
    """Asked when it was played earlier, beyond what a journal answers now."""
    cost_before: float = 0.0


@dataclass(kw_only=True, slots=True)
class Spent:
    """What one agent was asked in this run."""

    requests: int = 0
    """Replies that were asked for, as far as the run counts them."""
    cost: float = 0.0
    """Cost in the currency of the price file."""
    dearest: float = 0.0
    """Cost that one reply is taken to have at most; raised where one cost more."""
    matches: dict[str, MatchSpent] = field(default_factory=dict)
    """Match id -> requests that were sent for it, those of killed runs included."""
    lost: int = 0
    """Recorded requests whose reply no match used."""

    @property
    def asked(self) -> int:
        """Number of requests so far, those of killed runs included."""
        return self.lost + sum(own.requests + own.before for own in self.matches.values())

    @property
    def paid(self) -> float:
        """Cost, runs that were killed included; what was sent in vain as dear as a reply can be."""
        played = sum(own.cost + own.cost_before for own in self.matches.values())
        return played + self.lost * self.dearest


class Budgets:
    """The budgets of a run.

    Args:
        budgets: by agent id.
        folder: of the run; keeps what was asked.
        most_replies: of one seat in one match, by game.
        first_cost: by agent, what a reply costs at most, as far as its limits tell.
        say: shows a line.
        repeatable: a match that is played again asks the same, and a journal answers.
        lost: requests that an agent was sent in vain, killed runs included; None if unknown. Then
            each seat that a kill cut off counts as one.
    """

    def __init__(
        self,
        budgets: Mapping[str, BudgetSettings],
        folder: Path,
        *,
        most_replies: Mapping[str, int],
        first_cost: Mapping[str, float],
        say: Callable[[str], None],
        repeatable: bool = False,
        lost: Callable[[str], int] | None = None,
    ) -> None:
        self._budgets, self._path, self._say = budgets, folder / SPENT, say
        self._most, self._repeatable, self._lost = most_replies, repeatable, lost
        kept = json.loads(self._path.read_text()) if self._path.is_file() else {}
        self.spent = {
            agent: _read(kept.get(agent), first_cost.get(agent, 0.0)) for agent in budgets
        }
        self._counted: dict[tuple[str, str], tuple[int, float]] = {}
        """(agent, match) -> requests and cost as which a match that is played is counted."""
        self._told: set[tuple[str, str]] = set()
        """(agent, environment) of whose branches it was said that they are not played."""
        self._count_lost()
        if not repeatable:
            for own in self.spent.values():
                own.requests, own.cost = own.asked, own.paid

    def state(self) -> dict[str, Any]:
        """What the run has counted, for its checkpoint."""
        return {
            agent: {"requests": own.requests, "cost": own.cost, "dearest": own.dearest}
            for agent, own in self.spent.items()
        }

    def load_state(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Continue the counts of a checkpoint; a match that may ask something new counts all its requests."""
        for agent, own in self.spent.items():
            if self._repeatable and agent in state:
                counted = state[agent]
                own.requests, own.cost = counted["requests"], counted["cost"]
                own.dearest = counted["dearest"]

    def unaffordable(self, specs: Iterable[MatchSpec]) -> list[tuple[str, str]]:
        """(agent, environment) of whose matches a budget does not cover all that may be asked.

        Where matches of an agent are of several games, it gives up the dearest first, and as few as it must.
        """
        by_agent: dict[str, list[MatchSpec]] = {}
        for spec in specs:
            for agent in set(spec.seats) & set(self._budgets):
                by_agent.setdefault(agent, []).append(spec)
        return [
            (agent, env_id)
            for agent, own in by_agent.items()
            for env_id in self._too_dear(agent, own)
        ]

    def draw(
        self, draw: Callable[[], list[MatchSpec]], gone: set[tuple[str, str]]
    ) -> list[MatchSpec]:
        """Matches that budgets cover; agents whose budget does not cover theirs leave those games before.

        Args:
            draw: the matches as they are without those who have left.
            gone: (agent, environment) of who has left what; grows.
        """
        while spent := self.unaffordable(specs := draw()):
            for agent, env_id in spent:
                self.tell(agent, env_id)
            gone.update(spent)
        return specs

    def affordable(self, specs: Sequence[MatchSpec]) -> list[MatchSpec]:
        """The matches without those that an agent's budget does not cover; shows a line for each of these."""
        gone = self.unaffordable(specs)
        for agent, env_id in gone:
            self.tell(agent, env_id)
        return _without(specs, gone)

    def covered(self, branches: Sequence[MatchSpec]) -> list[MatchSpec]:
        """The branches without those that an agent's budget does not cover; the agent stays in its games.

        Shows a line once for each agent and game.
        """
        gone = self.unaffordable(branches)
        for agent, env_id in gone:
            if (agent, env_id) not in self._told:
                self._told.add((agent, env_id))
                self._say(
                    f"not all decisions met with {agent} in {env_id} fork any more: what is left of its "
                    f"budget of {self._budgets[agent].requests} requests does not cover all branches."
                )
        return _without(branches, gone)

    def tell(self, agent: str, env_id: str) -> None:
        """Say that an agent's budget is spent, as far as a game is concerned."""
        budget, spent = self._budgets[agent], self.spent[agent]
        cost = "" if budget.cost is None else f", {spent.paid:.4g} of {budget.cost:g} paid"
        self._say(
            f"{agent} does not play {env_id} any more: {spent.asked} of its budget of {budget.requests} "
            f"requests asked{cost}, and what is left does not cover the next matches."
        )

    def take(self, specs: Iterable[MatchSpec]) -> None:
        """Count matches as if they asked all that they may, before they are played."""
        for agent, matches in self._most_asked(specs).items():
            own = self.spent[agent]
            for match_id, seats in matches.items():
                most = sum(seats), sum(seats) * own.dearest
                own.requests, own.cost = own.requests + most[0], own.cost + most[1]
                own.matches[match_id] = self._taken(own, match_id, seats)
                self._counted[agent, match_id] = most
        self._write()

    def give_back(self, specs: Iterable[MatchSpec], episodes: Iterable[Episode]) -> None:
        """Count what was asked instead.

        Args:
            specs: as they were taken.
            episodes: of them.
        """
        for agent, matches in self._most_asked(specs).items():
            own = self.spent[agent]
            for match_id in matches:
                match = own.matches[match_id]
                # taken in an earlier life of the run: counted as the file has it
                most = self._counted.pop((agent, match_id), (match.requests, match.cost))
                own.requests, own.cost = own.requests - most[0], own.cost - most[1]
                own.matches[match_id] = replace(match, requests=0, cost=0.0, open=False)
        for episode in episodes:
            for trajectory in episode.trajectories:
                agent_spent = self.spent.get(trajectory.policy)
                if agent_spent is None:
                    continue
                served = [turn.served for turn in trajectory.turns if not turn.inherited]
                costs = [(own and own.cost) or 0.0 for own in served]
                # a match that was lost may have asked once more than it shows
                requests = len(costs) + (not episode.valid and self._lost is None)
                agent_spent.requests += requests
                agent_spent.cost += sum(costs)
                agent_spent.dearest = max([agent_spent.dearest, *costs])
                match = agent_spent.matches[episode.spec.match_id]
                match.requests += requests
                match.cost += sum(costs)
        self._count_lost()
        self._write()

    def _too_dear(self, agent: str, specs: Sequence[MatchSpec]) -> list[str]:
        """The games that an agent gives up, so that its budget covers its matches of the others."""
        games = sorted(
            {spec.env_id for spec in specs}, key=lambda env_id: (self._most[env_id], env_id)
        )
        left = list(games)
        while left:
            asked = self._most_asked(spec for spec in specs if spec.env_id in left)[agent]
            if self._covers(agent, asked):
                break
            left.pop()
        return games[len(left) :]

    def _taken(self, own: Spent, match_id: str, seats: Sequence[int]) -> MatchSpent:
        """What is written down before a match whose seats may ask so much."""
        new = MatchSpent(requests=sum(seats), cost=sum(seats) * own.dearest)
        earlier = own.matches.get(match_id)
        if earlier is None:
            return new
        if not self._repeatable:
            new.before = earlier.before + earlier.requests
            new.cost_before = earlier.cost_before + earlier.cost
            return new
        # the journal answers all but the one request of each seat that a kill cut off
        cut_off = len(seats) if earlier.open and self._lost is None else 0
        return replace(
            earlier,
            open=True,
            before=earlier.before + cut_off,
            cost_before=earlier.cost_before + cut_off * own.dearest,
        )

    def _covers(self, agent: str, matches: Mapping[str, Sequence[int]]) -> bool:
        budget, own = self._budgets[agent], self.spent[agent]
        most = sum(map(sum, matches.values()))
        taken = [(self._taken(own, *match), own.matches.get(match[0])) for match in matches.items()]
        more = sum(
            new.requests + new.before - (old.requests + old.before if old else 0)
            for new, old in taken
        )
        requests = max(own.requests + most, own.asked + more)
        cost = max(own.cost + most * own.dearest, own.paid + more * own.dearest)
        return requests <= budget.requests and (budget.cost is None or cost <= budget.cost)

    def _count_lost(self) -> None:
        if self._lost is not None:
            for agent, own in self.spent.items():
                own.lost = self._lost(agent)

    def _most_asked(self, specs: Iterable[MatchSpec]) -> dict[str, dict[str, list[int]]]:
        """Agent -> match -> replies that each of its seats there is asked for, at most."""
        asked: dict[str, dict[str, list[int]]] = {}
        for spec in specs:
            for agent in spec.seats:
                if agent in self._budgets:
                    seats = asked.setdefault(agent, {}).setdefault(spec.match_id, [])
                    seats.append(self._most[spec.env_id])
        return asked

    def _write(self) -> None:
        totals = {
            agent: asdict(own) | {"requests": own.asked, "cost": own.paid}
            for agent, own in self.spent.items()
        }
        temporary = self._path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(totals, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)


def _without(specs: Sequence[MatchSpec], gone: Sequence[tuple[str, str]]) -> list[MatchSpec]:
    """Specs without those of an agent in an environment that it has left."""
    return [s for s in specs if not any((agent, s.env_id) in gone for agent in s.seats)]


def _read(kept: Mapping[str, Any] | None, first_cost: float) -> Spent:
    """Requests and cost of one agent in a run that is continued; zero until a checkpoint restores more."""
    if kept is None:
        return Spent(dearest=first_cost)
    matches = {key: MatchSpent(**own) for key, own in kept["matches"].items()}
    return Spent(dearest=kept["dearest"], matches=matches)
