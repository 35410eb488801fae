"""Elementary functions on `decimal.Decimal` at the precision of the active context."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from srl_envs.rewards.matcher.notation.trees import Unreadable

_GUARD_DIGITS = 15
_MAX_ANGLE = Decimal(10) ** 12
_MAX_FACTORIAL = 2_500
_MAX_CHOSEN = 500


def context(digits: int) -> decimal.Context:
    """A context of this precision that raises where a value is undefined, huge or tiny."""
    return decimal.Context(
        prec=digits,
        Emax=200_000,
        Emin=-200_000,
        traps=[
            decimal.InvalidOperation,
            decimal.DivisionByZero,
            decimal.Overflow,
            decimal.Underflow,
        ],
    )


def ratio(value: Fraction) -> Decimal:
    """A fraction at the active precision."""
    return Decimal(value.numerator) / Decimal(value.denominator)


@lru_cache(maxsize=8)
def pi(digits: int) -> Decimal:
    """Pi by Machin's formula."""
    one = 10 ** (digits + 10)

    def arccot(n: int) -> int:
        total: int = one // n
        term = total
        k = 1
        while term:
            term //= -n * n
            k += 2
            total += term // k
        return total

    return Decimal(4 * (4 * arccot(5) - arccot(239))).scaleb(-digits - 10)


def _sine(x: Decimal) -> Decimal:
    """Taylor series after reduction to a quarter turn."""
    if abs(x) > _MAX_ANGLE:
        raise Unreadable("an angle of this size")
    digits = decimal.getcontext().prec
    with decimal.localcontext(context(digits + _GUARD_DIGITS)) as wider:
        half = pi(wider.prec)
        turns = (x / half).to_integral_value()
        x -= turns * half
        term = total = x
        k = 1
        while term and term.adjusted() > total.adjusted() - wider.prec - 2:
            k += 2
            term = -term * x * x / (k * (k - 1))
            total += term
        return -total if turns % 2 else total


def _cosine(x: Decimal) -> Decimal:
    digits = decimal.getcontext().prec
    with decimal.localcontext(context(digits + _GUARD_DIGITS)) as wider:
        return _sine(x + pi(wider.prec) / 2)


def _tangent(x: Decimal) -> Decimal:
    return _sine(x) / _cosine(x)


def _arctangent(x: Decimal) -> Decimal:
    """Taylor series after halving the angle until it is small."""
    digits = decimal.getcontext().prec
    with decimal.localcontext(context(digits + _GUARD_DIGITS)) as wider:
        halvings = 0
        while abs(x) > Decimal("0.05"):
            x = x / (1 + (1 + x * x).sqrt())
            halvings += 1
        total = Decimal(0)
        power, k = x, 1
        while power and power.adjusted() > -wider.prec - 2:
            total += power / k
            power = -power * x * x
            k += 2
        return total * Decimal(2**halvings)


def _arcsine(x: Decimal) -> Decimal:
    if abs(x) == 1:
        return x * pi(decimal.getcontext().prec) / 2
    return _arctangent(x / (1 - x * x).sqrt())


def _arccosine(x: Decimal) -> Decimal:
    return pi(decimal.getcontext().prec) / 2 - _arcsine(x)


def _power(a: Decimal, b: Decimal) -> Decimal:
    if a == 0:
        if b > 0:
            return Decimal(0)
        raise Unreadable("zero to this power")
    if a < 0 and b != b.to_integral_value():
        raise Unreadable("a root of a negative number")
    return a**b


def _factorial(x: Decimal) -> Decimal:
    if x != x.to_integral_value() or not 0 <= x <= _MAX_FACTORIAL:
        raise Unreadable("a factorial of this kind")
    return _whole_factorial(int(x), decimal.getcontext().prec)


@lru_cache(maxsize=64)
def _whole_factorial(n: int, digits: int) -> Decimal:
    with decimal.localcontext(context(digits)):
        total = Decimal(1)
        for k in range(2, n + 1):
            total *= k
        return total


def _binomial(n: Decimal, k: Decimal) -> Decimal:
    if k != k.to_integral_value() or not 0 <= k <= _MAX_CHOSEN:
        return _factorial(n) / (_factorial(k) * _factorial(n - k))
    product = Decimal(1)
    for i in range(int(k)):
        product = product * (n - i) / (i + 1)
    return product


def _real_root(a: Decimal, degree: Decimal) -> Decimal:
    """The real root; of negative numbers, too, where the degree is odd."""
    if a < 0 and degree == degree.to_integral_value() and degree % 2:
        return -_power(-a, 1 / degree)
    return _power(a, 1 / degree)


RULES: Mapping[str, Callable[..., Decimal]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "^": _power,
    "neg": lambda a: -a,
    "!": _factorial,
    "binom": _binomial,
    "deg": lambda a: a * pi(decimal.getcontext().prec) / 180,
    "sqrt": lambda a: a.sqrt(),
    "root": _real_root,
    "abs": abs,
    "exp": lambda a: a.exp(),
    "ln": lambda a: a.ln(),
    "log": lambda a: a.log10(),
    "lg": lambda a: a.log10(),
    "floor": lambda a: a.to_integral_value(decimal.ROUND_FLOOR),
    "ceil": lambda a: a.to_integral_value(decimal.ROUND_CEILING),
    "min": min,
    "max": max,
    "sin": _sine,
    "cos": _cosine,
    "tan": _tangent,
    "cot": lambda a: _cosine(a) / _sine(a),
    "sec": lambda a: 1 / _cosine(a),
    "csc": lambda a: 1 / _sine(a),
    "arcsin": _arcsine,
    "asin": _arcsine,
    "arccos": _arccosine,
    "acos": _arccosine,
    "arctan": _arctangent,
    "atan": _arctangent,
    "sinh": lambda a: (a.exp() - (-a).exp()) / 2,
    "cosh": lambda a: (a.exp() + (-a).exp()) / 2,
    "tanh": lambda a: 1 - 2 / ((2 * a).exp() + 1),
}
