"""Credit of several games: each has its own rule, baselines and scale, and rows of all make one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from srl_agents.credit.critic import PaidTurn
from srl_agents.credit.settings import CreditSettings
from srl_agents.records import Episode, MatchSpec, Turn

Metrics = dict[str, float]
_COUNTS = ("rows",)
"""Metrics that add up; all others are means."""


class Credit(Protocol):
    """Turns episodes into what one learner learns from; `CreditAssigner` does it for one game."""

    @property
    def settings(self) -> CreditSettings:
        """How."""

    def assign(
        self, episodes: Sequence[Episode], learner: str, policy: str, *, keep_flat: bool = False
    ) -> tuple[list[tuple[Turn, float]], Metrics]:
        """See `CreditAssigner.assign`."""

    def paid_turns(
        self, episodes: Sequence[Episode], learner: str, policy: str
    ) -> tuple[list[PaidTurn], Metrics]:
        """See `CreditAssigner.paid_turns`."""

    def state(self) -> dict[str, Any]:
        """State that later updates depend on, as JSON values."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""


class CreditByGame:
    """Gives every episode to the credit of its game.

    Running means, adaptive weights, groups and normalisation are each game's own, so a game with large
    rewards moves no other's baseline and scale. With several games the metrics are means over the seats
    that were played, and there is ``game/NAME/...`` beside them.

    Args:
        credits: by game. What is the same for all rows of a batch (thoughts, importance weights) is read
            from the first.
        game_of: which game a match is of.
    """

    def __init__(self, credits: Mapping[str, Credit], game_of: Callable[[MatchSpec], str]) -> None:
        self._credits, self.game_of = dict(credits), game_of

    @property
    def several(self) -> bool:
        """Whether there is more than one game."""
        return len(self._credits) > 1

    @property
    def settings(self) -> CreditSettings:
        """Credit settings of the first game."""
        return next(iter(self._credits.values())).settings

    def assign(
        self, episodes: Sequence[Episode], learner: str, policy: str, *, keep_flat: bool = False
    ) -> tuple[list[tuple[Turn, float]], Metrics]:
        """See `CreditAssigner.assign`."""
        rows: list[tuple[Turn, float]] = []
        by_game: dict[str, tuple[int, Metrics]] = {}
        for game, own in self._by_game(episodes).items():
            found, metrics = self._credits[game].assign(own, learner, policy, keep_flat=keep_flat)
            rows += found
            by_game[game] = (_seats(own, policy), metrics)
        return rows, self._together(by_game)

    def paid_turns(
        self, episodes: Sequence[Episode], learner: str, policy: str
    ) -> tuple[list[PaidTurn], Metrics]:
        """See `CreditAssigner.paid_turns`."""
        paid: list[PaidTurn] = []
        by_game: dict[str, tuple[int, Metrics]] = {}
        for game, own in self._by_game(episodes).items():
            found, metrics = self._credits[game].paid_turns(own, learner, policy)
            first = 1 + max((turn.episode for turn in paid), default=-1)
            paid += [replace(turn, episode=first + turn.episode) for turn in found]
            by_game[game] = (_seats(own, policy), metrics)
        return paid, self._together(by_game)

    def state(self) -> dict[str, Any]:
        """By game, as JSON values."""
        return {game: credit.state() for game, credit in self._credits.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        for game, credit in self._credits.items():
            credit.load_state(state[game])

    def _by_game(self, episodes: Sequence[Episode]) -> dict[str, list[Episode]]:
        """In the order of the games, so that rows do not depend on who was drawn first."""
        found: dict[str, list[Episode]] = {game: [] for game in self._credits}
        for episode in episodes:
            found[self.game_of(episode.spec)].append(episode)
        return {game: own for game, own in found.items() if own}

    def _together(self, by_game: Mapping[str, tuple[int, Metrics]]) -> Metrics:
        if not self.several:
            return next((metrics for _, metrics in by_game.values()), {})
        together = mean_metrics(list(by_game.values()))
        for game, (_, metrics) in by_game.items():
            together |= {f"game/{game}/{name}": value for name, value in metrics.items()}
        return together


def games_of(credit: Credit) -> Callable[[MatchSpec], str] | None:
    """Which game a match is of, where rows of several make one batch."""
    if isinstance(credit, CreditByGame) and credit.several:
        return credit.game_of
    return None


def mean_metrics(weighted: Sequence[tuple[int, Metrics]]) -> Metrics:
    """Metrics of several sources as one: means by weight, sums of counts.

    Args:
        weighted: (weight, metrics); a name counts where it stands.
    """
    names = dict.fromkeys(name for _, metrics in weighted for name in metrics)
    together: Metrics = {}
    for name in names:
        own = [(weight, metrics[name]) for weight, metrics in weighted if name in metrics]
        total = sum(weight for weight, _ in own)
        if name in _COUNTS:
            together[name] = sum(value for _, value in own)
        elif total:
            together[name] = sum(weight * value for weight, value in own) / total
    return together


def _seats(episodes: Sequence[Episode], policy: str) -> int:
    """Valid seats in which a policy learned."""
    return sum(
        episode.spec.seats[seat] == policy
        for episode in episodes
        if episode.valid
        for seat in episode.spec.learner_seats
    )
