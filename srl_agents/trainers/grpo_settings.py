"""Settings of GRPO: frozen data, checked when made, without importing TRL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from srl_agents.trainers.algorithms import (
    AlgorithmSettings,
    Plan,
    TokenLossSettings,
    check_group_size,
)
from srl_agents.trainers.update_settings import (
    ROUTER_LOSS,
    TOKEN_HEADS,
    check_not_negative,
    check_one_of,
    check_share_prefixes,
)
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import Removed, absent_unless_given, refuse_unread

if TYPE_CHECKING:
    from srl_agents.credit.by_game import Credit
    from srl_agents.models.base_model import BaseModel
    from srl_agents.trainers.experience import AdvantageRows, Teachers
    from srl_agents.trainers.learner import AdapterLearner

LossType = Literal[
    "grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo", "rloo"
]  # fmt: skip
_EXCHANGING: tuple[LossType, ...] = ("grpo", "dapo", "bnpo", "dr_grpo", "cispo")
"""Losses whose gradient at a ratio of 1 is that of the log-probability times the advantage."""
CONSTANT_TOKENS = 64
"""What dr_grpo divides token sums by: any constant, which the learning rate makes up for."""
RatioLevel = Literal["token", "sequence"]
Variant = Literal["grpo", "dapo", "dr_grpo", "gspo", "cispo", "rloo"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """Components of a GRPO variant that concern the loss."""

    loss_type: LossType = "dapo"
    ratio_level: RatioLevel = "token"
    clip_low: float = 0.2
    clip_high: float | None = None
    kl_coef: float = 0.0
    kl_correction: bool = True


VARIANTS: dict[Variant | None, Loss] = {
    None: Loss(),
    # arXiv:2402.03300: equation 4 is the divergence, section 4.2 its weight
    "grpo": Loss(loss_type="grpo", kl_coef=0.04, kl_correction=False),
    # arXiv:2503.14476; no divergence: section 2.3
    "dapo": Loss(loss_type="dapo", clip_high=0.28, kl_correction=False),
    # arXiv:2503.20783, whose beta is 0
    "dr_grpo": Loss(loss_type="dr_grpo", kl_correction=False),
    # arXiv:2507.18071 section 5.1; its objective leaves the divergence out
    "gspo": Loss(
        loss_type="grpo",
        ratio_level="sequence",
        clip_low=3e-4,
        clip_high=4e-4,
        kl_correction=False,
    ),
    # arXiv:2506.13585, without divergence; the cap is arXiv:2510.13786's
    "cispo": Loss(loss_type="cispo", clip_high=5.0, kl_correction=False),
    # arXiv:2402.14740; its divergence is a part of the reward, which is credit's and not the loss's
    "rloo": Loss(loss_type="rloo"),
}
"""Defaults of a variant, which a recipe may change. How advantages are made is the recipe's: its
``scale_advantages`` and ``credit.estimator``."""


@dataclass(frozen=True, kw_only=True, slots=True)
@absent_unless_given("clip_low", "kl_coef", "kl_correction")
class GRPOSettings(TokenLossSettings):
    """Group-relative updates without a critic. Names are ours; `to_trl` translates them.

    Source: arXiv:2402.03300 equation 3; `VARIANTS` name theirs.
    """

    activates: ClassVar[bool] = True
    algorithm: Literal["grpo"] = "grpo"
    variant: Variant | None = None
    """A published combination of the six below, which it sets where they are None: see `VARIANTS`.
    None: loss dapo, ratios per token, clipped at 0.2 on both sides, no divergence."""
    loss_type: LossType | None = None
    """TRL's loss: how it clips, and how it averages over tokens and rows."""
    ratio_level: RatioLevel | None = None
    """Probability ratios per token, or one per row (GSPO)."""
    pack_rows: bool = False
    """Put the rows of a micro-batch one after the other into one sequence without padding, which flash-attn's
    kernels read row by row; only with ``attention: flash_attention_2``. Gradients differ by rounding."""
    mix_learners: bool = True
    """Whether learners with few rows share micro-batches, each row through its own adapter; with LoRA,
    only without ``share_prefixes: true`` or ``pack_rows`` and in one process; with ``auto`` where that takes
    less than a quarter of the passes. Gradients differ by rounding."""

    removed: ClassVar[Removed] = {
        "max_completion_tokens": (CONSTANT_TOKENS, "scale training.learning_rate")
    }

    def __post_init__(self) -> None:
        AlgorithmSettings.__post_init__(self)
        check_not_negative(self, "entropy_coef")
        check_one_of("log_probabilities", self.log_probabilities, TOKEN_HEADS)
        check_share_prefixes(self.share_prefixes)
        if self.pack_rows and self.share_prefixes is True:
            raise ConfigError("pack_rows, share_prefixes: two layouts of one batch; leave one out.")
        if self.variant is not None:
            check_one_of("variant", self.variant, get_args(Variant))
        loss = self.loss
        check_not_negative(loss, "clip_low", "kl_coef")
        if not loss.kl_coef:
            unread = ("reference", "kl_correction")
            refuse_unread(self, *unread, because="with kl_coef 0 nothing is compared")
        if loss.clip_high is not None:
            check_not_negative(loss, "clip_high")
        check_one_of("loss_type", loss.loss_type, get_args(LossType))
        check_one_of("ratio_level", loss.ratio_level, get_args(RatioLevel))
        if loss.loss_type == "cispo" and (loss.clip_high is None or loss.clip_high < 1):
            raise ConfigError(
                f"clip_high={loss.clip_high}: loss_type 'cispo' cuts ratios at clip_high itself, so "
                "below 1 every token would be cut. Use 1 or more, such as 5."
            )
        if loss.loss_type == "rloo":
            for name in ("kl_coef", "entropy_coef"):
                if getattr(loss if name == "kl_coef" else self, name):
                    raise ConfigError(f"{name}={getattr(self, name)}: loss_type 'rloo' has none.")
            if self.ratio_level is not None:
                raise ConfigError("ratio_level: loss_type 'rloo' has one ratio per row always.")

    @property
    def loss(self) -> Loss:
        """The variant's loss, with what is set here in its place."""
        base = VARIANTS.get(self.variant, Loss())
        chosen = {
            name: getattr(base if getattr(self, name) is None else self, name)
            for name in Loss.__dataclass_fields__
        }
        return Loss(**chosen)

    def to_trl(self, output_dir: Path, *, temperature: float, seed: int, cpu: bool) -> Any:
        """TRL's `GRPOConfig`.

        beta stays 0: TRL's own reference breaks on adapters that are not called "default".
        Batch and group sizes are placeholders, as rows come from outside.
        """
        from trl import GRPOConfig  # noqa: PLC0415 - seconds; recipes must fail in the first one

        loss = self.loss
        return GRPOConfig(
            **self.arguments(output_dir, seed=seed, cpu=cpu),
            **ROUTER_LOSS,
            beta=0.0,
            epsilon=loss.clip_low,
            epsilon_high=loss.clip_high,
            # rloo is another trainer's loss, which is a mean over rows too
            loss_type="grpo" if loss.loss_type == "rloo" else loss.loss_type,
            importance_sampling_level=loss.ratio_level,
            use_bias_correction_kl=loss.kl_correction,
            entropy_coef=self.entropy_coef,
            max_completion_length=CONSTANT_TOKENS,
            temperature=temperature,
            per_device_train_batch_size=2,
            num_generations=2,
        )

    def make_learner(
        self, name: str, base: BaseModel, *, temperature: float, seed: int
    ) -> AdapterLearner[Any]:
        """See `AlgorithmSettings`."""
        from srl_agents.trainers.grpo import GRPOLearner  # noqa: PLC0415 - torch and TRL: seconds

        return GRPOLearner(name, base, self, temperature, seed)

    def make_experience(
        self, learners: Mapping[str, Any], credit: Credit, teachers: Teachers
    ) -> AdvantageRows:
        """See `AlgorithmSettings`."""
        from srl_agents.trainers.experience import AdvantageRows  # noqa: PLC0415 - as above

        return AdvantageRows(learners, credit, teachers)

    def check_exchange(self) -> None:
        """See `AlgorithmSettings`."""
        name = self.loss.loss_type
        if name not in _EXCHANGING:
            raise ConfigError(
                f"sharing.kind 'rollouts', training.loss_type={name!r}: its rows do not weigh as the mean of "
                f"their tokens. Use one of {', '.join(_EXCHANGING)}."
            )

    def check(self, plan: Plan) -> None:
        """See `AlgorithmSettings`; adds a variant's requirements on advantages."""
        AlgorithmSettings.check(self, plan)
        check_group_size(plan)
        credit, whole_replies = plan.credit, self.loss.loss_type == "rloo"
        if whole_replies and credit.estimator != "leave_one_out":
            raise ConfigError(
                "training.loss_type 'rloo' compares with the other attempts: set credit.estimator to "
                f"'leave_one_out', not {credit.estimator!r}."
            )
        if plan.scale_advantages and self.variant in ("rloo", "dr_grpo"):
            raise ConfigError(
                f"scale_advantages: variant {self.variant!r} does not divide by the deviation."
            )
        by_token = credit.importance_cap is not None and credit.importance_level == "token"
        if whole_replies and (by_token or plan.teacher):
            raise ConfigError(
                "loss_type 'rloo' weighs whole replies: a coordination kind with a teacher, such as "
                "'distillation', and credit.importance_cap of tokens are for others; for the second "
                "set credit.importance_level to 'sequence'."
            )
