"""Check, without torch, that optional packages of a model's settings are installed."""

from __future__ import annotations

import importlib.util

from srl_envs.errors import ConfigError


def require_installed(
    *, attention: str = "auto", quantization: str = "none", optimizer: str = "adamw_torch"
) -> None:
    """Refuse what cannot work without a package that is not installed.

    Args:
        attention: as recipes have it.
        quantization: likewise.
        optimizer: likewise.

    Raises:
        ConfigError: names the package.
    """
    if attention == "flash_attention_2" and not _there("flash_attn"):
        raise ConfigError(
            "attention='flash_attention_2': the package flash-attn is not installed. Install it (pip install "
            "flash-attn, with a GPU and its compiler), or use 'sdpa', whose kernels are fused, too."
        )
    if _there("bitsandbytes"):
        return
    if quantization == "nf4":
        raise ConfigError(
            "quantization='nf4': the package bitsandbytes is not installed. Install it, or use 'none'."
        )
    if "8bit" in optimizer:
        raise ConfigError(
            f"optimizer={optimizer!r}: the package bitsandbytes is not installed. Install it, or use "
            "'adamw_torch'."
        )


def _there(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
