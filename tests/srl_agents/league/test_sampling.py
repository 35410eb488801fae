"""Opponent samplers: always a distribution, no opponent ever excluded, the right ones preferred."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.league.sampling import (
    SAMPLERS,
    OpponentView,
    find_sampler,
    fixed,
    lagged,
    latest,
    match_quality,
    nash,
    pfsp,
    self_play,
    uniform_past,
    win_rates,
)
from srl_envs.errors import ConfigError, ShapeError


def view(*records: tuple[float, float], prior: float = 0.5) -> OpponentView:
    """A view from (points, games) per opponent."""
    points, games = np.array(records, dtype=float).T
    names = tuple(f"a@{k}" for k in range(len(records)))
    return OpponentView(names, points, games, prior)


RECORDS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 10**6), st.floats(0, 1)), min_size=1, max_size=40
)


@pytest.mark.parametrize("name", SAMPLERS.built_in)
@settings(max_examples=60, deadline=None)
@given(records=RECORDS)
def test_every_sampler_gives_a_distribution_that_excludes_nobody(
    name: str, records: list[tuple[float, int, float]]
) -> None:
    share, games, prior = (np.array(column, dtype=float) for column in zip(*records, strict=True))
    names = tuple(map(str, range(len(records))))
    p = SAMPLERS.find(name)(OpponentView(names, np.minimum(share * games, games), games, prior))
    assert p.shape == (len(records),)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p >= 0.019 / len(records)).all()
    np.random.default_rng(0).choice(len(records), p=p)  # numpy's own check of a distribution


def test_self_play_prefers_itself() -> None:
    three = OpponentView(("a", "b", "c"), np.zeros(3), np.zeros(3), itself=1)
    assert self_play(three, floor=0.3) == pytest.approx([0.1, 0.8, 0.1])
    assert self_play(OpponentView.unplayed(("a", "b")), floor=0.2) == pytest.approx([0.1, 0.9])


def test_lagged_counts_back_from_the_newest() -> None:
    five = OpponentView.unplayed(tuple("abcde"))
    assert lagged(five, low=1, high=2, floor=1e-9) == pytest.approx([0, 0, 0.5, 0.5, 0], abs=1e-8)
    assert lagged(OpponentView.unplayed(("a",)), low=3, high=9).tolist() == [1.0]
    with pytest.raises(ConfigError, match="low=2, high=1"):
        lagged(five, low=2, high=1)


def test_match_quality_goes_by_ratings_and_not_by_the_record() -> None:
    prior = np.array([0.5, 0.75])
    played = OpponentView(("a", "b"), np.array([0.0, 5.0]), np.array([9.0, 9.0]), prior)
    assert match_quality(played, floor=1e-9) == pytest.approx([4 / 7, 3 / 7])


def test_nash_by_hand() -> None:
    cycle = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / 4
    three = OpponentView(("r", "p", "s"), np.zeros(3), np.zeros(3), payoff_NN=cycle)
    assert nash(three) == pytest.approx([1 / 3] * 3)
    chain = np.array([[0, 1, 1], [-1, 0, 1], [-1, -1, 0]]) / 4
    points, games = np.array([0.0, 0.0, 8.0]), np.array([8.0, 0.0, 8.0])
    three = OpponentView(("a", "b", "c"), points, games, payoff_NN=chain)
    assert nash(three, floor=0.3) == pytest.approx([0.8, 0.1, 0.1])
    # rectified: the only one in the support beats the learner, so it stays
    assert nash(three, rectified=True, floor=0.3) == pytest.approx([0.8, 0.1, 0.1])
    mixed = OpponentView(("r", "p", "s"), points, games, payoff_NN=cycle)
    assert nash(mixed, rectified=True, floor=1e-9) == pytest.approx([0, 0.5, 0.5], abs=1e-8)
    assert nash(OpponentView.unplayed(("a", "b"))).tolist() == [0.5, 0.5]


def test_fixed_weights_are_kept_exactly() -> None:
    three = OpponentView.unplayed(("a", "b", "c"))
    assert fixed(three, weights={"a": 1, "c": 3}).tolist() == [0.25, 0, 0.75]
    assert fixed(three, weights={"z": 1}).tolist() == [1 / 3] * 3


def test_samplers_are_found_with_their_options() -> None:
    found = find_sampler("lagged", {"low": 0, "high": 0, "floor": 0.2})
    assert found(OpponentView.unplayed(("a", "b"))) == pytest.approx([0.1, 0.9])
    with pytest.raises(ConfigError, match="Did you mean 'lagged'"):
        find_sampler("laged", {})
    with pytest.raises(ConfigError, match="lo"):
        find_sampler("lagged", {"lo": 1})


def strongest(view: OpponentView, *, chance: float = 1.0) -> np.ndarray:
    """A sampler of another package."""
    return np.array([0.0] * (len(view.opponents) - 1) + [chance])


def test_a_sampler_of_another_package_is_named_by_its_place() -> None:
    found = find_sampler(f"{__name__}:strongest", {})
    assert found(OpponentView.unplayed(("a", "b", "c"))).tolist() == [0, 0, 1]
    with pytest.raises(ConfigError, match=r"gave \[0.0, 0.5\].*one probability"):
        find_sampler(f"{__name__}:strongest", {"chance": 0.5})


def test_uniform_and_latest() -> None:
    three = OpponentView.unplayed(("a", "b", "c"))
    assert uniform_past(three).tolist() == [1 / 3] * 3
    assert latest(three, floor=0.3) == pytest.approx([0.1, 0.1, 0.8])
    assert latest(OpponentView.unplayed(("a",))).tolist() == [1.0]


def test_win_rates_are_shrunk_towards_the_prior() -> None:
    assert win_rates(view((0, 0), (1, 1), (96, 96))) == pytest.approx([0.5, 3 / 5, 98 / 100])
    assert win_rates(view((0, 0), (1, 1), prior=0.9)) == pytest.approx([0.9, 4.6 / 5])


def test_pfsp_by_hand() -> None:
    """x = 1/4 and 3/4 with a prior worth 4 games of 0.5."""
    two = view((0, 4), (4, 4))
    assert pfsp(two, "hard", floor=1e-9) == pytest.approx([9 / 10, 1 / 10])
    assert pfsp(two, "variance") == pytest.approx([0.5, 0.5])
    assert pfsp(two, "even", floor=1e-9) == pytest.approx([2 / 3, 1 / 3])
    assert pfsp(two, "hard", floor=0.5) == pytest.approx([0.7, 0.3])


def test_preferences_prefer_what_they_say() -> None:
    three = view((5, 100), (50, 100), (95, 100))  # hard, equal, beaten
    hard, variance, even = (pfsp(three, kind) for kind in ("hard", "variance", "even"))
    assert hard[0] > hard[1] > hard[2]
    assert variance[1] > 2 * variance[0]
    assert variance[0] == pytest.approx(variance[2])
    assert even[0] == pytest.approx(even[1])
    assert even[1] > 3 * even[2]


@pytest.mark.parametrize("kind", ["hard", "variance", "even"])
def test_one_result_neither_removes_nor_crowns_an_opponent(kind: Any) -> None:
    for points in (0.0, 1.0):
        p = pfsp(view((points, 1), *[(0.0, 0.0)] * 9), kind)
        assert 0.05 < p[0] < 0.2


@pytest.mark.parametrize("kind", ["hard", "variance", "even"])
def test_only_ties_and_no_preference_are_uniform(kind: Any) -> None:
    assert pfsp(view(*[(5, 10)] * 4), kind) == pytest.approx([0.25] * 4)
    certain = view((10, 10), (90, 90), prior=1.0)  # x = 1: every preference is 0
    assert pfsp(certain, kind) == pytest.approx([0.5, 0.5])


def test_mistakes_are_named() -> None:
    two = OpponentView.unplayed(("a", "b"))
    with pytest.raises(ConfigError, match="no opponent"):
        OpponentView.unplayed(())
    with pytest.raises(ShapeError, match="2 opponents"):
        OpponentView(("a", "b"), np.zeros(1), np.zeros(2), np.zeros(2))
    with pytest.raises(ConfigError, match="do not fit"):
        view((2, 1))
    with pytest.raises(ConfigError, match="lies in"):
        view((0, 0), prior=1.5)
    with pytest.raises(ConfigError, match="kappa=0"):
        pfsp(two, kappa=0)
    with pytest.raises(ConfigError, match="floor=0"):
        latest(two, floor=0)
    with pytest.raises(ConfigError, match="'easy'"):
        pfsp(two, "easy")  # type: ignore[arg-type]
