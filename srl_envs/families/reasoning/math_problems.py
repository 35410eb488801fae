"""Generators of short problems with one exact rational answer: six families, five difficulties.

Every problem is drawn from the stream that the caller hands over. Difficulty 1 stays within
small whole numbers, so that the smallest language models have something to win.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from srl_envs.draws import Draws

Rng = Draws | np.random.Generator


class Problem(NamedTuple):
    """A question and its answer."""

    text: str
    """One line of plain text."""
    answer: str
    """The exact answer, reduced: ``7``, ``-3`` or ``7/2``."""


Draw = Callable[[Rng], tuple[str, Fraction | int]]
_PARTS = re.compile(r"[0-9]+|[a-z]+|A+|B+|C+", re.ASCII)


def problem_key(text: str) -> tuple[str, ...]:
    """What names a problem, whatever the order and the signs of its numbers.

    ``3 + 4 = ?``, ``4 + 3 = ?`` and ``4 - 3 = ?`` have one key, as have two equations in either order.
    """
    return tuple(
        sorted(str(len(part)) if "A" <= part[0] <= "C" else part for part in _PARTS.findall(text))
    )


def draw_problem(rng: Rng, family: str, difficulty: int) -> Problem:
    """One problem of ``family``, a key of `FAMILIES`, at ``difficulty`` from 1 to 5."""
    text, answer = FAMILIES[family][difficulty - 1](rng)
    return Problem(text, str(Fraction(answer)))


def _between(rng: Rng, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``, both included."""
    return int(rng.integers(low, high + 1))


def _sign(rng: Rng) -> int:
    return 1 if rng.random() < 0.5 else -1


def _signed(value: int) -> str:
    """A term after the first: `` + 3`` or `` - 3``."""
    return f" {'+' if value >= 0 else '-'} {abs(value)}"


# --- arithmetic ---------------------------------------------------------------------------------


def _sum_of_two(rng: Rng) -> tuple[str, int]:
    a, b = _between(rng, 1, 9), _between(rng, 1, 9)
    return (f"{a} + {b} = ?", a + b) if a < b or rng.random() < 0.5 else (f"{a} - {b} = ?", a - b)


def _sum_of_three(rng: Rng) -> tuple[str, int]:
    a, b, c = _between(rng, 1, 30), _sign(rng) * _between(rng, 1, 30), _between(rng, 1, 30)
    return f"{a}{_signed(b)} + {c} = ?", a + b + c


def _product_and_sum(rng: Rng) -> tuple[str, int]:
    a, b, c = _between(rng, 3, 12), _between(rng, 3, 12), _sign(rng) * _between(rng, 1, 60)
    return f"{a} * {b}{_signed(c)} = ?", a * b + c


def _brackets(rng: Rng) -> tuple[str, int]:
    a, b, c = _between(rng, 5, 40), _sign(rng) * _between(rng, 5, 40), _between(rng, 3, 15)
    d = _sign(rng) * _between(rng, 10, 99)
    return f"({a}{_signed(b)}) * {c}{_signed(d)} = ?", (a + b) * c + d


def _long_chain(rng: Rng) -> tuple[str, int]:
    a, b = _between(rng, 12, 99), _between(rng, 12, 99)
    c, d, e = _between(rng, 5, 40), _sign(rng) * _between(rng, 5, 40), _between(rng, 6, 25)
    return f"{a} * {b} - ({c}{_signed(d)}) * {e} = ?", a * b - (c + d) * e


# --- linear equations ---------------------------------------------------------------------------


def _shifted(rng: Rng) -> tuple[str, int]:
    x, b = _between(rng, 1, 9), _between(rng, 1, 9)
    return f"x + {b} = {x + b}. x = ?", x


def _one_unknown(rng: Rng) -> tuple[str, int]:
    x, a, b = _between(rng, -9, 12), _between(rng, 2, 9), _sign(rng) * _between(rng, 1, 20)
    return f"{a}x{_signed(b)} = {a * x + b}. x = ?", x


def _sum_and_difference(rng: Rng) -> tuple[str, int]:
    x, y = _between(rng, -10, 20), _between(rng, -10, 20)
    return f"x + y = {x + y}, x - y = {x - y}. x = ?", x


def _system(rng: Rng, x: Fraction | int, y: Fraction | int) -> tuple[str, Fraction | int]:
    """Two equations with whole coefficients, scaled until the right sides are whole as well."""
    while True:
        (a, b), (c, d) = [[_sign(rng) * _between(rng, 2, 9) for _ in range(2)] for _ in range(2)]
        if a * d != b * c:
            break
    scale = math.lcm(Fraction(x).denominator, Fraction(y).denominator)
    lines = []
    for p, q in ((a * scale, b * scale), (c * scale, d * scale)):
        right = p * x + q * y
        lines.append(f"{p}x{_signed(q)}y = {right}")
    return f"{lines[0]}, {lines[1]}. x = ?", x


def _whole_system(rng: Rng) -> tuple[str, Fraction | int]:
    return _system(rng, _between(rng, -12, 12), _between(rng, -12, 12))


def _fraction_system(rng: Rng) -> tuple[str, Fraction | int]:
    x = Fraction(_sign(rng) * _between(rng, 1, 20), _between(rng, 2, 6))
    return _system(rng, x, _between(rng, -9, 9))


# --- remainders ---------------------------------------------------------------------------------


def _small_remainder(rng: Rng) -> tuple[str, int]:
    a, m = _between(rng, 3, 19), _between(rng, 2, 5)
    return f"{a} mod {m} = ?", a % m


def _remainder(rng: Rng) -> tuple[str, int]:
    a, m = _between(rng, 30, 199), _between(rng, 3, 12)
    return f"{a} mod {m} = ?", a % m


def _remainder_of_product(rng: Rng) -> tuple[str, int]:
    a, b, m = _between(rng, 11, 60), _between(rng, 11, 60), _between(rng, 5, 19)
    return f"({a} * {b}) mod {m} = ?", a * b % m


def _remainder_of_power(rng: Rng) -> tuple[str, int]:
    a, k, m = _between(rng, 2, 12), _between(rng, 5, 20), _between(rng, 5, 23)
    return f"({a}^{k}) mod {m} = ?", pow(a, k, m)


def _remainder_of_powers(rng: Rng) -> tuple[str, int]:
    a, k, b, j = (_between(rng, low, high) for low, high in ((2, 19), (8, 40), (2, 19), (8, 40)))
    m = _between(rng, 11, 97)
    return f"({a}^{k} + {b}^{j}) mod {m} = ?", (pow(a, k, m) + pow(b, j, m)) % m


# --- counting -----------------------------------------------------------------------------------


def _numbers_in_range(rng: Rng) -> tuple[str, int]:
    low, length = _between(rng, 1, 9), _between(rng, 2, 10)
    return f"How many whole numbers are there from {low} to {low + length - 1}?", length


def _multiples(rng: Rng) -> tuple[str, int]:
    k, high = _between(rng, 2, 9), _between(rng, 20, 120)
    return f"How many multiples of {k} are there from 1 to {high}?", high // k


def _choices(rng: Rng) -> tuple[str, int]:
    n = _between(rng, 4, 16)
    k = _between(rng, 2, min(5, n - 1))
    return f"In how many ways can {k} of {n} people be chosen?", math.comb(n, k)


def _arrangements(rng: Rng) -> tuple[str, int]:
    counts = [_between(rng, 1, 4) for _ in range(3)]
    letters = "".join(letter * n for letter, n in zip("ABC", counts, strict=True))
    ways = math.factorial(len(letters)) // math.prod(math.factorial(n) for n in counts)
    return f"How many different words can be made from all the letters of {letters}?", ways


def _exactly_one_divisor(rng: Rng) -> tuple[str, int]:
    a = _between(rng, 3, 9)
    b, high = a + _between(rng, 1, 6), _between(rng, 100, 600)
    ways = high // a + high // b - 2 * (high // math.lcm(a, b))
    text = f"How many whole numbers from 1 to {high} are divisible by {a} or {b} but not by both?"
    return text, ways


# --- fractions ----------------------------------------------------------------------------------


def _same_denominator(rng: Rng) -> tuple[str, Fraction]:
    n = _between(rng, 3, 9)
    a = _between(rng, 1, n - 2)
    b = _between(rng, 1, n - 1 - a)
    return f"{a}/{n} + {b}/{n} = ?", Fraction(a + b, n)


def _proper(rng: Rng, largest: int) -> tuple[int, int]:
    bottom = _between(rng, 2, largest)
    return _between(rng, 1, bottom - 1), bottom


def _two_fractions(rng: Rng) -> tuple[str, Fraction]:
    (a, b), (c, d) = _proper(rng, 8), _proper(rng, 8)
    return f"{a}/{b} + {c}/{d} = ?", Fraction(a, b) + Fraction(c, d)


def _three_fractions(rng: Rng) -> tuple[str, Fraction]:
    (a, b), (c, d), (e, f) = (_proper(rng, 9) for _ in range(3))
    return f"{a}/{b} + {c}/{d} - {e}/{f} = ?", Fraction(a, b) + Fraction(c, d) - Fraction(e, f)


def _sum_times_fraction(rng: Rng) -> tuple[str, Fraction]:
    (a, b), (c, d), (e, f) = (_proper(rng, 12) for _ in range(3))
    return f"({a}/{b} + {c}/{d}) * ({e}/{f}) = ?", (Fraction(a, b) + Fraction(c, d)) * Fraction(
        e, f
    )


def _quotient_of_sums(rng: Rng) -> tuple[str, Fraction]:
    (a, b), (c, d), (e, f), (g, h) = (_proper(rng, 12) for _ in range(4))
    value = (Fraction(a, b) - Fraction(c, d)) / (Fraction(e, f) + Fraction(g, h))
    return f"({a}/{b} - {c}/{d}) / ({e}/{f} + {g}/{h}) = ?", value


# --- sequences ----------------------------------------------------------------------------------


def _terms(values: list[int]) -> str:
    return ", ".join(str(value) for value in values)


def _counting_up(rng: Rng) -> tuple[str, int]:
    start, step = _between(rng, 1, 9), _between(rng, 1, 5)
    return f"What comes next: {_terms([start + i * step for i in range(4)])}?", start + 4 * step


def _arithmetic(rng: Rng) -> tuple[str, int]:
    start, step = _between(rng, -30, 60), _sign(rng) * _between(rng, 3, 25)
    return f"What comes next: {_terms([start + i * step for i in range(4)])}?", start + 4 * step


def _geometric(rng: Rng) -> tuple[str, int]:
    start, ratio = _between(rng, 1, 9), _sign(rng) * _between(rng, 2, 4)
    return f"What comes next: {_terms([start * ratio**i for i in range(4)])}?", start * ratio**4


def _sum_of_two_before(rng: Rng) -> tuple[str, int]:
    terms = [_between(rng, -9, 12), _between(rng, 1, 20)]
    while len(terms) < 6:
        terms.append(terms[-1] + terms[-2])
    text = f"Each term is the sum of the two before it: {_terms(terms[:3])}, ... What is term 6?"
    return text, terms[5]


def _recurrence(rng: Rng) -> tuple[str, int]:
    first, factor = _between(rng, 1, 9), _between(rng, 2, 5)
    shift, n = _sign(rng) * _between(rng, 1, 9), _between(rng, 5, 7)
    value = first
    for _ in range(n - 1):
        value = factor * value + shift
    rule = f"{factor} times the term before{' plus' if shift > 0 else ' minus'} {abs(shift)}"
    return f"Term 1 is {first}; each next term is {rule}. What is term {n}?", value


FAMILIES: Mapping[str, tuple[Draw, Draw, Draw, Draw, Draw]] = {
    "arithmetic": (_sum_of_two, _sum_of_three, _product_and_sum, _brackets, _long_chain),
    "linear": (_shifted, _one_unknown, _sum_and_difference, _whole_system, _fraction_system),
    "modular": (
        _small_remainder,
        _remainder,
        _remainder_of_product,
        _remainder_of_power,
        _remainder_of_powers,
    ),
    "counting": (_numbers_in_range, _multiples, _choices, _arrangements, _exactly_one_divisor),
    "fractions": (
        _same_denominator,
        _two_fractions,
        _three_fractions,
        _sum_times_fraction,
        _quotient_of_sums,
    ),
    "sequences": (_counting_up, _arithmetic, _geometric, _sum_of_two_before, _recurrence),
}
"""Problem families, each with one drawing function per difficulty."""
