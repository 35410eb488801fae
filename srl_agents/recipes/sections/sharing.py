"""Settings of sharing between learners: frozen data, checked when made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from srl_agents.league.settings import RoundSettings, require
from srl_agents.sharing.exchange_settings import ExchangeSettings
from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.supervised.sft_settings import SFTSettings
from srl_envs.reading.settings import Removed, refuse_unread, with_defaults

TURNS = 2
"""Most turns of one demonstration, from the beginning of its episode."""
MOST_TOKENS = 256
"""Most tokens that demonstrations add to a prompt; the best are taken first."""
WINDOW = 10
"""Updates after which an episode is too old to be shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
@with_defaults(every=5)
class SharingSettings(RoundSettings):
    """Learners are shown the best recent training episodes of others, or learn from all rows of others."""

    kind: Literal["demonstrations", "sft", "dpo", "rollouts"]
    """``demonstrations``: as examples in its prompt; ``sft``: it imitates their replies; ``dpo``: it
    learns from pairs that their attempts made; ``rollouts``: in every update rows of others at states that
    both met join its batch, weighed by capability and probability."""
    top: int = 4
    """Episodes (pairs, for dpo) that a learner is shown per round, the best of all others'."""
    steps: int = 1
    """Only sft and dpo: optimizer steps per round, by an optimizer of their own."""
    sft: SFTSettings = field(default_factory=lambda: SFTSettings(learning_rate=1e-4))
    """Updates of kind ``sft``."""
    dpo: DPOSettings = field(default_factory=DPOSettings)
    """Updates of kind ``dpo``."""
    exchange: ExchangeSettings = field(default_factory=ExchangeSettings)
    """Only rollouts: weights of the rows of others."""

    removed: ClassVar[Removed] = {
        "max_tokens": (MOST_TOKENS, "lower sharing.top"),
        "turns": (TURNS, "lower sharing.top"),
        "window": (WINDOW, "lower sharing.every"),
    }

    def __post_init__(self) -> None:
        for name in ("every", "top", "steps"):
            value = getattr(self, name)
            require(value >= 1, f"{name}={value}: use 1 or more.")
        if self.kind == "rollouts":
            names = ("every", "top", "steps", "sft", "dpo")
            refuse_unread(self, *names, because="rollouts are exchanged in every update")
            return
        refuse_unread(self, "exchange", because=f"kind {self.kind!r} exchanges no rows")
        if self.kind == "demonstrations":
            refuse_unread(self, "steps", "sft", "dpo", because="demonstrations take no steps")
            return
        other = "dpo" if self.kind == "sft" else "sft"
        refuse_unread(self, other, because=f"kind {self.kind!r} does not read it")
