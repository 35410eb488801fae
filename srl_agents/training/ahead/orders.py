"""The trainer's side of generation in another process: it orders matches ahead, waits for them, and counts.

The order of update u is made when update u - ahead begins, with the versions that are live then. So the
schedule follows from the seed and the results, never from the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from srl_agents.league.matchmaking.manager import League
from srl_agents.metrics import ConsoleView
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, WeightUpdate
from srl_agents.rollouts.buffer import MatchBuffer, MatchOrder, Played
from srl_agents.rollouts.request_trace import RequestTrace
from srl_agents.training.ahead.demand import Demand
from srl_agents.training.faults.supervised import Supervised
from srl_agents.training.parts.budgets import Budgets
from srl_agents.training.parts.forking import Forking
from srl_envs.errors import ModelError

_LOOK_S = 0.02
"""Seconds between two looks at what was played."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """Played matches of one update, read from the buffer."""

    episodes: list[Episode]
    branches: list[Episode]
    """Those of the recipe's forks."""
    players: dict[str, str]
    """Agent id -> learner, of the versions that they were ordered with."""
    metrics: dict[str, float]


class MatchesAhead:
    """Orders matches of later updates, and takes those of the present one.

    Args:
        recipe: of the run, whose matches another process plays.
        league: schedules.
        buffer: between the two processes.
        process: plays; started already.
        open_update: raises `ModelError` where a version's weights are gone.
        settle: releases versions that the buffer no longer names.
        budgets: of those who are asked for money; None where no agent has one.
        installed: agent id -> where its weights are, of all versions that may play now.
        forking: branches that the other process plays after an order's matches; None without forks.
        trace: gets the requests of matches when they are taken; None: they are not traced.
        view: shows progress.
    """

    def __init__(
        self,
        recipe: LeagueRecipe,
        league: League,
        *,
        buffer: MatchBuffer,
        process: Supervised,
        open_update: Callable[[WeightUpdate], object],
        settle: Callable[[], object],
        budgets: Budgets | None,
        installed: Mapping[str, WeightUpdate],
        forking: Forking | None = None,
        trace: RequestTrace | None = None,
        view: ConsoleView,
    ) -> None:
        if recipe.generation is None:
            raise ValueError("this recipe has no process that plays ahead of training.")
        self._settings, self._recipe, self._league = recipe.generation, recipe, league
        self._buffer, self._process = buffer, process
        self._open_update, self._settle, self._budgets = open_update, settle, budgets
        self._installed, self._trace, self._view = installed, trace, view
        self._forking = forking
        self._readers: dict[int, Played] = {}
        self._kept: set[int] = set()
        """Orders of this run that are certain to be playable."""
        self._worked_since_s: float | None = None
        """Time at which the trainer began to do something else than wait."""

    def take(self, number: int) -> Taken:
        """The matches of an update; orders what later ones need, and waits.

        Raises:
            ModelError: the generation process ended too often.
            DeadlineError: it fell silent too often.
        """
        began_s = time.monotonic()
        last = min(number + self._settings.ahead, self._recipe.updates)
        for ahead in range(number, last + 1):
            self._order(ahead, learned=number - 1)
        order = self._buffer.find(number)
        if order is None:
            raise ModelError(f"the order of update {number} is gone from {self._buffer.folder}.")
        demand = Demand(order, self._forking)
        played = self._wait_for(demand)
        if self._budgets is not None:
            self._budgets.give_back((*order.specs, *order.spares), played.episodes.values())
        ended_s = time.monotonic()
        chosen, branches = demand.matches(played.episodes), demand.branches(played.episodes)
        metrics = self._seconds(number, began_s, ended_s)
        metrics["refilled"] = (
            float(len(chosen) - len(order.specs)) / self._recipe.rollout.group_size
        )
        later = [known for known in self._buffer.numbers() if known > number]
        metrics["queued"] = float(sum(len(self._reader(known).episodes) for known in later))
        self._worked_since_s = ended_s
        if self._trace is not None:
            self._trace.append(
                [
                    row
                    for spec in (*chosen, *branches)
                    for row in played.requests.get(spec.match_id, [])
                ]
            )
        return Taken(
            episodes=[played.episodes[spec.match_id] for spec in chosen],
            branches=[played.episodes[spec.match_id] for spec in branches],
            players=order.players,
            metrics=metrics,
        )

    def give_back(self, number: int) -> None:
        """Nothing can be learned from an update's matches: they are to be played again."""
        self._buffer.forget(number)
        self._kept.discard(number)
        self._readers.pop(number, None)

    def frames(self, number: int) -> bytes:
        """What was played for an update that was taken, for other processes to read."""
        return self._buffer.frames(number)

    def acknowledge(self, done: int) -> None:
        """A checkpoint holds what was learned up to an update: its matches may go."""
        self._buffer.acknowledge(done)
        self._settle()
        for number in [n for n in self._readers if n <= done]:
            del self._readers[number]

    # --- orders ------------------------------------------------------------------------------

    def _order(self, number: int, *, learned: int) -> None:
        """See that an update's matches are ordered, in this run or before it was interrupted.

        What was ordered before the checkpoint stays: its versions may be gone from everywhere else. Later
        orders are made again, and the buffer keeps what was played of those that come out alike.
        """
        if number in self._kept:
            return
        self._kept.add(number)
        early = number < learned + 1 + self._settings.ahead
        known = self._buffer.find(number) if early else None
        if known is not None and self._playable(known):
            return
        rollout, league = self._recipe.rollout, self._league
        shape = number - 1, rollout.start_states, rollout.group_size
        specs: list[MatchSpec] = []

        def draw() -> list[MatchSpec]:
            specs[:] = league.training_matches(*shape)
            return [*specs, *league.spare_matches(*shape, self._settings.refill_limit)]

        if self._budgets is None:
            drawn = draw()
        else:
            drawn = self._budgets.draw(draw, league.gone)
            self._budgets.take(drawn)
        names = dict.fromkeys(seat for spec in drawn for seat in spec.seats)
        order = MatchOrder(
            number=number,
            specs=tuple(specs),
            spares=tuple(drawn[len(specs) :]),
            players={league.live(name): name for name in league.learners},
            updates=tuple(
                self._installed[name]
                for name in dict.fromkeys((*map(league.live, league.learners), *names))
                if name in self._installed
            ),
        )
        self._buffer.order(order, learned=learned)

    def _playable(self, order: MatchOrder) -> bool:
        """Whether an order of an interrupted run can be finished; where weights are gone, it cannot."""
        played = self._buffer.played(order.number)
        played.refresh()
        if not Demand(order, self._forking).open(played.episodes):
            return True
        try:
            for update in order.updates:
                self._open_update(update)
        except ModelError:
            return False
        return True

    # --- waiting -----------------------------------------------------------------------------

    def _wait_for(self, demand: Demand) -> Played:
        number = demand.order.number
        played = self._reader(number)
        self._process.wait_begins()
        total = 0
        while True:
            new = played.refresh()
            if new:
                self._process.heard()
            wanted, left = demand.counts(played.episodes)
            if wanted != total:
                total = wanted
                self._view.phase(f"update {number}: playing", total)
                self._view.advance(len(played.episodes))
            else:
                self._view.advance(new)
            if not left:
                return played
            self._process.check()
            time.sleep(_LOOK_S)

    def _reader(self, number: int) -> Played:
        return self._readers.setdefault(number, self._buffer.played(number))

    # --- seconds -----------------------------------------------------------------------------

    def _seconds(self, number: int, began_s: float, ended_s: float) -> dict[str, float]:
        """What both processes did since the update before.

        Returns:
            ``generate_s`` of this update's matches, ``wait_s`` in which training waited, ``overlap_s`` in
            which both worked, ``generation_idle_s`` in which nothing was ordered that could be played.
        """
        since_s = began_s if self._worked_since_s is None else self._worked_since_s
        working, both = (since_s, began_s), (since_s, ended_s)
        for known in self._buffer.numbers():
            self._reader(known).refresh()
        rounds = [r for known in self._readers for r in self._rounds(known, ended_s)]
        return {
            "generate_s": sum(end - begin for begin, end in self._rounds(number, ended_s)),
            "wait_s": ended_s - began_s,
            "overlap_s": common_s(rounds, working),
            "generation_idle_s": ended_s - since_s - common_s(rounds, both),
        }

    def _rounds(self, number: int, now_s: float) -> list[tuple[float, float]]:
        """(began, ended) of the times at which an order was played; one that goes on ends now."""
        played = self._reader(number)
        rounds = [(began, ended) for began, ended in played.rounds]
        if rounds and not played.resting and self._process.pid is not None:
            rounds[-1] = (rounds[-1][0], now_s)
        return rounds


def common_s(rounds: list[tuple[float, float]], window: tuple[float, float]) -> float:
    """Seconds of a window that lie in a round; workers of a cluster play several orders at once."""
    reached_s, end_s = window
    total = 0.0
    for begin, end in sorted(rounds):
        begins, ends = max(begin, reached_s), min(end, end_s)
        if ends > begins:
            total, reached_s = total + ends - begins, ends
    return total
