"""Random rows, pairs and adapters, and sampling log-probabilities at which many tokens are clipped.

Ratios are drawn far from every bound, relative to the room between bounds: rounding then cannot move a token
over one, and a real difference stays a difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.trainers.verification.independent.row_objectives import RowObjective

Floats = NDArray[np.float64]
Shapes = Mapping[str, tuple[int, ...]]
_RULES = 6
"""Tokens that all prompts begin with."""
_ATTEMPTS = (4, 3, 1, 1, 1, 1)
"""Rows of each prompt."""
_KINDS = 3
"""Within the bounds, above, below."""
_FIRST_TOKEN = 3
"""Lower ones are often special."""


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt, its reply, and which tokens of the reply are learned."""

    prompt: list[int]
    reply: list[int]
    learned_T: NDArray[np.bool_]


def draw_rows(vocabulary: int, seed: int, opening: int = 0) -> list[Row]:
    """Groups of attempts, rows with prompts of their own, gaps in what is learned, and one row without any.

    Args:
        vocabulary: number of the model's tokens.
        seed: of all draws.
        opening: tokens with which every prompt ends, as with a template's words before a reply.
    """
    rng = np.random.default_rng(seed)

    def some(count: int) -> list[int]:
        return [int(token) for token in rng.integers(_FIRST_TOKEN, vocabulary, size=count)]

    end = some(opening)
    rules = some(_RULES)
    prompts = [
        prompt
        for number, attempts in enumerate(_ATTEMPTS)
        for prompt in [rules + some(1 + 2 * number) + end] * attempts
    ]
    rows = []
    for number, prompt in enumerate(prompts):
        reply = some(3 + (5 * number) % 7)
        learned = np.ones(len(reply), dtype=bool)
        if number % 3 == 0:
            learned[(0, 1, -1)[number % 2 + number % 4 // 3]] = False
        rows.append(Row(prompt, reply, learned))
    rows[-1].learned_T[:] = False
    return rows


def draw_pairs(vocabulary: int, seed: int) -> list[tuple[list[int], list[int], list[int], float]]:
    """Prompt, two replies of unlike length, and a margin, of several pairs."""
    rng = np.random.default_rng(seed)

    def some(count: int) -> list[int]:
        return [int(token) for token in rng.integers(_FIRST_TOKEN, vocabulary, size=count)]

    lengths = [(2, 7), (6, 3), (5, 5), (8, 2), (1, 4), (4, 6), (7, 5)]
    return [
        (some(3 + 2 * number), some(one), some(other), float(rng.uniform(0.2, 1.5)))
        for number, (one, other) in enumerate(lengths)
    ]


def draw_factors(shapes: Shapes, seed: int, number: int) -> dict[str, torch.Tensor]:
    """An adapter in which both factors matter, by the names of its tensors.

    Args:
        shapes: of the tensors.
        seed: of what adapters have in common: divergences between unlike ones would round too much.
        number: of the adapter.
    """
    common, own = _drawn_factors(shapes, seed), _drawn_factors(shapes, seed + 1 + number)
    return {name: tensor + 0.3 * own[name] for name, tensor in common.items()}


def _drawn_factors(shapes: Shapes, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator)
        * (0.05 if "lora_B" in name else shape[-1] ** -0.5)
        for name, shape in shapes.items()
    }


def draw_advantages(objective: RowObjective, rows: Sequence[Row], seed: int) -> list[Floats]:
    """An advantage for each reply token; rloo has one per row, ratios per row have one sign per row."""
    rng = np.random.default_rng(seed)
    drawn = []
    for number, row in enumerate(rows):
        sizes = rng.uniform(0.4, 1.6, size=len(row.reply))
        places = np.arange(len(row.reply)) + number
        by_token = objective.level == "token" and objective.kind not in ("rloo", "vespo")
        turns = places if by_token else np.full(len(places), number)
        sizes = np.full_like(sizes, sizes[0]) if objective.kind == "rloo" else sizes
        drawn.append(np.where(turns // _KINDS % 2 == 0, sizes, -sizes) * row.learned_T)
    return drawn


def draw_log_ratios(objective: RowObjective, rows: Sequence[Row], seed: int) -> list[Floats]:
    """Log-ratio now to sampled of each reply token: within the bounds, above and below in turn."""
    rng = np.random.default_rng(seed)
    lower, upper = _bounds(objective)
    room = upper - lower
    centres = ((lower + upper) / 2, upper + room, lower - room)
    drawn = []
    for number, row in enumerate(rows):
        count = len(row.reply)
        noise = rng.uniform(-0.4, 0.4, size=count)
        if objective.level == "token" and objective.kind not in ("rloo", "vespo"):
            kinds = (np.arange(count) + number) % _KINDS
            drawn.append(np.array(centres)[kinds] + room * noise)
            continue
        learned = row.learned_T
        own = max(1, int(learned.sum()))
        noise -= noise[learned].sum() / own
        whole = centres[number % _KINDS]
        drawn.append(noise + (whole if objective.level == "sequence" else whole / own))
    return drawn


def _bounds(objective: RowObjective) -> tuple[float, float]:
    """Log-ratios at which the loss begins to clip; of losses that do not clip, some."""
    if objective.kind in ("sapo", "vespo"):
        return -0.3, 0.3
    if objective.kind == "cispo":
        return math.log(objective.clip_high) - 0.5, math.log(objective.clip_high)
    return math.log(max(1 - objective.clip_low, 0.05)), math.log(1 + objective.clip_high)


def draw_judgements(
    values: Sequence[torch.Tensor], clip: float, seed: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Values before the update and returns of each row, where every third value is held by the clip.

    Args:
        values: of the learned tokens of each row, now.
        clip: largest move of a value that may still pay.
        seed: of all draws.
    """
    rng = np.random.default_rng(seed)
    drawn, place = [], 0
    for now_T in values:
        before, returns = [], []
        for value in now_T.tolist():
            way = 1 if rng.random() < 0.5 else -1
            moved = way * clip * (0.4, 2.0, -2.0)[place % _KINDS]
            before.append(value - moved)
            returns.append(value + way * float(rng.uniform(0.5, 1.5)))
            place += 1
        drawn.append((torch.tensor(before).double(), torch.tensor(returns).double()))
    return drawn
