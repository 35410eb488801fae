"""Length terms by hand, and the laws they obey at every length."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.rewards.length import (
    CutThoughtsTerm,
    OverlongTerm,
    ThoughtCostTerm,
    TokenCostTerm,
    overlong_punishment,
)
from srl_agents.rewards.terms import Played
from srl_envs.errors import ConfigError
from tests.srl_agents.rewards.recorded import episode, turn


def test_the_punishment_is_that_of_the_paper() -> None:
    """DAPO's own numbers: at most 16,384 + 4,096 tokens, of which 4,096 are the buffer."""
    punished = {
        tokens: overlong_punishment(tokens, limit=20_480, buffer=4_096)
        for tokens in (0, 16_384, 17_408, 18_432, 20_480, 30_000)
    }
    assert punished == {
        0: 0.0,
        16_384: 0.0,
        17_408: -0.25,
        18_432: -0.5,
        20_480: -1.0,
        30_000: -1.0,
    }


@given(st.integers(1, 500), st.data())
def test_longer_replies_are_never_punished_less_and_never_more_than_one(
    limit: int, data: st.DataObject
) -> None:
    buffer = data.draw(st.integers(1, limit))
    values = [overlong_punishment(n, limit=limit, buffer=buffer) for n in range(limit + 20)]
    assert values == sorted(values, reverse=True)
    assert (values[0], values[limit], values[-1]) == (0.0, -1.0, -1.0)
    assert values[limit - buffer] == 0.0
    assert values[limit - buffer + 1] < 0.0


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_length_is_charged_and_never_paid(weight: float) -> None:
    with pytest.raises(ConfigError, match="weight="):
        TokenCostTerm(kind="token_cost", weight=weight)
    with pytest.raises(ConfigError, match="weight="):
        OverlongTerm(kind="overlong", weight=weight, buffer=4)


def test_a_buffer_fits_into_a_reply() -> None:
    OverlongTerm(kind="overlong", buffer=8).judge(8)
    with pytest.raises(ConfigError, match=r"buffer=9: replies end at rollout\.max_new_tokens=8"):
        OverlongTerm(kind="overlong", buffer=9).judge(8)
    with pytest.raises(ConfigError, match="buffer=0"):
        OverlongTerm(kind="overlong", buffer=0)


def test_thoughts_are_charged_apart_from_the_reply() -> None:
    own = replace(turn("a", 6), thought_tokens=4, forced_tokens=2)
    played = [Played(episode(own, turn("b", 3)), 0)]
    prices = {
        "thought_cost": ThoughtCostTerm(kind="thought_cost"),
        "cut_thoughts": CutThoughtsTerm(kind="cut_thoughts"),
        "token_cost": TokenCostTerm(kind="token_cost"),
        "overlong": OverlongTerm(kind="overlong", buffer=4),
    }
    assert {name: term.judge(8)(played) for name, term in prices.items()} == {
        "thought_cost": [[-4.0, 0.0]],
        "cut_thoughts": [[-0.5, 0.0]],
        "token_cost": [[-2.0, -3.0]],
        "overlong": [[0.0, 0.0]],
    }
