"""What is paid: within its range, to the last bit of a zero sum, and without regard to the seat."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from srl_envs.episode import Transcript, play
from srl_envs.parallel import FORMAT_FLOOR
from srl_envs.registry import make_bot, spec
from srl_envs.testing.episodes import game_env, require

_GARBAGE = "I would rather not."


def check_payoffs(env_id: str, *, episodes: int = 4) -> None:
    """Every bot against every bot, and against silence: rewards add up as the mode demands.

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
                    seat: _policy(env_id, names[(seed + shift * seat) % len(names)], seed)
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
    return math.isclose(paid, due, abs_tol=1e-9)


def check_seat_symmetry(env_id: str, *, episodes: int = 60) -> None:
    """The number of a seat is worth nothing: for the random bot, and for seats that only forfeit.

    Games whose seats are different roles by design need no such check; it applies where the mode is
    competitive.

    Args:
        env_id: a registered id.
        episodes: games of each kind; the bound is 3 standard errors of the mean difference.

    Raises:
        ConformanceError: one seat earns more than another beyond chance.
    """
    found = spec(env_id)
    if found.mode != "competitive":
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
            abs(gaps.mean()) <= 3 * error,
            f"{where}: seat 0 earns {gaps.mean():+.3f} more than seat {seat} (standard error "
            f"{error:.3f}).",
        )
