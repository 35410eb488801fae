"""Statistics over training seeds, against sums done by hand and tables of Student's t."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.experiments.comparisons import (
    Comparison,
    compare,
    equivalent,
    half_width,
    holm,
    paired,
    two_sided,
)
from srl_envs.errors import ConfigError

VALUES = st.lists(st.floats(-1, 1), min_size=2, max_size=8)
CHANCES = st.lists(st.floats(0, 1), max_size=9)


def test_differences_are_of_the_seeds_that_both_have() -> None:
    assert paired({2: 0.5, 0: 0.3, 7: 9.0}, {0: 0.1, 2: 0.6, 5: 9.0}).tolist() == pytest.approx(
        [0.2, -0.1]
    )


def test_interval_of_three_seeds() -> None:
    """Deviation .1, t(2) = 4.3027: 4.3027 * .1 / sqrt(3) = .24841."""
    assert half_width([0.1, 0.2, 0.3]) == pytest.approx(0.24841, abs=1e-5)
    assert half_width([0.1, 0.2, 0.3], 0.9) == pytest.approx(2.91999 * 0.1 / math.sqrt(3), abs=1e-5)
    assert half_width([0.1]) == math.inf


def test_p_of_three_seeds() -> None:
    """t = .2 / (.1 / sqrt(3)) = 2 sqrt(3); with 2 degrees p = 1 - t / sqrt(t^2 + 2) = 1 - sqrt(12 / 14)."""
    assert two_sided(np.array([0.1, 0.2, 0.3])) == pytest.approx(1 - math.sqrt(12 / 14))
    assert two_sided(np.array([-0.1, -0.2, -0.3])) == pytest.approx(1 - math.sqrt(12 / 14))
    assert two_sided(np.array([0.4])) == 1


def test_equivalence_of_three_seeds() -> None:
    """Mean 0, error .01 / sqrt(3), margin .05: t = 5 sqrt(3), one-sided p = (1 - t / sqrt(t^2 + 2)) / 2."""
    t = 5 * math.sqrt(3)
    expected = (1 - t / math.sqrt(t * t + 2)) / 2
    assert equivalent(np.array([-0.01, 0.0, 0.01]), 0.05) == pytest.approx(expected)
    assert equivalent(np.array([0.25, 0.25]), 0.25) == 0.5  # on the margin, without spread
    assert equivalent(np.array([0.2, 0.2]), 0.05) == 1
    with pytest.raises(ConfigError, match="margin"):
        equivalent(np.array([0.0, 0.1]), 0.0)


def test_holm_by_hand() -> None:
    """Sorted .01, .03, .04, .5: .01 * 4, .03 * 3, the larger of .09 and .04 * 2, .5."""
    assert holm([0.04, 0.01, 0.5, 0.03]) == pytest.approx([0.09, 0.04, 0.5, 0.09])
    assert holm([]) == []


@given(CHANCES)
def test_holm_lies_between_no_correction_and_bonferroni(p: list[float]) -> None:
    found = holm(p)
    for raw, corrected in zip(p, found, strict=True):
        assert raw <= corrected <= min(1.0, len(p) * raw)


@given(CHANCES, st.randoms(use_true_random=False))
def test_holm_keeps_ranks_and_ignores_order(p: list[float], random: object) -> None:
    order = sorted(range(len(p)), key=lambda _: random.random())  # type: ignore[attr-defined]
    found, moved = holm(p), holm([p[i] for i in order])
    assert moved == [found[i] for i in order]
    assert sorted(found) == [found[i] for i in np.argsort(p, kind="stable")]


@given(VALUES)
def test_a_small_p_is_an_interval_without_zero(values: list[float]) -> None:
    differences = np.array(values)
    p, inside = two_sided(differences), abs(differences.mean()) < half_width(values)
    assert abs(p - 0.05) < 1e-6 or differences.std() < 1e-9 or (p > 0.05) == inside


@given(VALUES)
def test_equivalence_is_a_90_percent_interval_inside_the_margin(values: list[float]) -> None:
    differences = np.array(values)
    p = equivalent(differences, 0.05)
    inside = abs(differences.mean()) + half_width(values, 0.9) < 0.05
    assert abs(p - 0.05) < 1e-6 or differences.std() < 1e-9 or (p < 0.05) == inside


@given(VALUES, st.floats(-0.5, 0.5))
def test_what_all_seeds_share_cancels(values: list[float], shift: float) -> None:
    baseline = dict(enumerate(values))
    moved = {seed: value + shift for seed, value in baseline.items()}
    assert paired(moved, baseline).tolist() == pytest.approx([shift] * len(values), abs=1e-9)


def test_arms_against_the_baseline_with_verdicts() -> None:
    rng = np.random.default_rng(0)
    seeds = range(8)
    base = {seed: 0.4 + 0.1 * float(rng.normal()) for seed in seeds}

    def shifted(by: float, noise: float) -> dict[int, float]:
        return {seed: base[seed] + by + noise * float(rng.normal()) for seed in seeds}

    found = compare(
        {
            "base": base,
            "up": shifted(0.2, 0.02),
            "down": shifted(-0.2, 0.02),
            "same": shifted(0.0, 0.01),
            "noisy": shifted(0.05, 0.3),
            "not run": {},
        },
        "base",
        0.05,
    )
    verdicts = {one.arm: one.verdict for one in found}
    assert verdicts == {
        "up": "better",
        "down": "worse",
        "same": "no difference",
        "noisy": "open",
        "not run": "open",
    }
    assert [one.seeds for one in found] == [8, 8, 8, 8, 0]


def test_a_difference_that_is_shown_wins_over_equivalence() -> None:
    one = Comparison("arm", 8, 0.02, 0.01, 0.001, 0.004, 0.001)
    assert one.verdict == "better"
