"""What the embedded engine's loop may do: frozen data, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from srl_agents.caching.policies.online import Eviction
from srl_agents.engines.protocol import ObjectiveSettings
from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class StepSettings(ObjectiveSettings):
    """What a step may do. All of it changes speed, and of replies the rounding at most."""

    eviction: Eviction = "lru"
    """What goes first where prompts need more than ``cache_gib``. ``lru``: what no prompt went through for
    the longest time. ``learned``: what is used least per token and time, by what was seen so far and which
    matches are over. Also ``segmented-lru``, ``decayed-lfu``, ``s3-fifo``."""
    step_tokens: int = 4096
    """Prompt tokens that one pass computes at most. A longer prompt is read in pieces, and replies that are
    being written get a token with each: with fewer, these wait less, and the long prompt waits longer."""


@dataclass(frozen=True, kw_only=True)
class DecodingRules(StepSettings):
    """What the loop of the embedded engine does: a recipe's settings, what follows from others, and three
    switches by which benchmarks measure what a part is worth."""

    max_rows: int = 64
    """Live rows at a time, at most."""
    eight_bits: bool = False
    """Keep prefixes in 8 bits while no row reads them, which changes what is read."""
    share_prefixes: bool = True
    """Compute what prompts of one version have in common once."""
    refill: bool = True
    """Give a finished reply's place away at once; otherwise when all of a batch have finished."""
    read_in_place: int = 192
    """Replies times tokens from which a shared prefix is read where it is; below, each copies it."""

    def __post_init__(self) -> None:
        for name in ("max_rows", "step_tokens", "read_in_place"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: use 1 or more.")
        if self.eviction not in get_args(Eviction):
            raise ConfigError(
                f"eviction={self.eviction!r}: use one of {', '.join(get_args(Eviction))}."
            )
