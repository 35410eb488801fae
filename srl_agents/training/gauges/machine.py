"""Load of the machine between two records: time by phase, processors, memory, speed of training."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import torch

from srl_agents.engines.meter import EngineSpeed
from srl_agents.models.memory.available import memory_of
from srl_agents.records import TrainingBatch
from srl_agents.rollouts.asking import PromptTokens
from srl_agents.trainers.learner import Batch
from srl_agents.training.gauges.gpu_load import GPULoad

_BYTES_PER_GB = 1e9


class SystemMeter:
    """Measures from one record to the next.

    Args:
        devices: that models are on.
        opened: closes what must be closed.
    """

    def __init__(self, devices: Sequence[torch.device], opened: ExitStack) -> None:
        self._gpus = [device for device in devices if device.type == "cuda"]
        self._load: GPULoad | None = None
        if self._gpus:
            self._load = GPULoad(
                lambda: round(sum(map(torch.cuda.utilization, self._gpus)) / len(self._gpus))
            )
            opened.callback(self._load.close)
        self._wall_s, self._processor_s = time.monotonic(), time.process_time()

    def measure(
        self, seconds: Mapping[str, float], batches: Mapping[str, Batch], prompts: PromptTokens
    ) -> dict[str, float]:
        """Metrics of the run; see `srl_agents.metrics.names`.

        Args:
            seconds: that each phase took since the last call.
            batches: by learner, what was learned from in phase ``update``.
            prompts: that engines read since the last call.
        """
        wall_s, processor_s = time.monotonic(), time.process_time()
        passed_s = max(wall_s - self._wall_s, 1e-9)
        cores = len(os.sched_getaffinity(0))
        found = {f"phase/{name}": took / passed_s for name, took in seconds.items()}
        found["system/cpu_share"] = (processor_s - self._processor_s) / passed_s / cores
        self._wall_s, self._processor_s = wall_s, processor_s
        tokens = sum(
            float(batch.completion_mask_RT.sum())
            for batch in batches.values()
            if isinstance(batch, TrainingBatch)
        )
        if tokens and seconds.get("update"):
            found["train_tokens_per_s"] = tokens / seconds["update"]
        if prompts.all:
            found["cache_share"] = prompts.cached / prompts.all
            found["cache_share/possible"] = prompts.possible / prompts.all
            found["prompt_tokens"] = prompts.all
            found["prompt_tokens/computed"] = prompts.all - prompts.cached
            found["requests_in_flight"] = prompts.in_flight
            found["environments_s"] = prompts.idle_s
            found |= _speed(prompts.speed)
        load = None if self._load is None else self._load.take()
        if load is not None:
            found["system/gpu_share"] = load
        return found | self._memory()

    def _memory(self) -> dict[str, float]:
        host = memory_of(torch.device("cpu"))
        found = {"memory/host_free_gb": host.free / _BYTES_PER_GB}
        if self._gpus:
            free = min(memory_of(device).free for device in self._gpus)
            found["memory/device_free_gb"] = free / _BYTES_PER_GB
            found["memory/reserved_gb"] = (
                sum(map(torch.cuda.memory_reserved, self._gpus)) / _BYTES_PER_GB
            )
        return found


def _speed(speed: EngineSpeed) -> dict[str, float]:
    """Quantiles, and how full batches were, where the engine reports it."""
    found = {
        f"{name}/p{share:.0%}".removesuffix("%"): durations.quantile(share)
        for name, durations in (
            ("first_token_s", speed.first_token), ("between_tokens_s", speed.between_tokens),
        )
        if durations.count
        for share in (0.5, 0.99)
    }  # fmt: skip
    if speed.steps:
        found["batch_rows"] = speed.rows / speed.steps
    if speed.host_tokens or speed.disk_tokens:
        found["prompt_tokens/host"] = speed.host_tokens
        found["prompt_tokens/disk"] = speed.disk_tokens
    if speed.blocks_stored or speed.blocks_removed:
        found["cache_blocks/stored"] = speed.blocks_stored
        found["cache_blocks/removed"] = speed.blocks_removed
    conducted = speed.conducted
    if conducted is not None and conducted.requests:
        for instance, requests in sorted(conducted.requests.items()):
            found[f"conductor/requests/{instance}"] = requests
        found["conductor/known_share"] = conducted.known / max(conducted.blocks, 1)
        found["conductor/moved"] = conducted.moved
    if speed.places:
        found["batch_share"] = speed.rows / speed.places
    return found
