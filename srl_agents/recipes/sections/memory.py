"""Settings of a run's memory and precision: frozen data, checked when made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srl_agents.league.settings import require

Island = Literal["norms", "head", "routers"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySettings:
    """What leaves memory between the phases of an update, and which numbers are how wide."""

    budget_gib: float | None = None
    """Most GiB that a phase may take: of a GPU what torch has allocated, on a CPU the process's resident
    memory, libraries included. What a phase does not touch (base, adapters, optimizer state, critic, reward
    model, frozen versions, the engine's cache) waits in files or in the host's memory meanwhile. A phase that
    takes more ends the run. None moves nothing."""
    float32_islands: tuple[Island, ...] = ()
    """Parts of a base in bfloat16 or 4 bits whose weights and products stay float32, in learning and in the
    embedded engine: ``norms``; ``head``, with the logits, for 2 bytes more per weight of the vocabulary, 4
    where the head was the embedding; ``routers`` of mixtures of experts."""
    tf32: bool = False
    """Let products of float32 matrices on a GPU round what they read to TensorFloat32, which is faster and
    less exact. On a CPU it changes nothing, and the run prints that."""
    sharded: bool = False
    """Divide the base's layers among the processes that torchrun started, so that each holds its part of them
    while learning (torch's FSDP2). While the embedded engine plays, each process has them whole; a vLLM
    server needs none of them here."""

    def __post_init__(self) -> None:
        require(
            self.budget_gib is None or self.budget_gib > 0,
            f"budget_gib={self.budget_gib}: use more than 0, or leave it out.",
        )
        require(
            not self.sharded or self.budget_gib is None,
            "sharded, budget_gib: what processes divide stays where it is. Leave out one of the two.",
        )
