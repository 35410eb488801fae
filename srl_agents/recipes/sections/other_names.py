"""Names of settings in other libraries; errors for such keys propose ours."""

from __future__ import annotations

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
