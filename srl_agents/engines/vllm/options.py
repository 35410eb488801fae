"""Options of vLLM, each written once: what engines of recipes, servers and `srl serve` have in common.

The classes have no slots, so that a class of settings may derive from several of them.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srl_agents.closing_server import AddressOptions
from srl_agents.engines.vllm.cache import VLLMCache
from srl_agents.engines.vllm.memory_share import require_share
from srl_envs.errors import ConfigError

PYTHON = "SRL_VLLM_PYTHON"
"""Environment variable with the interpreter of the environment that vLLM is installed in."""


@dataclass(frozen=True, kw_only=True)
class VLLMOptions:
    """A vLLM, wherever it runs."""

    max_versions: int = 16
    """Adapters that vLLM holds at once: learners, and their frozen versions that play. vLLM evicts silently
    beyond that, so SRL refuses."""
    max_length: int | None = None
    """Prompt and reply together, in tokens; None takes the model's own."""
    block_tokens: int | None = None
    """Tokens in one block of the prefix cache: only whole blocks are shared. None takes vLLM's own."""
    cache_gib: int | None = None
    """Whole GiB of keys and values on a CPU; a GPU has ``memory_share`` instead."""
    cache: VLLMCache = field(default_factory=VLLMCache)
    """The prefix cache of a vLLM that SRL starts: its place, its type and its eviction."""
    memory_share: float | None = None
    """Of the device's memory, for vLLM's weights and cache together. None: 0.85 of a GPU, or 0.4 where a
    trainer needs the rest; on a CPU at most that, and at most half of what is free."""
    compiled: bool = True
    """Whether vLLM compiles and captures the model, which takes a minute at the start; without it
    (``--no-compiled`` of `srl serve`) it starts at once and samples more slowly."""

    def __post_init__(self) -> None:
        if self.max_versions < 1:
            raise ConfigError(f"max_versions={self.max_versions}: use 1 or more.")
        require_share(self.memory_share)


@dataclass(frozen=True, kw_only=True)
class VLLMStartOptions(VLLMOptions):
    """A vLLM server that SRL starts."""

    python: str = ""
    """Interpreter with vLLM; empty takes SRL_VLLM_PYTHON."""
    kv_events: bool = False
    """Count the blocks that the server stores and removes; `srl serve` shows them on --metrics-port."""
    start_timeout_s: float = 600.0
    """Seconds until the server's first reply, and to come back where it ended."""
    restarts: int = 3
    """Restarts of a server that died, at most."""
    arguments: tuple[str, ...] = ()
    """More of vLLM's own command-line arguments."""

    def __post_init__(self) -> None:
        VLLMOptions.__post_init__(self)
        if self.restarts < 0:
            raise ConfigError(f"restarts={self.restarts}: use 0 or more.")
        if self.start_timeout_s <= 0:
            raise ConfigError(f"start_timeout_s={self.start_timeout_s}: use more than 0.")


@dataclass(frozen=True, kw_only=True)
class VLLMServerSettings(VLLMStartOptions, AddressOptions):
    """How one vLLM server is started."""

    model: str
    """A folder; of `srl serve` also ``tiny``, ``smollm2-135m`` or a hub id."""
    lora_rank: int = 8
    """Largest rank of an adapter; 0 serves only the base."""
    max_running: int = 64
    """Replies in one batch."""
    dtype: str = "auto"
    """``auto`` takes the model's own, ``float32`` agrees best with the trainer on a CPU."""

    def __post_init__(self) -> None:
        VLLMStartOptions.__post_init__(self)
        if self.port is not None and not 0 <= self.port < 65536:
            raise ConfigError(f"port={self.port}: use 1 to 65535, or 0 for a free one.")
        if self.max_running < 1:
            raise ConfigError(f"max_running={self.max_running}: use 1 or more.")
        if self.lora_rank < 0:
            raise ConfigError(f"lora_rank={self.lora_rank}: use 0 or more.")

    @property
    def interpreter(self) -> str:
        """The interpreter to start it with.

        Raises:
            ConfigError: none is named, or the named one is not a file.
        """
        found = self.python or os.environ.get(PYTHON, "")
        if not found:
            raise ConfigError(
                f"vLLM lives in an environment of its own: name its interpreter with --python or {PYTHON}. "
                "`srl docs serve` shows how to make one."
            )
        if not Path(found).is_file():
            raise ConfigError(f"{found} is not an interpreter; give one that imports vllm.")
        return found


def server_settings(options: VLLMOptions, **own: Any) -> VLLMServerSettings:
    """Settings of a server with these options; ``own`` replaces or adds fields of `VLLMServerSettings`."""
    names = {f.name for f in dataclasses.fields(VLLMServerSettings)}
    given = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    return VLLMServerSettings(**{k: v for k, v in given.items() if k in names} | own)
