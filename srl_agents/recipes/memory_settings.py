"""How much memory a run may take: frozen data, checked when made."""

from __future__ import annotations

from dataclasses import dataclass

from srl_agents.league.settings import require


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySettings:
    """What leaves memory between the phases of an update."""

    budget_gib: float | None = None
    """Most GiB that a phase may take: of a GPU what torch has allocated, on a CPU the process's resident
    memory, libraries included. What a phase does not touch (base, adapters, optimizer state, critic, reward
    model, frozen versions, the engine's cache) waits in files or in the host's memory meanwhile. A phase that
    takes more ends the run. None moves nothing."""

    def __post_init__(self) -> None:
        require(
            self.budget_gib is None or self.budget_gib > 0,
            f"budget_gib={self.budget_gib}: use more than 0, or leave it out.",
        )
