"""The terms of L + beta * C + gamma * P: what a seat earned, for its team, and among its rivals.

`docs/design/credit.md` explains what was wrong with the draft's formulas. Axes: ``E`` episodes, ``N``
seats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srl_envs.errors import ConfigError, ShapeError

Floats = NDArray[np.float64]

TIE = 1e-9
"""Outcomes closer than this are equal."""


def team_matrix(teams: Sequence[int], seats: int) -> NDArray[np.bool_]:
    """(N, N) which seats share a team, each with itself too.

    Args:
        teams: team of each seat; empty means that the whole table is one.
        seats: N.

    Raises:
        ShapeError: the teams are not one per seat.
    """
    if not teams:
        return np.ones((seats, seats), dtype=bool)
    if len(teams) != seats:
        raise ShapeError(f"teams {list(teams)}: give one per seat, {seats} in all.")
    team_N = np.asarray(teams)
    together_NN: NDArray[np.bool_] = team_N[:, None] == team_N[None, :]
    return together_NN


def rival_matrix(together_NN: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(N, N) rivals of each seat: seats of other teams, or all other seats if there is one team."""
    if together_NN.all():
        return ~np.eye(len(together_NN), dtype=bool)
    return ~together_NN


def team_bonus(outcomes_EN: Floats, together_NN: NDArray[np.bool_]) -> Floats:
    """C: the team's mean outcome minus the seat's own.

    r + beta * C is (1 - beta) * r + beta * mean(team), so a seat's slope in its own outcome is
    1 - beta * (1 - 1/n) > 0 for beta in [0, 1]: earning more never pays less.

    Args:
        outcomes_EN: (E, N) outcomes.
        together_NN: (N, N) from `team_matrix`.

    Returns:
        (E, N); sums to 0 over each team.

    Source: "Social Diversity and Social Preferences in Mixed-Motive Reinforcement Learning",
    arXiv:2002.02325 (rewards mixed with the group's mean); the draft's bonus, corrected.
    """
    _check(outcomes_EN, together_NN)
    weights_NN = together_NN / together_NN.sum(axis=1, keepdims=True)
    bonus_EN: Floats = outcomes_EN @ weights_NN.T - outcomes_EN
    return bonus_EN


def standing(
    outcomes_EN: Floats,
    rivals_NN: NDArray[np.bool_],
    *,
    form: Literal["rank", "margin"] = "rank",
) -> Floats:
    """P: how a seat stands among its rivals.

    ``rank``: (rivals with less - rivals with more) / rivals. That is the centred mean rank: with n
    seats all against all and mean rank k from the top it equals (n + 1 - 2k) / (n - 1); a tie takes
    the mean of the ranks that it covers, and a tie of all is worth 0. ``margin``: the outcome minus
    the rivals' mean.

    Args:
        outcomes_EN: (E, N) outcomes.
        rivals_NN: (N, N) from `rival_matrix`.
        form: how outcomes are compared.

    Returns:
        (E, N), in [-1, 1] for ranks; 0 for a seat without rivals. Sums to 0 over an episode where
        rivalry is mutual and all seats have equally many rivals.

    Raises:
        ShapeError: the matrix does not fit the outcomes.
        ConfigError: an unknown form.
    """
    _check(outcomes_EN, rivals_NN)
    gap_ENN = outcomes_EN[:, :, None] - outcomes_EN[:, None, :]
    if form == "rank":
        gap_ENN = np.where(np.abs(gap_ENN) <= TIE, 0.0, np.sign(gap_ENN))
    elif form != "margin":
        raise ConfigError(f"standing form {form!r}: use 'rank' or 'margin'.")
    count_N = np.maximum(rivals_NN.sum(axis=1), 1)
    standing_EN: Floats = np.where(rivals_NN, gap_ENN, 0.0).sum(axis=2) / count_N
    return standing_EN


def _check(outcomes_EN: Floats, matrix_NN: NDArray[np.bool_]) -> None:
    if outcomes_EN.ndim != 2 or matrix_NN.shape != (outcomes_EN.shape[1],) * 2:
        raise ShapeError(
            f"outcomes {outcomes_EN.shape} and a matrix {matrix_NN.shape} are not (E, N) and (N, N)."
        )
