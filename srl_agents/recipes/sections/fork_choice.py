"""Settings of forks: which decisions of an update's matches are answered again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srl_agents.league.settings import require

_MOST = 64
"""Of alternatives: each is a match from the decision on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkSettings:
    """Which decisions of learners are answered again, how often, and where a path goes on.

    See docs/design/forks.md. The rows that are learned from are those of the matches and of their branches;
    an estimator of ``credit`` compares the alternatives, and decides whether one seat answers anew while the
    others on move keep their replies, or all together (magrpo).
    """

    alternatives: int = 4
    """Replies per decision, the one that was played among them: K - 1 branches each."""
    share: float = 1.0
    """Of the decisions of learning seats in each match, those that fork, at least one; in (0, 1]."""
    choose: Literal["chance", "entropy"] = "chance"
    """Only share below 1: which of them. ``entropy``: those whose replies were least expected, by the mean
    negative log-probability of their tokens."""
    seats: tuple[int, ...] = ()
    """Seats whose decisions fork, for games with roles; all that learn if empty."""
    path: Literal["parent", "sampled", "best"] = "parent"
    """Where later decisions fork. ``parent``: all in the match as it was played, at once. ``sampled``: round
    by round, in a random alternative of the decision before. ``best``: in the one with the highest outcome
    (AT-GRPO); in games with chance that picks luck."""
    chances: Literal["parent", "fresh"] = "parent"
    """Random events behind a fork. ``parent``: those that the match met, so that alternatives differ by their
    replies only. ``fresh``: drawn anew in each branch, but for what seats have seen."""
    tokens: int | None = None
    """Most reply tokens that branches of one update may be expected to take, counted as those of the parent
    from the decision on; decisions beyond do not fork. None: no limit."""

    def __post_init__(self) -> None:
        require(
            2 <= self.alternatives <= _MOST, f"alternatives={self.alternatives}: use 2 to {_MOST}."
        )
        require(0 < self.share <= 1, f"share={self.share}: use more than 0, at most 1.")
        require(
            self.choose == "chance" or self.share < 1,
            "choose='entropy' chooses nothing where share is 1; lower it.",
        )
        require(
            self.path == "parent" or self.share == 1,
            f"path={self.path!r}: every decision of the path forks; leave out share.",
        )
        require(
            all(seat >= 0 for seat in self.seats) and len(set(self.seats)) == len(self.seats),
            f"seats={self.seats}: use different numbers of 0 or more.",
        )
        require(self.tokens is None or self.tokens >= 1, f"tokens={self.tokens}: use 1 or more.")
