"""Settings of vLLM's cache of keys and values, by the names of its arguments. Source: vLLM 0.32."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from srl_envs.errors import ConfigError

HostEviction = Literal["lru", "arc", "learned"]
"""Policy that picks the blocks that leave host memory; ``learned`` is `srl_agents.caching.vllm_policy`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VLLMCache:
    """What vLLM keeps, how and where; ``block_tokens`` and ``cache_gib`` stand beside it."""

    prefix_cache: bool = True
    """Compute what prompts begin with once."""
    cache_type: str = "auto"
    """Of keys and values: ``auto`` is the model's own, ``fp8`` half of bfloat16, and what else vLLM's
    ``--kv-cache-dtype`` takes. Replies tell the log-probabilities that it gives."""
    host_gib: float = 0.0
    """GiB of host memory for blocks that a GPU has no room for; vLLM's build for CPUs has no such place."""
    host_eviction: HostEviction = "lru"
    """Policy of host memory. ``learned`` needs SRL in vLLM's environment."""

    def __post_init__(self) -> None:
        if not 0 <= self.host_gib < float("inf"):
            raise ConfigError(f"host_gib={self.host_gib}: use 0 or more.")
        if self.host_eviction not in get_args(HostEviction):
            raise ConfigError(
                f"host_eviction={self.host_eviction!r}: use one of {', '.join(get_args(HostEviction))}."
            )
        if not self.prefix_cache and self.host_gib:
            raise ConfigError(f"host_gib={self.host_gib}: without prefix_cache nothing is kept.")

    @property
    def learns(self) -> bool:
        """Whether our policy decides what leaves host memory."""
        return self.host_gib > 0 and self.host_eviction == "learned"

    def arguments(self, *, cpu_build: bool) -> dict[str, Any]:
        """Of vLLM's engine, by their names there.

        Args:
            cpu_build: whether it is vLLM's build for CPUs.

        Raises:
            ConfigError: this build has no tier in host memory.
        """
        found: dict[str, Any] = {"enable_prefix_caching": self.prefix_cache}
        if self.cache_type != "auto":
            found["kv_cache_dtype"] = self.cache_type
        if self.host_gib and cpu_build:
            raise ConfigError(
                f"host_gib={self.host_gib}: vLLM's build for CPUs has its whole cache in host memory, and "
                "refuses a second place there. Raise cache_gib instead."
            )
        if self.host_gib:
            found["kv_transfer_config"] = self._host_tier()
        return found

    def _host_tier(self) -> dict[str, Any]:
        extra: dict[str, Any] = {
            "spec_name": "TieringOffloadingSpec",
            "cpu_bytes_to_use": int(self.host_gib * 2**30),
            "eviction_policy": self.host_eviction,
        }
        if self.learns:
            extra["eviction_policy"] = "LearnedEviction"
            extra["cache_policy_module_path"] = "srl_agents.caching.vllm_policy"
        return {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        }


def command_line(arguments: Mapping[str, Any]) -> list[str]:
    """Arguments of vLLM's engine as options of its server's command."""
    line: list[str] = []
    for name, value in arguments.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            line.append(f"--{option}" if value else f"--no-{option}")
        else:
            line += [f"--{option}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return line
