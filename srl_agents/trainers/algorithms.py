"""Interface and registry of algorithms. Light: a recipe names one before torch is loaded.

An algorithm is one settings class, a kind of `ALGORITHMS`: its fields are the keys of a recipe's
``training`` section, and it checks the rest of the recipe and makes learner and experience.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.credit.settings import CreditSettings
from srl_agents.kinds import Kinds, Section, settings_of
from srl_agents.trainers.update_settings import PrefixSettings, UpdateSettings
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.credit.by_game import Credit
    from srl_agents.models.base_model import BaseModel
    from srl_agents.trainers.experience import Experience, Teachers
    from srl_agents.trainers.learner import AdapterLearner


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Parts of a recipe that an algorithm reads, or may refuse."""

    updates: int
    """Updates of each learner."""
    group_size: int
    """Attempts per start state."""
    scale_advantages: bool
    credit: CreditSettings
    teacher: str = ""
    """Coordination kind that lets a teacher weigh tokens; empty where there is none."""
    thoughts: bool = False
    """Whether replies begin with thoughts, some of whose tokens are not learned."""
    checkpointed: tuple[str, ...] = ()
    """Other sections that turn on gradient checkpointing, which holds for the whole base."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AlgorithmSettings(UpdateSettings, ABC):
    """How learners are updated: the base of every algorithm's settings."""

    learns_rows: ClassVar[bool] = True
    """Whether its batches are `TrainingBatch`, whose rows say which version wrote them."""
    activates: ClassVar[bool] = False
    """Whether it can train adapters that act from the reply on (``lora.activation``)."""
    algorithm: str
    """Name of the algorithm, or its ``package.module:Class``."""

    @abstractmethod
    def make_learner(
        self, name: str, base: BaseModel, *, temperature: float, seed: int
    ) -> AdapterLearner[Any]:
        """One learner around one adapter.

        Args:
            name: of its adapter, which is added if it does not exist.
            base: the shared base.
            temperature: at which rows are sampled.
            seed: of a new adapter's weights.

        Raises:
            ConfigError: the algorithm cannot work with this temperature or base.
        """

    @abstractmethod
    def make_experience(
        self, learners: Mapping[str, Any], credit: Credit, teachers: Teachers
    ) -> Experience:
        """The object that turns episodes into batches for the learners.

        Args:
            learners: all of them, by name.
            credit: what replies were worth.
            teachers: who teaches a learner in this update.
        """

    def check(self, plan: Plan) -> None:
        """Refuse a recipe that the algorithm would not follow.

        Raises:
            ConfigError: the schedule is over before the run, or what the algorithm adds.
        """
        steps = plan.updates * self.steps_per_batch
        if self.schedule != "constant" and self.total_updates < steps:
            raise ConfigError(
                f"training.total_updates={self.total_updates}: {plan.updates} updates of "
                f"{self.steps_per_batch} steps each take {steps}, and the learning rate would be 0 "
                f"before they end. Use {steps}."
            )

    def check_exchange(self) -> None:
        """Refuse that rows of other learners join a batch.

        Raises:
            ConfigError: the algorithm does not learn from them.
        """
        raise ConfigError(
            f"sharing.kind 'rollouts', training.algorithm={self.algorithm!r}: it learns from its own rows "
            "only. Use 'grpo', or another kind of sharing."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceSettings(AlgorithmSettings):
    """Updates that stay near a reference: all of SRL's."""

    reference: str = "base"
    """Where the divergence is measured from: ``base``, the frozen model; ``start``, the adapter as
    it was when the run began, a warm start included; or the folder of a saved adapter."""
    kl_coef: float = 0.0
    """Weight of the divergence from the reference, in nats per token; 0 computes no reference. Absent in
    grpo: the variant's, which is 0.04 for grpo and 0 for all others. Of dpo the papers' beta, ipo's tau: 0.1
    unless given, as in TRL; smaller moves further away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenLossSettings(ReferenceSettings, PrefixSettings):
    """Updates on tokens with advantages: what GRPO and PPO have in common."""

    clip_low: float = 0.2
    """Probability ratios are clipped at 1 - clip_low. Absent in grpo: the variant's."""
    kl_correction: bool = True
    """Whether a token's divergence is multiplied by its probability ratio to the policy that sampled it.
    With it the gradient is that of the reverse divergence (arXiv:2512.02556, "Unbiased KL Estimate");
    without it, that of arXiv:2402.03300 equation 4. Absent in grpo: the variant's."""
    clip_high: float | None = None
    """Probability ratios are clipped at 1 + clip_high; None: the variant's, or the same as clip_low. In
    loss cispo they are cut at clip_high itself."""
    entropy_coef: float = 0.0
    """Weight of the mean entropy per token (nats) that is added to the objective."""
    log_probabilities: Literal["auto", "chunked", "trl"] = "auto"
    """How tokens are scored without full logits: ``chunked`` reads each tile of the vocabulary once, ``trl``
    reads it again for the gradient, with a Triton kernel on a GPU. ``auto`` is chunked beside LoRA on a CPU
    where the vocabulary has 32,768 tokens or more."""


def check_group_size(plan: Plan) -> None:
    """Refuse a plan in which no attempt has another to be compared with.

    Raises:
        ConfigError: there is one attempt per start state.
    """
    alternatives = ESTIMATORS.find(plan.credit.estimator).reads_forks
    if plan.group_size < 2 and not alternatives:
        raise ConfigError(
            f"rollout: group_size={plan.group_size}: one attempt is its own baseline, so every "
            "advantage would be 0. Use 2 or more."
        )


ALGORITHMS: Kinds[type[AlgorithmSettings]] = Kinds(
    what="algorithm",
    group="srl_agents.algorithms",
    built_in={
        "grpo": "srl_agents.trainers.grpo_settings:GRPOSettings",
        "ppo": "srl_agents.trainers.ppo_settings:PPOSettings",
        "dpo": "srl_agents.trainers.dpo_settings:DPOSettings",
    },
    fault=settings_of(AlgorithmSettings, "algorithm"),
)
TRAINING = Section(kinds=ALGORITHMS, key="algorithm", default="grpo")
"""How a recipe's ``training`` section is read."""
