"""`same_value` and related functions: which values count as equal."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.sandbox import same_items, same_text, same_value
from tests.srl_envs.sandbox.plain_data import PLAIN


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (1, 1, True), (1, True, False), (True, 1, False), (False, 0, False), (1, "1", False),
        (1.0, 1, True), (1, 1.0, True), (1.0000001, 1, False), (True, 1.0, False),
        (0.1 + 0.2, 0.3, True), (0.3001, 0.3, False), (1e-17, 0.0, True), (0.0, 1e-20, False),
        (math.nan, math.nan, False), (1.0, math.nan, False), (math.inf, math.inf, True),
        (math.inf, 1e308, False), (1e308, math.inf, False), (10**400, 1.0, False),
        (float(2**53), 2**53 + 1, False), (2**64, 2**64 - 1, False),
        ([1, 2], (1, 2), True), ((1, 2), [1, 2], True), ([1, 2], [2, 1], False), ([1], [1, 1], False),
        ("12", ["1", "2"], False), (["1", "2"], "12", False), (None, 0, False), ("", None, False),
        ({"a": 1}, {"a": 1}, True), ({"a": 1}, {"a": True}, False), ({"a": 1}, {}, False),
        ({1: "x"}, {"1": "x"}, True), ({"1": "x"}, {1: "x"}, False), ({True: 1}, {1: 1}, False),
        ({1, 2}, {2, 1}, True), ({1}, {True}, False), ({1, 2}, [1, 2], False), ([1], {1}, False),
        ({0.1 + 0.2}, {0.3}, True), ({0.1, 0.5}, {0.1, 0.6}, False), ({math.nan}, {0.5}, False),
        (b"a", "a", False), (b"a", b"a", True),
    ],
)  # fmt: skip
def test_the_rule_in_single_cases(value: Any, expected: Any, same: bool) -> None:
    assert same_value(value, expected) is same


@given(PLAIN)
def test_everything_without_nan_is_itself(value: Any) -> None:
    assert same_value(value, value)


@given(PLAIN, PLAIN)
def test_python_inequality_is_inequality(a: Any, b: Any) -> None:
    """Only tolerance, list against tuple, and text keys widen Python's own equality."""

    def normal(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [normal(item) for item in value]
        if isinstance(value, dict):
            return sorted((str(key), repr(normal(item))) for key, item in value.items())
        return round(value, 6) if isinstance(value, float) and abs(value) < 1e6 else value

    if same_value(a, b) and not _has_large_float(a) and not _has_large_float(b):
        assert repr(normal(a)).replace(".0", "") == repr(normal(b)).replace(".0", "")


def _has_large_float(value: Any) -> bool:
    return "e+" in repr(value) or "inf" in repr(value) or "." in repr(value)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-300, max_value=1e300))
def test_tolerance_is_relative_to_the_expected_float(x: float) -> None:
    assert same_value(x * (1 + 1e-10), x)
    assert not same_value(x * (1 + 1e-8), x)
    assert same_value(x * (1 + 1e-3), x, rel_tol=1e-2)


@pytest.mark.slow
def test_nesting_costs_no_stack() -> None:
    a: Any = 1
    b: Any = 1
    for _ in range(100_000):
        a, b = [a], (b,)
    assert same_value(a, b)
    assert not same_value([a], b)
    while isinstance(a, list):  # taken apart by hand: freeing it at once would recurse
        a, b = a[0], b[0]


def test_order_does_not_matter_but_number_does() -> None:
    assert same_items([[2], [1, 0], [2]], [[1, 0], [2], [2]])
    assert not same_items([1, 1, 2], [1, 2, 2])
    assert not same_items({1, 2}, [1, 2])


def test_printed_text_forgives_only_trailing_space() -> None:
    assert same_text("1 \r\n2\n\n", "1\n2")
    for wrong in ("1 2", "1\n2\n3", " 1\n2", "1\n\n2", "１\n2", ""):
        assert not same_text(wrong, "1\n2")
