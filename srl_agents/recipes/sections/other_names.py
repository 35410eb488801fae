"""Names of settings in other libraries and in earlier recipes; errors for such keys propose ours."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from srl_envs.errors import ConfigError, gather

_RATE, _GAMES, _NF4 = "training.learning_rate", "rollout.start_states", "quantization: nf4"

RECIPE = {
    "lr": _RATE,
    "beta": "training.kl_coef",
    "clip_range": "training.clip_low",
    "epochs": "training.iterations",
    "ppo_epochs": "training.iterations",
    "num_epochs": "updates",
    "num_train_epochs": "updates",
    "steps": "updates",
    "num_steps": "updates",
    "max_steps": "updates",
    "total_steps": "updates",
    "num_updates": "updates",
    "iterations": "updates",
    "optim": "training.optimizer",
    "trainer": "training.algorithm",
    "algo": "training.algorithm",
    "per_device_train_batch_size": "training.micro_batch_rows",
    "micro_batch_size": "training.micro_batch_rows",
    "batch_size": _GAMES,
    "train_batch_size": _GAMES,
    "num_envs": _GAMES,
    "n_envs": _GAMES,
    "num_generations": "rollout.group_size",
    "num_return_sequences": "rollout.group_size",
    "max_completion_length": "rollout.max_new_tokens",
    "max_tokens": "rollout.max_new_tokens",
    "r": "lora.rank",
    "lora_r": "lora.rank",
    "lora_rank": "lora.rank",
    "lora_alpha": "lora.alpha",
    "4bit": _NF4,
    "load_in_4bit": _NF4,
    "qlora": _NF4,
    "bnb_4bit": _NF4,
    "bf16": "dtype: bfloat16",
    "torch_dtype": "dtype",
    "precision": "dtype",
    "attn_implementation": "attention",
    "base_model": "model",
    "model_name": "model",
    "model_name_or_path": "model",
    "env_id": "env",
    "env_name": "env",
    "environment": "env",
    "game": "env",
    "games": "environments",
    "env_kwargs": "env_options",
    "save_steps": "checkpoint_every",
    "save_every": "checkpoint_every",
    "eval_steps": "evaluation.every",
    "eval_every": "evaluation.every",
    "wandb": "report_to: [wandb]",
    "trackio": "report_to: [trackio]",
    "vllm": "engine: vllm",
    "use_vllm": "engine: vllm",
    "adapter": "init_adapter",
    "agents": "opponents.agents",
    **{f"quantization: {name}": "nf4" for name in ("4bit", "4", "int4", "fp4", "qlora", "bnb")},
    **{f"dtype: {name}": "bfloat16" for name in ("bf16", "fp16", "float16", "half", "16")},
    **{f"dtype: {name}": "float32" for name in ("fp32", "float", "32")},
    **{
        f"attention: {name}": "flash_attention_2"
        for name in ("flash", "flash_attn", "flash_attention")
    },
    "parameters: adapter": "lora",
    "parameters: all": "full",
}
"""Keys and ``key: value`` of a whole recipe."""
LORA = {
    "r": "rank",
    "lora_r": "rank",
    "lora_rank": "rank",
    "lora_alpha": "alpha",
    "modules": "target_modules",
}
"""Keys of ``lora``."""
ROLLOUT = {
    "num_envs": "start_states",
    "n_envs": "start_states",
    "batch_size": "start_states",
    "num_generations": "group_size",
    "max_tokens": "max_new_tokens",
    "max_completion_length": "max_new_tokens",
}
"""Keys of ``rollout``."""
_POLICY = "set the policy of the fault in survival.policies"
REMOVED: dict[str, tuple[Any, str]] = {
    "survival.loss_growth": (1000.0, f"{_POLICY}, such as {{loss_exploded: go_on}}"),
    "survival.gradient_growth": (1000.0, f"{_POLICY}, such as {{gradient_exploded: go_on}}"),
    "survival.weight_growth": (100.0, f"{_POLICY}, such as {{weights_exploded: go_on}}"),
    "survival.stale_above": (16.0, "set asynchronous.max_staleness"),
    "survival.clock_jump_s": (60.0, f"{_POLICY}, such as {{clock_jumped: go_on}}"),
    "survival.entropy_patience": (5, f"{_POLICY}, such as {{entropy_collapsed: go_on}}"),
    "survival.reward_patience": (5, f"{_POLICY}, such as {{reward_collapsed: go_on}}"),
    "survival.most_skips": (3, f"{_POLICY}, such as {{loss_exploded: stop}}"),
    "survival.roll_back_rate": (0.3, "set survival.most_roll_backs"),
    "survival.close_deadline_s": (120.0, "set survival.phase_deadline_s"),
    "survival.min_free_memory_mib": (64.0, f"{_POLICY}, such as {{host_memory_low: go_on}}"),
    "exploiters.beaten_at": (0.7, "set exploiters.patience"),
    "exploiters.reset_chance": (0.25, "set exploiters.patience"),
    "coordination.teacher_limit": (5.0, "set coordination.teacher_weight"),
    "opponents.decay": (0.998, "choose another opponents.past_sampler"),
    "promotion.elo0": (0.0, "raise promotion.elo1"),
    "promotion.batch_pairs": (20, "set promotion.min_pairs"),
    "transport.anchor_every": (
        8,
        "take transport {{kind: files}}, which writes all versions whole",
    ),
    "training.normalise_advantages": (True, "lower training.learning_rate"),
    "reward_model.centering": (0.01, "lower reward_model.weight"),
    "engine.disk_folder": ("", "link RUN/kv to a faster disk"),
}
"""Dotted key of an earlier release -> the value that runs have now, and what to set instead. Folders of runs
name every key, so a key with this value is dropped."""


def drop_removed(data: dict[str, Any], place: str) -> None:
    """Take keys of earlier releases out of a recipe's plain values.

    Raises:
        ConfigError: with every one that has another value than runs have now.
    """
    gather(*(partial(_drop, data, place, key) for key in REMOVED))


def _drop(data: dict[str, Any], place: str, key: str) -> None:
    section, _, name = key.partition(".")
    values = data.get(section)
    if not isinstance(values, dict) or name not in values:
        return
    value, instead = values.pop(name), REMOVED[key][1]
    if value != REMOVED[key][0]:
        raise ConfigError(
            f"{place}: {key}={value!r}: this setting was removed, runs have {json.dumps(REMOVED[key][0])}. "
            f"Leave it out, or {instead}."
        )
