"""Which match-ups count by their tails for an agent's interval: its own, and those that move with it.

In a group that few surprising results join with the rest of the field, an agent cannot move without its
group. Then the group's match-ups with the rest show its distance as much as its own do.

Array axes: ``N`` agents, ``P`` parameters (agents, then log nu if there are ties), ``U`` match-ups,
``R`` (match-up, agent) entries.
"""

from __future__ import annotations

import math

import numpy as np

from srl_agents.league.ratings.davidson import MatchUps, difference
from srl_agents.league.ratings.intervals import Floats, Ints
from srl_agents.league.ratings.result_tails import MOVED, OwnGames

MOST_MOVES = 500_000
"""Agents times match-ups up to which those of others are searched: a round robin of 100 agents."""


def moved_games(games: MatchUps, theta_P: Floats, path_PN: Floats) -> OwnGames:
    """Match-ups that count for each agent, with how they change while it moves.

    Args:
        games: all match-ups.
        theta_P: the fit: skills, then log nu if there are ties.
        path_PN: change of the parameters per unit by which an agent moves.
    """
    n = games.agents
    agent_R, up_R = _counted(games, path_PN)
    move_R = np.zeros(up_R.size)
    for seat, sign in enumerate(games.sign_S):
        if sign:
            move_R += sign * path_PN[games.seat_US[up_R, seat], agent_R]
    ties = theta_P.size > n
    return OwnGames(
        agent_R=agent_R,
        d_R=difference(theta_P[:n], games)[up_R],
        move_R=move_R,
        win_R=games.win_U[up_R],
        tie_R=games.tie_U[up_R],
        loss_R=games.loss_U[up_R],
        nu=math.exp(theta_P[n]) if ties else 0.0,
        nu_move_N=path_PN[n] if ties else np.zeros(n),
    )


def _counted(games: MatchUps, path_PN: Floats) -> tuple[Ints, Ints]:
    """(R,) agents, and match-ups that count for them; in large fields only their own."""
    seats, ups = np.flatnonzero(games.sign_S), np.arange(games.seat_US.shape[0])
    if games.agents * ups.size > MOST_MOVES:
        return games.seat_US[:, seats].T.ravel(), np.tile(ups, seats.size)
    size_NU = np.abs(np.einsum("usn,s->nu", path_PN[games.seat_US[:, seats]], games.sign_S[seats]))
    counted_NU = size_NU > MOVED * size_NU.max(axis=1, keepdims=True)
    for seat in seats:
        counted_NU[games.seat_US[:, seat], ups] = True
    agent_R, up_R = np.nonzero(counted_NU)
    return agent_R, up_R
