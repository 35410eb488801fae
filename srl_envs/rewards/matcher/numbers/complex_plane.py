"""Complex numbers on `decimal.Decimal`, for answers that contain the imaginary unit."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from srl_envs.rewards.matcher.notation.trees import Unreadable
from srl_envs.rewards.matcher.numbers import functions

_MAX_POWER = 5_000


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number; `Decimal` operands count as real."""

    real: Decimal
    imaginary: Decimal

    def __add__(self, other: Value) -> Complex:
        b = _complex(other)
        return Complex(self.real + b.real, self.imaginary + b.imaginary)

    def __sub__(self, other: Value) -> Complex:
        b = _complex(other)
        return Complex(self.real - b.real, self.imaginary - b.imaginary)

    def __mul__(self, other: Value) -> Complex:
        b = _complex(other)
        return Complex(
            self.real * b.real - self.imaginary * b.imaginary,
            self.real * b.imaginary + self.imaginary * b.real,
        )

    def __truediv__(self, other: Value) -> Complex:
        b = _complex(other)
        size = b.real * b.real + b.imaginary * b.imaginary
        return Complex(
            (self.real * b.real + self.imaginary * b.imaginary) / size,
            (self.imaginary * b.real - self.real * b.imaginary) / size,
        )

    def __radd__(self, other: Value) -> Complex:
        return self + other

    def __rsub__(self, other: Value) -> Complex:
        return _complex(other) - self

    def __rmul__(self, other: Value) -> Complex:
        return self * other

    def __rtruediv__(self, other: Value) -> Complex:
        return _complex(other) / self

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imaginary)

    def __abs__(self) -> Decimal:
        return (self.real * self.real + self.imaginary * self.imaginary).sqrt()


Value: TypeAlias = Decimal | Complex

I = Complex(Decimal(0), Decimal(1))  # noqa: E741 - its name in mathematics


def _complex(value: Value) -> Complex:
    return value if isinstance(value, Complex) else Complex(value, Decimal(0))


def apply(name: str, *values: Value) -> Value:
    """The principal value of an operator or function of `functions.RULES`.

    Raises:
        Unreadable, decimal.DecimalException: undefined there, or not defined for complex numbers.
    """
    real = [value for value in values if isinstance(value, Decimal)]
    if name in functions.RULES and len(real) == len(values) and not _leaves_the_reals(name, real):
        return functions.RULES[name](*real)
    rule = _RULES.get(name)
    if rule is None:
        raise Unreadable(f"no complex value for {name}")
    return rule(*map(_complex, values))


def _leaves_the_reals(name: str, values: list[Decimal]) -> bool:
    if name == "^":
        return values[0] < 0 and values[1] != values[1].to_integral_value()
    return name in ("sqrt", "ln") and values[0] < 0


def _angle(z: Complex) -> Decimal:
    """The argument, in (-pi, pi]."""
    arctangent, pi = functions.RULES["arctan"], functions.pi(decimal.getcontext().prec)
    if z.real > 0:
        return arctangent(z.imaginary / z.real)
    if z.imaginary == 0:
        if z.real == 0:
            raise Unreadable("the argument of 0")
        return pi
    half = pi / 2 if z.imaginary > 0 else -pi / 2
    return half - arctangent(z.real / z.imaginary)


def _exp(z: Complex) -> Complex:
    size = z.real.exp()
    return Complex(
        size * functions.RULES["cos"](z.imaginary), size * functions.RULES["sin"](z.imaginary)
    )


def _ln(z: Complex) -> Complex:
    return Complex(abs(z).ln(), _angle(z))


def _power(z: Complex, w: Complex) -> Complex:
    whole = w.imaginary == 0 and w.real == w.real.to_integral_value()
    if not whole:
        return _exp(w * _ln(z))
    if abs(w.real) > _MAX_POWER:
        raise Unreadable("a power of this size")
    n, result, base = abs(int(w.real)), _complex(Decimal(1)), z
    while n:
        if n % 2:
            result = result * base
        base, n = base * base, n // 2
    return result if w.real >= 0 else Decimal(1) / result


def _sqrt(z: Complex) -> Complex:
    size = abs(z)
    real = ((size + z.real) / 2).max(Decimal(0)).sqrt()
    imaginary = ((size - z.real) / 2).max(Decimal(0)).sqrt()
    return Complex(real, -imaginary if z.imaginary < 0 else imaginary)


def _cos(z: Complex) -> Complex:
    return (_exp(z * I) + _exp(-z * I)) / Decimal(2)


def _sin(z: Complex) -> Complex:
    return (_exp(z * I) - _exp(-z * I)) / (I * Decimal(2))


_RULES: Mapping[str, Callable[..., Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "^": _power,
    "neg": lambda a: -a,
    "abs": abs,
    "sqrt": _sqrt,
    "root": lambda a, degree: _power(a, _complex(Decimal(1)) / degree),
    "exp": _exp,
    "ln": _ln,
    "sin": _sin,
    "cos": _cos,
}
