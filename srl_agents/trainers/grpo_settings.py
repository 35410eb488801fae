"""How one learner is updated by GRPO: frozen data, checked when made, without importing TRL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from srl_agents.trainers.update_settings import (
    UpdateSettings,
    check_not_negative,
    check_one_of,
    check_positive,
)
from srl_envs.errors import ConfigError

LossType = Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GRPOSettings(UpdateSettings):
    """Group-relative updates without a critic. Names are ours; `to_trl` translates them."""

    algorithm: Literal["grpo"] = "grpo"
    kl_coef: float = 0.0
    """Weight of the divergence from the frozen base; 0 computes no reference."""
    clip_low: float = 0.2
    """Probability ratios are clipped at 1 - clip_low."""
    clip_high: float | None = None
    """Probability ratios are clipped at 1 + clip_high; None: the same as clip_low."""
    loss_type: LossType = "dapo"
    """How TRL averages over tokens and rows."""
    ratio_level: Literal["token", "sequence"] = "token"
    """Probability ratios per token, or one per row (GSPO)."""
    max_completion_tokens: int = 64
    """Only dr_grpo: token sums are divided by it."""

    def __post_init__(self) -> None:
        UpdateSettings.__post_init__(self)
        check_positive(self, "max_completion_tokens")
        check_not_negative(self, "kl_coef", "clip_low")
        if self.clip_high is not None and self.clip_high < 0:
            raise ConfigError(f"clip_high={self.clip_high}: use 0 or more.")
        check_one_of("loss_type", self.loss_type, get_args(LossType))
        check_one_of("ratio_level", self.ratio_level, ("token", "sequence"))

    def to_trl(self, output_dir: Path, *, temperature: float, seed: int, cpu: bool) -> Any:
        """TRL's `GRPOConfig`.

        beta stays 0: TRL's own reference breaks on adapters that are not called "default".
        Batch and group sizes are placeholders, as rows come from outside.
        """
        from trl import GRPOConfig  # noqa: PLC0415 - seconds; recipes must fail in the first one

        return GRPOConfig(
            **self.arguments(output_dir, seed=seed, cpu=cpu),
            beta=0.0,
            epsilon=self.clip_low,
            epsilon_high=self.clip_high,
            loss_type=self.loss_type,
            importance_sampling_level=self.ratio_level,
            max_completion_length=self.max_completion_tokens,
            temperature=temperature,
            per_device_train_batch_size=2,
            num_generations=2,
        )
