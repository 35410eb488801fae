"""Advantages from a critic's values, against plain loops."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.credit.batches import training_batch
from srl_agents.credit.critic import PaidTurn, explained_variance, judged
from srl_agents.records import Turn
from srl_envs.errors import ShapeError


def turn(tokens: int, invalid: str | None = None) -> Turn:
    return Turn(
        turn_index=0, observation="", reply="", invalid=invalid, reward=0.0, components={},
        version="alice@0-0123456789abcdef",
        prompt_ids=(1, 2), completion_ids=tuple(range(3, 3 + tokens)), logprobs=(-1.0,) * tokens,
    )  # fmt: skip


def judge(turns: list[PaidTurn], values: list[list[float]], **options: Any) -> Any:
    batch = training_batch("alice", [(paid.turn, 0.0) for paid in turns], pad_id=0)
    values_RT = np.zeros(batch.completion_mask_RT.shape)
    for row, own in enumerate(values):
        values_RT[row, : len(own)] = own
    return judged(batch, turns, values_RT, **options)


def by_loops(
    turns: list[PaidTurn], values: list[list[float]], discount: float, trace: float
) -> list[list[float]]:
    """Backwards through the tokens of each episode, as the equations are written."""
    out = [[0.0] * len(own) for own in values]
    for episode in {paid.episode for paid in turns}:
        rows = [r for r, paid in enumerate(turns) if paid.episode == episode]
        advantage = value = 0.0
        for row in reversed(rows):
            for t in reversed(range(len(values[row]))):
                last = t == len(values[row]) - 1
                reward = turns[row].reward if last else 0.0
                gamma, lam = (discount, trace) if last else (1.0, trace)
                delta = reward + gamma * value - values[row][t]
                advantage = delta + gamma * lam * advantage
                value = values[row][t]
                out[row][t] = advantage
    return out


NUMBERS = st.floats(-2, 2, width=32)
ROWS = st.lists(
    st.tuples(st.integers(0, 3), NUMBERS, st.lists(NUMBERS, min_size=1, max_size=5)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.floats(0.5, 1), st.floats(0, 1))
def test_advantages_and_returns_are_those_of_the_loops(
    rows: list[tuple[int, float, list[float]]], discount: float, trace: float
) -> None:
    """Turns of several episodes may be mixed; only the order inside each counts."""
    turns = [PaidTurn(turn(len(values)), reward, episode) for episode, reward, values in rows]
    values = [values for *_, values in rows]
    got = judge(turns, values, discount=discount, trace=trace, normalise=False)
    expected = by_loops(turns, values, discount, trace)
    for row, own in enumerate(expected):
        assert got.advantages_RT[row, : len(own)] == pytest.approx(own, abs=1e-5)
        returns = np.add(own, values[row])
        assert got.returns_RT[row, : len(own)] == pytest.approx(returns, abs=1e-5)
        assert not got.advantages_RT[row, len(own) :].any()


def test_two_turns_by_hand() -> None:
    """Trace 1, discount 0.5: paid 1 after the first turn of two tokens and 4 after the second."""
    turns = [PaidTurn(turn(2), 1.0, 7), PaidTurn(turn(1), 4.0, 7)]
    got = judge(turns, [[0.0, 0.5], [2.0]], discount=0.5, trace=1.0, normalise=False)
    assert got.returns_RT.tolist() == [[3.0, 3.0], [4.0, 0.0]]
    assert got.advantages_RT.tolist() == [[3.0, 2.5], [2.0, 0.0]]
    assert got.values_RT.tolist() == [[0.0, 0.5], [2.0, 0.0]]


def test_a_refused_reply_is_not_praised() -> None:
    turns = [PaidTurn(turn(1, "illegal"), 0.0, 0), PaidTurn(turn(1), 1.0, 0)]
    got = judge(turns, [[0.0], [0.0]], normalise=False)
    assert got.advantages_RT.tolist() == [[0.0], [1.0]]
    lost = [replace(paid, reward=-1.0) for paid in turns]
    assert judge(lost, [[0.0], [0.0]], normalise=False).advantages_RT[0, 0] < 0


def test_normalised_advantages_count_tokens_not_rows() -> None:
    turns = [PaidTurn(turn(3), 1.0, 0), PaidTurn(turn(1), -1.0, 1)]
    got = judge(turns, [[0.0] * 3, [0.0]], trace=1.0, normalise=True)
    mask = got.completion_mask_RT
    assert got.advantages_RT[mask].mean() == pytest.approx(0.0, abs=1e-6)
    assert got.advantages_RT[mask].std() == pytest.approx(1.0, abs=1e-4)
    assert got.returns_RT[mask].tolist() == [1.0, 1.0, 1.0, -1.0]


def test_explained_variance_by_hand() -> None:
    """Returns 1 and -1: values of half their size miss a quarter of the variance."""
    turns = [PaidTurn(turn(1), 1.0, 0), PaidTurn(turn(1), -1.0, 1)]
    assert explained_variance(judge(turns, [[0.5], [-0.5]])) == pytest.approx(0.75)
    assert explained_variance(judge(turns, [[0.0], [0.0]])) == 0.0
    assert explained_variance(judge(turns, [[3.0], [1.0]])) == pytest.approx(1.0)
    even = [replace(paid, reward=1.0) for paid in turns]
    assert explained_variance(judge(even, [[0.5], [0.1]])) == 0.0


def test_turns_and_values_must_fit_the_rows() -> None:
    turns = [PaidTurn(turn(1), 1.0, 0)]
    batch = training_batch("alice", [(turns[0].turn, 0.0)], pad_id=0)
    with pytest.raises(ShapeError, match="2 turns for 1 rows"):
        judged(batch, turns * 2, np.zeros((1, 1)))
    with pytest.raises(ShapeError, match="values_RT"):
        judged(batch, turns, np.zeros((1, 2)))
