"""Equilibria by hand, and diagnostics of fields whose structure is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.league.ratings.diagnostics import cyclic_share, diagnose, exploitability
from srl_agents.league.ratings.nash import equilibrium
from srl_agents.league.ratings.tables import Pairs, rate
from srl_envs.errors import ShapeError

Row = tuple[str, str, float, str]


def test_equilibria_by_hand() -> None:
    rock_paper_scissors = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], dtype=float)
    found = equilibrium(rock_paper_scissors)
    assert found.row == pytest.approx([1 / 3] * 3)
    assert found.value == pytest.approx(0)
    # the row player mixes 2 : 3 over [[3, 0], [1, 2]]... value 3/2 with rows (1/4, 3/4)
    found = equilibrium(np.array([[3.0, 0.0], [1.0, 2.0]]))
    assert found.row == pytest.approx([1 / 4, 3 / 4])
    assert found.column == pytest.approx([1 / 2, 1 / 2])
    assert found.value == pytest.approx(3 / 2)
    saddle = equilibrium(np.array([[0.1, 0.4, 0.3], [-0.5, 0.9, -0.2]]))
    assert saddle.row == pytest.approx([1, 0])
    assert saddle.value == pytest.approx(0.1)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6), st.booleans())
def test_neither_side_gains_by_leaving(rows: int, columns: int, seed: int, round_: bool) -> None:
    payoff = np.random.default_rng(seed).normal(size=(rows, columns))
    if round_:  # many ties: the degenerate case
        payoff = payoff.round()
    found = equilibrium(payoff)
    assert found.row.sum() == pytest.approx(1)
    assert found.column.sum() == pytest.approx(1)
    assert (found.row >= 0).all()
    assert (found.column >= 0).all()
    assert (payoff @ found.column).max() <= found.value + 1e-7
    assert (found.row @ payoff).min() >= found.value - 1e-7


def test_impossible_games_are_refused() -> None:
    for payoff in (np.zeros((0, 2)), np.zeros(3), np.array([[np.nan]])):
        with pytest.raises(ShapeError, match="matrix"):
            equilibrium(payoff)


def meetings(scores: dict[tuple[str, str], float], seeds: int, seed: int = 0) -> list[Row]:
    """Mirrored pairs; ``scores`` are probabilities that the first wins."""
    rng = np.random.default_rng(seed)
    return [
        (a, b, float(rng.random() < p), f"s{k}")
        for k in range(seeds)
        for (a, b), p in scores.items()
        for _ in range(2)
    ]


CYCLE = {("r", "s"): 0.9, ("s", "p"): 0.9, ("p", "r"): 0.9}
CHAIN = {("a", "b"): 0.8, ("b", "c"): 0.8, ("a", "c"): 0.94}


def test_a_cycle_is_seen_as_one() -> None:
    found = diagnose(Pairs.of(meetings(CYCLE, 60)))
    assert found.cyclic_share > 0.9
    assert found.noise_share < 0.1
    assert (found.nash_N > 0.15).all()
    assert (found.nash_frequency_N > 0.9).all()
    assert {e.exploiter for e in found.exploitability} == {"r", "p", "s"}
    assert all(0.25 < e.bound < 0.4 for e in found.exploitability)


def test_a_ranking_is_seen_as_one() -> None:
    pairs = Pairs.of(meetings(CHAIN, 200))
    found = diagnose(pairs, steps={"a": 12})
    assert found.cyclic_share < 0.05
    assert found.nash_N == pytest.approx([1, 0, 0])
    assert found.nash_frequency_N == pytest.approx([1, 0, 0])
    top, middle, last = found.exploitability
    assert (top.exploiter, top.bound) == (None, 0.0)
    assert middle.exploiter == "a"
    assert middle.budget == "best of 2 opponents met, trained 12 steps"
    assert last.bound > middle.bound > 0.15


def test_noise_explains_the_cycles_of_a_level_field() -> None:
    shares = []
    for seed in range(20):
        level = {(f"a{i}", f"a{j}"): 0.5 for i in range(6) for j in range(i)}
        pairs = Pairs.of(meetings(level, 20, seed))
        shares.append(cyclic_share(pairs, rate(pairs)))
    cyclic, noise = np.mean(shares, axis=0)
    assert cyclic == pytest.approx(noise, abs=0.15)


def test_chance_wins_show_no_exploiter() -> None:
    """The best of nine equal opponents always leads; the bound allows for having looked at nine."""
    false = 0
    for seed in range(40):
        rows = meetings({("me", f"o{k}"): 0.5 for k in range(9)}, 25, seed)
        me = next(e for e in exploitability(Pairs.of(rows)) if e.agent == "me")
        false += me.exploiter is not None
    assert false <= 4
