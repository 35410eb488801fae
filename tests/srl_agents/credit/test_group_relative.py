"""Advantages against sums done by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.credit.group_relative import group_advantages, role_advantages
from srl_envs.errors import ShapeError

RETURNS = st.floats(-2, 2, allow_nan=False)
GROUPS = st.integers(1, 4).flatmap(
    lambda b: st.integers(1, 5).flatmap(
        lambda g: st.lists(
            st.lists(st.tuples(RETURNS, st.booleans()), min_size=g, max_size=g),
            min_size=b,
            max_size=b,
        )
    )
)


def arrays(groups: list[list[tuple[float, bool]]]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([[value for value, _ in group] for group in groups]),
        np.array([[valid for _, valid in group] for group in groups]),
    )


def test_worked_example() -> None:
    returns, valid = np.array([[1.0, 0.0, 0.5, np.nan]]), np.array([[True, True, True, False]])
    assert group_advantages(returns, valid).tolist() == [[0.5, -0.5, 0.0, 0.0]]
    scaled = group_advantages(returns, valid, scale=True)
    assert scaled[0, 0] == pytest.approx(0.5 / np.sqrt(1 / 6), abs=1e-5)


@given(GROUPS)
def test_group_advantages_match_sums_by_hand(groups: list[list[tuple[float, bool]]]) -> None:
    got = group_advantages(*arrays(groups))
    for b, group in enumerate(groups):
        valid = [value for value, ok in group if ok]
        for g, (value, ok) in enumerate(group):
            if not ok or len(valid) < 2:
                assert got[b, g] == 0.0
                continue
            assert got[b, g] == pytest.approx(value - sum(valid) / len(valid), abs=1e-9)


@given(GROUPS)
def test_scaling_makes_unit_deviation_or_zero(groups: list[list[tuple[float, bool]]]) -> None:
    returns, valid = arrays(groups)
    for row, ok in zip(group_advantages(returns, valid, scale=True), valid, strict=True):
        deviation = row[ok].std() if ok.any() else 0.0
        assert deviation <= 1.0 + 1e-9
    assert np.all(np.isfinite(group_advantages(np.ones((2, 3)), np.ones((2, 3), bool), scale=True)))


@given(
    st.lists(st.tuples(RETURNS, st.integers(-3, 3), st.integers(0, 2), st.booleans()), max_size=30),
    st.booleans(),
)
def test_role_advantages_match_sums_by_hand(
    rows: list[tuple[float, int, int, bool]], scale: bool
) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 4
    returns, group, role, valid = (
        np.array(column, dtype=kind)
        for column, kind in zip(columns, (float, np.int64, np.int64, bool), strict=True)
    )
    got = role_advantages(returns, group, role, valid, scale=scale)
    for i, (value, g, r, ok) in enumerate(rows):
        peers = [v for v, pg, pr, pok in rows if (pg, pr, pok) == (g, r, True)]
        if not ok or len(peers) < 2:
            assert got[i] == 0.0
            continue
        expected = value - sum(peers) / len(peers)
        if scale:
            expected /= float(np.std(peers)) + 1e-6
        assert got[i] == pytest.approx(expected, abs=1e-6)


def test_a_seat_is_not_credited_for_moving_first() -> None:
    """Seat 0 always wins: no seat did better than usual."""
    returns = np.array([1.0, -1.0, 1.0, -1.0])
    group, role = np.zeros(4, np.int64), np.array([0, 1, 0, 1])
    assert role_advantages(returns, group, role, np.ones(4, bool)).tolist() == [0.0] * 4


def test_shapes_are_checked() -> None:
    with pytest.raises(ShapeError, match="returns_BG"):
        group_advantages(np.zeros((2, 3)), np.zeros((3, 2), bool))
    with pytest.raises(ShapeError, match="role_E"):
        role_advantages(np.zeros(2), np.zeros(2, int), np.zeros(3, int), np.zeros(2, bool))
