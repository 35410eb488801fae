"""Settings of faults: the thresholds that define them, and what a run does then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from srl_agents.recipes.sections.fault_kinds import FAULTS, Policy
from srl_envs.errors import ConfigError, nearest

# Limits that no run needs to tune: healthy runs stay far below them, and `policies` answers a false alarm.
LOSS_GROWTH = 1000.0
"""Times the median of the absolute losses before, which counts as 1 at least."""
GRADIENT_GROWTH = 1000.0
"""Times the median of the norms before."""
WEIGHT_GROWTH = 100.0
"""Times the norm of the weights that the run began with."""
STALE_ABOVE = 16.0
"""Mean age of a batch's rows in optimizer steps; ``asynchronous.max_staleness`` drops older ones before."""
PATIENCE = 5
"""Updates in a row of an entropy that is too low, or a reward that fell; before, there must be twice as many
rewards."""
MOST_SKIPS = 3
"""Updates in a row that one learner may skip; then the run stops."""
ROLL_BACK_RATE = 0.3
"""Factor of the learning rate at every roll-back: at the same rate the same would happen again."""
CLOSE_DEADLINE_S = 120.0
"""Seconds to give engines, environments and the store back."""
MIN_FREE_MEMORY_MIB = 64.0
"""Of the host, before an update."""
CLOCK_JUMP_S = 60.0
"""Seconds within one update, more than any time server corrects at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SurvivalSettings:
    """Faults are in ``docs/reference/faults.md``, each with its default policy; ``policies`` sets others."""

    policies: dict[str, Policy] = field(default_factory=dict)
    """Fault -> ``go_on``, ``skip_batch``, ``halve_micro_batch``, ``halve_play``, ``roll_back`` or
    ``stop``."""
    most_roll_backs: int = 3
    """Most roll-backs of the whole run; then it stops."""
    kl_above: float = 10.0
    """Nats per token, mean of an update."""
    sampler_kl_above: float = 1.0
    """Nats per token, mean of an update's first step."""
    entropy_below: float = 0.001
    """Nats per token, mean of an update."""
    silent_updates: int = 10
    """Updates without one accepted reply of any learner, from the first on."""
    reply_deadline_s: float = 3600.0
    """Seconds for one reply, above what the engine allows itself."""
    phase_deadline_s: float = 86400.0
    """Seconds for one phase of an update, such as all of its play."""
    min_free_disk_mib: float = 64.0
    """Besides two checkpoints, before an update; 0 looks at nothing."""
    hold_last_update: bool = True
    """Keep a copy of adapters and optimizers in host memory after updates that wrote no checkpoint, for a
    stop between two checkpoints. Whole weights are never copied: a stop before an update's steps writes them
    as they are, and Ctrl-C or SIGTERM after the first step lets the update end."""
    allow_nothing_learned: bool = False
    """A run without any optimizer step ends like any other, and its adapters are exported."""

    _ABOVE_ZERO: ClassVar = (
        "kl_above", "sampler_kl_above", "reply_deadline_s", "phase_deadline_s",
    )  # fmt: skip
    _FROM_ZERO: ClassVar = (
        "most_roll_backs", "entropy_below", "min_free_disk_mib",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for fault, policy in self.policies.items():
            if fault not in FAULTS:
                raise ConfigError(
                    f"policies: no fault {fault!r}.{nearest(fault, FAULTS)} Faults: {', '.join(FAULTS)}."
                )
            if policy not in FAULTS[fault].may:
                raise ConfigError(
                    f"policies: {fault} cannot be answered by {policy!r}; use "
                    f"{' or '.join(map(repr, FAULTS[fault].may))}."
                )
        if self.silent_updates < 1:
            raise ConfigError(f"silent_updates={self.silent_updates}: use 1 or more.")
        for name in self._ABOVE_ZERO:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)}: use more than 0.")
        for name in self._FROM_ZERO:
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name}={getattr(self, name)}: use 0 or more.")

    def policy(self, fault: str) -> Policy:
        """Policy for a fault of this name."""
        return self.policies.get(fault, FAULTS[fault].policy)
