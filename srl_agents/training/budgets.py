"""What opponents behind endpoints may still be asked and cost; who has spent its budget leaves the pool.

Before matches are played, the most that they can ask is taken from the budget and written down; afterwards
the rest is given back. So a run that is killed never asks more than its budget, and may ask less.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from srl_agents.league.settings import BudgetSettings
from srl_agents.records import Episode, MatchSpec

SPENT = "budgets.json"
"""Within a run's folder."""


@dataclass(kw_only=True, slots=True)
class Spent:
    """What one agent was asked in this run."""

    requests: int = 0
    """Replies that were asked for."""
    cost: float = 0.0
    """In the currency of the price file."""
    dearest: float = 0.0
    """Most that one reply is taken to cost; more where one cost more."""


class Budgets:
    """The budgets of a run.

    Args:
        budgets: by agent id.
        folder: of the run; keeps what was spent.
        most_replies: of one seat in one match.
        first_cost: by agent, what a reply costs at most, as far as its limits tell.
        say: shows a line.
    """

    def __init__(
        self,
        budgets: Mapping[str, BudgetSettings],
        folder: Path,
        *,
        most_replies: int,
        first_cost: Mapping[str, float],
        say: Callable[[str], None],
    ) -> None:
        self._budgets, self._path, self._say = budgets, folder / SPENT, say
        self._most = most_replies
        told = json.loads(self._path.read_text()) if self._path.is_file() else {}
        self.spent = {
            agent: Spent(**told.get(agent, {"dearest": first_cost.get(agent, 0.0)}))
            for agent in budgets
        }

    def unaffordable(self, specs: Iterable[MatchSpec]) -> list[str]:
        """Agents whose budget does not cover all that these matches may ask."""
        asked = self._asked(specs)
        return [agent for agent, requests in asked.items() if not self._covers(agent, requests)]

    def affordable(self, specs: Sequence[MatchSpec]) -> list[MatchSpec]:
        """The matches without those of agents whose budget does not cover all of theirs; says who that is."""
        gone = self.unaffordable(specs)
        for agent in gone:
            self.tell(agent)
        return [spec for spec in specs if not set(gone) & set(spec.seats)]

    def tell(self, agent: str) -> None:
        """Say that an agent's budget is spent."""
        budget, spent = self._budgets[agent], self.spent[agent]
        cost = "" if budget.cost is None else f", {spent.cost:.4g} of {budget.cost:g} paid"
        self._say(
            f"{agent} is no longer met: {spent.requests} of its budget of {budget.requests} requests asked"
            f"{cost}, and what is left does not cover the next matches."
        )

    def take(self, specs: Iterable[MatchSpec]) -> None:
        """Count matches as if they asked all that they may, before they are played."""
        for agent, requests in self._asked(specs).items():
            self.spent[agent].requests += requests
            self.spent[agent].cost += requests * self.spent[agent].dearest
        self._write()

    def give_back(self, specs: Iterable[MatchSpec], episodes: Iterable[Episode]) -> None:
        """Count what was asked instead.

        Args:
            specs: as they were taken.
            episodes: of them.
        """
        for agent, requests in self._asked(specs).items():
            self.spent[agent].requests -= requests
            self.spent[agent].cost -= requests * self.spent[agent].dearest
        for episode in episodes:
            for trajectory in episode.trajectories:
                own = self.spent.get(trajectory.policy)
                if own is None:
                    continue
                costs = [(turn.served and turn.served.cost) or 0.0 for turn in trajectory.turns]
                # a match that was lost may have asked once more than it shows
                own.requests += len(costs) + (not episode.valid)
                own.cost += sum(costs)
                own.dearest = max([own.dearest, *costs])
        self._write()

    def _covers(self, agent: str, requests: int) -> bool:
        budget, spent = self._budgets[agent], self.spent[agent]
        cost = spent.cost + requests * spent.dearest
        return spent.requests + requests <= budget.requests and (
            budget.cost is None or cost <= budget.cost
        )

    def _asked(self, specs: Iterable[MatchSpec]) -> dict[str, int]:
        """Agent -> most replies that it is asked for in these matches."""
        asked: dict[str, int] = {}
        for spec in specs:
            for agent in spec.seats:
                if agent in self._budgets:
                    asked[agent] = asked.get(agent, 0) + self._most
        return asked

    def _write(self) -> None:
        if not self._budgets:
            return
        temporary = self._path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump({agent: asdict(own) for agent, own in self.spent.items()}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
