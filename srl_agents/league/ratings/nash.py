"""Equilibrium of a two-sided matrix game where one side wins what the other loses, by the simplex method.

Exact up to rounding, deterministic, only numpy. Meta-games of a league have tens of agents, for
which a dense tableau takes milliseconds. Source: Dantzig, "A proof of the equivalence of the
programming problem and the game problem", in Activity Analysis of Production and Allocation, 1951.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srl_agents.league.ratings.intervals import Floats
from srl_envs.errors import ShapeError

_ZERO = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Equilibrium:
    """Strategies from which neither side gains by leaving."""

    row: Floats
    """Probabilities of the maximiser's rows."""
    column: Floats
    value: float
    """Payoff of the maximiser."""


def equilibrium(payoff: Floats) -> Equilibrium:
    """Solve the game.

    Args:
        payoff: (rows, columns) what the row player gets; the column player gets the negative.

    Raises:
        ShapeError: not a matrix, empty, or with a value that is not finite.

    With several equilibria one corner of their set is returned, the same one for equal input.
    """
    if payoff.ndim != 2 or not payoff.size or not np.isfinite(payoff).all():
        raise ShapeError(f"payoffs of shape {payoff.shape}: give a matrix of finite numbers.")
    rows, columns = payoff.shape
    shift = 1.0 - float(payoff.min())  # all payoffs 1 or more, so the game's value is positive
    # the column player's program: maximise sum(y) with (payoff + shift) y <= 1, y >= 0
    tableau = np.zeros((rows + 1, columns + rows + 1))
    tableau[:rows, :columns] = payoff + shift
    tableau[:rows, columns:-1] = np.eye(rows)
    tableau[:rows, -1] = 1.0
    tableau[-1, :columns] = -1.0
    basis = np.arange(columns, columns + rows)
    pivots = 0
    while (entering := _entering(tableau[-1, :-1], pivots > 10 * (rows + columns))) is not None:
        leaving = _leaving(tableau, basis, entering)
        tableau[leaving] /= tableau[leaving, entering]
        factor = tableau[:, entering].copy()
        factor[leaving] = 0.0
        tableau -= np.outer(factor, tableau[leaving])
        basis[leaving] = entering
        pivots += 1
    column = np.zeros(columns + rows)
    column[basis] = tableau[:-1, -1]
    total = float(tableau[-1, -1])
    row = np.maximum(tableau[-1, columns:-1], 0.0)
    column = np.maximum(column[:columns], 0.0)
    return Equilibrium(row / row.sum(), column / column.sum(), 1 / total - shift)


def _entering(reduced: Floats, careful: bool) -> int | None:
    """The column that enters: the steepest, or with ``careful`` the first, which cannot cycle."""
    negative = np.flatnonzero(reduced < -_ZERO)
    if not negative.size:
        return None
    return int(negative[0] if careful else np.argmin(reduced))


def _leaving(
    tableau: Floats, basis: np.ndarray[tuple[int], np.dtype[np.int64]], entering: int
) -> int:
    """The row whose variable reaches 0 first; of several the lowest variable."""
    column = tableau[:-1, entering]
    open_ = np.flatnonzero(column > _ZERO)
    ratio = tableau[open_, -1] / column[open_]
    tied = open_[ratio <= ratio.min() + _ZERO]
    return int(tied[np.argmin(basis[tied])])
