r"""Products whose order counts: ``AB`` is not ``BA``, be they segments, vectors or matrices.

Where answers hold capital letters only, side by side as ``AB`` and without a sign between them, they
are compared as matrices. A sign, ``A \cdot B``, makes numbers of them.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from srl_envs.rewards.matcher.notation.naming import same_figure
from srl_envs.rewards.matcher.notation.trees import Node, Num, Op, Sym

_Matrix: TypeAlias = tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]
_MAX_POWER = 12
_TRANSPOSED = Sym("T")


class _NotMatricesError(Exception):
    """An operation that matrices do not have; the expression is one of numbers."""


def same_in_order(left: Node, right: Node) -> bool | None:
    """Whether two expressions are the same with the order of factors; None where it does not count."""
    figure = _same_figure(left, right)
    if figure is not None:
        return figure
    letters = _letters(left) | _letters(right)
    if not letters or not all(name[0].isupper() and name[1:2] in ("", "_") for name in letters):
        return None
    if not (_has_run(left) or _has_run(right)):
        return None
    try:
        return _value(left) == _value(right)
    except (_NotMatricesError, ZeroDivisionError):
        return None


def _same_figure(left: Node, right: Node) -> bool | None:
    """``\\overline{AB}`` beside ``AB``: the bare letters name the figure, or something else."""
    for figure, bare in ((left, right), (right, left)):
        if isinstance(figure, Sym) and figure.name.startswith("\\"):
            run = _run(bare)
            return same_figure(figure.name, run) if run else None
    return None


def _run(node: Node) -> str:
    """The letters of a product that is written as one word of capitals; else empty."""
    if isinstance(node, Sym):
        return node.name if len(node.name) == 1 and node.name.isupper() else ""
    if isinstance(node, Op) and node.joined:
        left, right = map(_run, node.args)
        return left + right if left and right else ""
    return ""


def _letters(node: Node) -> frozenset[str]:
    if isinstance(node, Sym):
        return frozenset((node.name,))
    parts = node.args if isinstance(node, Op) else ()
    return frozenset[str]().union(*map(_letters, parts))


def _has_run(node: Node) -> bool:
    if not isinstance(node, Op):
        return False
    return (node.joined and all(map(_letters, node.args))) or any(map(_has_run, node.args))


def _value(node: Node) -> _Matrix:
    if isinstance(node, Num):
        return _times_one(node.value)
    if isinstance(node, Sym):
        return _letter(node.name)
    if not isinstance(node, Op):
        raise _NotMatricesError
    if node.name == "neg":
        return _scale(_value(node.args[0]), Fraction(-1))
    if node.name == "^":
        return _power(*node.args)
    if node.name not in ("+", "-", "*", "/"):
        raise _NotMatricesError
    left, right = node.args
    if node.name == "/" or (node.name == "*" and not node.joined):
        return _by_number(node.name, left, right)
    a, b = _value(left), _value(right)
    return _product(a, b) if node.name == "*" else _sum(a, _scale(b, Fraction(_SIGNS[node.name])))


_SIGNS = {"+": 1, "-": -1}


def _by_number(name: str, left: Node, right: Node) -> _Matrix:
    """A quotient by a number, or a product with a sign: one side of it must be a number."""
    if _letters(right) and (name == "/" or _letters(left)):
        raise _NotMatricesError
    a, b = _value(left), _value(right)
    return _scale(a, 1 / b[0][0]) if name == "/" else _product(a, b)


def _power(base: Node, exponent: Node) -> _Matrix:
    matrix = _value(base)
    if exponent == _TRANSPOSED:
        return (matrix[0][0], matrix[1][0]), (matrix[0][1], matrix[1][1])
    inverse = isinstance(exponent, Op) and exponent.name == "neg"
    whole = exponent.args[0] if isinstance(exponent, Op) and inverse else exponent
    if not isinstance(whole, Num) or whole.value.denominator != 1 or whole.value > _MAX_POWER:
        raise _NotMatricesError
    result = _times_one(Fraction(1))
    for _ in range(int(whole.value)):
        result = _product(result, matrix)
    return _inverse(result) if inverse else result


@lru_cache(maxsize=256)
def _letter(name: str) -> _Matrix:
    """An arbitrary matrix, the same for each use of a letter."""
    a, b, c, d = (Fraction(byte + 1) for byte in hashlib.sha256(name.encode()).digest()[:4])
    return (a, b), (c, d)


def _times_one(value: Fraction) -> _Matrix:
    return (value, Fraction(0)), (Fraction(0), value)


def _scale(matrix: _Matrix, factor: Fraction) -> _Matrix:
    return _product(_times_one(factor), matrix)


def _sum(left: _Matrix, right: _Matrix) -> _Matrix:
    (a, b), (c, d) = left
    (e, f), (g, h) = right
    return (a + e, b + f), (c + g, d + h)


def _product(left: _Matrix, right: _Matrix) -> _Matrix:
    (a, b), (c, d) = left
    (e, f), (g, h) = right
    return (a * e + b * g, a * f + b * h), (c * e + d * g, c * f + d * h)


def _inverse(matrix: _Matrix) -> _Matrix:
    (a, b), (c, d) = matrix
    determinant = a * d - b * c
    return _scale(((d, -b), (-c, a)), 1 / determinant)
