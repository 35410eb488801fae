"""Replies of one base in the tokens of another, and how likely rows of others are to their reader."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srl_agents.models.base_model import BaseModel
from srl_agents.records import ExchangedBatch, TrainingBatch, Turn
from srl_agents.sharing.exchange_settings import ExchangeSettings
from srl_agents.sharing.hacpo import exchange_weights
from srl_agents.trainers.experience import RowLearner

_NO_CHARACTER = "\ufffd"
"""Stands in a decoded text for bytes that do not form a character."""


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A reply in its reader's tokens."""

    ids: tuple[int, ...]
    """Without the token that ends it; only that token where the reply is empty."""
    author_logprob: float
    """Mean per token of the author, likewise."""


def read_reply(turn: Turn, author: BaseModel, reader: BaseModel) -> ReadReply | None:
    """A reply as its reader would write it.

    Learners of one base read the tokens that were sampled. Another base reads the text; None where that
    text is not in both bases' tokens what was sampled: it holds half a character, or template tokens.

    Args:
        turn: with tokens and log-probabilities.
        author: base of the learner that wrote it.
        reader: base of the learner that reads it.
    """
    ended = turn.completion_ids[-1] in author.eos_token_ids
    written = turn.completion_ids[:-1] if ended else turn.completion_ids
    logprobs = turn.logprobs[: len(written)] or turn.logprobs
    mean = float(np.mean(logprobs))
    if reader is author:
        return ReadReply(written or turn.completion_ids, mean)
    if not written:
        return ReadReply((int(reader.tokenizer.eos_token_id),), mean)
    text = author.decode(written)
    if not text or _NO_CHARACTER in text or _template_tokens(author) & {*written}:
        return None
    ids = reader.encode_reply(text)[:-1]
    return ReadReply(ids, mean) if ids and reader.decode(ids) == text else None


def _template_tokens(base: BaseModel) -> set[int]:
    """Tokens that decoding leaves out."""
    added = base.tokenizer.added_tokens_decoder
    return {number for number, token in added.items() if token.special}


@dataclass(frozen=True, slots=True)
class Weighed:
    """A batch as it is learned from in one step."""

    batch: TrainingBatch | None
    """Own rows and those of others that were kept; None where there are none."""
    metrics: dict[str, float]


def mean_logprobs(
    learner: RowLearner, batch: TrainingBatch
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(R, T) log-probabilities of a batch's tokens under its learner now, and (R,) their means."""
    now_RT = learner.token_logprobs(batch, batch.learner)
    sums_R = np.where(batch.learned_RT, now_RT, 0).sum(axis=1, dtype=np.float64)
    return now_RT, sums_R / np.maximum(batch.learned_RT.sum(axis=1), 1)


def weigh_for_step(
    learner: RowLearner, batch: ExchangedBatch, settings: ExchangeSettings, step: int
) -> Weighed:
    """The batch of one optimizer step: rows of others with their weight, or without the dropped ones.

    Rows of others get the reader's log-probabilities of now, so that the loss's own ratio is 1 there and its
    clip idle. Own rows stay as they are.

    Args:
        learner: reader.
        batch: of one update.
        settings: weights and clip; those of a naive exchange keep all rows as they are.
        step: optimizer steps that were taken on the batch.

    Returns:
        The batch, and metrics of the exchange.
    """
    foreign_r = np.flatnonzero(batch.foreign_R)
    rows = batch.take(foreign_r)
    now_RT, means_R = mean_logprobs(learner, rows)
    log_ratios_R = means_R - rows.author_logprobs_R
    weights = exchange_weights(log_ratios_R, rows.coefficients_R, settings, step)
    logprobs_RT, advantages_RT = batch.logprobs_RT.copy(), batch.advantages_RT.copy()
    logprobs_RT[foreign_r] = now_RT
    advantages_RT[foreign_r] *= weights.factors_R[:, None].astype(np.float32)
    kept_R = ~batch.foreign_R
    kept_R[foreign_r] = weights.kept_R
    weighed = plain_rows(replace(batch, logprobs_RT=logprobs_RT, advantages_RT=advantages_RT))
    metrics = {
        "exchange/below": float(weights.below_R.mean()),
        "exchange/above": float(weights.above_R.mean()),
        "exchange/ratio": mean_ratio(log_ratios_R),
        "exchange/gradient_share": gradient_share(weighed, batch.foreign_R),
    }
    if not kept_R.any():
        return Weighed(None, metrics)
    return Weighed(weighed if kept_R.all() else weighed.take(np.flatnonzero(kept_R)), metrics)


def mean_ratio(log_ratios_R: NDArray[np.float64]) -> float:
    """Mean probability ratio of rows; cut where no float would hold it."""
    return float(np.exp(np.minimum(log_ratios_R, 50.0)).mean())


def gradient_share(batch: TrainingBatch, foreign_R: NDArray[np.bool_]) -> float:
    """Share of the absolute advantages of all tokens that rows of others have; 0 where all are 0."""
    weights_R = np.abs(batch.advantages_RT).sum(axis=1, dtype=np.float64)
    total = float(weights_R.sum())
    return float(weights_R[foreign_R].sum()) / total if total else 0.0


def plain_rows(batch: ExchangedBatch) -> TrainingBatch:
    """The rows as a trainer reads them, of all authors."""
    return TrainingBatch(
        learner=batch.learner,
        versions=batch.versions,
        prompt_ids_RP=batch.prompt_ids_RP,
        prompt_mask_RP=batch.prompt_mask_RP,
        completion_ids_RT=batch.completion_ids_RT,
        completion_mask_RT=batch.completion_mask_RT,
        learned_RT=batch.learned_RT,
        logprobs_RT=batch.logprobs_RT,
        advantages_RT=batch.advantages_RT,
    )
