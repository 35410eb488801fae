"""Budgets of opponents behind endpoints: requests, tokens and cost, of all games and of one.

An agent without budget leaves the pool game by game: a rest that does not cover matches of a long game may
cover those of a short one, and a game that had its share leaves the others theirs.

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
from dataclasses import replace
from pathlib import Path
from typing import Any

from srl_agents.league.settings import BudgetSettings
from srl_agents.records import Episode, MatchSpec
from srl_agents.training.parts.spent_amounts import (
    NOTHING,
    Amount,
    MatchSpent,
    Spent,
    read_spent,
    taken_by,
    total,
)

SPENT = "budgets.json"
"""Within a run's folder."""


_Asked = dict[str, tuple[str, list[int]]]
"""Match -> its game, and the replies that each of an agent's seats is asked for at most."""


class Budgets:
    """The budgets of a run.

    Args:
        budgets: by agent id.
        folder: of the run; keeps what was asked.
        game_of: name of a match's game.
        most_replies: of one seat in one match, by game.
        dearest: by agent, what a reply takes at most, as far as its limits tell.
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
        game_of: Callable[[MatchSpec], str],
        most_replies: Mapping[str, int],
        dearest: Mapping[str, Amount],
        say: Callable[[str], None],
        repeatable: bool = False,
        lost: Callable[[str], int] | None = None,
    ) -> None:
        self._budgets, self._path, self._say = budgets, folder / SPENT, say
        self._game_of, self._most = game_of, most_replies
        self._repeatable, self._lost = repeatable, lost
        kept = json.loads(self._path.read_text()) if self._path.is_file() else {}
        self.spent = {
            agent: read_spent(kept.get(agent), dearest.get(agent, Amount(requests=1)))
            for agent in budgets
        }
        self._counted: dict[tuple[str, str], Amount] = {}
        """(agent, match) -> as what a match that is played is counted."""
        self._told: set[tuple[str, str]] = set()
        """(agent, game) of whose branches it was said that they are not played."""
        self._count_lost()
        if not repeatable:
            for own in self.spent.values():
                own.count_all()

    def state(self) -> dict[str, Any]:
        """What the run has counted, for its checkpoint."""
        return {agent: own.state() for agent, own in self.spent.items()}

    def load_state(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Continue the counts of a checkpoint; a match that may ask something new counts all its requests."""
        for agent, own in self.spent.items():
            if self._repeatable and agent in state:
                own.load_state(state[agent])

    def unaffordable(self, specs: Iterable[MatchSpec]) -> list[tuple[str, str]]:
        """(agent, game) of whose matches a budget does not cover all that may be asked.

        Where matches of an agent are of several games, it gives up those that had their share, then the
        dearest first, and as few as it must.
        """
        by_agent: dict[str, list[MatchSpec]] = {}
        for spec in specs:
            for agent in set(spec.seats) & set(self._budgets):
                by_agent.setdefault(agent, []).append(spec)
        return [
            (agent, game) for agent, own in by_agent.items() for game in self._too_dear(agent, own)
        ]

    def draw(
        self, draw: Callable[[], list[MatchSpec]], gone: set[tuple[str, str]]
    ) -> list[MatchSpec]:
        """Matches that budgets cover; agents whose budget does not cover theirs leave those games before.

        Args:
            draw: the matches as they are without those who have left.
            gone: (agent, game) of who has left what; grows.
        """
        while spent := self.unaffordable(specs := draw()):
            for agent, game in spent:
                self.tell(agent, game)
            gone.update(spent)
        return specs

    def affordable(self, specs: Sequence[MatchSpec]) -> list[MatchSpec]:
        """The matches without those that an agent's budget does not cover; shows a line for each of these."""
        gone = self.unaffordable(specs)
        for agent, game in gone:
            self.tell(agent, game)
        return self._without(specs, gone)

    def covered(self, branches: Sequence[MatchSpec]) -> list[MatchSpec]:
        """The branches without those that an agent's budget does not cover; the agent stays in its games.

        Shows a line once for each agent and game.
        """
        gone = self.unaffordable(branches)
        for agent, game in gone:
            if (agent, game) not in self._told:
                self._told.add((agent, game))
                self._say(
                    f"not all decisions met with {agent} in {game} fork any more: what is left of its "
                    f"budget of {self._budgets[agent].requests} requests does not cover all branches."
                )
        return self._without(branches, gone)

    def tell(self, agent: str, game: str) -> None:
        """Say that an agent's budget is spent, as far as a game is concerned."""
        budget, spent = self._budgets[agent], self.spent[agent]
        share = budget.games.get(game)
        asked = spent.asked_in() if share is None else spent.asked_in(game)
        limits = _limits(budget, share)
        whole = "its budget" if share is None else f"its share of {share:g} there"
        parts = [f"{asked.requests} of {limits['requests']:g} requests asked"]
        if "tokens" in limits:
            parts.append(f"{asked.tokens:,} of {limits['tokens']:,.0f} tokens read and written")
        if "cost" in limits:
            parts.append(f"{asked.cost:.4g} of {limits['cost']:g} paid")
        self._say(
            f"{agent} does not play {game} any more: of {whole} {', '.join(parts)}, and what is left does "
            "not cover the next matches."
        )

    def take(self, specs: Iterable[MatchSpec]) -> None:
        """Count matches as if they asked all that they may, before they are played."""
        for agent, matches in self._most_asked(specs).items():
            own = self.spent[agent]
            for match_id, (game, seats) in matches.items():
                most = own.dearest.times(sum(seats))
                own.count(game, most)
                own.matches[match_id] = self._taken(own, match_id, game, seats)
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
            for match_id, (game, _) in matches.items():
                match = own.matches[match_id]
                # taken in an earlier life of the run: counted as the file has it
                most = self._counted.pop((agent, match_id), match.now)
                own.count(game, most.times(-1))
                own.matches[match_id] = replace(match, now=NOTHING, open=False)
        for episode in episodes:
            for trajectory in episode.trajectories:
                spent = self.spent.get(trajectory.policy)
                if spent is None:
                    continue
                taken = [
                    taken_by(turn.served, spent.dearest)
                    for turn in trajectory.turns
                    if not turn.inherited
                ]
                for one in taken:
                    spent.dearest = spent.dearest.at_least(one)
                # a match that was lost may have asked once more than it shows
                if not episode.valid and self._lost is None:
                    taken.append(Amount(requests=1))
                match = spent.matches[episode.spec.match_id]
                match.now = total([match.now, *taken])
                spent.count(match.game, total(taken))
        self._count_lost()
        self._write()

    def _without(
        self, specs: Sequence[MatchSpec], gone: Sequence[tuple[str, str]]
    ) -> list[MatchSpec]:
        """Specs without those of an agent in a game that it has left."""
        return [
            spec
            for spec in specs
            if not any((agent, self._game_of(spec)) in gone for agent in spec.seats)
        ]

    def _too_dear(self, agent: str, specs: Sequence[MatchSpec]) -> list[str]:
        """The games that an agent gives up, so that its budget covers its matches of the others."""
        by_game: dict[str, list[MatchSpec]] = {}
        for spec in specs:
            by_game.setdefault(self._game_of(spec), []).append(spec)
        left = [
            game
            for game in sorted(by_game, key=lambda game: (self._most[game], game))
            if self._covers(agent, by_game[game], self._budgets[agent].games.get(game), game)
        ]
        while left and not self._covers(agent, [s for game in left for s in by_game[game]]):
            left.pop()
        return [game for game in sorted(by_game) if game not in left]

    def _taken(self, own: Spent, match_id: str, game: str, seats: Sequence[int]) -> MatchSpent:
        """What is written down before a match whose seats may ask so much."""
        new = MatchSpent(game=game, now=own.dearest.times(sum(seats)))
        earlier = own.matches.get(match_id)
        if earlier is None:
            return new
        if not self._repeatable:
            new.before = earlier.all
            return new
        # the journal answers all but the one request of each seat that a kill cut off
        cut_off = len(seats) if earlier.open and self._lost is None else 0
        return replace(earlier, open=True, before=earlier.before + own.dearest.times(cut_off))

    def _covers(
        self, agent: str, specs: Sequence[MatchSpec], share: float | None = 1.0, game: str = ""
    ) -> bool:
        """Whether a share of a budget covers what matches may ask, of one game or of all."""
        if share is None:
            return True
        own, matches = self.spent[agent], self._most_asked(specs)[agent]
        most = own.dearest.times(sum(sum(seats) for _, seats in matches.values()))
        more = NOTHING
        for match_id, (played, seats) in matches.items():
            before = own.matches.get(match_id)
            more += self._taken(own, match_id, played, seats).all
            more -= before.all if before else NOTHING
        needed = (own.counted_in(game) + most).at_least(own.asked_in(game) + more)
        limits = _limits(self._budgets[agent], share)
        return all(getattr(needed, name) <= limit for name, limit in limits.items())

    def _count_lost(self) -> None:
        if self._lost is not None:
            for agent, own in self.spent.items():
                own.lost = self._lost(agent)

    def _most_asked(self, specs: Iterable[MatchSpec]) -> dict[str, _Asked]:
        """Agent -> match -> replies that each of its seats there is asked for, at most."""
        asked: dict[str, _Asked] = {}
        for spec in specs:
            for agent in spec.seats:
                if agent in self._budgets:
                    game = self._game_of(spec)
                    _, seats = asked.setdefault(agent, {}).setdefault(spec.match_id, (game, []))
                    seats.append(self._most[game])
        return asked

    def _write(self) -> None:
        totals = {agent: own.as_json() for agent, own in self.spent.items()}
        temporary = self._path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(totals, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)


def _limits(budget: BudgetSettings, share: float | None) -> dict[str, float]:
    """What a share of a budget allows, by name."""
    given = {"requests": budget.requests, "tokens": budget.tokens, "cost": budget.cost}
    return {
        name: limit * (1.0 if share is None else share)
        for name, limit in given.items()
        if limit is not None
    }
