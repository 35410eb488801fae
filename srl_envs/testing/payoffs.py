"""Payoffs: within their range, an exact zero sum, and independent of the seat."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from srl_envs.api.episode import Transcript, play
from srl_envs.api.making import make_bot
from srl_envs.parallel import GameEnv
from srl_envs.registry import spec
from srl_envs.testing.episodes import ConformanceError, game_env, require
from srl_envs.turns.conduct import FORMAT_FLOOR

_GARBAGE = "I would rather not."


_ROUNDING = 1e-9  # reward units


def check_payoffs(env_id: str, *, episodes: int = 4) -> None:
    """Every bot against every bot, and against silence: rewards add up as the mode demands.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: an outcome is out of range, a competitive one does not sum to exactly 0, a
            cooperative one differs between seats, or the parts do not make the reward.
    """
    found = spec(env_id)
    names = [*found.bots, ""]
    with game_env(env_id) as env:
        for seed in range(episodes):
            for shift in range(len(names)):
                policies = {
                    seat: _policy(env_id, names[(seed + shift * (seat + 1)) % len(names)], seed)
                    for seat in range(found.seats)
                }
                transcript = play(env, policies, seed=seed)
                _require_sound(f"{env_id}: seed {seed}, shift {shift}", found.mode, transcript)


def _policy(env_id: str, name: str, seed: int) -> Callable[[str], str]:
    return make_bot(env_id, name, seed=seed) if name else lambda _: _GARBAGE


def _require_sound(where: str, mode: str, transcript: Transcript) -> None:
    outcomes = transcript.outcomes
    numbers = [*outcomes, *transcript.rewards]
    numbers += [value for parts in transcript.components for value in parts.values()]
    require(all(math.isfinite(x) for x in numbers), f"{where}: not every number is finite.")
    low = 0.0 if mode == "cooperative" else -1.0
    require(all(low <= x <= 1.0 for x in outcomes), f"{where}: outcomes {outcomes} out of range.")
    if mode == "competitive":
        require(sum(outcomes) == 0.0, f"{where}: outcomes {outcomes} do not sum to exactly 0.")
    if mode == "cooperative":
        require(len(set(outcomes)) == 1, f"{where}: a shared outcome differs: {outcomes}.")
    for seat, parts in enumerate(transcript.components):
        require(
            FORMAT_FLOOR <= parts["format"] <= 0.0,
            f"{where}: format of seat {seat} is {parts['format']}.",
        )
        require(
            _same(transcript.rewards[seat], parts["outcome"] + parts["format"]),
            f"{where}: reward of seat {seat} is not outcome + format.",
        )
        require(
            _same(parts["outcome"], outcomes[seat]),
            f"{where}: seat {seat} was not paid its outcome.",
        )


def _same(paid: float, due: float) -> bool:
    """Equal but for the rounding of a sum of payments, which may come back to 0 from either side."""
    return math.isclose(paid, due, abs_tol=_ROUNDING)


def check_seat_symmetry(env_id: str, *, episodes: int = 60) -> None:
    """The number of a seat is worth nothing: for the random bot, and for seats that only forfeit.

    It applies where seats are paid differently: all modes but the cooperative one. Roles that differ
    by design are drawn from ``streams.seats``, so that none belongs to a number.

    Args:
        env_id: a registered id.
        episodes: games of each kind; the bound is 3 standard errors of the mean difference.

    Raises:
        ConformanceError: one seat earns more than another beyond chance.
    """
    found = spec(env_id)
    if found.mode == "cooperative":
        return
    for name in [*(["random"] if "random" in found.bots else []), ""]:
        outcomes = []
        with game_env(env_id) as env:
            for seed in range(episodes):
                policies = {
                    seat: _policy(env_id, name, found.seats * seed + seat)
                    for seat in range(found.seats)
                }
                outcomes.append(play(env, policies, seed=seed).outcomes)
        _require_level(f"{env_id}, {name or 'garbage'} in every seat", np.array(outcomes))


def _require_level(where: str, outcomes_EN: NDArray[np.float64]) -> None:
    for seat in range(1, outcomes_EN.shape[1]):
        gaps = outcomes_EN[:, 0] - outcomes_EN[:, seat]
        error = gaps.std(ddof=1) / math.sqrt(len(gaps))
        require(
            abs(gaps.mean()) <= 3 * error + _ROUNDING,
            f"{where}: seat 0 earns {gaps.mean():+.3f} more than seat {seat} (standard error "
            f"{error:.3f}).",
        )


def check_strength(env_id: str, *, episodes: int = 30) -> None:
    """The ``strong`` bot earns clearly more than the ``random`` one.

    Where the mode is competitive, strong among random bots is above 0; else a team of strong bots is
    above a team of random ones. Applies where both bots are registered.

    Args:
        env_id: a registered id.
        episodes: seeds, each played once with the bot in every seat; the bound is 2 standard errors.
            Up to 4 times as many are played while it is not reached.

    Raises:
        ConformanceError: the difference is not above 0, or not beyond chance.
    """
    found = spec(env_id)
    if not {"random", "strong"} <= set(found.bots):
        return
    gaps: list[float] = []
    with game_env(env_id) as env:
        for _ in range(4):
            seeds = range(len(gaps), len(gaps) + episodes)
            if found.mode == "competitive":  # random among random bots earns exactly 0
                gaps += _among(env, "strong", "random", seeds)
            else:
                teams = (_among(env, name, name, seeds) for name in ("strong", "random"))
                gaps += [strong - weak for strong, weak in zip(*teams, strict=True)]
            gaps_E = np.array(gaps)
            error = gaps_E.std(ddof=1) / math.sqrt(len(gaps_E))
            if gaps_E.mean() > 2 * error:
                return
    raise ConformanceError(
        f"{env_id}: over {len(gaps)} seeds the strong bot earns {gaps_E.mean():+.3f} more than the "
        f"random one (standard error {error:.3f}), which is not clearly more.",
    )


def _among(env: GameEnv, name: str, others: str, numbers: range) -> list[float]:
    """Outcome of one bot among others per seed of ``numbers``, the mean over all seats."""
    env_id, seats = env.env_spec.id, range(len(env.possible_agents))
    means = []
    for seed in numbers:
        outcomes: list[float] = []
        for seat in seats if name != others else seats[:1]:
            bots = {
                s: make_bot(env_id, name if s == seat else others, len(seats) * seed + s)
                for s in seats
            }
            paid = play(env, bots, seed=seed).outcomes
            outcomes += [paid[seat]] if name != others else paid
        means.append(sum(outcomes) / len(outcomes))
    return means
