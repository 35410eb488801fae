"""A function of which only the name is given, as one that no answer was prepared for."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from functools import lru_cache

from srl_envs.rewards.matcher.notation.trees import Node, Num, Op, Sym


def any_function(node: Op) -> Node:
    """What ``f(x, y)`` is computed as: ``(a v + b) / (v^2 + c)``, with ``v`` a sum over the arguments.

    The coefficients follow from the name. So ``f(2x)`` and ``f(x + x)`` are equal, ``f(2)`` and ``2 f``
    are not, and the function is defined wherever its arguments are real.
    """
    name, *arguments = node.args
    a, b, c, *weights = _coefficients(name.name if isinstance(name, Sym) else "", len(arguments))
    value: Node = arguments[0]
    for weight, argument in zip(weights, arguments[1:], strict=True):
        value = Op("+", (value, Op("*", (weight, argument))))
    top = Op("+", (Op("*", (a, value)), b))
    return Op("/", (top, Op("+", (Op("*", (value, value)), c))))


@lru_cache(maxsize=256)
def _coefficients(name: str, arguments: int) -> tuple[Num, ...]:
    """Three coefficients, and a weight for each argument after the first; positive numbers."""
    found = []
    for number in range(2 + arguments):
        digest = hashlib.sha256(f"{name} {number}".encode()).digest()
        found.append(Num(Fraction(int.from_bytes(digest[:6], "big") + 1, 2**44)))
    return tuple(found)
