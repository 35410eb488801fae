"""Points of a match, and games and points of every agent against every other, as samplers read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from srl_agents.league.ratings.davidson import MatchUps, fit
from srl_agents.league.ratings.intervals import Floats
from srl_agents.league.ratings.tables import ELO_PER_NAT
from srl_agents.league.sampling import KAPPA, OpponentView
from srl_envs.core import Mode

_RIDGE = (ELO_PER_NAT / 400) ** 2
"""Prior precision of a skill: a centre for few games is better drawn to even than true to them."""
Expected = Callable[[str, str], float]
"""Points per game that the first is expected to take from the second."""


class PairRecord:
    """Counts per (agent, opponent); fractions are allowed. Its state is plain JSON."""

    def __init__(self, state: Mapping[str, Mapping[str, Sequence[float]]] | None = None) -> None:
        self._cells: dict[str, dict[str, list[float]]] = {
            me: {other: list(cell) for other, cell in row.items()}
            for me, row in (state or {}).items()
        }

    def add(self, me: str, other: str, points: float, decay: float = 1.0) -> None:
        """Count one game; for both sides call it twice.

        Args:
            me: whose row.
            other: its opponent.
            points: that ``me`` took, in [0, 1].
            decay: what all earlier games of ``me`` are multiplied by: a learner moves on.
        """
        row = self._cells.setdefault(me, {})
        if decay < 1:
            for old in row.values():
                old[0] *= decay
                old[1] *= decay
        cell = row.setdefault(other, [0.0, 0.0])
        cell[0] += 1
        cell[1] += points

    def forget(self, agent: str) -> None:
        """Drop an agent that is met no more, from both sides."""
        self._cells.pop(agent, None)
        for row in self._cells.values():
            row.pop(agent, None)

    def clear(self, me: str) -> None:
        """Count an agent's own games from zero again."""
        self._cells[me] = {}

    def games(self, me: str, other: str) -> float:
        """Games of this pair."""
        return self._cells.get(me, {}).get(other, (0.0, 0.0))[0]

    def score(self, me: str, other: str, expected: float = 0.5) -> float:
        """Points per game, shrunken towards ``expected``."""
        games, points = self._cells.get(me, {}).get(other, (0.0, 0.0))
        return (points + KAPPA * expected) / (games + KAPPA)

    def view(
        self,
        me: str,
        opponents: Sequence[str],
        *,
        prior: Floats | float = 0.5,
        payoff_NN: Floats | None = None,
        itself: int | None = None,
    ) -> OpponentView:
        """The view of a sampler when ``me`` chooses among opponents."""
        row = self._cells.get(me, {})
        counts = np.array([row.get(name, (0.0, 0.0)) for name in opponents], dtype=np.float64)
        return OpponentView(
            opponents=tuple(opponents),
            games_N=counts[:, 0],
            points_N=counts[:, 1],
            prior_N=prior,
            payoff_NN=payoff_NN,
            itself=itself,
        )

    def payoffs(self, agents: Sequence[str], expected: Expected | None = None) -> Floats:
        """(N, N) shrunken score of row against column minus one half; 0 on the diagonal."""
        return np.array(
            [
                [
                    0.0 if a == b else self.score(a, b, expected(a, b) if expected else 0.5) - 0.5
                    for b in agents
                ]
                for a in agents
            ]
        )

    def agents(self) -> list[str]:
        """Agents that have rows."""
        return list(self._cells)

    def points(self, one: str, other: str) -> tuple[float, float]:
        """Games of a pair and the points of ``one``, from whichever side's row there is."""
        if other in self._cells.get(one, {}):
            games, points = self._cells[one][other]
            return games, points
        games, points = self._cells.get(other, {}).get(one, (0.0, 0.0))
        return games, games - points

    def state(self) -> dict[str, Any]:
        """The record as JSON values."""
        return self._cells


def expected_scores(records: Sequence[PairRecord], names: Sequence[str]) -> Floats | None:
    """(N, N) points per game of row against column that ratings of all records expect.

    The centre that win rates are shrunk to. None without a game. Ties count as half a win, which
    keeps the order and shrinks the scale a little.
    """
    pairs, games, points = [], [], []
    for i, j in combinations(range(len(names)), 2):
        cells = [record.points(names[i], names[j]) for record in records]
        if total := sum(cell[0] for cell in cells):
            pairs.append((i, j))
            games.append(total)
            points.append(sum(cell[1] for cell in cells))
    if not pairs:
        return None
    skill_N = fit(
        MatchUps(
            agents=len(names),
            seat_US=np.array(pairs),
            sign_S=np.array([1.0, -1.0]),
            win_U=np.array(points),
            tie_U=np.zeros(len(pairs)),
            loss_U=np.maximum(np.array(games) - np.array(points), 0.0),
        ),
        _RIDGE,
    ).t_N
    expected: Floats = 1 / (1 + np.exp(skill_N[None, :] - skill_N[:, None]))
    return expected


def seat_points(own: float, other: float, mode: Mode) -> float:
    """Points of one seat against another: win 1, tie 1/2; in cooperative games the common return."""
    if mode == "cooperative":
        return (1 + own) / 2
    return float((1 + np.sign(own - other)) / 2)


def points_alone(own: float, other: float) -> float:
    """Points of one agent against another on the same task, each by itself: half their difference in
    return, around 1/2."""
    return (2 + own - other) / 4


def mean_points(
    seats: Sequence[str],
    outcomes: Sequence[float],
    policy: str,
    mode: Mode = "competitive",
    teams: Sequence[int] = (),
) -> float:
    """Points per pair of seats of ``policy`` against all other seats, or those of other teams, in [0, 1]."""
    places = range(len(seats))
    own_seats = [k for k in places if seats[k] == policy]
    sides = {teams[k] for k in own_seats} if teams else set()
    own = [outcomes[k] for k in own_seats]
    others = [
        outcomes[k] for k in places if seats[k] != policy and not (teams and teams[k] in sides)
    ] or own
    return float(np.mean([seat_points(m, o, mode) for m in own for o in others]))
