"""Name of this project's distribution, and the packages of its extras.

The import names (`srl_envs`, `srl_agents`, `leaderboards`) and the command ``srl`` are other names:
the distribution ``srl`` belongs to another project. Every error and card that names a package to
install asks here.
"""

from __future__ import annotations

DISTRIBUTION = "srl-envs"
"""Name of the distribution, as in ``pip install``; pyproject.toml has the same."""

EXTRAS: dict[str, tuple[str, ...]] = {
    "cli": ("tyro", "rich", "yaml", "cryptography", "shtab", "PIL"),
    "rewards": ("jsonschema", "re2"),
    "train": (
        "torch", "transformers", "trl", "peft", "bitsandbytes", "accelerate", "datasets",
        "pyarrow", "safetensors", "tokenizers", "gguf", "huggingface_hub", "httpx2", "tensorboard",
    ),
    "endpoints": ("httpx2",),
    "math": ("math_verify",),
    "analysis": ("pyarrow", "duckdb"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
    "puzzles": ("reasoning_gym",),
    "open-spiel": ("pyspiel",),
    "inspect": ("inspect_ai", "httpx"),
    "textarena": ("textarena",),
    "openenv": ("openenv",),
    "verifiers": ("verifiers",),
    "skyrl": ("skyrl_gym",),
    "tinker": ("tinker", "tinker_cookbook"),
    "ray": ("ray",),
    "rllib": ("ray",),
    "sb3": ("stable_baselines3", "sb3_contrib"),
}  # fmt: skip
"""Extra of the distribution -> modules that come with it."""


def install_command(extra: str) -> str:
    """What to type for an extra, quoted for every shell: ``pip install "srl-envs[rewards]"``.

    Raises:
        KeyError: the extra does not exist.
    """
    if extra not in EXTRAS:
        raise KeyError(extra)
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def extra_with(module: str) -> str | None:
    """The extra that brings a top-level module; None if none does."""
    return next((extra for extra, modules in EXTRAS.items() if module in modules), None)
