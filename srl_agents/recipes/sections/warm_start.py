"""Settings of imitation before the first match of one's own: frozen data, checked when made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from srl_agents.league.settings import UpdatesSettings, require
from srl_agents.trainers.supervised.sft_settings import SFTSettings
from srl_envs.reading.settings import Removed, with_defaults


@dataclass(frozen=True, kw_only=True, slots=True)
@with_defaults(updates=60)
class WarmStartSettings(UpdatesSettings):
    """Bots play each other, and every learner imitates their replies, or those of recorded games; then the
    league begins."""

    bots: tuple[str, ...] = ()
    """Bots that play; every seat of a game draws one of them."""
    recorded: str = ""
    """A file that ``srl play --save`` or ``Transcript.save`` wrote, or a folder of such (``*.jsonl``): games
    of people, or of any other players, on the training split."""
    recorded_seats: tuple[int, ...] = ()
    """Whose replies of recorded games are imitated, counted from 0; those of all seats if absent."""
    keep: Literal["all", "best"] = "all"
    """``best``: only replies of seats with the best outcome of their table, draws included."""
    episodes: int = 128
    """Games that the bots play, if there are any, on seeds of the training split."""
    training: SFTSettings = field(default_factory=SFTSettings)
    """How learners imitate."""

    removed: ClassVar[Removed] = {
        "imitate": ([], "record games with `srl play --save`, and set warm_start.recorded_seats")
    }

    def __post_init__(self) -> None:
        require(
            bool(self.bots or self.recorded),
            "bots: name at least one, or recorded: name a file of games.",
        )
        require(
            bool(self.recorded) or not self.recorded_seats,
            "recorded_seats: the recipe has no recorded games; name them by recorded.",
        )
        require(
            all(seat >= 0 for seat in self.recorded_seats),
            f"recorded_seats={list(self.recorded_seats)}: seats are counted from 0.",
        )
        for name in self.bots:
            require(name != "held_out", "bots: 'held_out' is for rating only; imitate another bot.")
        for name in ("episodes", "updates"):
            value = getattr(self, name)
            require(value >= 1, f"{name}={value}: use 1 or more.")
