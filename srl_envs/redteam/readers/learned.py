"""A small learned policy: linear values of a few moves in features of the prompt, fitted to returns.

Episodes are played with moves drawn at random; ridge regression fits, for each move, what the episode
gained above the strong bot to the features at which the move was made. The policy takes the move of the
highest value; later rounds draw around it.

Source: Monte Carlo policy evaluation and improvement, Sutton and Barto, "Reinforcement Learning", 2018,
chapter 5, with linear values (chapter 9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_envs.redteam.attacks import Turn
from srl_envs.redteam.readers.features import value
from srl_envs.redteam.readers.programs import Move, seated

_RIDGE = 4.0
_EXPLORES = 0.3
"""Chance that a turn's move is drawn at random."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """The move of the highest linear value; ``K`` moves, ``F`` features and a constant."""

    moves: tuple[Move, ...]
    features: tuple[str, ...]
    centre: tuple[float, ...]
    """(F,) value that counts where a prompt lacks the feature."""
    scale: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]
    """(K, F + 1)."""

    def inputs(self, text: str) -> NDArray[np.float64]:
        """(F + 1,) standardised features, and 1."""
        found = [value(name, text) for name in self.features]
        seen = [
            0.0 if number is None else (number - centre) / scale
            for number, centre, scale in zip(found, self.centre, self.scale, strict=True)
        ]
        inputs: NDArray[np.float64] = np.clip(np.array([*seen, 1.0]), -5, 5)
        return inputs

    def choose(self, text: str) -> Move:
        """The move for a prompt."""
        return self.moves[int(np.argmax(np.array(self.weights) @ self.inputs(text)))]

    def take(self, env: Any, seat: int, seed: int) -> Callable[[Turn], str]:
        """A policy for one episode."""
        return seated(self.choose, env, seat, seed)

    def to_data(self) -> dict[str, Any]:
        """The program as JSON values."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Learned:
        """The inverse of `to_data`."""
        return cls(
            moves=tuple(Move(**move) for move in data["moves"]),
            features=tuple(data["features"]), centre=tuple(data["centre"]),
            scale=tuple(data["scale"]), weights=tuple(map(tuple, data["weights"])),
        )  # fmt: skip

    def __str__(self) -> str:
        return f"learned over {len(self.features)} features: {' | '.join(map(str, self.moves))}"


def untrained(moves: Sequence[Move], bounds: dict[str, list[float]]) -> Learned:
    """The policy that always takes the first move.

    Args:
        moves: that it may learn to take.
        bounds: feature -> thresholds; their middle and range standardise it.
    """
    cuts = [(min(found), max(found)) for found in bounds.values()]
    rows = [(*(0.0 for _ in bounds), float(place == 0)) for place in range(len(moves))]
    return Learned(
        moves=tuple(moves), features=tuple(bounds), weights=tuple(rows),
        centre=tuple((low + high) / 2 for low, high in cuts),
        scale=tuple(max((high - low) / 2, 0.5) for low, high in cuts),
    )  # fmt: skip


@dataclass(slots=True)
class Explorer:
    """The policy with random moves mixed in, and what it did."""

    policy: Learned
    rng: np.random.Generator
    inputs: list[NDArray[np.float64]] = field(default_factory=list)
    """(F + 1,) each."""
    chosen: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    """Of the episode that a turn belongs to."""

    def choose(self, text: str) -> Move:
        """A move at random, or the policy's."""
        moves = self.policy.moves
        best = moves.index(self.policy.choose(text))
        place = int(self.rng.integers(len(moves))) if self.rng.random() < _EXPLORES else best
        self.inputs.append(self.policy.inputs(text))
        self.chosen.append(place)
        return moves[place]

    def take(self, env: Any, seat: int, seed: int) -> Callable[[Turn], str]:
        """A policy for one episode."""
        return seated(self.choose, env, seat, seed)

    def earn(self, gain: float) -> None:
        """Note what the turns since the last note gained."""
        self.gains += [gain] * (len(self.chosen) - len(self.gains))

    def improved(self) -> Learned:
        """The policy with values fitted to all turns so far; moves share a fit where they lack turns."""
        inputs_TF, gains_T = np.array(self.inputs), np.array(self.gains)
        centred_T = gains_T - gains_T.mean()
        rows = []
        for place in range(len(self.policy.moves)):
            of_move = np.array(self.chosen) == place
            x_NF, y_N = inputs_TF[of_move], centred_T[of_move]
            gram_FF = x_NF.T @ x_NF + _RIDGE * np.eye(inputs_TF.shape[1])
            rows.append(tuple(np.linalg.solve(gram_FF, x_NF.T @ y_N).tolist()))
        return replace(self.policy, weights=tuple(rows))
