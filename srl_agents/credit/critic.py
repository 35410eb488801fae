"""Advantages and targets from a critic's values, token by token.

Axes: ``R`` rows (turns), ``T`` tokens of a turn, ``E`` episodes as one seat saw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.batches import same_shape
from srl_agents.credit.returns import gae_over_tokens
from srl_agents.records import CriticBatch, TrainingBatch, Turn
from srl_envs.errors import ShapeError

Floats = NDArray[np.float64]

_EPSILON = 1e-6
"""Added to deviations, so that equal advantages divide by no zero."""

VALUE_COEF = 0.5
"""Weight of the critic's loss; only with critic ``shared`` does it weigh more than the critic's step size."""
VALUE_CLIP = 0.2
"""Values that moved further than this in one update earn no more."""


@dataclass(frozen=True, slots=True)
class PaidTurn:
    """A turn, what it was paid, and which turns it belongs with."""

    turn: Turn
    reward: float
    episode: int
    """Turns with one number are one seat's, in the order in which they are listed."""


def judged(
    batch: TrainingBatch,
    turns: Sequence[PaidTurn],
    values_RT: NDArray[np.floating],
    *,
    discount: float = 1.0,
    trace: float = 0.95,
    normalise: bool = True,
) -> CriticBatch:
    """Fill in advantages by GAE over the tokens of all turns of a seat, and the critic's targets.

    A refused reply is never praised for a win that came in spite of it: its tokens' advantages are at
    most 0.

    Args:
        batch: one row per turn; its advantages are not read.
        turns: of the rows, in their order.
        values_RT: (R, T) the critic's value before each token.
        discount: from turn to turn.
        trace: lambda.
        normalise: centre and scale the advantages over the batch's tokens.

    Raises:
        ShapeError: rows, turns and values are not as many.

    Source: arXiv:1506.02438; advantage normalisation as in arXiv:2005.12729 section 3.
    """
    mask_RT = batch.learned_RT
    same_shape(2, mask_RT=mask_RT, values_RT=values_RT)
    before_RT: Floats = np.where(mask_RT, values_RT, 0.0).astype(np.float64)
    if len(turns) != len(mask_RT):
        raise ShapeError(f"{len(turns)} turns for {len(mask_RT)} rows: give one per row.")
    advantages_RT = _token_advantages(turns, before_RT, mask_RT, discount=discount, trace=trace)
    returns_RT = np.where(mask_RT, before_RT + advantages_RT, 0.0)
    if normalise:
        own = advantages_RT[mask_RT]
        advantages_RT = (advantages_RT - own.mean()) / (own.std() + _EPSILON)
    refused_R1 = np.array([paid.turn.invalid is not None for paid in turns])[:, None]
    advantages_RT = np.where(refused_R1, np.minimum(advantages_RT, 0.0), advantages_RT)
    given = {f.name: getattr(batch, f.name) for f in fields(TrainingBatch)}
    given["advantages_RT"] = np.where(mask_RT, advantages_RT, 0.0).astype(np.float32)
    return CriticBatch(
        **given, values_RT=before_RT.astype(np.float32), returns_RT=returns_RT.astype(np.float32)
    )


def _token_advantages(
    turns: Sequence[PaidTurn],
    values_RT: Floats,
    mask_RT: NDArray[np.bool_],
    *,
    discount: float,
    trace: float,
) -> Floats:
    """(R, T): lay each episode's turns out behind each other, and take the result apart again."""
    rows_by_episode: dict[int, list[int]] = {}
    for row, paid in enumerate(turns):
        rows_by_episode.setdefault(paid.episode, []).append(row)
    length_R = mask_RT.sum(axis=1)
    episodes = list(rows_by_episode.values())
    longest = max(int(length_R[rows].sum()) for rows in episodes)
    rewards_EK = np.zeros((len(episodes), max(map(len, episodes))))
    values_ET = np.zeros((len(episodes), longest))
    turn_ET = np.full(values_ET.shape, -1, dtype=np.int64)
    for e, rows in enumerate(episodes):
        rewards_EK[e, : len(rows)] = [turns[row].reward for row in rows]
        tokens = np.concatenate([values_RT[row, mask_RT[row]] for row in rows])
        values_ET[e, : len(tokens)] = tokens
        turn_ET[e, : len(tokens)] = np.repeat(np.arange(len(rows)), length_R[rows])
    advantages_ET = gae_over_tokens(rewards_EK, values_ET, turn_ET, discount=discount, trace=trace)
    advantages_RT = np.zeros(mask_RT.shape)
    for e, rows in enumerate(episodes):
        for k, row in enumerate(rows):
            advantages_RT[row, mask_RT[row]] = advantages_ET[e, turn_ET[e] == k]
    return advantages_RT


def explained_variance(batch: CriticBatch) -> float:
    """1 - Var(returns - values) / Var(returns) over tokens; 0 where the returns do not vary.

    1 is a critic that is right up to a constant, 0 one that always gives the same value.
    """
    mask_RT = batch.learned_RT
    returns = batch.returns_RT[mask_RT].astype(np.float64)
    missed = returns - batch.values_RT[mask_RT]
    return float(1 - missed.var() / returns.var()) if returns.var() > 0 else 0.0
