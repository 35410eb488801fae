"""Episodes to an algorithm's training data, and the rows with advantages that several algorithms share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.batches import training_batch, with_seats
from srl_agents.credit.by_game import Credit, games_of
from srl_agents.credit.settings import CreditSettings
from srl_agents.credit.token_weights import Teaching, importance_weights, teacher_advantages
from srl_agents.records import Episode, TrainingBatch

Rows = TypeVar("Rows", bound=TrainingBatch)
Teachers = Callable[[str], Teaching | None]
"""Learner -> its teacher in this update, if it has one."""


class Experience(Protocol):
    """Turns an update's episodes into one algorithm's training data."""

    def batch(
        self, learner: str, episodes: Sequence[Episode], policy: str
    ) -> tuple[Any | None, dict[str, float]]:
        """One learner's batch, and metrics of its play.

        Args:
            learner: who learns.
            episodes: of the update, all learners'.
            policy: the learner's version that played.

        Returns:
            None instead of a batch where there is nothing to learn from.
        """


class RowLearner(Protocol):
    """A learner of rows with advantages, as far as its experience asks it."""

    version: int
    base: Any

    def token_logprobs(self, batch: TrainingBatch, adapter: str) -> NDArray[np.float32]:
        """(R, T) log-probabilities of the batch's tokens under an adapter; 0 where masked."""


@dataclass(frozen=True)
class AdvantageRows:
    """Rows with advantages from `srl_agents.credit`, for learners without a critic.

    Args:
        learners: all of them, as a teacher may be any.
        credit: rewards to advantages.
        teachers: the teacher of each learner, if it has one.
    """

    learners: Mapping[str, RowLearner]
    credit: Credit
    teachers: Teachers

    def batch(
        self, learner: str, episodes: Sequence[Episode], policy: str
    ) -> tuple[TrainingBatch | None, dict[str, float]]:
        """See `Experience`."""
        teaching = self.teachers(learner)
        rows, values = self.credit.assign(episodes, learner, policy, keep_flat=teaching is not None)
        if not rows:
            return None, values
        own = self.learners[learner]
        settings, pad_id = self.credit.settings, own.base.tokenizer.pad_token_id
        batch = training_batch(learner, rows, pad_id, thoughts=settings.train_thoughts)
        batch = with_seats(batch, [turn for turn, _ in rows], episodes, games_of(self.credit))
        batch, more = weighed(settings, own, batch, teaching)
        return batch, values | more


def weighed(
    credit: CreditSettings, learner: RowLearner, batch: Rows, teaching: Teaching | None
) -> tuple[Rows, dict[str, float]]:
    """The batch with importance weights and a teacher's opinion, where they are wanted.

    Args:
        credit: settings that weigh tokens of an older policy.
        learner: whose batch it is.
        batch: as sampled.
        teaching: whose opinion counts, and how much.

    Returns:
        The batch, and metrics.
    """
    cap, mask_RT = credit.importance_cap, batch.learned_RT
    if cap is None and teaching is None:
        return batch, {}
    metrics: dict[str, float] = {}
    now_RT = learner.token_logprobs(batch, batch.learner)
    advantages_RT = batch.advantages_RT.astype(np.float64)
    if teaching is not None:
        teacher_RT = learner.token_logprobs(batch, teaching.teacher)
        metrics["teacher_kl"] = float((now_RT - teacher_RT)[mask_RT].mean())
        advantages_RT = advantages_RT + teacher_advantages(
            now_RT, teacher_RT, mask_RT, weight=teaching.weight, limit=teaching.limit
        )
    if cap is not None:
        weights_RT = importance_weights(
            now_RT, batch.logprobs_RT, mask_RT, cap=cap, level=credit.importance_level
        )
        metrics["importance_weight"] = float(weights_RT[mask_RT].mean())
        advantages_RT = advantages_RT * weights_RT
        batch = replace(batch, logprobs_RT=now_RT)
    return replace(batch, advantages_RT=advantages_RT.astype(np.float32)), metrics
