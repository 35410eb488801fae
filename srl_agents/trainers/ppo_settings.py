"""Settings of PPO: frozen data, checked when made, without importing TRL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from srl_agents.credit.critic import VALUE_CLIP, VALUE_COEF
from srl_agents.credit.settings import DiscountSettings
from srl_agents.trainers.algorithms import AlgorithmSettings, Plan, TokenLossSettings
from srl_agents.trainers.update_settings import (
    ROUTER_LOSS,
    TOKEN_HEADS,
    check_not_negative,
    check_one_of,
    check_positive,
    check_share_prefixes,
)
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import Removed, refuse_unread, with_defaults

if TYPE_CHECKING:
    from srl_agents.credit.by_game import Credit
    from srl_agents.models.base_model import BaseModel
    from srl_agents.trainers.experience import Experience, Teachers
    from srl_agents.trainers.learner import AdapterLearner

CRITICS = ("detached", "shared", "base", "adapter")


@dataclass(frozen=True, kw_only=True, slots=True)
@with_defaults(iterations=2)
class PPOSettings(TokenLossSettings, DiscountSettings):
    """Updates with a critic. Names are ours; `to_trl` translates them.

    Source: arXiv:1707.06347 equation 7.
    """

    algorithm: Literal["ppo"] = "ppo"
    minibatches: int = 2
    """Optimizer steps per pass, each on its share of the rows; fewer if there are fewer rows."""
    critic: Literal["detached", "shared", "base", "adapter"] = "detached"
    """What the value head reads: the policy's last hidden state without or with gradient, that of
    the frozen base, or that of an adapter of its own."""
    critic_learning_rate: float = 1e-3
    """Step size of the critic."""

    removed: ClassVar[Removed] = {
        "critic_width": (0, "set training.critic: adapter"),
        "value_coef": (VALUE_COEF, "set training.critic_learning_rate"),
        "value_clip": (VALUE_CLIP, "set training.critic_learning_rate"),
        "normalise_advantages": (True, "lower training.learning_rate"),
        "turn_trace": (None, "set training.trace"),
    }

    def __post_init__(self) -> None:
        AlgorithmSettings.__post_init__(self)
        check_positive(self, "minibatches", "critic_learning_rate")
        check_not_negative(self, "clip_low", "kl_coef", "entropy_coef")
        if not self.kl_coef:
            unread = ("reference", "kl_correction")
            refuse_unread(self, *unread, because="with kl_coef 0 nothing is compared")
        check_one_of("log_probabilities", self.log_probabilities, TOKEN_HEADS)
        check_share_prefixes(self.share_prefixes)
        check_one_of("critic", self.critic, CRITICS)
        if self.clip_high is not None:
            check_not_negative(self, "clip_high")
        if not 0 < self.discount <= 1:
            raise ConfigError(f"discount={self.discount}: use more than 0, at most 1.")
        if not 0 <= self.trace <= 1:
            raise ConfigError(f"trace={self.trace}: use 0 to 1.")
        if self.critic == "adapter" and self.gradient_checkpointing:
            raise ConfigError(
                "critic='adapter' with gradient_checkpointing: activations would be recomputed "
                "through the policy's adapter. Use critic 'base' or 'detached'."
            )

    @property
    def steps_per_batch(self) -> int:
        """One per minibatch and pass."""
        return self.iterations * self.minibatches

    def to_trl(self, output_dir: Path, *, temperature: float, seed: int, cpu: bool) -> Any:
        """TRL's `GRPOConfig`; its dapo loss is PPO's clipped one, averaged over tokens."""
        from trl import GRPOConfig  # noqa: PLC0415 - seconds; recipes must fail in the first one

        return GRPOConfig(
            **self.arguments(output_dir, seed=seed, cpu=cpu),
            **ROUTER_LOSS,
            beta=0.0,
            epsilon=self.clip_low,
            epsilon_high=self.clip_high,
            loss_type="dapo",
            use_bias_correction_kl=self.kl_correction,
            entropy_coef=self.entropy_coef,
            temperature=temperature,
            per_device_train_batch_size=2,
            num_generations=2,
        )

    def make_learner(
        self, name: str, base: BaseModel, *, temperature: float, seed: int
    ) -> AdapterLearner[Any]:
        """See `AlgorithmSettings`."""
        from srl_agents.trainers.ppo import PPOLearner  # noqa: PLC0415 - torch and TRL: seconds

        return PPOLearner(name, base, self, temperature, seed)

    def make_experience(
        self, learners: Mapping[str, Any], credit: Credit, teachers: Teachers
    ) -> Experience:
        """See `AlgorithmSettings`."""
        from srl_agents.trainers.ppo import CriticRows  # noqa: PLC0415 - as above

        return CriticRows(learners, credit, teachers)

    def check(self, plan: Plan) -> None:
        """See `AlgorithmSettings`; a critic takes the place of what credit compares with."""
        AlgorithmSettings.check(self, plan)
        if self.critic == "adapter" and plan.checkpointed:
            raise ConfigError(
                f"{', '.join(plan.checkpointed)}.gradient_checkpointing turns it on for the whole base, "
                "and with training.critic 'adapter' activations would be recomputed through the policy's "
                "adapter. Use critic 'base' or 'detached'."
            )
        untouched = type(plan.credit)()
        for name in (
            "estimator",
            "discount",
            "trace",
            "estimator_options",
            "normalise",
        ):
            if getattr(plan.credit, name) != getattr(untouched, name):
                raise ConfigError(
                    f"credit.{name}: algorithm 'ppo' takes advantages from its critic and does not "
                    "read it; see discount and trace in training."
                )
        if plan.scale_advantages:
            raise ConfigError(
                "scale_advantages: algorithm 'ppo' has no groups; it scales over the batch's tokens."
            )
        if plan.credit.potential and self.discount != 1:
            raise ConfigError(
                f"training.discount={self.discount}: credit.potential shapes without discount, and "
                "keeps what is best only if the critic has none either. Use 1."
            )
