"""Games and points of everybody against everybody, as samplers read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from srl_agents.league.intervals import Floats
from srl_agents.league.sampling import KAPPA, OpponentView

Expected = Callable[[str, str], float]
"""Points per game that the first is expected to take from the second."""


class PairRecord:
    """Counts per (agent, opponent); fractions are allowed. Its state is plain JSON."""

    def __init__(self, state: Mapping[str, Mapping[str, Sequence[float]]] | None = None) -> None:
        self._cells: dict[str, dict[str, list[float]]] = {
            me: {other: list(cell) for other, cell in row.items()}
            for me, row in (state or {}).items()
        }

    def add(self, me: str, other: str, points: float) -> None:
        """Count one game; for both sides call it twice."""
        cell = self._cells.setdefault(me, {}).setdefault(other, [0.0, 0.0])
        cell[0] += 1
        cell[1] += points

    def forget(self, agent: str) -> None:
        """Drop an agent that is met no more, from both sides."""
        self._cells.pop(agent, None)
        for row in self._cells.values():
            row.pop(agent, None)

    def games(self, me: str, other: str) -> float:
        """Games of this pair."""
        return self._cells.get(me, {}).get(other, (0.0, 0.0))[0]

    def raw_score(self, me: str, other: str) -> float:
        """Points per game as they were; one half without games."""
        games, points = self._cells.get(me, {}).get(other, (0.0, 0.0))
        return points / games if games else 0.5

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
        """What a sampler may know when ``me`` chooses among opponents."""
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

    def state(self) -> dict[str, Any]:
        """As JSON values."""
        return self._cells
