"""Are two expressions the same number, or the same function? Exact where both are rational.

Irrational constants and expressions with variables are compared by evaluation, at two precisions:
the difference of equal values shrinks with the precision, that of different values stays, so no
tolerance has to be chosen. All work is bounded: sizes of numbers, exponents, factorials and steps.
"""

from __future__ import annotations

import decimal
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction

from srl_envs.rewards.matcher.notation.trees import Const, Node, Num, Op, Sym, Unreadable
from srl_envs.rewards.matcher.numbers import complex_plane as complex_numbers
from srl_envs.rewards.matcher.numbers import functions
from srl_envs.rewards.matcher.numbers.any_function import any_function
from srl_envs.rewards.matcher.numbers.complex_plane import Value

MAX_BITS = 40_000
"""Largest numerator or denominator of an exact value."""
MAX_FACTORIAL = 2_500
MAX_STEPS = 5_000
"""Evaluated nodes per comparison; sums over an index multiply them."""
FOLDS = {"sum": 0, "prod": 1}
"""Operations over an index, and what they are over no index at all."""
_CONSTANT_DIGITS = (40, 100, 140)
_FUNCTION_DIGITS = (30, 60, 90)
_SCALES = (1, 4, 30, 1000, 4, 4, 30, 100, 1, 10, 1000, 300)
"""Largest size of a variable at each point: what differs beyond a bound must be met there."""
_NEEDED = 4
_MAX_SYMBOLS = 8
_ORDINARY = Decimal("1e-15")
_ARITHMETIC = (decimal.DecimalException, Unreadable, OverflowError, ValueError, ZeroDivisionError)


IMAGINARY_UNIT = "i"
"""This variable is the imaginary unit wherever no sum binds it."""


class _TooLongError(Unreadable):
    """The work exceeds its limit: another point would not help."""


def symbols(node: Node) -> frozenset[str]:
    """Names of the free variables of an expression; the imaginary unit is none."""
    return _names(node) - {IMAGINARY_UNIT}


def _names(node: Node) -> frozenset[str]:
    if isinstance(node, Sym):
        return frozenset((node.name,))
    if not isinstance(node, Op):
        return frozenset()
    parts = node.args[1:] if node.name == "apply" else node.args
    names = frozenset[str]().union(*(_names(part) for part in parts))
    if node.name in FOLDS and isinstance(node.args[0], Sym):
        return names - {node.args[0].name}
    return names


def exact(node: Node) -> Fraction | None:
    """The exact value of a rational constant; None where it is none or not seen to be one.

    Raises:
        Unreadable: the value is too large, or undefined (a division by 0).
    """
    return _Exact().value(node, {})


class _Exact:
    """Evaluates to `Fraction`; None is "not rational as far as we can see"."""

    def __init__(self) -> None:
        self.steps = 0

    def value(self, node: Node, bound: Mapping[str, Fraction]) -> Fraction | None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise _TooLongError("too many steps")
        if isinstance(node, Num):
            return node.value
        if isinstance(node, Sym):
            return bound.get(node.name)
        if not isinstance(node, Op):
            return None
        if node.name in FOLDS:
            return self._fold(node, bound)
        if node.name == "apply":
            return self.value(any_function(node), bound)
        values = [self.value(part, bound) for part in node.args]
        known = [value for value in values if value is not None]
        return _rational(node.name, known) if len(known) == len(values) else None

    def _fold(self, node: Op, bound: Mapping[str, Fraction]) -> Fraction | None:
        name, low, high = node.args[0], *(self.value(part, bound) for part in node.args[1:3])
        if low is None or high is None or not isinstance(name, Sym):
            return None
        if low.denominator != 1 or high.denominator != 1 or high - low > MAX_STEPS:
            raise Unreadable("a sum without whole bounds")
        total = Fraction(FOLDS[node.name])
        for index in range(int(low), int(high) + 1):
            term = self.value(node.args[3], {**bound, name.name: Fraction(index)})
            if term is None:
                return None
            total = _small(total + term if node.name == "sum" else total * term)
        return total


def _small(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise Unreadable("a number of this size")
    return value


def _rational(name: str, values: list[Fraction]) -> Fraction | None:
    rule = _RATIONAL.get(name)
    if rule is None:
        return None
    value = rule(*values)
    return None if value is None else _small(value)


def _divide(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Unreadable("a division by 0")
    return a / b


def _power(a: Fraction, b: Fraction) -> Fraction | None:
    if a == 0 and b <= 0:
        if b == 0:
            return Fraction(1)
        raise Unreadable("a division by 0")
    if b.denominator != 1:
        root = _root(a, b.denominator)
        return None if root is None else _power(root, Fraction(b.numerator))
    bits = max(a.numerator.bit_length(), a.denominator.bit_length())
    if a not in (0, 1, -1) and abs(b) * (bits - 1) > MAX_BITS:
        raise Unreadable("a power of this size")
    return a ** (int(b) if a not in (1, -1) else int(b) % 2)


def _root(a: Fraction, degree: int) -> Fraction | None:
    """The rational root of ``a >= 0``, None where it is irrational."""
    if a < 0 or degree > 64:
        return None
    parts = []
    for whole in (a.numerator, a.denominator):
        root = math.isqrt(whole) if degree == 2 else _integer_root(whole, degree)
        if root**degree != whole:
            return None
        parts.append(root)
    return Fraction(parts[0], parts[1])


def _any_root(a: Fraction, degree: Fraction) -> Fraction | None:
    if degree.denominator != 1 or degree < 1:
        return None
    if a < 0:
        positive = _root(-a, int(degree)) if degree % 2 else None
        return None if positive is None else -positive
    return _root(a, int(degree))


def _integer_root(whole: int, degree: int) -> int:
    low, high = 0, 1 << (whole.bit_length() // degree + 1)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= whole else (low, middle)
    return low


def _factorial(a: Fraction) -> Fraction:
    if a.denominator != 1 or not 0 <= a <= MAX_FACTORIAL:
        raise Unreadable("a factorial of this size")
    return Fraction(math.factorial(int(a)))


def _binomial(n: Fraction, k: Fraction) -> Fraction:
    if n.denominator != 1 or k.denominator != 1 or not 0 <= n <= 2 * MAX_FACTORIAL or k < 0:
        raise Unreadable("a binomial of this size")
    return Fraction(math.comb(int(n), int(k)))


def _whole_fold(fold: Callable[..., int]) -> Callable[..., Fraction | None]:
    def rule(*values: Fraction) -> Fraction | None:
        whole = all(value.denominator == 1 for value in values)
        return Fraction(fold(*(int(value) for value in values))) if whole else None

    return rule


_RATIONAL: Mapping[str, Callable[..., Fraction | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "^": _power,
    "neg": lambda a: -a,
    "!": _factorial,
    "binom": _binomial,
    "sqrt": lambda a: _root(a, 2),
    "root": _any_root,
    "abs": abs,
    "floor": lambda a: Fraction(math.floor(a)),
    "ceil": lambda a: Fraction(math.ceil(a)),
    "min": min,
    "max": max,
    "gcd": _whole_fold(math.gcd),
    "lcm": _whole_fold(math.lcm),
    "exp": lambda a: Fraction(1) if a == 0 else None,
    "ln": lambda a: Fraction(0) if a == 1 else None,
}


def approximate(
    node: Node, point: Mapping[str, Fraction], digits: int, *, complex_values: bool | None = None
) -> Value:
    """The value of an expression with ``digits`` significant digits.

    Args:
        point: a value for each free variable.
        complex_values: whether roots of negative numbers have values; by default, where ``node`` has
            an ``i``.

    Raises:
        Unreadable, decimal.DecimalException: undefined there, or beyond the limits.
    """
    with decimal.localcontext(functions.context(digits)):
        if complex_values is None:
            complex_values = IMAGINARY_UNIT in _names(node)
        return _Approximate(digits, complex_values).value(node, point)


def approximate_real(node: Node, point: Mapping[str, Fraction], digits: int) -> Decimal:
    """Like `approximate`; a complex value is refused."""
    value = approximate(node, point, digits)
    if not isinstance(value, Decimal):
        raise Unreadable("a complex number")
    return value


class _Approximate:
    def __init__(self, digits: int, complex_values: bool) -> None:
        self.digits = digits
        self.complex_values = complex_values
        self.steps = 0

    def value(self, node: Node, point: Mapping[str, Fraction]) -> Value:
        self.steps += 1
        if self.steps > MAX_STEPS // 10:
            raise _TooLongError("too many steps")
        if isinstance(node, Num):
            return functions.ratio(node.value)
        if isinstance(node, Sym):
            if node.name == IMAGINARY_UNIT and node.name not in point:
                return complex_numbers.I
            return functions.ratio(point[node.name])
        if isinstance(node, Const) and node.name != "inf":
            return functions.pi(self.digits) if node.name == "pi" else Decimal(1).exp()
        if not isinstance(node, Op):
            raise Unreadable("no finite value")
        if node.name in FOLDS:
            return self._fold(node, point)
        if node.name == "apply":
            return self.value(any_function(node), point)
        values = [self.value(part, point) for part in node.args]
        if self.complex_values:
            return complex_numbers.apply(node.name, *values)
        rule = functions.RULES.get(node.name)
        if rule is None:
            raise Unreadable(f"no value for {node.name}")
        return rule(*values)  # all of them real: only ``complex_values`` makes others

    def _fold(self, node: Op, point: Mapping[str, Fraction]) -> Value:
        name, low, high, body = node.args
        first, last = exact(low), exact(high)
        if first is None or last is None or not isinstance(name, Sym):
            raise Unreadable("a sum without whole bounds")
        if first.denominator != 1 or last.denominator != 1 or last - first > MAX_STEPS:
            raise Unreadable("a sum without whole bounds")
        total: Value = Decimal(FOLDS[node.name])
        for index in range(int(first), int(last) + 1):
            term = self.value(body, {**point, name.name: Fraction(index)})
            total = total + term if node.name == "sum" else total * term
        return total


def same_value(left: Node, right: Node, *, rounded_digits: int | None = None) -> bool:
    """Whether two expressions are equal: as numbers, or as functions of their variables.

    Args:
        left: the reference.
        right: the answer that is given.
        rounded_digits: accept a correctly rounded decimal for an irrational or non-terminating
            reference from this many significant digits on; None never does.

    Raises:
        Unreadable: an exact value exceeds the limits.
    """
    if left == right:
        return True
    names = symbols(left) | symbols(right)
    if len(names) > _MAX_SYMBOLS:
        return False
    if names:
        return same_function(left, right, names)
    a, b = exact(left), exact(right)
    if a is not None and b is not None:
        return a == b or _rounds_to(left, right, rounded_digits)
    if _infinite(left) or _infinite(right):
        return _infinite(left) == _infinite(right)
    try:
        return _agree(left, right, {}) or _rounds_to(left, right, rounded_digits)
    except _ARITHMETIC:
        raise Unreadable("a value that is undefined or too large") from None


def _infinite(node: Node) -> int:
    """1 for infinity, -1 for its negative, 0 for anything else."""
    if isinstance(node, Op) and node.name == "neg":
        return -_infinite(node.args[0])
    return int(node == Const("inf"))


def _agree(left: Node, right: Node, point: Mapping[str, Fraction]) -> bool:
    """Whether the difference vanishes as the precision grows; one precision can only deny it."""
    earlier: Decimal | None = None
    with_roots = IMAGINARY_UNIT in _names(left) | _names(right)
    for digits in _CONSTANT_DIGITS if not point else _FUNCTION_DIGITS:
        a, b = (
            approximate(side, point, digits, complex_values=with_roots) for side in (left, right)
        )
        with decimal.localcontext(functions.context(digits)):
            gap, size = abs(a - b), max(abs(a), abs(b))
            if earlier is None:
                if size > _ORDINARY and gap > size.scaleb(-digits // 2):
                    return False
            elif gap <= size.scaleb(15 - digits):
                return True
            elif earlier or size > _ORDINARY:
                return gap <= earlier.scaleb(-20)
        earlier = gap
    return False


def _rounds_to(reference: Node, given: Node, digits: int | None) -> bool:
    """Whether ``given`` is a decimal that ``reference`` rounds to."""
    sign = 1
    while isinstance(given, Op) and given.name == "neg":
        sign, given = -sign, given.args[0]
    number = given
    if digits is None or not isinstance(number, Num) or number.places is None:
        return False
    if number.significant < digits or _is_decimal(reference):
        return False
    difference = Op("-", (reference, Num(sign * number.value)))
    gap = approximate_real(difference, {}, _CONSTANT_DIGITS[1])
    with decimal.localcontext(functions.context(_CONSTANT_DIGITS[1])):
        return abs(gap) * 2 <= Decimal(1).scaleb(-number.places)


def _is_decimal(node: Node) -> bool:
    """Whether the reference has a finite decimal form, which must then be given exactly."""
    value = exact(node)
    if value is None:
        return False
    bottom = value.denominator
    for prime in (2, 5):
        while bottom % prime == 0:
            bottom //= prime
    return bottom == 1


def points(
    names: frozenset[str], left: Node, right: Node, *, whole: bool = False
) -> Iterator[dict[str, Fraction]]:
    """Pseudo-random points, fixed by what is compared, so that no answer can be prepared for them.

    Args:
        whole: positive whole numbers, for what is defined on those only, such as ``n!``.
    """
    seed = hashlib.sha256(repr((left, right)).encode()).digest()
    for number, scale in enumerate(_SCALES):
        point = {}
        for name in sorted(names):
            digest = hashlib.sha256(seed + f"{number} {name}".encode()).digest()
            if whole:
                point[name] = Fraction(digest[0] % 32 + 1)
                continue
            size = scale * Fraction(int.from_bytes(digest[:4], "big") + 1, 2**32)
            negative = number % 2 and (digest[4] % 2 or len(names) == 1)
            point[name] = -size if negative else size
        yield point


def same_function(left: Node, right: Node, names: frozenset[str]) -> bool:
    """Whether two expressions agree wherever both are defined, tried at several points.

    Raises:
        Unreadable: they are defined at too few of them.
    """
    for whole in (False, True):
        agreed = 0
        for point in points(names, left, right, whole=whole):
            try:
                if not _agree(left, right, point):
                    return False
            except _TooLongError:
                raise
            except _ARITHMETIC:
                continue
            agreed += 1
        if agreed >= _NEEDED:
            return True
    raise Unreadable("expressions that are hardly anywhere defined")


def constant_ratio(left: Node, right: Node, names: frozenset[str]) -> Decimal | None:
    """The constant that ``left`` is times ``right``, None where the ratio varies."""
    ratios = []
    for point in points(names, left, right):
        try:
            a, b = (approximate_real(side, point, _CONSTANT_DIGITS[1]) for side in (left, right))
            with decimal.localcontext(functions.context(_CONSTANT_DIGITS[1])):
                ratios.append(a / b)
        except _TooLongError:
            raise
        except _ARITHMETIC:
            continue
    if len(ratios) < _NEEDED or ratios[0] == 0:
        return None
    with decimal.localcontext(functions.context(_CONSTANT_DIGITS[1])):
        spread = max(abs(ratio - ratios[0]) for ratio in ratios)
        return ratios[0] if spread <= abs(ratios[0]).scaleb(-40) else None
