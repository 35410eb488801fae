"""beta and gamma that follow the game: the shares of common and of opposed interest in its payoffs.

Axes: ``E`` episodes, ``N`` seats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.batches import same_shape

Floats = NDArray[np.float64]

_NOTHING = 1e-12
"""Variances below this are rounding: no evidence."""


@dataclass(frozen=True, slots=True)
class PayoffShares:
    """How a seat's outcomes moved with those of others, each in [0, 1]; None: nothing moved."""

    shared: float | None
    """Var(T) / (Var(T) + Var(r - T)), T the team's mean: 1 if all of a team rise and fall together."""
    opposed: float | None
    """Var(r - m) / (Var(r - m) + Var(r + m)), m the rivals' mean: 1 if one gains what others lose."""


def payoff_shares(
    own_E: Floats, team_E: Floats, rivals_E: Floats, group_E: NDArray[np.int64]
) -> PayoffShares:
    """Split the variation of outcomes inside groups into shared and opposed parts.

    Any two payoffs are (x + y)/2 + (x - y)/2, a game of common interest plus a zero-sum game; the
    split is measured on what was played. Only deviations from a group's own mean count: a start
    state that is good for everyone carries no information about the game.

    Args:
        own_E: (E,) outcome of the seat in each valid episode.
        team_E: (E,) mean outcome of its team, itself included.
        rivals_E: (E,) mean outcome of its rivals; nan where it has none.
        group_E: (E,) which episodes are attempts of one start with the same policies.

    Raises:
        ShapeError: the arrays differ in shape.

    Source: the split, "Cooperation in Strategic Games Revisited", doi:10.1093/qje/qjs074; reading
    it off variances of play is ours.
    """
    same_shape(1, own_E=own_E, team_E=team_E, rivals_E=rivals_E, group_E=group_E)
    rest_E = own_E - team_E
    met_E = np.isfinite(rivals_E)
    return PayoffShares(
        shared=_share(_variation(team_E, group_E), _variation(rest_E, group_E)),
        opposed=_share(
            _variation((own_E - rivals_E)[met_E], group_E[met_E]),
            _variation((own_E + rivals_E)[met_E], group_E[met_E]),
        ),
    )


def _variation(values_E: Floats, group_E: NDArray[np.int64]) -> float:
    """Sum of squared deviations from the mean of the group."""
    total = 0.0
    for group in np.unique(group_E):
        own = values_E[group_E == group]
        total += float(((own - own.mean()) ** 2).sum())
    return total


def _share(part: float, rest: float) -> float | None:
    return part / (part + rest) if part + rest > _NOTHING else None


class AdaptiveWeights:
    """beta and gamma of one learner, moved by what its games are like.

    beta += rate * (beta_max * shared - beta), gamma += rate * (gamma_max * opposed - gamma); each stays
    where it is when nothing moved. Both begin half way. They stay in [0, max] and, in a game whose
    shares are constant, come within 1% of their targets in log(0.01) / log(1 - rate) updates.

    Args:
        cooperation: beta_max.
        competition: gamma_max.
        rate: share of the way per update, in (0, 1].
    """

    def __init__(self, cooperation: float, competition: float, rate: float) -> None:
        self.cooperation, self.competition, self.rate = cooperation, competition, rate
        self.beta, self.gamma = cooperation / 2, competition / 2

    def observe(self, shares: PayoffShares) -> None:
        """Take one step towards what the shares say."""
        if shares.shared is not None:
            self.beta += self.rate * (self.cooperation * shares.shared - self.beta)
        if shares.opposed is not None:
            self.gamma += self.rate * (self.competition * shares.opposed - self.gamma)

    def state(self) -> dict[str, float]:
        """JSON values."""
        return {"beta": self.beta, "gamma": self.gamma}

    def load_state(self, state: Mapping[str, float]) -> None:
        """The inverse of `state`."""
        self.beta, self.gamma = float(state["beta"]), float(state["gamma"])
