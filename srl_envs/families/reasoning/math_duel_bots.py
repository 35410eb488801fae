"""Bots for the math duel: they read the observation, as any policy does, and solve its problem.

Each factory takes the bot's own generator and returns a ``text -> text`` callable.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from srl_envs.families.reasoning.math_duel import random_body
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_PROBLEM = re.compile(r"^Problem \d+ of \d+: (.*)$", re.MULTILINE)
_TOKEN = re.compile(r"\s*(\d+|[-+*/^()])")
_TERM = re.compile(r"([+-]?)\s*(\d*)([xy])")
_INTEGER = re.compile(r"-?\d+")


def random_bot(rng: np.random.Generator) -> Bot:
    """Any legal action, whatever the problem."""
    return lambda _: action(random_body(rng))


def weak_bot(rng: np.random.Generator) -> Bot:
    """Solves, errs six times in ten, always stakes 1."""
    return _solving_bot(rng, error_rate=0.6, stake=1)


def middle_bot(rng: np.random.Generator) -> Bot:
    """Solves, errs three times in ten, always stakes 1."""
    return _solving_bot(rng, error_rate=0.3, stake=1)


def strong_bot(rng: np.random.Generator) -> Bot:
    """Solves exactly and stakes 3."""
    return _solving_bot(rng, error_rate=0.0, stake=3)


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Errs three times in ten but half notices when: its stake follows a noisy confidence."""

    def act(text: str) -> str:
        answer = solve(present_problem(text))
        if answer is None:
            return action("pass")
        errs = rng.random() < 0.3
        confidence = rng.beta(2, 5) if errs else rng.beta(5, 2)
        stake = sum(confidence > bar for bar in (0.35, 0.5, 0.7))
        if stake == 0:
            return action("pass")
        return action(f"{mistaken(answer, rng) if errs else answer}; {stake}")

    return act


def _solving_bot(rng: np.random.Generator, *, error_rate: float, stake: int) -> Bot:
    def act(text: str) -> str:
        answer = solve(present_problem(text))
        if answer is None:
            return action("pass")
        if rng.random() < error_rate:
            answer = mistaken(answer, rng)
        return action(f"{answer}; {stake}")

    return act


def mistaken(answer: Fraction, rng: np.random.Generator) -> Fraction:
    """A wrong answer close to the right one."""
    return answer + int(rng.integers(1, 6)) * (1 if rng.random() < 0.5 else -1)


# --- solving ------------------------------------------------------------------------------------


def present_problem(observation: str) -> str:
    """The text of the problem that is asked now; empty if there is none."""
    found = _PROBLEM.findall(observation)
    return str(found[-1]) if found else ""


def solve(problem: str) -> Fraction | None:
    """The answer of a problem of the math duel, read from its text; None if unreadable."""
    for pattern, solver in _SOLVERS:
        found = pattern.fullmatch(problem)
        if found:
            try:
                return Fraction(solver(*found.groups()))
            except (ValueError, IndexError, ZeroDivisionError):
                return None
    return None


def calculate(expression: str) -> Fraction:
    """The value of an expression of whole numbers, ``+ - * / ^`` and brackets."""
    tokens = [*_TOKEN.findall(expression), ""]
    return _sum(tokens)


def _sum(tokens: list[str]) -> Fraction:
    value = _product(tokens)
    while tokens[0] in ("+", "-"):
        sign = 1 if tokens.pop(0) == "+" else -1
        value += sign * _product(tokens)
    return value


def _product(tokens: list[str]) -> Fraction:
    value = _power(tokens)
    while tokens[0] in ("*", "/"):
        value = value * _power(tokens) if tokens.pop(0) == "*" else value / _power(tokens)
    return value


def _power(tokens: list[str]) -> Fraction:
    token = tokens.pop(0)
    if token == "(":
        value = _sum(tokens)
        tokens.pop(0)
    else:
        value = Fraction(token)
    if tokens[0] == "^":
        tokens.pop(0)
        value **= int(tokens.pop(0))
    return value


def _remainder(expression: str, modulus: str) -> Fraction:
    return calculate(expression) % int(modulus)


def _equation(text: str) -> tuple[Fraction, Fraction, Fraction]:
    """Coefficients of x and y, and the right side minus the constant on the left."""
    left, _, right = text.partition("=")
    factors = {"x": Fraction(0), "y": Fraction(0)}
    for sign, digits, name in _TERM.findall(left):
        factors[name] += Fraction(f"{sign}{digits or 1}")
    constant = _TERM.sub("", left).replace(" ", "")
    return factors["x"], factors["y"], Fraction(right.strip()) - Fraction(constant or "0")


def _system(text: str) -> Fraction:
    equations = [_equation(part) for part in text.split(",")]
    if len(equations) == 1:
        factor, _, right = equations[0]
        return right / factor
    (a, b, e), (c, d, f) = equations
    return (e * d - b * f) / (a * d - b * c)


def _exactly_one_divisor(high: str, a: str, b: str) -> int:
    return sum((n % int(a) == 0) != (n % int(b) == 0) for n in range(1, int(high) + 1))


def _arrangements(letters: str) -> int:
    repeats = (math.factorial(letters.count(letter)) for letter in set(letters))
    return math.factorial(len(letters)) // math.prod(repeats)


def _next_term(text: str) -> int:
    a, b, c, d = (int(term) for term in _INTEGER.findall(text))
    return d + (d - c) if b - a == c - b else d * (b // a)


def _sum_of_two_before(text: str, n: str) -> int:
    first, second = (int(term) for term in _INTEGER.findall(text)[:2])
    for _ in range(int(n) - 1):
        first, second = second, first + second
    return first


def _recurrence(first: str, factor: str, word: str, shift: str, n: str) -> int:
    value = int(first)
    for _ in range(int(n) - 1):
        value = int(factor) * value + (int(shift) if word == "plus" else -int(shift))
    return value


_SOLVERS: tuple[tuple[re.Pattern[str], Callable[..., Fraction | int]], ...] = tuple(
    (re.compile(pattern), solver)
    for pattern, solver in (
        (r"(.*=.*)\. x = \?", _system),
        (r"(.*) mod (\d+) = \?", _remainder),
        (r"([-+*/^() \d]+) = \?", calculate),
        (
            r"How many whole numbers are there from (\d+) to (\d+)\?",
            lambda low, high: int(high) - int(low) + 1,
        ),
        (
            r"How many multiples of (\d+) are there from 1 to (\d+)\?",
            lambda k, high: int(high) // int(k),
        ),
        (
            r"In how many ways can (\d+) of (\d+) people be chosen\?",
            lambda k, n: math.comb(int(n), int(k)),
        ),
        (
            r"How many different words can be made from all the letters of (\w+)\?",
            _arrangements,
        ),
        (
            r"How many whole numbers from 1 to (\d+) are divisible by (\d+) or (\d+) "
            r"but not by both\?",
            _exactly_one_divisor,
        ),
        (r"What comes next: (.*)\?", _next_term),
        (
            r"Each term is the sum of the two before it: (.*), \.\.\. What is term (\d+)\?",
            _sum_of_two_before,
        ),
        (
            r"Term 1 is (\d+); each next term is (\d+) times the term before (plus|minus) (\d+)\. "
            r"What is term (\d+)\?",
            _recurrence,
        ),
    )
)
