"""Importance weights and a teacher's advantages against sums done by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.credit.token_weights import importance_weights, teacher_advantages
from srl_envs.errors import ConfigError, ShapeError

MASK = np.array([[True, True, False], [True, True, True]])


def test_fresh_tokens_weigh_one() -> None:
    logps = np.log(np.array([[0.5, 0.2, 0.9], [0.1, 0.3, 0.7]]))
    assert importance_weights(logps, logps, MASK, cap=2.0).tolist() == MASK.astype(float).tolist()


def test_token_and_sequence_weights_by_hand() -> None:
    sampled = np.log(np.array([[0.5, 0.25, 0.9], [0.1, 0.4, 0.5]]))
    now = np.log(np.array([[0.25, 0.375, 0.1], [0.4, 0.2, 0.25]]))
    token = importance_weights(now, sampled, MASK, cap=2.0)
    assert token == pytest.approx(np.array([[0.5, 1.5, 0.0], [2.0, 0.5, 0.5]]))
    sequence = importance_weights(now, sampled, MASK, cap=0.9, level="sequence")
    assert sequence == pytest.approx(np.array([[0.75, 0.75, 0.0], [0.9, 0.9, 0.9]]))


@given(st.floats(-900, 900), st.floats(0.1, 10))
def test_weights_are_finite_and_capped(gap: float, cap: float) -> None:
    one = np.ones((1, 1), bool)
    weight = importance_weights(np.array([[gap]]), np.zeros((1, 1)), one, cap=cap)[0, 0]
    assert 0 <= weight <= cap * (1 + 1e-12)
    assert weight == pytest.approx(min(np.exp(min(gap, 700)), cap))


def test_a_teacher_raises_what_it_finds_likelier() -> None:
    student = np.log(np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]))
    teacher = np.log(np.array([[1.0, 0.25, 0.1], [0.5, 1e-9, 0.75]]))
    got = teacher_advantages(student, teacher, MASK, weight=0.1, limit=5.0)
    by_hand = [[np.log(2), -np.log(2), 0], [0, -5, np.log(1.5)]]
    assert got == pytest.approx(0.1 * np.array(by_hand))


def test_weight_zero_has_no_influence_and_a_teacher_equal_to_the_student_none() -> None:
    student, teacher = np.log(np.full((2, 3), 0.5)), np.log(np.full((2, 3), 0.1))
    assert not teacher_advantages(student, teacher, MASK, weight=0.0).any()
    assert not teacher_advantages(student, student, MASK, weight=1.0).any()


def test_the_expected_pull_is_the_divergence() -> None:
    """Mean over the student's own draws of the reward is -KL(student || teacher)."""
    student, teacher = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    reward = teacher_advantages(
        np.log(student)[None], np.log(teacher)[None], np.ones((1, 3), bool), weight=1.0
    )[0]
    divergence = (student * np.log(student / teacher)).sum()
    assert (student * reward).sum() == pytest.approx(-divergence)


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="cap=0"):
        importance_weights(np.zeros((2, 3)), np.zeros((2, 3)), MASK, cap=0.0)
    with pytest.raises(ShapeError, match="teacher_RT"):
        teacher_advantages(np.zeros((2, 3)), np.zeros((2, 2)), MASK, weight=1.0)
