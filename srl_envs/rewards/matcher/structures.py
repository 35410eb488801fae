"""Compares parsed answers: lists, tuples, sets, intervals, matrices, relations and values.

The reference comes first everywhere; comparison is symmetric except that the reference decides
what kind of thing is compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from srl_envs.rewards.matcher.claims import names_something, value_sides
from srl_envs.rewards.matcher.in_order import same_in_order
from srl_envs.rewards.matcher.notation.trees import (
    Const,
    Group,
    Many,
    Matrix,
    Node,
    Num,
    Op,
    Relation,
    Sym,
    Union,
    Without,
)
from srl_envs.rewards.matcher.numbers.evaluation import (
    approximate_real,
    constant_ratio,
    exact,
    same_value,
    symbols,
)
from srl_envs.rewards.matcher.policy import AnswerPolicy

MAX_ITEMS = 24
"""Longest list compared item by item without regard to order; longer ones must be in order."""

_INFINITE = Const("inf")
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SCALARS = (Num, Sym, Const, Op)


def same_answer(reference: Node, given: Node, policy: AnswerPolicy) -> bool:
    """Whether ``given`` has the same meaning as ``reference``.

    Raises:
        Unreadable: a value exceeds the limits of `evaluation`.
    """
    return _Comparison(policy).same(reference, given)


class _Comparison:
    def __init__(self, policy: AnswerPolicy) -> None:
        self.policy = policy

    def same(self, reference: Node, given: Node) -> bool:
        if reference == given:
            return True
        reference, given = _region(_both_signs(reference)), _region(_both_signs(given))
        if isinstance(reference, Relation) or isinstance(given, Relation):
            return self._relations(reference, given)
        if isinstance(reference, Many):
            return self._lists(reference, given)
        if isinstance(reference, Union):
            return isinstance(given, Union) and self._any_order(reference.items, given.items)
        if isinstance(reference, Group):
            return self._groups(reference, given)
        if isinstance(reference, Matrix):
            return self._matrices(reference, _as_matrix(given, column=len(reference.rows) > 1))
        if _is_set(given) and isinstance(given, Group) and len(given.items) == 1:
            given = given.items[0]
        return isinstance(given, _SCALARS) and self._values(reference, given)

    # --- values ---

    def _values(self, reference: Node, given: Node) -> bool:
        constant = symbols(reference) - symbols(given) == {"C"} != symbols(reference)
        if constant and self.policy.any_constant_name:
            given = _renamed(given, "c", "C")
        if symbols(given) and not symbols(reference) and exact(reference) == 0:
            return False  # letters times 0, such as ``up to 0``, say nothing
        ordered = same_in_order(reference, given)
        if ordered is not None:
            return ordered
        if same_value(reference, given, rounded_digits=self.policy.rounded_digits):
            return True
        if not self.policy.tolerant or symbols(reference) or symbols(given):
            return False
        target, value = (approximate_real(node, {}, 40) for node in (reference, given))
        return abs(target - value) <= self._allowed(target)

    def _allowed(self, target: Decimal) -> Decimal:
        """The largest error that the policy accepts at a number of this size."""
        allowed = Decimal(self.policy.relative_tolerance) * abs(target)
        digits = self.policy.significant_figures
        if digits is None or not target:
            return allowed
        return max(allowed, Decimal("0.5").scaleb(target.adjusted() - digits + 1))

    # --- several items ---

    def _in_order(self, reference: Sequence[Node], given: Sequence[Node]) -> bool:
        return len(reference) == len(given) and all(map(self.same, reference, given))

    def _any_order(self, reference: Sequence[Node], given: Sequence[Node]) -> bool:
        if len(reference) != len(given):
            return False
        if len(reference) > MAX_ITEMS:
            return self._in_order(reference, given)
        left = list(given)
        for item in reference:
            for i, candidate in enumerate(left):
                if self.same(item, candidate):
                    del left[i]
                    break
            else:
                return False
        return True

    def _lists(self, reference: Many, given: Node) -> bool:
        wanted = _without_first_label(reference.items)
        if isinstance(given, Group) and given.opening == "(" and _named_apart(wanted):
            return self._in_order([_unlabelled(item) for item in wanted], given.items)
        if isinstance(given, Group) and given.opening == "\\{" and not _named_apart(wanted):
            return self._members(wanted, given.items)
        if isinstance(given, Group) and given.opening == "[" and len(given.items) > 2:
            given = Many(given.items)  # two could be an interval
        if not isinstance(given, Many):
            return False
        found = _without_first_label(given.items)
        if _named_apart(wanted) and not any(map(_label, found)):
            return self._in_order([_unlabelled(item) for item in wanted], found)
        if _named_apart(found) and not any(map(_label, wanted)):
            return self._in_order(wanted, _by_name(found))
        if all(isinstance(item, Group) for item in (*wanted, *found)):  # a solution twice is one
            wanted, found = self._distinct(wanted), self._distinct(found)
        return (self._in_order if self.policy.order_matters else self._any_order)(wanted, found)

    def _members(self, reference: Sequence[Node], given: Sequence[Node]) -> bool:
        """As sets; as multisets where the reference repeats an item and the policy counts that."""
        wanted = self._distinct(reference)
        if self.policy.repeats_count and len(wanted) < len(reference):
            return self._any_order(reference, given)
        return self._any_order(wanted, self._distinct(given))

    def _distinct(self, items: Sequence[Node]) -> list[Node]:
        kept: list[Node] = []
        for item in items[: 2 * MAX_ITEMS]:
            if not any(self.same(other, item) for other in kept):
                kept.append(item)
        return kept + list(items[2 * MAX_ITEMS :])

    def _groups(self, reference: Group, given: Node) -> bool:
        if reference.opening == "\\{":
            if len(reference.items) == 1 and isinstance(given, _SCALARS):
                return self.same(reference.items[0], given)
            items = given.items if isinstance(given, Many | Group) else ()
            if not isinstance(given, Many) and not _is_set(given):
                return False
            return self._members(reference.items, items)
        if isinstance(given, Matrix):
            return self._matrices(_as_matrix(reference, column=len(given.rows) > 1), given)
        if isinstance(given, Many) and reference.opening == "(" and _named_apart(given.items):
            return self._in_order(reference.items, _by_name(given.items))
        if not isinstance(given, Group):
            return False
        if reference.opening == given.opening == ":":
            return self._in_order(_shares(reference.items), _shares(given.items))
        brackets = (reference.opening, reference.closing) == (given.opening, given.closing)
        return brackets and self._in_order(reference.items, given.items)

    def _matrices(self, reference: Matrix | None, given: Matrix | None) -> bool:
        if reference is None or given is None or len(reference.rows) != len(given.rows):
            return False
        return all(map(self._in_order, reference.rows, given.rows))

    # --- relations ---

    def _relations(self, reference: Node, given: Node) -> bool:
        if not isinstance(given, Relation):
            return self._said_without_relation(reference, given)
        if not isinstance(reference, Relation):
            return self._value_of_relation(reference, given)
        if _label(reference) and _label(reference) == _label(given):
            return self.same(_unlabelled(reference), _unlabelled(given))
        if _label(reference) and len(given.sides) > 2 and _label(reference) == given.sides[0]:
            return self._value_of_relation(_unlabelled(reference), given)  # ``x = 10/2 = 5``
        if reference.signs == given.signs == ("=",):
            return self._proportional(reference, given) is not None
        wanted, found = _solution_set(reference), _solution_set(given)
        if wanted and found:
            return wanted[0] == found[0] and self.same(wanted[1], found[1])
        return self._same_inequality(reference, given)

    def _said_without_relation(self, reference: Node, given: Node) -> bool:
        """Reference ``x = 3`` or ``x < 2``, answer ``3`` or ``(-oo, 2)``."""
        if not isinstance(reference, Relation):
            return False
        if _label(reference):
            return self.same(_unlabelled(reference), given)
        solutions = _solution_set(reference)
        return solutions is not None and self.same(solutions[1], given)

    def _value_of_relation(self, reference: Node, given: Relation) -> bool:
        """Reference ``5``, answer ``x = 5``, ``2 + 3 = 5`` or ``x = 2 + 3 = 5``."""
        solutions = _solution_set(given)
        if solutions and isinstance(reference, Group | Union):
            return self.same(solutions[1], reference)
        if set(given.signs) - {"=", "in"}:
            return False
        sides = value_sides(given)
        return (
            bool(sides)
            and self.same(reference, sides[-1])
            and all(self.same(sides[-1], side) for side in sides[:-1])
        )

    def _proportional(self, reference: Relation, given: Relation) -> Decimal | None:
        left, right = _difference(reference), _difference(given)
        if left is None or right is None or symbols(left) != symbols(right) or not symbols(left):
            return None
        return constant_ratio(left, right, symbols(left))

    def _same_inequality(self, reference: Relation, given: Relation) -> bool:
        if len(reference.signs) != 1 or len(given.signs) != 1:
            return False
        ratio = self._proportional(reference, given)
        if ratio is None:
            return False
        sign = given.signs[0] if ratio > 0 else _FLIPPED.get(given.signs[0], given.signs[0])
        return sign == reference.signs[0]


def _shares(items: Sequence[Node]) -> list[Node]:
    """The parts of a ratio, in units of the first."""
    return [Op("/", (item, items[0])) for item in items]


def _region(node: Node) -> Node:
    """``x < 1 or x > 2``, ``1 < x and x < 2`` and the reals without points, as intervals."""
    if isinstance(node, Without):
        return _reals_without(node)
    if not isinstance(node, Many) or not node.joint:
        return node
    sets = [_solution_set(item) if isinstance(item, Relation) else None for item in node.items]
    known = [found for found in sets if found]
    if len(known) < len(sets) or any(found[0] != known[0][0] for found in known):
        return node
    if node.joint == "or":
        return Relation(("in",), (known[0][0], Union(tuple(found[1] for found in known))))
    below = [found[1] for found in known if _starts(found[1], Op("neg", (_INFINITE,)))]
    above = [found[1] for found in known if found[1] not in below]
    if (
        len(below) == len(above) == 1
        and isinstance(below[0], Group)
        and isinstance(above[0], Group)
    ):
        low, high = above[0], below[0]
        both = Group(low.opening, (low.items[0], high.items[1]), high.closing)
        return Relation(("in",), (known[0][0], both))
    return node


def _starts(node: Node, end: Node) -> bool:
    return isinstance(node, Group) and len(node.items) == 2 and node.items[0] == end


def _reals_without(node: Without) -> Node:
    """The reals without finitely many rational points, as a union of open intervals."""
    below = Op("neg", (_INFINITE,))
    reals = Group("(", (below, _INFINITE), ")")
    if node.whole != reals or not isinstance(node.points, Group) or not _is_set(node.points):
        return node
    values = {exact(point) for point in node.points.items if isinstance(point, _SCALARS)}
    ends = sorted(value for value in values if value is not None)
    if not ends or len(ends) < len(node.points.items):
        return node
    marks: list[Node] = [below, *(Num(value) for value in ends), _INFINITE]
    return Union(tuple(Group("(", pair, ")") for pair in itertools.pairwise(marks)))


def _is_set(node: Node) -> bool:
    return isinstance(node, Group) and node.opening == "\\{"


def _as_matrix(node: Node, *, column: bool = False) -> Matrix | None:
    """Rows in brackets, ``[[1, 2], [3, 4]]``, or one row or column of values, as a matrix."""
    if isinstance(node, Matrix):
        return node
    if not isinstance(node, Group) or _is_set(node):
        return None
    rows = [row.items for row in node.items if isinstance(row, Group)]
    if not rows:
        return Matrix(tuple((item,) for item in node.items) if column else (node.items,))
    return Matrix(tuple(rows)) if len(rows) == len(node.items) else None


def _rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """``node`` with ``change`` applied to each of its parts."""
    if isinstance(node, Op):
        return Op(node.name, tuple(change(part) for part in node.args))
    if isinstance(node, Relation):
        return Relation(node.signs, tuple(change(side) for side in node.sides))
    return node


def _renamed(node: Node, old: str, new: str) -> Node:
    if isinstance(node, Sym):
        return Sym(new) if node.name == old else node
    return _rebuilt(node, lambda part: _renamed(part, old, new))


def _has_sign_choice(node: Node) -> bool:
    if isinstance(node, Op):
        return node.name in ("\\pm", "\\mp") or any(map(_has_sign_choice, node.args))
    return isinstance(node, Relation) and any(map(_has_sign_choice, node.sides))


def _both_signs(node: Node) -> Node:
    """An expression with a plus-minus sign as the list of its two values."""
    if isinstance(node, Many):
        items: list[Node] = []
        for item in node.items:
            signed = _both_signs(item)
            two = isinstance(signed, Many) and not isinstance(item, Many)
            items += signed.items if two and isinstance(signed, Many) else (signed,)
        return Many(tuple(items), node.joint)
    if not _has_sign_choice(node):
        return node
    return Many((_with_sign(node, "+", "-"), _with_sign(node, "-", "+")))


def _with_sign(node: Node, plus_minus: str, minus_plus: str) -> Node:
    node = _rebuilt(node, lambda part: _with_sign(part, plus_minus, minus_plus))
    if isinstance(node, Op) and node.name in ("\\pm", "\\mp"):
        return Op(plus_minus if node.name == "\\pm" else minus_plus, node.args)
    return node


def _label(node: Node) -> Node | None:
    """What a relation ``label = value`` or ``label in set`` names; None for other nodes."""
    if isinstance(node, Relation) and node.signs in (("=",), ("in",)):
        return node.sides[0] if names_something(node.sides[0]) else None
    return None


def _named_apart(items: Sequence[Node]) -> bool:
    """Whether items are values of different things: ``x=2, y=3``, but not ``x=2, x=3``."""
    names = [_label(item) for item in items]
    return all(names) and len(set(names)) == len(names) > 1


def _by_name(items: Sequence[Node]) -> list[Node]:
    """The values of named items, in the alphabetical order of their names."""
    return [_unlabelled(item) for item in sorted(items, key=lambda item: repr(_label(item)))]


def _unlabelled(node: Node) -> Node:
    return node.sides[1] if isinstance(node, Relation) and _label(node) else node


def _without_first_label(items: Sequence[Node]) -> Sequence[Node]:
    """``n = 2, 3, 4`` names its values once."""
    first, *rest = items
    if _label(first) and not any(isinstance(item, Relation) for item in rest):
        return [_unlabelled(first), *rest]
    return items


def _difference(relation: Relation) -> Node | None:
    left, right = relation.sides[0], relation.sides[-1]
    scalars = isinstance(left, _SCALARS) and isinstance(right, _SCALARS)
    return Op("-", (left, right)) if scalars else None


def _solution_set(relation: Relation) -> tuple[Node, Node] | None:
    """The variable and the interval that an inequality in one variable describes."""
    signs, sides = relation.signs, relation.sides
    if set(signs) <= {">", ">="} and len(signs) == 2:
        signs, sides = tuple(_FLIPPED[sign] for sign in reversed(signs)), tuple(reversed(sides))
    if len(signs) == 2 and set(signs) <= {"<", "<="} and names_something(sides[1]):
        if symbols(sides[0]) or symbols(sides[2]):
            return None
        opening, closing = "(["[signs[0] == "<="], ")]"[signs[1] == "<="]
        return sides[1], Group(opening, (sides[0], sides[2]), closing)
    if len(signs) != 1:
        return None
    sign, (left, right) = signs[0], sides
    if sign == "in" and names_something(left) and isinstance(right, Group | Union):
        return left, right
    if isinstance(right, Sym) and not isinstance(left, Sym):
        sign, left, right = _FLIPPED.get(sign, sign), right, left
    if not isinstance(left, Sym) or not isinstance(right, _SCALARS) or symbols(right):
        return None
    below, above = (Op("neg", (_INFINITE,)), right), (right, _INFINITE)
    sets: dict[str, Node] = {
        "<": Group("(", below, ")"),
        "<=": Group("(", below, "]"),
        ">": Group("(", above, ")"),
        ">=": Group("[", above, ")"),
        "!=": Union((Group("(", below, ")"), Group("(", above, ")"))),
    }
    return (left, sets[sign]) if sign in sets else None


def tells_ratio(node: Node) -> bool:
    """Whether an answer ends in ``a:b``."""
    if isinstance(node, Relation):
        return tells_ratio(node.sides[-1])
    if isinstance(node, Many | Group):
        return _is_ratio(node) or any(map(tells_ratio, node.items))
    return False


def as_quotients(node: Node) -> Node:
    """Every ratio of two by its value: ``3:4`` as ``3/4``."""
    if isinstance(node, Relation):
        return Relation(node.signs, tuple(map(as_quotients, node.sides)))
    if not isinstance(node, Many | Group):
        return node
    if isinstance(node, Group) and _is_ratio(node):
        return Op("/", node.items)
    return replace(node, items=tuple(map(as_quotients, node.items)))


def _is_ratio(node: Many | Group) -> bool:
    return isinstance(node, Group) and node.opening == ":" and len(node.items) == 2


def scaled(node: Node, factor: Fraction) -> Node:
    """A value times a factor, as a tree."""
    return node if factor == 1 else Op("*", (node, Num(factor)))
