"""How one learner is updated by GRPO: frozen data, checked when made, without importing TRL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from srl_envs.errors import ConfigError, nearest

OPTIMIZERS = (
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_8bit",
    "paged_adamw_8bit",
    "lion_8bit",
    "paged_lion_8bit",
    "ademamix_8bit",
    "adafactor",
    "sgd",
)
"""Names of transformers' optimizers that updates are tested with or that differ in memory alone."""

LossType = Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GRPOSettings:
    """How one learner is updated. Names are ours; `to_trl` translates them."""

    learning_rate: float = 1e-4
    """Step size of the optimizer, after warm-up."""
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
    optimizer: str = "adamw_torch"
    """One of `OPTIMIZERS`; the 8-bit ones are bitsandbytes' and work on the CPU too."""
    weight_decay: float = 0.0
    """Decoupled weight decay per update, times the learning rate."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm; 0 clips nothing."""
    schedule: Literal["constant", "linear"] = "constant"
    """Learning rate after warm-up; linear falls to 0 at total_updates."""
    warmup_updates: int = 0
    """Updates in which the learning rate rises from 0."""
    total_updates: int = 0
    """Updates of the whole run; only the linear schedule needs it."""
    iterations: int = 1
    """Optimizer steps that `update` takes on one batch."""
    micro_batch_rows: int = 16
    """Rows in one forward and backward pass; changes memory and speed, not the result."""
    max_completion_tokens: int = 64
    """Only dr_grpo: token sums are divided by it."""
    gradient_checkpointing: bool = False
    """Recompute activations: less memory, more time. On for the whole base once one asks."""

    def __post_init__(self) -> None:
        positive = ("learning_rate", "micro_batch_rows", "iterations", "max_completion_tokens")
        for name in positive:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)}: use more than 0.")
        for name in ("kl_coef", "weight_decay", "max_grad_norm", "warmup_updates", "clip_low"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name}={getattr(self, name)}: use 0 or more.")
        if self.clip_high is not None and self.clip_high < 0:
            raise ConfigError(f"clip_high={self.clip_high}: use 0 or more.")
        _one_of("loss_type", self.loss_type, get_args(LossType))
        _one_of("ratio_level", self.ratio_level, ("token", "sequence"))
        _one_of("schedule", self.schedule, ("constant", "linear"))
        _one_of("optimizer", self.optimizer, OPTIMIZERS)
        if self.schedule == "linear" and self.total_updates <= self.warmup_updates:
            raise ConfigError(
                f"total_updates={self.total_updates}: the linear schedule needs the length of the "
                f"run, more than warmup_updates={self.warmup_updates}."
            )

    def to_trl(self, output_dir: Path, *, temperature: float, seed: int, cpu: bool) -> Any:
        """TRL's `GRPOConfig`.

        beta stays 0: TRL's own reference breaks on adapters that are not called "default".
        Batch and group sizes are placeholders, as rows come from outside.
        """
        from trl import GRPOConfig  # noqa: PLC0415 - seconds; recipes must fail in the first one

        return GRPOConfig(
            output_dir=str(output_dir),
            learning_rate=self.learning_rate,
            beta=0.0,
            epsilon=self.clip_low,
            epsilon_high=self.clip_high,
            loss_type=self.loss_type,
            importance_sampling_level=self.ratio_level,
            optim=self.optimizer,
            weight_decay=self.weight_decay,
            max_grad_norm=self.max_grad_norm,
            lr_scheduler_type="linear" if self.schedule == "linear" else "constant_with_warmup",
            warmup_steps=self.warmup_updates,
            max_steps=max(self.total_updates, 1),
            max_completion_length=self.max_completion_tokens,
            temperature=temperature,
            seed=seed,
            per_device_train_batch_size=2,
            num_generations=2,
            gradient_checkpointing=False,  # `GRPOLearner` turns it on; TRL would in train() only
            bf16=False,
            use_cpu=cpu,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            logging_strategy="no",
        )


def _one_of(name: str, value: str, known: Any) -> None:
    if value not in known:
        raise ConfigError(f"{name}={value!r} is unknown.{nearest(value, known)} Known: {[*known]}.")
