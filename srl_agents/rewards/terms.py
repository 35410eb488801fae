"""Interface of reward terms: settings that build a judge of replies.

A kind is one frozen dataclass in one file. A recipe names it by a name in `REWARDS`, by the name of an
entry point in the group ``srl_agents.rewards``, or as ``package.module:Class``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from srl_agents.kinds import Kinds, Section, settings_of
from srl_agents.records import Episode, Trajectory
from srl_envs.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Played:
    """One learning seat's part of one episode."""

    episode: Episode
    seat: int

    @property
    def trajectory(self) -> Trajectory:
        """The seat's own part."""
        return self.episode.trajectories[self.seat]


Judge = Callable[[Sequence[Played]], Sequence[Sequence[float | None]]]
"""Seats of an update -> per seat one value for each of its turns, before the weight. A turn's value is
paid with the turn. None where the judge's own machinery failed: credit leaves the episode out."""


@dataclass(frozen=True, kw_only=True)
class RewardTerm(ABC):
    """One reward beside the game's; subclasses are frozen dataclasses with the keys of their section."""

    kind: str
    """Name of the kind, as a recipe gives it."""
    weight: float = 1.0
    """Reward units for a value of 1; below 0 for a penalty."""

    judges_thoughts: ClassVar[bool] = False
    """Whether it gives no value to replies without thoughts."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.weight) or self.weight == 0:
            raise ConfigError(f"weight={self.weight}: use a finite number other than 0.")

    @property
    def references(self) -> tuple[str, ...]:
        """Names of `Turn.references` that it reads; a recipe of a game without them is refused."""
        return ()

    @abstractmethod
    def judge(self, max_new_tokens: int) -> Judge:
        """Build what judges replies; called once when a recipe is checked and once in a run.

        Args:
            max_new_tokens: limit of a reply, tokens.

        Raises:
            ConfigError: the settings do not fit a run of this limit.
        """


REWARDS: Kinds[type[RewardTerm]] = Kinds(
    what="reward",
    group="srl_agents.rewards",
    built_in={
        "cut_thoughts": "srl_agents.rewards.length:CutThoughtsTerm",
        "overlong": "srl_agents.rewards.length:OverlongTerm",
        "puzzle": "srl_agents.rewards.puzzle:PuzzleTerm",
        "rubric": "srl_agents.rewards.rubric_term:RubricTerm",
        "thought_cost": "srl_agents.rewards.length:ThoughtCostTerm",
        "token_cost": "srl_agents.rewards.length:TokenCostTerm",
    },
    fault=settings_of(RewardTerm, "kind"),
)
REWARD_SECTION: Section[RewardTerm] = Section(kinds=REWARDS, key="kind", default="rubric")
