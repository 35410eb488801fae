"""How much of a device's memory vLLM gets: a share of a GPU, and on a CPU what other programs leave."""

from __future__ import annotations

import os
from pathlib import Path

from srl_envs.errors import ConfigError

WITHOUT_TRAINER, BESIDE_TRAINER = 0.85, 0.4
"""Shares of a GPU's memory: where only vLLM uses the GPU, and where a trainer uses it, too."""
_OF_FREE = 0.5
"""Share of a CPU's free memory: the weights are read through the page cache, and other programs grow."""
_LEAST = 0.02
"""A smaller share holds no model; vLLM's own refusal then has the numbers."""


def require_share(share: float | None) -> None:
    """Refuse a number that is not a share of a device.

    Raises:
        ConfigError: names it.
    """
    if share is not None and not 0 < share <= 1:
        raise ConfigError(f"memory_share={share}: use more than 0, at most 1, or leave it out.")


def share_of(asked: float | None, gpu_share: float, *, cpu: bool) -> float:
    """The share that vLLM is started with.

    vLLM's build for CPUs takes its share of all memory, and ends where less than that is free.

    Args:
        asked: by the user; taken as it is.
        gpu_share: of a GPU, where nothing was asked for.
        cpu: whether vLLM computes on the CPU.
    """
    if asked is not None:
        return asked
    if not cpu:
        return gpu_share
    total, free = host_memory()
    return round(max(min(gpu_share, _OF_FREE * free / total), _LEAST), 3)


def host_memory(meminfo: Path = Path("/proc/meminfo")) -> tuple[int, int]:
    """(total, available) bytes of this machine, as vLLM counts them."""
    try:
        lines = (line.split() for line in meminfo.read_text().splitlines())
        found = {words[0]: int(words[1]) << 10 for words in lines}
        return found["MemTotal:"], found["MemAvailable:"]
    except (OSError, KeyError, ValueError):  # not Linux
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return total, total
