"""Running means per role, and advantages on one scale."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.credit.baselines import Role, RoleBaselines
from srl_agents.credit.group_relative import normalised
from srl_envs.errors import ConfigError, ShapeError

FIRST: Role = ("e-v0", 0, "alice", 0)
SECOND: Role = ("e-v0", 1, "alice", 0)


def test_a_mean_is_corrected_for_its_start() -> None:
    baselines = RoleBaselines(0.9)
    assert baselines.read(FIRST) == 0.0
    baselines.update([(FIRST, 1.0)])
    assert baselines.read(FIRST) == pytest.approx(1.0)
    baselines.update([(FIRST, 0.0)])
    assert baselines.read(FIRST) == pytest.approx((0.9 * 0.1 * 1.0) / (1 - 0.81))
    assert baselines.read(SECOND) == 0.0


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=8), st.permutations(range(8)))
def test_a_batch_has_no_order(returns: list[float], order: list[int]) -> None:
    shuffled = [returns[i] for i in order if i < len(returns)]
    means = []
    for batch in (returns, shuffled):
        baselines = RoleBaselines(0.8)
        baselines.update([(FIRST, 0.5)])
        baselines.update([(FIRST, value) for value in batch])
        means.append(baselines.read(FIRST))
    assert means[0] == pytest.approx(means[1])
    whole = 0.8 ** len(returns)
    by_hand = (whole * 0.2 * 0.5 + (1 - whole) * np.mean(returns)) / (1 - 0.8 * whole)
    assert means[0] == pytest.approx(by_hand)


def test_equal_returns_move_a_batch_like_one_by_one() -> None:
    together, apart = RoleBaselines(0.7), RoleBaselines(0.7)
    together.update([(FIRST, 0.25)] * 3)
    for _ in range(3):
        apart.update([(FIRST, 0.25)])
    assert together.read(FIRST) == pytest.approx(apart.read(FIRST)) == pytest.approx(0.25)


def test_the_state_survives_json_bit_for_bit() -> None:
    baselines = RoleBaselines(0.95)
    baselines.update([(FIRST, 0.1), (FIRST, 1 / 3), (SECOND, -0.7)])
    other = RoleBaselines(0.95)
    other.load_state(json.loads(json.dumps(baselines.state())))
    for role in (FIRST, SECOND):
        assert other.read(role) == baselines.read(role)
    baselines.update([(SECOND, 0.3)])
    other.update([(SECOND, 0.3)])
    assert other.state() == baselines.state()


def test_a_decay_of_one_would_never_learn() -> None:
    with pytest.raises(ConfigError, match="decay=1"):
        RoleBaselines(1.0)


def test_each_key_has_its_own_scale() -> None:
    advantages = np.array([10.0, -10.0, 0.1, -0.1, 5.0, 7.0])
    key = np.array([0, 0, 1, 1, 2, 0])
    valid = np.array([True, True, True, True, True, False])
    got = normalised(advantages, key, valid)
    assert got.tolist() == pytest.approx([1.0, -1.0, 1.0, -1.0, 0.0, 0.0], rel=1e-4)


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 2), st.booleans()), max_size=20))
def test_normalised_keys_have_mean_zero_and_at_most_unit_deviation(
    entries: list[tuple[float, int, bool]],
) -> None:
    columns = list(zip(*entries, strict=True)) if entries else [()] * 3
    advantages, key, valid = (
        np.array(c, dtype=d) for c, d in zip(columns, (float, np.int64, bool), strict=True)
    )
    got = normalised(advantages, key, valid)
    assert not got[~valid].any()
    for k in range(3):
        own = got[valid & (key == k)]
        if len(own):
            assert abs(own.mean()) < 1e-6
            assert own.std() <= 1 + 1e-9


def test_equal_advantages_are_no_advantages() -> None:
    got = normalised(np.full(3, 0.7), np.zeros(3, np.int64), np.ones(3, bool))
    assert got == pytest.approx(np.zeros(3), abs=1e-6)
    with pytest.raises(ShapeError, match="key_E"):
        normalised(np.zeros(2), np.zeros(3, np.int64), np.ones(2, bool))
