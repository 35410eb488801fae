"""Comparison of what a program claims with what is expected; trusted side only.

The claimed value has been decoded to plain Python data, so no method of the program runs here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

_ABS_TOL = 1e-12  # rounding noise where exactly 0.0 is expected
_LOOSE_FLOATS = 256  # floats in one set that may differ within the tolerance


def same_value(value: Any, expected: Any, *, rel_tol: float = 1e-9) -> bool:
    """Whether `value` is `expected`, as JSON would see it.

    Lists, tuples and ranges are one kind. A bool is not a number. An int equals a float only exactly where
    the int is expected, and within `rel_tol` where the float is. NaN equals nothing. Dict keys that
    are ints match expected keys that are their decimal strings, because JSON has only string keys.

    Args:
        value: what a program returned, decoded (`Outcome.value`).
        expected: the right answer.
        rel_tol: allowed difference from an expected float, relative to it.
    """
    todo = [(value, expected)]
    while todo:
        got, want = todo.pop()
        if isinstance(want, (list, tuple)):
            if not _has_length(got, len(want)):
                return False
            todo.extend(zip(got, want, strict=True))
        elif isinstance(want, dict):
            if not isinstance(got, dict) or len(got) != len(want):
                return False
            got = _by_typed_key(got, as_text=all(type(key) is str for key in want))
            for key, item in want.items():
                found = got.get(_typed(key), _MISSING)
                if found is _MISSING:
                    return False
                todo.append((found, item))
        elif isinstance(want, (set, frozenset)):
            if not isinstance(got, (set, frozenset)) or not _same_set(got, want, rel_tol):
                return False
        elif not _same_scalar(got, want, rel_tol):
            return False
    return True


def _has_length(value: Any, length: int) -> bool:
    """Whether a value is a sequence of this length; that of a range may be beyond any list's."""
    if isinstance(value, range):
        return not value[length:] and len(value[: length + 1]) == length
    return isinstance(value, (list, tuple)) and len(value) == length


def same_items(value: Any, expected: Sequence[Any], *, rel_tol: float = 1e-9) -> bool:
    """`same_value` for lists whose order does not matter; each item counts as often as it occurs.

    Args:
        value: what the program returned.
        expected: items in any order.
        rel_tol: largest difference of two floats that counts as equal, as a share of the larger one.
    """
    if not isinstance(value, (list, tuple)) or len(value) != len(expected):
        return False
    left = list(expected)
    for item in value:
        for place, candidate in enumerate(left):
            if same_value(item, candidate, rel_tol=rel_tol):
                del left[place]
                break
        else:
            return False
    return True


def same_text(stdout: str, expected: str) -> bool:
    """Whether printed text is the expected text, spaces at line ends and blank last lines aside."""
    return _lines(stdout) == _lines(expected)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip(" \t\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


_MISSING = object()


def _typed(key: Any) -> Any:
    """A key that keeps 1, 1.0 and True apart."""
    if isinstance(key, (tuple, frozenset)):
        return (type(key), type(key)(_typed(item) for item in key))
    return (type(key), key)


def _by_typed_key(value: dict[Any, Any], *, as_text: bool) -> dict[Any, Any]:
    if as_text and value and all(type(key) is int for key in value):
        return {(str, str(key)): item for key, item in value.items() if key.bit_length() < 10_000}
    return {_typed(key): item for key, item in value.items()}


def _same_set(got: Any, want: Any, rel_tol: float) -> bool:
    if len(got) != len(want):
        return False
    ours, theirs = Counter(map(_typed, want)), Counter(map(_typed, got))
    missing = [item for _, item in (ours - theirs)]
    extra = [item for _, item in (theirs - ours)]
    if not missing:
        return not extra
    if len(missing) > _LOOSE_FLOATS or any(type(item) is not float for item in missing):
        return False
    if any(type(item) not in (int, float) for item in extra) or any(
        math.isnan(item) for item in extra
    ):
        return False
    return all(
        _same_scalar(a, b, rel_tol) for a, b in zip(sorted(extra), sorted(missing), strict=True)
    )


def _same_scalar(got: Any, want: Any, rel_tol: float) -> bool:
    if type(want) is float:
        if type(got) not in (int, float):
            return False
        if got == want:
            return True
        try:
            margin = rel_tol * abs(want) if want else _ABS_TOL
            return bool(abs(float(got) - want) <= margin < float("inf"))
        except OverflowError:
            return False
    if type(want) is int and type(got) is float:
        return got == want
    return type(got) is type(want) and bool(got == want)
