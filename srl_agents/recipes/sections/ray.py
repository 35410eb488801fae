"""Settings of a run on a Ray cluster: frozen data, checked when made, without Ray."""

from __future__ import annotations

from dataclasses import dataclass

from srl_agents.league.settings import require

PART_MATCHES = 16
"""Matches of a part in recipes without this setting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RaySettings:
    """Who trains and plays where with ``srl train --ray``; without the flag these settings have no effect.

    The trainer is one process, on a node that sees the run's folder. A worker is one process with its own
    base and engine. It plays parts of ``asynchronous.part_matches`` matches, each leased to it for a time.
    """

    workers: int = 2
    """Processes that play."""
    cpus: float = 1.0
    """CPUs that each of them takes from the cluster."""
    gpus: float = 0.0
    """GPUs, likewise; a fraction shares one."""
    threads: int = 1
    """Threads of arithmetic in each; Ray leaves OpenMP at one per CPU of the machine."""
    trainer_cpus: float = 1.0
    """CPUs that the trainer takes; it has as many threads of arithmetic, and one at least."""
    trainer_gpus: float = 0.0
    """GPUs, likewise; without any it sees none."""
    lease_s: float = 600.0
    """Seconds for one part, and for the weights before it; then it is played by another worker, and the
    one that has it is ended."""
    start_s: float = 600.0
    """Seconds for room, and for a worker or the trainer to start; then another one is started."""
    silence_s: float = 600.0
    """Seconds without a sign of life of the trainer's process; then it is ended, and another one goes on from
    the last checkpoint."""
    deaths: int = 3
    """How many workers one part may take with it before the run stops, and how many trainers may be lost in a
    row without an update in between."""

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "deaths"):
            value = getattr(self, name)
            require(value >= 1, f"ray.{name}={value}: use 1 or more.")
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
        for name in ("lease_s", "start_s", "silence_s"):
            value = getattr(self, name)
            require(value > 0, f"ray.{name}={value}: use more than 0.")
