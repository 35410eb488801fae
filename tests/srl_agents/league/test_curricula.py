"""Curricula: shares of training from scores, without memory of their own."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.league.curricula import (
    CURRICULA,
    Arm,
    CurriculumSettings,
    Difficulty,
    LearningProgress,
    SuccessRate,
)
from srl_agents.league.matchmaking.arenas import apportion
from srl_envs.errors import ConfigError

KINDS = [CURRICULA.find(name)() for name in CURRICULA.names()]  # type: ignore[call-arg]
GAMES = st.lists(
    st.tuples(st.floats(0, 5).filter(lambda w: w == 0 or w > 0.01), st.integers(1, 3)),
    min_size=1,
    max_size=4,
).filter(lambda games: any(weight > 0 for weight, _ in games))
SCORES = st.lists(st.lists(st.tuples(st.integers(0, 11), st.floats(0, 1)), max_size=6), max_size=12)


def arms_of(games: list[tuple[float, int]]) -> list[Arm]:
    return [
        Arm(game=f"g{number}", level=level, levels=levels, weight=weight)
        for number, (weight, levels) in enumerate(games)
        for level in range(levels)
    ]


def taught(
    kind: CurriculumSettings, arms: list[Arm], updates: list[list[tuple[int, float]]]
) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for update in updates:
        scores: dict[int, list[float]] = {}
        for arm, score in update:
            scores.setdefault(arm % len(arms), []).append(score)
        state = kind.observed(arms, state, scores)
    return state


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
@settings(max_examples=40, deadline=None)
@given(games=GAMES, updates=SCORES)
def test_chances_sum_to_one_and_weight_0_is_never_drawn(
    kind: CurriculumSettings, games: list[tuple[float, int]], updates: list[list[tuple[int, float]]]
) -> None:
    arms = arms_of(games)
    chances_A = kind.chances(arms, taught(kind, arms, updates))
    assert chances_A.sum() == pytest.approx(1)
    assert (chances_A >= 0).all()
    by_game: Counter[str] = Counter()
    for arm, chance in zip(arms, chances_A, strict=True):
        by_game[arm.game] += chance
    assert all((by_game[arm.game] > 0) == (arm.weight > 0) for arm in arms)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
@settings(max_examples=40, deadline=None)
@given(games=GAMES, updates=SCORES, cut=st.integers(0, 12))
def test_a_state_goes_through_json_and_on(
    kind: CurriculumSettings,
    games: list[tuple[float, int]],
    updates: list[list[tuple[int, float]]],
    cut: int,
) -> None:
    arms = arms_of(games)
    state = json.loads(json.dumps(taught(kind, arms, updates[:cut])))
    before = json.dumps(state)
    for update in updates[cut:]:
        scores: dict[int, list[float]] = {}
        for arm, score in update:
            scores.setdefault(arm % len(arms), []).append(score)
        after = kind.observed(arms, state, scores)
        assert json.dumps(state) == before, "observed changed the state that it was given"
        state, before = after, json.dumps(after)
    whole = taught(kind, arms, updates)
    assert json.loads(json.dumps(whole)) == json.loads(json.dumps(state))
    assert np.array_equal(kind.chances(arms, whole), kind.chances(arms, state))


@settings(max_examples=200, deadline=None)
@given(
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda w: sum(w) > 0.01),
    slots=st.integers(1, 40),
    offset=st.floats(0, 1, exclude_max=True),
)
def test_each_arm_gets_its_share_of_the_slots_rounded_up_or_down(
    weights: list[float], slots: int, offset: float
) -> None:
    chances_A = np.array(weights) / sum(weights)
    drawn = apportion(chances_A, slots, offset)
    counts = Counter(drawn)
    assert len(drawn) == slots
    for arm, chance in enumerate(chances_A):
        assert abs(counts[arm] - slots * chance) < 1 + 1e-6
        assert chance > 0 or not counts[arm]


def test_success_rate_prefers_what_is_neither_won_nor_lost_always() -> None:
    kind, arms = SuccessRate(floor=0.1), arms_of([(1, 1), (1, 1), (1, 1)])
    state = kind.observed(arms, {}, {0: [1.0] * 50, 1: [0.0, 1.0] * 25, 2: [0.0] * 50})
    won, even, lost = kind.chances(arms, state)
    assert even > 3 * won
    assert even > 3 * lost


def test_learning_progress_prefers_what_moves_in_either_direction() -> None:
    kind, arms = LearningProgress(floor=0.1), arms_of([(1, 1), (1, 1), (1, 1)])
    state: dict[str, Any] = {}
    for update in range(8):
        state = kind.observed(arms, state, {0: [0.5], 1: [update / 8], 2: [1 - update / 8]})
    still, better, worse = kind.chances(arms, state)
    assert better == pytest.approx(worse)
    assert better > 5 * still


def test_difficulty_goes_up_when_it_is_easy_and_down_when_it_is_not() -> None:
    kind, arms = Difficulty(games=4, review=0.2), arms_of([(1, 3)])
    assert kind.chances(arms, {}).tolist() == [1, 0, 0]
    state = kind.observed(arms, {}, {0: [1.0] * 4})
    assert kind.chances(arms, state) == pytest.approx([0.2, 0.8, 0])
    state = kind.observed(arms, state, {0: [0.0] * 9, 1: [1.0] * 4})
    assert kind.chances(arms, state) == pytest.approx([0.1, 0.1, 0.8])
    state = kind.observed(arms, state, {2: [1.0] * 4})
    assert state["g0"][0] == 2, "no level is above the last"
    state = kind.observed(arms, state, {2: [0.0] * 4})
    assert state["g0"][0] == 1


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (SuccessRate, {"floor": 0.0}),
        (LearningProgress, {"fast": 0.01}),
        (Difficulty, {"raise_at": 0.2}),
        (Difficulty, {"review": 1.0}),
    ],
)
def test_settings_that_would_forget_games_are_refused(kind: Any, wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        kind(**wrong)
