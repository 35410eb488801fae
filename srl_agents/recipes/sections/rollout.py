"""Settings of rollouts: how a recipe collects experience."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from srl_agents.engines.protocol import FilterSettings, OrderSettings
from srl_agents.league.settings import require
from srl_agents.recipes.sections import other_names

_MOST = 1_000_000
"""Of whatever is counted here: an update's matches are a list in memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutSettings(FilterSettings, OrderSettings):
    """How experience is collected for one update."""

    other_names: ClassVar[Mapping[str, str]] = other_names.ROLLOUT
    start_states: int = 8
    """Start states per learner and update; each has one opponent."""
    group_size: int = 8
    """Attempts per start state; their mean is the baseline."""
    concurrency: int = 128
    """Matches that are live at once."""
    batch_rows: int = 64
    """Most replies in one call of the model."""
    trace: int = 0
    """Tokens per block of the request trace that the run writes to ``requests.jsonl`` in its folder, for
    ``srl plan kv --trace``; 0 writes none. With ``asynchronous`` it has the matches played ahead. Beside a
    trace all matches that are learned from, branches included, are in ``training_matches.jsonl``: ``srl
    watch RUN/ID`` replays one."""

    def __post_init__(self) -> None:
        require(self.trace >= 0, f"trace={self.trace}: use 0 (no trace) or tokens per block.")
        names = ("start_states", "group_size", "max_new_tokens", "concurrency", "batch_rows")
        for name in names:
            value = getattr(self, name)
            require(1 <= value <= _MOST, f"{name}={value}: use 1 to {_MOST}.")
        require(
            self.temperature > 0,
            f"temperature={self.temperature}: greedy play explores nothing. Use more than 0.",
        )
        require(self.top_k >= 0, f"top_k={self.top_k}: use 0 (all tokens) or more.")
        require(0 < self.top_p <= 1, f"top_p={self.top_p}: use more than 0, at most 1.")
        require(0 <= self.min_p <= 1, f"min_p={self.min_p}: use 0 to 1.")
