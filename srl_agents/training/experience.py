"""Episodes to what an algorithm learns from: one class per kind of batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from srl_agents.coordination.coordinator import Coordinator
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.batches import training_batch
from srl_agents.credit.critic import explained_variance, judged
from srl_agents.credit.token_weights import importance_weights, teacher_advantages
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import CriticBatch, Episode, TrainingBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.learner import Batch
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.training.preference_pairs import PreferencePairs

Rows = TypeVar("Rows", bound=TrainingBatch)


class Experience(Protocol):
    """What one algorithm makes of an update's episodes."""

    def batch(
        self, learner: str, episodes: Sequence[Episode], policy: str
    ) -> tuple[Batch | None, dict[str, float]]:
        """One learner's batch, and metrics of its play.

        Args:
            learner: who learns.
            episodes: of the update, all learners'.
            policy: the learner's version that played.

        Returns:
            None instead of a batch where there is nothing to learn from.
        """


@dataclass(frozen=True)
class AdvantageRows:
    """Rows with advantages from `srl_agents.credit`, for learners without a critic.

    Args:
        recipe: of the run.
        learners: all of them, as a teacher may be any.
        credit: rewards to advantages.
        coordinator: names teachers.
    """

    recipe: LeagueRecipe
    learners: dict[str, GRPOLearner]
    credit: CreditAssigner
    coordinator: Coordinator

    def batch(
        self, learner: str, episodes: Sequence[Episode], policy: str
    ) -> tuple[TrainingBatch | None, dict[str, float]]:
        """See `Experience`."""
        teacher = self.coordinator.teacher_of(learner, list(self.learners))
        rows, values = self.credit.assign(episodes, learner, policy, keep_flat=teacher is not None)
        if not rows:
            return None, values
        own = self.learners[learner]
        batch = training_batch(learner, own.version, rows, own.base.tokenizer.pad_token_id)
        batch, more = weighed(self.recipe, own, batch, teacher)
        return batch, values | more


@dataclass(frozen=True)
class CriticRows:
    """Rows that the learner's critic judges, for PPO.

    Args:
        recipe: of the run.
        learners: all of them, as a teacher may be any.
        credit: what each turn was paid.
        coordinator: names teachers.
    """

    recipe: LeagueRecipe
    learners: dict[str, PPOLearner]
    credit: CreditAssigner
    coordinator: Coordinator

    def batch(
        self, learner: str, episodes: Sequence[Episode], policy: str
    ) -> tuple[CriticBatch | None, dict[str, float]]:
        """See `Experience`."""
        turns, values = self.credit.paid_turns(episodes, learner, policy)
        if not turns:
            return None, values
        own = self.learners[learner]
        settings = own.settings
        rows = training_batch(
            learner,
            own.version,
            [(paid.turn, 0.0) for paid in turns],
            own.base.tokenizer.pad_token_id,
        )
        judgement = judged(
            rows,
            turns,
            own.values(rows),
            discount=settings.discount,
            trace=settings.trace,
            turn_trace=settings.turn_trace,
            normalise=settings.normalise_advantages,
        )
        values["value/explained_var"] = explained_variance(judgement)
        teacher = self.coordinator.teacher_of(learner, list(self.learners))
        batch, more = weighed(self.recipe, own, judgement, teacher)
        return batch, values | more


def weighed(
    recipe: LeagueRecipe, learner: GRPOLearner | PPOLearner, batch: Rows, teacher: str | None
) -> tuple[Rows, dict[str, float]]:
    """The batch with importance weights and a teacher's opinion, where the recipe wants them.

    Args:
        recipe: its credit and coordination sections say how.
        learner: whose batch it is.
        batch: as sampled.
        teacher: the learner whose opinion counts, or None.

    Returns:
        The batch, and metrics.
    """
    cap, mask_RT = recipe.credit.importance_cap, batch.completion_mask_RT
    if cap is None and teacher is None:
        return batch, {}
    metrics: dict[str, float] = {}
    now_RT = learner.token_logprobs(batch, batch.learner)
    advantages_RT = batch.advantages_RT.astype(np.float64)
    if teacher is not None:
        teacher_RT = learner.token_logprobs(batch, teacher)
        metrics["teacher_kl"] = float((now_RT - teacher_RT)[mask_RT].mean())
        advantages_RT = advantages_RT + teacher_advantages(
            now_RT,
            teacher_RT,
            mask_RT,
            weight=recipe.coordination.teacher_weight,
            limit=recipe.coordination.teacher_limit,
        )
    if cap is not None:
        weights_RT = importance_weights(
            now_RT, batch.logprobs_RT, mask_RT, cap=cap, level=recipe.credit.importance_level
        )
        metrics["importance_weight"] = float(weights_RT[mask_RT].mean())
        advantages_RT = advantages_RT * weights_RT
        batch = replace(batch, logprobs_RT=now_RT)
    return replace(batch, advantages_RT=advantages_RT.astype(np.float32)), metrics


def make_experience(
    recipe: LeagueRecipe,
    learners: dict[str, Any],
    credit: CreditAssigner,
    coordinator: Coordinator,
) -> Experience:
    """The experience that the recipe's algorithm learns from."""
    kinds: dict[str, Any] = {"grpo": AdvantageRows, "ppo": CriticRows, "dpo": PreferencePairs}
    experience: Experience = kinds[recipe.training.algorithm](recipe, learners, credit, coordinator)
    return experience
