"""Settings of any learner's steps: frozen data that every algorithm's settings extend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from srl_agents.trainers.prefix_sharing import ShareSetting
from srl_envs.errors import ConfigError, nearest
from srl_envs.reading.settings import Removed, refuse_unread

ROUTER_LOSS = {"router_aux_loss_coef": 0.0}
"""TRL's argument for mixtures of experts, whose routers are frozen: nothing is to be balanced."""
TOKEN_HEADS = ("auto", "chunked", "trl")
"""What scores tokens; see ``log_probabilities`` of an algorithm that has it."""
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
"""Names of transformers' optimizers that updates are tested with or that differ only in memory."""

_OTHER_NAMES = {
    "lr": "learning_rate",
    "optim": "optimizer",
    "beta": "kl_coef",
    "epsilon": "clip_low",
    "clip_range": "clip_low",
    "epochs": "iterations",
    "num_iterations": "iterations",
    "ppo_epochs": "iterations",
    "lr_scheduler_type": "schedule",
    "warmup_steps": "warmup_updates",
    "per_device_train_batch_size": "micro_batch_rows",
    "micro_batch_size": "micro_batch_rows",
    "bf16": "autocast",
    "kind": "algorithm",
    "updates": "updates, beside `training`",
    "group_size": "rollout.group_size",
    "num_generations": "rollout.group_size",
    "temperature": "rollout.temperature",
    "max_new_tokens": "rollout.max_new_tokens",
}
"""What these settings are called elsewhere, and settings that stand elsewhere in a recipe."""


@dataclass(frozen=True, kw_only=True)
class RankSettings:
    """Size of LoRA factors. Without slots, so that other settings may derive from it."""

    rank: int = 8
    """Rows of the first factor and columns of the second; a layer of M inputs and N outputs gets
    rank * (M + N) weights. Of a reward model only on a base of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateSettings:
    """Optimizer, schedule and memory. Names are ours; `arguments` translates them."""

    other_names: ClassVar[Mapping[str, str]] = _OTHER_NAMES
    removed: ClassVar[Removed] = {"min_8bit_size": (4096, "use optimizer: adamw_torch")}
    learning_rate: float = 1e-4
    """Step size of the optimizer, after warm-up. Of imitation 1e-3 unless given, of a reward model 5e-4."""
    optimizer: str = "adamw_torch"
    """One of `OPTIMIZERS`; the 8-bit ones are bitsandbytes' and work on the CPU too, where paged ones
    are not paged. Those keep 32-bit state of tensors below 4,096 entries, which most factors of a small model
    are. ``optimizer_mb`` has the real size."""
    weight_decay: float = 0.0
    """Decoupled weight decay per update, times the learning rate."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm; 0 clips nothing."""
    schedule: Literal["constant", "linear"] = "constant"
    """Learning rate after warm-up; linear falls to 0 at total_updates."""
    warmup_updates: int = 0
    """Optimizer steps in which the learning rate rises from 0."""
    total_updates: int = 0
    """Optimizer steps of the whole run; only the linear schedule needs it."""
    iterations: int = 1
    """Passes over one batch. Of PPO 2 unless given."""
    micro_batch_rows: int = 16
    """Rows in one forward and backward pass. Gradients accumulate over passes until the whole batch
    is read, so it changes memory and speed, not the result."""
    gradient_checkpointing: bool | Literal["auto"] = False
    """Recompute activations: less memory, more time. On for the whole base once one asks. ``auto``, for the
    learners of a run: on where `srl plan` finds that the run does not fit without it, with the memory
    free at its start."""
    autocast: bool = False
    """Forward passes in bfloat16 over weights of whatever type the base has; adapters and their
    gradients stay float32. The recipe's ``dtype`` is that of the base's weights."""

    def __post_init__(self) -> None:
        check_positive(self, "learning_rate", "micro_batch_rows", "iterations")
        check_not_negative(self, "weight_decay", "max_grad_norm", "warmup_updates")
        check_one_of("schedule", self.schedule, ("constant", "linear"))
        check_one_of("optimizer", self.optimizer, OPTIMIZERS)
        chosen = str(self.gradient_checkpointing)
        check_one_of("gradient_checkpointing", chosen, ("False", "True", "auto"))
        if self.schedule == "constant":
            refuse_unread(self, "total_updates", because="schedule 'constant' has no end")
        if self.schedule == "linear" and self.total_updates <= self.warmup_updates:
            raise ConfigError(
                f"total_updates={self.total_updates}: the linear schedule needs the length of the "
                f"run, more than warmup_updates={self.warmup_updates}."
            )

    @property
    def steps_per_batch(self) -> int:
        """Optimizer steps that one batch is good for, at most."""
        return self.iterations

    def arguments(self, output_dir: Path, *, seed: int, cpu: bool) -> dict[str, Any]:
        """Those arguments of transformers' `TrainingArguments` that all algorithms share."""
        return {
            "output_dir": str(output_dir),
            "learning_rate": self.learning_rate,
            "optim": self.optimizer,
            "weight_decay": self.weight_decay,
            "max_grad_norm": self.max_grad_norm,
            "lr_scheduler_type": "linear" if self.schedule == "linear" else "constant_with_warmup",
            "warmup_steps": self.warmup_updates,
            "max_steps": max(self.total_updates, 1),
            "seed": seed,
            "gradient_checkpointing": False,  # the learner turns it on; TRL would in train() only
            "bf16": self.autocast,
            "use_cpu": cpu,
            "report_to": [],
            "disable_tqdm": True,
            "save_strategy": "no",
            "logging_strategy": "no",
        }


@dataclass(frozen=True, kw_only=True)
class PrefixSettings:
    """How rows with a common beginning are read. Without slots: other settings have another base, too."""

    share_prefixes: ShareSetting = "auto"
    """Read what rows of a micro-batch begin with alike once instead of once per row. ``auto``: where the
    model's attention takes a mask per token, and rows are not packed. Gradients differ by rounding."""


def check_positive(settings: Any, *names: str) -> None:
    """Raise ConfigError for the first of these fields that is not above 0."""
    for name in names:
        if not getattr(settings, name) > 0:
            raise ConfigError(f"{name}={getattr(settings, name)}: use more than 0.")


def check_not_negative(settings: Any, *names: str) -> None:
    """Raise ConfigError for the first of these fields that is below 0."""
    for name in names:
        if not getattr(settings, name) >= 0:
            raise ConfigError(f"{name}={getattr(settings, name)}: use 0 or more.")


def check_share_prefixes(setting: bool | str) -> None:
    """Raise ConfigError for a ``share_prefixes`` that is none of the valid values."""
    check_one_of("share_prefixes", str(setting), ("False", "True", "auto"))


def check_one_of(name: str, value: str, known: Any) -> None:
    """Raise ConfigError, with the valid values, for a value that is none of them."""
    if value not in known:
        raise ConfigError(f"{name}={value!r} is unknown.{nearest(value, known)} Known: {[*known]}.")
