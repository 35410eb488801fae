"""Kinds of scores that a candidate may have in its mirrored pairs, each with any mean near one half.

A kind draws an array of independent scores in [0, 1] with the mean that it is given.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Draw = Callable[[float, tuple[int, ...], np.random.Generator], Floats]
SEAT_LUCK = 1.0
"""Standard deviation in logits of what a seed does to the seats of mirrored games."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


def gaussian(deviation: float) -> Draw:
    """Normal, cut off alike at both sides where the nearer end of the range is."""

    def draw(mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        room = min(mean, 1 - mean)
        scores: Floats = mean + np.clip(rng.normal(0, deviation, shape), -room, room)
        return scores

    return draw


def two_values(low: float, high: float) -> Draw:
    """One of two scores."""

    def draw(mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return np.where(rng.random(shape) < (mean - low) / (high - low), high, low)

    return draw


def rare(event: float, chance: float) -> Draw:
    """The same score, but for a rare event with another."""

    def draw(mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        usual = (mean - chance * event) / (1 - chance)
        return np.where(rng.random(shape) < chance, event, usual)

    return draw


def drawn(share: float, games: int) -> Draw:
    """Mean of games that are mostly drawn; fewer where so many draws leave no room for the mean."""

    def draw(mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        tied = min(share, 1.99 * (1 - mean))
        wins = (mean - tied / 2) / (1 - tied)
        each = (*shape, games)
        scores = np.where(rng.random(each) < tied, 0.5, rng.random(each) < wins)
        averaged: Floats = scores.mean(axis=-1)
        return averaged

    return draw


def mirrored(luck: float) -> Draw:
    """Mean of `mirrored_games`."""

    def draw(mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        averaged: Floats = mirrored_games(mean, shape, rng, luck).mean(axis=-1)
        return averaged

    return draw


def mirrored_games(
    mean: float, shape: tuple[int, ...], rng: np.random.Generator, luck: float
) -> Floats:
    """(..., 2) games in swapped seats; a seed favours a seat by this many logits, 15 % of games tie."""
    seat = rng.normal(0, luck, (*shape, 1)) * np.array([1, -1])
    wins = 1 / (1 + np.exp(-(_skill((mean - 0.075) / 0.85, luck) + seat)))
    return np.where(rng.random(wins.shape) < 0.15, 0.5, rng.random(wins.shape) < wins)


def one_seed_many_games(games: int) -> Draw:
    """Share of games won on a seed that favours one of the two by far."""

    def draw(mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        wins = rng.beta(0.8 * mean, 0.8 * (1 - mean), shape)
        return rng.binomial(games, wins) / games

    return draw


def skewed(sign: int) -> Draw:
    """A long tail to one side: a beta variable with nine times as much above its mean as below."""

    def draw(mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        tail = rng.beta(0.3, 2.7, shape) - 0.1
        room = (1 - mean if sign > 0 else mean) / 0.9
        scores: Floats = mean + sign * min(room, 0.5) * tail
        return scores

    return draw


def quarters(mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """0, 1/4, 1/2, 3/4 and 1: four halves of points, with many ties."""
    return rng.binomial(4, mean, shape) / 4


def nearly_constant(mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """The mean and a hundredth of noise."""
    scores: Floats = mean + rng.uniform(-0.01, 0.01, shape)
    return scores


KINDS: dict[str, Draw] = {
    "Gaussian, sd .05": gaussian(0.05),
    "Gaussian, sd .1": gaussian(0.1),
    "Gaussian, sd .15": gaussian(0.15),
    "Gaussian, sd .2": gaussian(0.2),
    "win or loss": two_values(0.0, 1.0),
    "mirrored games": mirrored(SEAT_LUCK),
    "two games, 90 % drawn": drawn(0.9, 2),
    "90 % drawn": drawn(0.9, 1),
    "loses all, 1 % of seeds": rare(0.0, 0.01),
    "loses all, 3 % of seeds": rare(0.0, 0.03),
    "loses all, 10 % of seeds": rare(0.0, 0.1),
    "wins all, 1 % of seeds": rare(1.0, 0.01),
    "wins all, 3 % of seeds": rare(1.0, 0.03),
    "wins all, 10 % of seeds": rare(1.0, 0.1),
    "long tail upwards": skewed(1),
    "long tail downwards": skewed(-1),
    "1/4 or 3/4": two_values(0.25, 0.75),
    ".45 or .95": two_values(0.45, 0.95),
    ".05 or .56": two_values(0.05, 0.56),
    "quarters with ties": quarters,
    "constant with noise": nearly_constant,
    "8 games of one lucky seed": one_seed_many_games(8),
}


def _skill(share: float, luck: float) -> float:
    """Log-odds that win this share of games when a seed shifts them by normal luck."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        won = float(_WEIGHTS @ (1 / (1 + np.exp(-(middle + luck * _NODES)))) / _WEIGHTS.sum())
        low, high = (middle, high) if won < share else (low, middle)
    return low
