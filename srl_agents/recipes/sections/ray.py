"""Settings of a run on a Ray cluster: frozen data, checked when made, without Ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from srl_agents.league.settings import require
from srl_agents.recipes.sections.environment import WorkerSettings
from srl_agents.recipes.sections.generation import PatienceSettings
from srl_envs.reading.settings import Removed, with_defaults

PART_MATCHES = 16
"""Matches of a part in recipes without this setting."""
DEATHS = 3
"""Most workers that one part may take with it before the run stops, and trainers that may be lost in a row
without an update in between: more of either is the part's or the recipe's fault, not the machine's."""


@dataclass(frozen=True, kw_only=True, slots=True)
@with_defaults(workers=2)
class RaySettings(WorkerSettings, PatienceSettings):
    """Who trains and plays where with ``srl train --ray``; without the flag these settings have no effect.

    The trainer is one process, on a node that sees the run's folder. A worker is one process with its own
    base and engine. It plays parts of ``asynchronous.part_matches`` matches, each leased to it for
    ``patience_s``.
    """

    cpus: float = 1.0
    """CPUs that each of them takes from the cluster; each has as many threads, at least one."""
    gpus: float = 0.0
    """GPUs, likewise; a fraction shares one."""
    trainer_cpus: float = 1.0
    """CPUs that the trainer takes; each has as many threads, at least one."""
    trainer_gpus: float = 0.0
    """GPUs, likewise; without any it sees none."""

    removed: ClassVar[Removed] = {
        "lease_s": (600.0, "set ray.patience_s"),
        "threads": (1, "set ray.cpus"),
        "start_s": (600.0, "set ray.patience_s"),
        "silence_s": (600.0, "set ray.patience_s"),
        "deaths": (DEATHS, "start the run again, which goes on from its last checkpoint"),
    }

    def __post_init__(self) -> None:
        require(self.workers >= 1, f"ray.workers={self.workers}: use 1 or more.")
        for name in ("cpus", "gpus", "trainer_cpus", "trainer_gpus"):
            value = getattr(self, name)
            require(value >= 0, f"ray.{name}={value}: use 0 or more.")
        require(
            self.cpus + self.gpus > 0, "ray.cpus, ray.gpus: a worker takes some of one of them."
        )
        require(
            self.trainer_cpus + self.trainer_gpus > 0,
            "ray.trainer_cpus, ray.trainer_gpus: the trainer takes some of one of them.",
        )
        require(self.patience_s > 0, f"ray.patience_s={self.patience_s}: use more than 0.")
