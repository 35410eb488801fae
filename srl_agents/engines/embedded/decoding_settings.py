"""What the embedded engine's loop may do: frozen data, without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from srl_agents.caching.objectives import Objectives
from srl_agents.caching.policies.online import Eviction
from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingSettings:
    """What a step may do. All of it changes speed, and of replies the rounding at most."""

    max_rows: int = 64
    """Live rows at a time, at most."""
    step_tokens: int = 4096
    """Prompt tokens that a step computes at most; a longer prompt is read in pieces, one per step."""
    refill: bool = True
    """Give a finished row's place away at once; otherwise when all live rows have finished."""
    share_prefixes: bool = True
    """Compute what prompts of one version have in common once."""
    read_in_place: int = 192
    """Rows times tokens from which a node of the tree is read where it is; below, rows copy it."""
    eviction: Eviction = "lru"
    """Which prefixes go first when memory is short."""
    objectives: Objectives = field(default_factory=Objectives)
    """Times by which waiting rows are put in order and begin, and by which long prompts are cut."""
    eight_bits: bool = False
    """Keep prefixes in 8 bits while no row reads them, which changes what is read."""

    def __post_init__(self) -> None:
        for name in ("max_rows", "step_tokens", "read_in_place"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: use 1 or more.")
        if self.eviction not in get_args(Eviction):
            raise ConfigError(
                f"eviction={self.eviction!r}: use one of {', '.join(get_args(Eviction))}."
            )
