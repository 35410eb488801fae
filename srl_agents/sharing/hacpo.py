"""Arithmetic of HACPO: baselines with others' rewards, and weights of rows that others wrote.

Source: arXiv:2603.02604; where paper and reference code differ, the code's.
Axes: ``N`` replies at one state, ``R`` rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents.sharing.exchange_settings import ExchangeSettings

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_EPSILON = 1e-6
"""Added to deviations, as for groups of own attempts."""
SAME = 1e-3
"""A mean log-probability that differs by less is the same: engine and trainer round differently."""


def points(reward: float) -> float:
    """What is earned above a lost game: a reward in [-1, 1] as points in [0, 1]."""
    return (1 + reward) / 2


def exchange_advantages(
    rewards_N: Floats, ratios_N: Floats, own_N: Flags, *, rescale: bool = True, scale: bool = False
) -> Floats:
    """Advantages of all learners' replies at one state, for one reader.

    The baseline is the mean of all points, others' times the reader's capability over the author's: about
    what the reader would have got in their place. Where all rewards are equal it is their plain mean, and
    where it would exceed the best result, the mean of the reader's own.

    Args:
        rewards_N: what followed each reply, in [-1, 1].
        ratios_N: the reader's capability over the author's; 1 for own replies.
        own_N: True for the reader's.
        rescale: False: a plain mean, as if all capabilities were equal.
        scale: divide by the deviation of all rewards.

    Returns:
        (N,) rewards minus the baseline.
    """
    uniform = bool(np.ptp(rewards_N) == 0)
    factors_N = np.ones_like(ratios_N) if uniform or not rescale else ratios_N
    baseline = float(np.mean(factors_N * (1 + rewards_N) - 1))
    if baseline > 1 and own_N.any():
        baseline = float(rewards_N[own_N].mean())
    advantages_N: Floats = rewards_N - baseline
    if scale:
        advantages_N = advantages_N / (rewards_N.std() + _EPSILON)
    return advantages_N


@dataclass(frozen=True, slots=True)
class Weights:
    """What rows of others weigh in one optimizer step."""

    factors_R: Floats
    """Multiplies a row's advantage; 0 where it is dropped."""
    below_R: Flags
    """Dropped, because the reader finds the reply too unlikely."""
    above_R: Flags
    """Dropped, because the reader finds it likelier than its author did."""

    @property
    def kept_R(self) -> Flags:
        """Rows that are learned from."""
        return ~(self.below_R | self.above_R)


def exchange_weights(
    log_ratios_R: Floats, coefficients_R: Floats, settings: ExchangeSettings, step: int
) -> Weights:
    """Weights of rows of others.

    The clipped objective ``coefficient * clip(s) * sg[s]^exponent * A`` has the gradient
    ``coefficient * s^(1 + exponent) * A * grad mean log p`` inside the band and 0 outside, so the weight is a
    factor of the advantage in a loss whose own ratio is 1.

    Args:
        log_ratios_R: log s: mean log-probability per token under the reader now, minus the author's when it
            was sampled, each over its own tokens.
        coefficients_R: the author's capability over the reader's.
        settings: exponent and clip.
        step: optimizer steps that were taken on the batch.
    """
    below_R = np.zeros(log_ratios_R.shape, dtype=bool)
    above_R = below_R.copy()
    if settings.clip is not None:
        below, rise = settings.clip
        lowest = min(1 - below + step * rise, 1.0)
        below_R = np.exp(log_ratios_R + SAME) < lowest
        above_R = log_ratios_R > SAME
        log_ratios_R = np.minimum(log_ratios_R, 0.0)
    power = 1 + settings.exponent
    # cut before exp: without a clip a ratio may be of any size
    factors_R = np.exp(np.minimum(power * log_ratios_R, 50.0))
    if settings.estimator != "no_discrepancy":
        factors_R = factors_R * coefficients_R
    return Weights(np.where(below_R | above_R, 0.0, factors_R), below_R, above_R)
