"""Settings of faults: what a run does then, and the thresholds that define them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from srl_agents.recipes.sections.fault_kinds import FAULTS, Policy
from srl_envs.errors import ConfigError, nearest
from srl_envs.reading.settings import Removed

_POLICY = "set the policy of the fault in survival.policies"
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
MIN_FREE_DISK_MIB = 64.0
"""Besides two checkpoints, before an update."""
KL_ABOVE = 10.0
"""Nats per token, mean of an update."""
SAMPLER_KL_ABOVE = 1.0
"""Nats per token, mean of an update's first step."""
ENTROPY_BELOW = 0.001
"""Nats per token, mean of an update."""
SILENT_UPDATES = 10
"""Updates without one accepted reply of any learner, from the first on."""
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
    reply_deadline_s: float = 3600.0
    """Seconds for one reply, above what the engine allows itself."""
    phase_deadline_s: float = 86400.0
    """Seconds for one phase of an update, such as all of its play."""
    allow_nothing_learned: bool = False
    """A run without any optimizer step ends like any other, and its adapters are exported."""

    removed: ClassVar[Removed] = {
        "loss_growth": (LOSS_GROWTH, f"{_POLICY}, such as {{loss_exploded: go_on}}"),
        "gradient_growth": (GRADIENT_GROWTH, f"{_POLICY}, such as {{gradient_exploded: go_on}}"),
        "weight_growth": (WEIGHT_GROWTH, f"{_POLICY}, such as {{weights_exploded: go_on}}"),
        "stale_above": (STALE_ABOVE, "set asynchronous.max_staleness"),
        "clock_jump_s": (CLOCK_JUMP_S, f"{_POLICY}, such as {{clock_jumped: go_on}}"),
        "entropy_patience": (PATIENCE, f"{_POLICY}, such as {{entropy_collapsed: go_on}}"),
        "reward_patience": (PATIENCE, f"{_POLICY}, such as {{reward_collapsed: go_on}}"),
        "most_skips": (MOST_SKIPS, f"{_POLICY}, such as {{loss_exploded: stop}}"),
        "roll_back_rate": (ROLL_BACK_RATE, "set survival.most_roll_backs"),
        "close_deadline_s": (CLOSE_DEADLINE_S, "set survival.phase_deadline_s"),
        "min_free_memory_mib": (
            MIN_FREE_MEMORY_MIB,
            f"{_POLICY}, such as {{host_memory_low: go_on}}",
        ),
        "min_free_disk_mib": (MIN_FREE_DISK_MIB, f"{_POLICY}, such as {{disk_low: go_on}}"),
        "kl_above": (KL_ABOVE, f"{_POLICY}, such as {{kl_blown_up: go_on}}"),
        "sampler_kl_above": (
            SAMPLER_KL_ABOVE,
            f"{_POLICY}, such as {{sampler_differs: roll_back}}",
        ),
        "entropy_below": (ENTROPY_BELOW, f"{_POLICY}, such as {{entropy_collapsed: roll_back}}"),
        "silent_updates": (SILENT_UPDATES, f"{_POLICY}, such as {{never_accepted: go_on}}"),
        "hold_last_update": (True, "lower checkpoint_every"),
    }

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
        for name in ("reply_deadline_s", "phase_deadline_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)}: use more than 0.")
        if self.most_roll_backs < 0:
            raise ConfigError(f"most_roll_backs={self.most_roll_backs}: use 0 or more.")

    def policy(self, fault: str) -> Policy:
        """Policy for a fault of this name."""
        return self.policies.get(fault, FAULTS[fault].policy)
