"""Turns with advantages become one padded batch: exact tokens in, exact tokens out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from srl_agents.records import (
    Episode,
    ExchangedBatch,
    ForeignTurn,
    MatchSpec,
    TrainingBatch,
    Turn,
    WeightVersion,
)
from srl_envs.errors import ShapeError

Rows = TypeVar("Rows", bound=TrainingBatch)
PER_AGE = "rows_lag:"
"""Begins the names of metrics that count rows by age."""


def training_batch(
    learner: str, rows: Sequence[tuple[Turn, float]], pad_id: int, *, thoughts: bool = True
) -> TrainingBatch:
    """One row per turn; the turn's advantage is given to each of its tokens that is learned.

    Args:
        learner: whose turns they are.
        rows: turns that the policy wrote, each with its advantage. A turn may carry reward 0
            or advantage 0; it still counts in the token mean of the loss.
        pad_id: fills prompts on the left and completions on the right.
        thoughts: whether tokens of thoughts are learned; those that an engine wrote never are.

    Raises:
        ShapeError: the batch has no rows, or a turn has no tokens (a scripted policy's), another number of
            log-probabilities than of tokens, or no version of the learner that wrote it.
    """
    if not rows:
        raise ShapeError(f"no turns of {learner!r} to train on; play more episodes per update.")
    for turn, _ in rows:
        if not turn.prompt_ids or not turn.completion_ids:
            raise ShapeError(
                f"turn {turn.turn_index} of {learner!r} has no tokens; scripted seats cannot learn."
            )
        if len(turn.logprobs) != len(turn.completion_ids):
            raise ShapeError(
                f"turn {turn.turn_index} of {learner!r}: {len(turn.completion_ids)} tokens but "
                f"{len(turn.logprobs)} log-probabilities."
            )
    prompts = [turn.prompt_ids for turn, _ in rows]
    completions = [turn.completion_ids for turn, _ in rows]
    completion_mask_RT = _pad([(True,) * len(c) for c in completions], False, np.bool_)
    learned_RT = _pad([turn.learned(thoughts=thoughts) for turn, _ in rows], False, np.bool_)
    return TrainingBatch(
        learner=learner,
        versions=tuple(_author(turn, learner) for turn, _ in rows),
        prompt_ids_RP=_pad(prompts, pad_id, np.int64, left=True),
        prompt_mask_RP=_pad([(True,) * len(p) for p in prompts], False, np.bool_, left=True),
        completion_ids_RT=_pad(completions, pad_id, np.int64),
        completion_mask_RT=completion_mask_RT,
        learned_RT=learned_RT,
        logprobs_RT=np.where(
            learned_RT, _pad([turn.logprobs for turn, _ in rows], 0.0, np.float32), np.float32(0)
        ),
        advantages_RT=np.where(
            learned_RT, np.array([[advantage] for _, advantage in rows]), 0.0
        ).astype(np.float32),
    )


def with_seats(
    batch: Rows,
    turns: Sequence[Turn],
    episodes: Sequence[Episode],
    game_of: Callable[[MatchSpec], str] | None = None,
) -> Rows:
    """The batch with the seat of each row, and its game where there are several.

    Args:
        batch: one row per turn.
        turns: in the order of the rows, the very objects of the episodes.
        episodes: in which they were played.
        game_of: name of a match's game; None: all are of one.
    """
    place_of = {
        id(turn): (trajectory.seat, "" if game_of is None else game_of(episode.spec))
        for episode in episodes
        for trajectory in episode.trajectories
        for turn in trajectory.turns
    }
    if any(id(turn) not in place_of for turn in turns):  # credit of one's own may make new ones
        return batch
    seats, games = zip(*(place_of[id(turn)] for turn in turns), strict=True)
    return replace(
        batch, seats_R=np.array(seats), games_R=None if game_of is None else np.array(games)
    )


def exchanged_batch(
    learner: str, own: TrainingBatch | None, foreign: Sequence[ForeignTurn], pad_id: int
) -> ExchangedBatch:
    """One batch of a learner's rows, if it has some, and of rows that others wrote behind them.

    Args:
        learner: the reader.
        own: its rows.
        foreign: at least one; their advantage is given to each token.
        pad_id: fills prompts on the left and completions on the right.
    """
    prompts = [*_rows_of(own, "prompt"), *(turn.prompt_ids for turn in foreign)]
    replies = [*_rows_of(own, "completion"), *(turn.completion_ids for turn in foreign)]
    width, first = max(map(len, replies)), 0 if own is None else own.rows
    learned_RT = np.zeros((len(replies), width), np.bool_)
    logprobs_RT = np.zeros((len(replies), width), np.float32)
    advantages_RT = np.zeros((len(replies), width), np.float32)
    if own is not None:
        columns = min(own.learned_RT.shape[1], width)
        learned_RT[:first, :columns] = own.learned_RT[:, :columns]
        logprobs_RT[:first, :columns] = own.logprobs_RT[:, :columns]
        advantages_RT[:first, :columns] = own.advantages_RT[:, :columns]
    for row, turn in enumerate(foreign, start=first):
        learned_RT[row, : len(turn.completion_ids)] = True
        advantages_RT[row, : len(turn.completion_ids)] = turn.advantage
    return ExchangedBatch(
        learner=learner,
        versions=(
            *(() if own is None else own.versions),
            *(turn.author for turn in foreign),
        ),
        prompt_ids_RP=_pad(prompts, pad_id, np.int64, left=True),
        prompt_mask_RP=_pad([(True,) * len(p) for p in prompts], False, np.bool_, left=True),
        completion_ids_RT=_pad(replies, pad_id, np.int64),
        completion_mask_RT=_pad([(True,) * len(r) for r in replies], False, np.bool_),
        learned_RT=learned_RT,
        logprobs_RT=logprobs_RT,
        advantages_RT=advantages_RT,
        foreign_R=np.arange(len(replies)) >= first,
        author_logprobs_R=np.array([0.0] * first + [turn.author_logprob for turn in foreign]),
        coefficients_R=np.array([1.0] * first + [turn.coefficient for turn in foreign]),
    )


def _rows_of(batch: TrainingBatch | None, part: str) -> list[tuple[int, ...]]:
    """Token ids of a batch's prompts or completions, without what fills them up."""
    if batch is None:
        return []
    ids, masks = (
        (batch.prompt_ids_RP, batch.prompt_mask_RP)
        if part == "prompt"
        else (batch.completion_ids_RT, batch.completion_mask_RT)
    )
    return [tuple(row[mask].tolist()) for row, mask in zip(ids, masks, strict=True)]


def of_age(
    batch: TrainingBatch, now: int, most: int | None
) -> tuple[TrainingBatch | None, dict[str, float]]:
    """Leave out rows that are too old.

    Args:
        batch: of one learner.
        now: its present version.
        most: steps that a row may be old; None: nothing was generated ahead, so nothing is left out or
            counted by age.

    Returns:
        The rest, None where nothing is left, and metrics: ``version_lag``, the mean age of the rows that
        are learned from; with ``most`` also the largest, the rows per age, and those that were dropped.
    """
    ages_R = np.array([now - version.number for version in batch.versions])
    if most is None:
        return batch, {"version_lag": float(ages_R.mean())}
    young_R = ages_R <= most
    metrics = {f"{PER_AGE}{age}": float(n) for age, n in sorted(Counter(ages_R.tolist()).items())}
    metrics["rows_too_old"] = float((~young_R).sum())
    if not young_R.any():
        return None, metrics
    metrics |= {
        "rows": float(young_R.sum()),
        "version_lag": float(ages_R[young_R].mean()),
        "version_lag/max": float(ages_R[young_R].max()),
    }
    return (batch if young_R.all() else batch.take(np.flatnonzero(young_R))), metrics


def _author(turn: Turn, learner: str) -> WeightVersion:
    """The version of the learner that wrote a turn."""
    version = WeightVersion.parse(turn.version) if turn.version else None
    if version is None or version.learner != learner:
        raise ShapeError(
            f"turn {turn.turn_index} was written by {turn.version or 'no version'}; {learner!r} learns "
            "only from what its own versions wrote."
        )
    return version


def _pad(
    rows: Sequence[Sequence[Any]], fill: Any, dtype: Any, *, left: bool = False
) -> NDArray[Any]:
    """(R, longest) array."""
    width = max(len(row) for row in rows)
    padded = np.full((len(rows), width), fill, dtype=dtype)
    for i, row in enumerate(rows):
        padded[i, width - len(row) if left else 0 :][: len(row)] = row
    return padded


def same_shape(ndim: int, **arrays: NDArray[Any]) -> None:
    """Raise ShapeError unless all arrays have ``ndim`` axes and one shape."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != ndim for shape in shapes.values()):
        raise ShapeError(f"expected arrays of {ndim} axes and one shape, got {shapes}.")
