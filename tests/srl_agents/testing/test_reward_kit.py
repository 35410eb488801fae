"""The kit passes the kinds that ship, and finds what each broken one does wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from srl_agents.rewards.length import OverlongTerm, TokenCostTerm
from srl_agents.rewards.rubric_term import RubricTerm
from srl_agents.rewards.terms import Judge, Played, RewardTerm
from srl_agents.testing import check_reward
from srl_agents.testing.reward_kit import PROMISES
from srl_envs.testing import ConformanceError

Values = list[list[float | None]]


def per_turn(played: Sequence[Played], value: float) -> Values:
    return [[value for _ in own.trajectory.turns] for own in played]


@dataclass(frozen=True, kw_only=True)
class OneNumberPerSeat(RewardTerm):
    """one number per turn"""

    def judge(self, max_new_tokens: int) -> Judge:
        return lambda played: [[1.0] for _ in played]


@dataclass(frozen=True, kw_only=True)
class MeanOfNothing(RewardTerm):
    """one number per turn"""

    def judge(self, max_new_tokens: int) -> Judge:
        return lambda played: per_turn(played, math.nan)


@dataclass(frozen=True, kw_only=True)
class Counting(RewardTerm):
    """the same again"""

    def judge(self, max_new_tokens: int) -> Judge:
        calls = itertools.count()
        return lambda played: per_turn(played, float(next(calls)))


@dataclass(frozen=True, kw_only=True)
class AgainstTheMean(RewardTerm):
    """no neighbours"""

    def judge(self, max_new_tokens: int) -> Judge:
        return lambda played: per_turn(played, float(len(played)))


@dataclass(frozen=True, kw_only=True)
class HoldsAnObject(RewardTerm):
    """reads back"""

    held: Any = field(default_factory=object)

    def judge(self, max_new_tokens: int) -> Judge:
        return lambda played: per_turn(played, 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "weight", self.weight + 1)


BROKEN = [OneNumberPerSeat, MeanOfNothing, Counting, AgainstTheMean, HoldsAnObject]


@pytest.mark.parametrize(
    "term",
    [
        TokenCostTerm(kind="token_cost", weight=0.01),
        OverlongTerm(kind="overlong", buffer=4),
        *(RubricTerm(rubric="action-alone", replies=r) for r in ("each", "last", "accepted")),
    ],
    ids=lambda term: term.kind,
)
def test_what_ships_keeps_every_promise(term: RewardTerm) -> None:
    check_reward(term)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda kind: kind.__name__)
def test_what_is_broken_is_named_with_advice(broken: type[RewardTerm]) -> None:
    promise = str(broken.__doc__)
    with pytest.raises(ConformanceError, match=rf"reward 'mine', {promise}: .*\nWhat to do: "):
        check_reward(broken(kind="mine"))


def test_every_promise_has_a_kind_that_breaks_it() -> None:
    assert {str(broken.__doc__) for broken in BROKEN} == set(PROMISES)
