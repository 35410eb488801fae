"""What learners imitate before they play for themselves: frozen data, checked when made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from srl_agents.league.settings import require
from srl_agents.trainers.sft_settings import SFTSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmStartSettings:
    """Bots play each other, and every learner imitates their replies; then the league begins."""

    bots: tuple[str, ...]
    """Who plays; every seat of a game draws one of them."""
    imitate: tuple[str, ...] = ()
    """Whose replies are imitated; those of all bots if absent."""
    keep: Literal["all", "best"] = "all"
    """``best``: only replies of seats with the best outcome of their table, draws included."""
    episodes: int = 128
    """Games that the bots play, on seeds of the training split."""
    updates: int = 60
    """Optimizer steps per learner."""
    training: SFTSettings = field(default_factory=SFTSettings)
    """How learners imitate."""

    def __post_init__(self) -> None:
        require(bool(self.bots), "bots: name at least one.")
        for name in (*self.bots, *self.imitate):
            require(name != "held_out", "bots: 'held_out' is for rating only; imitate another bot.")
        strangers = [name for name in self.imitate if name not in self.bots]
        require(not strangers, f"imitate: {strangers} do not play; there are {list(self.bots)}.")
        for name in ("episodes", "updates"):
            value = getattr(self, name)
            require(value >= 1, f"{name}={value}: use 1 or more.")
