"""Curricula: each game's and level's share of training, from the learners' results.

A curriculum is a settings class without memory. What it goes by is a state of JSON values, one per
learner, that the league keeps and a checkpoint holds: the same state gives the same shares.

Axes: ``A`` arms, that is games and their levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from srl_agents.kinds import Kinds, KindSettings, Section, settings_of
from srl_agents.league.ratings.intervals import Floats
from srl_envs.errors import ConfigError

State = dict[str, Any]
"""JSON values; empty at the beginning."""
Scores = Mapping[int, Sequence[float]]
"""Arm -> what a learner's seats scored in it in one update, each in [0, 1]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One game at one level."""

    game: str
    level: int
    """From 0, the easiest."""
    levels: int
    """Number of the game's levels; 1 for a game without levels."""
    weight: float
    """Weight of the game, 0 or more."""

    @property
    def key(self) -> str:
        """Key of the arm in a state."""
        return f"{self.game}/{self.level}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CurriculumSettings(KindSettings, ABC):
    """One kind of curriculum."""

    needs_levels: ClassVar[bool] = False
    """Whether it does nothing where no game has levels."""

    @abstractmethod
    def chances(self, arms: Sequence[Arm], state: State) -> Floats:
        """(A,) chances of the arms, their sum 1; 0 exactly where the weight is 0.

        Args:
            arms: at least one with a weight above 0.
            state: from `observed`, or empty.
        """

    @abstractmethod
    def observed(self, arms: Sequence[Arm], state: State, scores: Scores) -> State:
        """The state after an update; ``state`` itself is not changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedShares(CurriculumSettings):
    """By the games' weights; levels of a game share its weight evenly."""

    kind: Literal["fixed"] = "fixed"
    """Games are drawn by their weights."""

    def chances(self, arms: Sequence[Arm], state: State) -> Floats:
        """See `CurriculumSettings`."""
        return weighted(arms)

    def observed(self, arms: Sequence[Arm], state: State, scores: Scores) -> State:
        """See `CurriculumSettings`."""
        return state


@dataclass(frozen=True, kw_only=True, slots=True)
class SuccessRate(CurriculumSettings):
    """More of what is sometimes won and sometimes lost: weight * p(1 - p).

    Source: learnability, arXiv:2408.15099 section 4. Difference: p is a running mean, drawn to 1/2 by
    ``prior_games``.
    """

    kind: Literal["success_rate"] = "success_rate"
    """Games are drawn by how often learners succeed in them."""
    decay: float = 0.98
    """What earlier games of an arm are worth after each of its games, in (0, 1]."""
    prior_games: float = 4.0
    """Games at one half that stand in for what is not known, more than 0."""
    floor: float = 0.2
    """Share of training that goes only by weight, in (0, 1]."""

    def __post_init__(self) -> None:
        _within("decay", self.decay, 0 < self.decay <= 1, "more than 0, at most 1")
        _within("prior_games", self.prior_games, self.prior_games > 0, "more than 0")
        _check_floor(self.floor)

    def chances(self, arms: Sequence[Arm], state: State) -> Floats:
        """See `CurriculumSettings`."""
        worth = []
        for arm in arms:
            games, points = state.get(arm.key, (0.0, 0.0))
            p = (points + self.prior_games / 2) / (games + self.prior_games)
            worth.append(p * (1 - p))
        return mixed(arms, np.array(worth), self.floor)

    def observed(self, arms: Sequence[Arm], state: State, scores: Scores) -> State:
        """See `CurriculumSettings`."""
        after = dict(state)
        for number, values in scores.items():
            games, points = after.get(arms[number].key, (0.0, 0.0))
            for value in values:
                games, points = games * self.decay + 1, points * self.decay + value
            after[arms[number].key] = [games, points]
        return after


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningProgress(CurriculumSettings):
    """More of what gets better, or worse: weight * |fast mean - slow mean| of the score.

    An arm that was never played counts as much as the best of the others. Source: arXiv:2106.14876
    section 3 (two means of different speed); arXiv:1707.00183 (absolute progress, so that what is being
    forgotten is played again). Difference: no reweighting of p.
    """

    kind: Literal["learning_progress"] = "learning_progress"
    """Games are drawn by how fast scores change."""
    fast: float = 0.3
    """Share of the way to an update's mean score that the fast mean moves, in (slow, 1]."""
    slow: float = 0.05
    """Share of the way to an update's mean score that the slow mean moves, more than 0."""
    floor: float = 0.2
    """Share of training that goes only by weight, in (0, 1]."""

    def __post_init__(self) -> None:
        _within("slow", self.slow, self.slow > 0, "more than 0")
        _within(
            "fast", self.fast, self.slow < self.fast <= 1, f"more than slow={self.slow}, at most 1"
        )
        _check_floor(self.floor)

    def chances(self, arms: Sequence[Arm], state: State) -> Floats:
        """See `CurriculumSettings`."""
        known = {key: abs(fast - slow) for key, (fast, slow) in state.items()}
        most = max(known.values(), default=1.0)
        return mixed(arms, np.array([known.get(arm.key, most) for arm in arms]), self.floor)

    def observed(self, arms: Sequence[Arm], state: State, scores: Scores) -> State:
        """See `CurriculumSettings`."""
        after = dict(state)
        for number, values in scores.items():
            if len(values):
                mean, key = float(np.mean(values)), arms[number].key
                fast, slow = after.get(key, (mean, mean))
                after[key] = [
                    fast + self.fast * (mean - fast),
                    slow + self.slow * (mean - slow),
                ]
        return after


@dataclass(frozen=True, kw_only=True, slots=True)
class Difficulty(CurriculumSettings):
    """One level of each game at a time: up when it is easy, down when it is too hard.

    Games get their weights' shares. A part of a game's share goes to the levels below the present one,
    evenly, so that they are not forgotten.
    """

    kind: Literal["difficulty"] = "difficulty"
    """A game's levels open one after the other, from easy to hard."""
    needs_levels: ClassVar[bool] = True
    raise_at: float = 0.7
    """Mean score at which the next level begins."""
    lower_at: float = 0.3
    """Mean score at which the level before begins again."""
    games: int = 32
    """Seats at the present level before either is decided."""
    review: float = 0.2
    """Share of a game's training at the levels below, in [0, 1)."""

    def __post_init__(self) -> None:
        fits = 0 <= self.lower_at < self.raise_at <= 1
        _within("raise_at", self.raise_at, fits, f"more than lower_at={self.lower_at}, at most 1")
        _within("games", self.games, self.games >= 1, "1 or more")
        _within("review", self.review, 0 <= self.review < 1, "0 to below 1")

    def chances(self, arms: Sequence[Arm], state: State) -> Floats:
        """See `CurriculumSettings`."""
        shares = []
        for arm in arms:
            level = state.get(arm.game, (0, 0, 0.0))[0]
            review = self.review if level else 0.0
            own = 1 - review if arm.level == level else review / level if arm.level < level else 0
            shares.append(arm.weight * own)
        return np.array(shares) / sum(shares)

    def observed(self, arms: Sequence[Arm], state: State, scores: Scores) -> State:
        """See `CurriculumSettings`."""
        after = dict(state)
        for number, values in scores.items():
            arm = arms[number]
            level, games, points = after.get(arm.game, (0, 0, 0.0))
            if arm.level == level:
                games, points = games + len(values), points + float(sum(values))
                after[arm.game] = self._decided(level, games, points, arm.levels)
        return after

    def _decided(self, level: int, games: int, points: float, levels: int) -> list[float]:
        if games < self.games:
            return [level, games, points]
        mean = points / games
        step = (mean >= self.raise_at) - (mean <= self.lower_at)
        return [min(max(level + step, 0), levels - 1), 0, 0.0]


CURRICULA: Kinds[type[CurriculumSettings]] = Kinds(
    what="curriculum",
    group="srl_agents.curricula",
    built_in={
        "fixed": "srl_agents.league.curricula:FixedShares",
        "success_rate": "srl_agents.league.curricula:SuccessRate",
        "learning_progress": "srl_agents.league.curricula:LearningProgress",
        "difficulty": "srl_agents.league.curricula:Difficulty",
    },
    fault=settings_of(CurriculumSettings, "kind"),
)
"""Names for recipes."""
CURRICULUM = Section(kinds=CURRICULA, key="kind", default="fixed")
"""For the field that holds one."""


def weighted(arms: Sequence[Arm]) -> Floats:
    """(A,) chances in proportion to the weights."""
    weights_A = np.array([arm.weight / arm.levels for arm in arms])
    return np.asarray(weights_A / weights_A.sum())


def mixed(arms: Sequence[Arm], worth_A: Floats, floor: float) -> Floats:
    """(A,) chances of which ``floor`` goes by weight, and the rest by weight times worth."""
    plain_A = weighted(arms)
    drawn_A = plain_A * worth_A
    total = drawn_A.sum()
    return plain_A if total <= 0 else floor * plain_A + (1 - floor) * drawn_A / total


def _check_floor(floor: float) -> None:
    _within(
        "floor",
        floor,
        0 < floor <= 1,
        "more than 0 (else a game may never be seen again), at most 1",
    )


def _within(name: str, value: float, fits: bool, allowed: str) -> None:
    if not fits:
        raise ConfigError(f"{name}={value}: use {allowed}.")
