"""Values that an equation claims, and whether a value is written out or left to compute."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

from srl_envs.rewards.matcher.notation.trees import (
    Const,
    Group,
    Node,
    Num,
    Op,
    Relation,
    Sym,
    is_proper_fraction,
)
from srl_envs.rewards.matcher.numbers.evaluation import IMAGINARY_UNIT, exact, symbols
from srl_envs.rewards.matcher.policy import AnswerPolicy

_MINUS_ONE = Op("neg", (Num(Fraction(1)),))
_IMAGINARY = Sym(IMAGINARY_UNIT)


def names_something(node: Node) -> bool:
    """``x``, ``f(x)``, ``|AB|``, ``a/b``, ``(x, y)``: a left side that only names what is said."""
    if isinstance(node, Group):
        return node.opening == "(" and all(isinstance(item, Sym) for item in node.items)
    if isinstance(node, Op) and node.name in ("*", "/", "abs"):
        return all(map(names_something, node.args))
    if isinstance(node, Op) and node.name == "apply":
        return True
    if isinstance(node, Op) and node.name == "^":  # ``f^{-1}``
        return isinstance(node.args[0], Sym) and node.args[1] == _MINUS_ONE
    return isinstance(node, Sym)


def value_sides(relation: Relation) -> Sequence[Node]:
    """The sides that hold a value, after the names; none where two sides are equal: ``5 = 5``."""
    sides = relation.sides
    if relation.signs == ("=",) and isinstance(sides[1], Sym) and not names_something(sides[0]):
        sides = (sides[1], sides[0])
    written = {_as_written(side) for side in sides}
    values = tuple(itertools.dropwhile(names_something, sides[:-1])) + sides[-1:]
    said_twice = len(written) < len(sides) or ("in" in relation.signs and len(values) > 1)
    of_itself = isinstance(sides[0], Sym) and sides[0].name in symbols(values[-1])  # ``x = x + 1``
    return () if said_twice or of_itself else values


def _as_written(side: Node) -> Node | Fraction | None:
    """A side of an equation, numbers by their value, so that ``5`` and ``5.0`` are one."""
    if isinstance(side, Group) and side.opening == "\\{" and len(side.items) == 1:
        return _as_written(side.items[0])
    return exact(side) if _is_literal(side) else side


def is_calculation(node: Node, policy: AnswerPolicy) -> bool:
    """Whether a number is given as sums or products still to be worked out.

    Fractions, mixed numbers, powers and scientific notation are ways of writing one number; so are
    polar forms, if the policy allows them.
    """
    if isinstance(node, Relation):
        values = value_sides(node)
        return not values or is_calculation(values[-1], policy)
    if not isinstance(node, Op) or symbols(node):
        return False
    if policy.polar_form_ok and _is_polar(node):
        return False
    if node.name == "*" and _is_literal(node.args[0]) and _is_power_of_ten(node.args[1]):
        return False
    if node.name == "+" and isinstance(node.args[0], Num) and is_proper_fraction(node.args[1]):
        return False
    calculates = node.name in ("+", "-", "*", "sum", "prod")
    return calculates or any(is_calculation(part, policy) for part in node.args)


def _is_polar(node: Node) -> bool:
    r"""``r e^{i\theta}`` or ``r(\cos\theta + i\sin\theta)``; ``r`` is a written number or left out."""
    if isinstance(node, Op) and node.name == "neg":
        return _is_polar(node.args[0])
    if isinstance(node, Op) and node.name == "*" and _is_radius(node.args[0]):
        return _is_polar(node.args[1])
    return _is_exponential(node) or _is_trigonometric(node)


def _is_radius(node: Node) -> bool:
    root = isinstance(node, Op) and node.name == "sqrt" and _is_literal(node.args[0])
    return root or _is_literal(node) or is_proper_fraction(node)


def _is_exponential(node: Node) -> bool:
    if not isinstance(node, Op) or node.name not in ("^", "exp"):
        return False
    base, angle = (Const("e"), node.args[0]) if node.name == "exp" else node.args
    return base == Const("e") and _IMAGINARY in _factors(angle)


def _is_trigonometric(node: Node) -> bool:
    if not isinstance(node, Op) or node.name not in ("+", "-"):
        return False
    real, turned = node.args
    sine = [part for part in _factors(turned) if part != _IMAGINARY]
    return (
        isinstance(real, Op)
        and real.name == "cos"
        and sine == [Op("sin", real.args)]
        and len(_factors(turned)) == 2
    )


def _factors(node: Node) -> list[Node]:
    """The factors of a product, signs and denominators aside."""
    if isinstance(node, Op) and node.name == "*":
        return [factor for part in node.args for factor in _factors(part)]
    if isinstance(node, Op) and node.name in ("/", "neg"):
        return _factors(node.args[0])
    return [node]


def _is_literal(node: Node) -> bool:
    if isinstance(node, Op) and node.name == "neg":
        return _is_literal(node.args[0])
    return isinstance(node, Num)


def _is_power_of_ten(node: Node) -> bool:
    return isinstance(node, Op) and node.name == "^" and node.args[0] == Num(Fraction(10))
