"""The two added terms against sums done by hand, and what the draft's formulas got wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from srl_agents.credit.teams.mixture import rival_matrix, standing, team_bonus, team_matrix
from srl_envs.errors import ConfigError, ShapeError

# a grid of halves: ties are common, and differences are exact
OUTCOMES = st.tuples(st.integers(1, 3), st.integers(2, 6)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=st.integers(-2, 2).map(lambda i: i / 2))
)


def everyone(seats: int) -> np.ndarray:
    return team_matrix((), seats)


def test_team_bonus_worked_example() -> None:
    outcomes = np.array([[1.0, 0.0, -0.4]])
    bonus = team_bonus(outcomes, everyone(3))
    assert bonus[0].tolist() == pytest.approx([0.2 - 1.0, 0.2, 0.2 + 0.4])
    assert (outcomes + 1.0 * bonus)[0].tolist() == pytest.approx([0.2] * 3)  # one payoff for all
    assert (outcomes + 0.25 * bonus)[0].tolist() == pytest.approx([0.8, 0.05, -0.25])


def test_team_bonus_stays_inside_teams() -> None:
    together = team_matrix((0, 1, 0, 1), 4)
    bonus = team_bonus(np.array([[1.0, 0.5, 0.0, -0.5]]), together)
    assert bonus[0].tolist() == [-0.5, -0.5, 0.5, 0.5]


@given(OUTCOMES, st.floats(0, 1), st.floats(0.01, 3))
def test_earning_more_never_pays_less(outcomes: np.ndarray, beta: float, more: float) -> None:
    """The draft's bonus, beta * (2 * team - own), fails this from three players on."""
    together = everyone(outcomes.shape[1])
    better = outcomes.copy()
    better[:, 0] += more
    paid = (outcomes + beta * team_bonus(outcomes, together))[:, 0]
    paid_more = (better + beta * team_bonus(better, together))[:, 0]
    slope = 1 - beta * (1 - 1 / outcomes.shape[1])
    assert paid_more - paid == pytest.approx(slope * more)
    assert slope > 0


@given(OUTCOMES)
def test_helping_the_team_pays_everyone_in_it(outcomes: np.ndarray) -> None:
    better = outcomes.copy()
    better[:, -1] += 1
    together = everyone(outcomes.shape[1])
    gained = team_bonus(better, together) - team_bonus(outcomes, together)
    assert np.all(gained[:, :-1] > 0)


@given(OUTCOMES)
def test_both_terms_create_no_reward(outcomes: np.ndarray) -> None:
    together = everyone(outcomes.shape[1])
    rivals = rival_matrix(together)
    for term in (
        team_bonus(outcomes, together),
        standing(outcomes, rivals),
        standing(outcomes, rivals, form="margin"),
    ):
        assert term.sum(axis=1) == pytest.approx(np.zeros(len(outcomes)), abs=1e-9)


@given(OUTCOMES)
def test_rank_is_the_centred_mean_rank(outcomes: np.ndarray) -> None:
    n = outcomes.shape[1]
    got = standing(outcomes, rival_matrix(everyone(n)))
    for row, paid in zip(outcomes.tolist(), got.tolist(), strict=True):
        ordered = sorted(row, reverse=True)
        for value, share in zip(row, paid, strict=True):
            places = [k for k, other in enumerate(ordered, start=1) if other == value]
            mean_rank = sum(places) / len(places)
            assert share == pytest.approx((n + 1 - 2 * mean_rank) / (n - 1))


def test_standing_worked_examples() -> None:
    rivals = rival_matrix(everyone(4))
    outcomes = np.array([[3.0, 1.0, 1.0, -1.0], [0.5, 0.5, 0.5, 0.5]])
    assert standing(outcomes, rivals).tolist() == [[1.0, 0.0, 0.0, -1.0], [0.0] * 4]
    margins = standing(outcomes, rivals, form="margin")
    assert margins[0].tolist() == pytest.approx([3 - 1 / 3, 0, 0, -1 - 5 / 3])
    assert margins[1].tolist() == [0.0] * 4


def test_teammates_are_no_rivals() -> None:
    rivals = rival_matrix(team_matrix((0, 0, 1), 3))
    assert rivals.tolist() == [[False, False, True], [False, False, True], [True, True, False]]
    assert standing(np.array([[1.0, 0.0, 0.5]]), rivals).tolist() == [[1.0, -1.0, 0.0]]


def test_a_lonely_seat_stands_nowhere() -> None:
    assert standing(np.array([[1.0]]), rival_matrix(everyone(1))).tolist() == [[0.0]]


def test_rounding_is_a_tie() -> None:
    outcomes = np.array([[0.1 + 0.2, 0.3]])
    assert standing(outcomes, rival_matrix(everyone(2))).tolist() == [[0.0, 0.0]]


def test_mistakes_are_named() -> None:
    with pytest.raises(ShapeError, match="3 in all"):
        team_matrix((0, 1), 3)
    with pytest.raises(ShapeError, match=r"\(E, N\)"):
        team_bonus(np.zeros((2, 3)), everyone(2))
    with pytest.raises(ConfigError, match="'rank' or 'margin'"):
        standing(np.zeros((1, 2)), everyone(2), form="score")  # type: ignore[arg-type]
