"""The trees that answers are parsed into: expressions, and the structures that hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

MAX_HEIGHT = 100
"""Tallest expression; everything that walks a tree recurses this deep at most."""


class Unreadable(Exception):
    """The text is not supported mathematics, or exceeds our limits; an outcome, not a fault."""


@dataclass(frozen=True, slots=True)
class Num:
    """A written number."""

    value: Fraction
    places: int | None = None
    """Digits after the point, None without a point."""
    significant: int = 0
    """Significant digits of a number with a point."""


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable, with its subscript."""

    name: str


@dataclass(frozen=True, slots=True)
class Const:
    """``pi``, ``e`` or ``inf``."""

    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """An operator or function applied to expressions."""

    name: str
    args: tuple[Node, ...]
    joined: bool = field(default=False, compare=False)
    """A product whose factors stand side by side, without a sign."""
    height: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        height = 1 + max(part.height if isinstance(part, Op) else 0 for part in self.args)
        if height > MAX_HEIGHT:
            raise Unreadable("too deep")
        object.__setattr__(self, "height", height)


@dataclass(frozen=True, slots=True)
class Group:
    """Items in brackets: a tuple, an interval or a set, by its brackets; or a ratio, between colons."""

    opening: str
    items: tuple[Node, ...]
    closing: str


@dataclass(frozen=True, slots=True)
class Many:
    """Several answers side by side: ``1, 2`` or ``1 or 2``."""

    items: tuple[Node, ...]
    joint: str = field(default="", compare=False)
    """``or`` or ``and`` where only that word joins the items."""


@dataclass(frozen=True, slots=True)
class Union:
    """Sets or intervals joined by a union sign."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """A set without the points of another."""

    whole: Node
    points: Node


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of entries."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain ``sides[0] signs[0] sides[1] ...``; signs are ``= < > <= >= != in``."""

    signs: tuple[str, ...]
    sides: tuple[Node, ...]


Node: TypeAlias = Num | Sym | Const | Op | Group | Many | Union | Without | Matrix | Relation


def is_proper_fraction(node: Node) -> bool:
    """Whether a node is a written fraction below 1, as in a mixed number."""
    if not (isinstance(node, Op) and node.name == "/"):
        return False
    top, bottom = node.args
    return isinstance(top, Num) and isinstance(bottom, Num) and top.value < bottom.value


def show(node: Node) -> str:
    """A tree as text, every operation in brackets: how an answer was read."""
    if isinstance(node, Num):
        return str(node.value)
    if isinstance(node, Sym | Const):
        return node.name
    if isinstance(node, Op):
        parts = [show(part) for part in node.args]
        infix = len(parts) == 2 and not node.name.isalpha()
        return f"({f' {node.name} '.join(parts)})" if infix else f"{node.name}({', '.join(parts)})"
    if isinstance(node, Group) and node.opening == ":":
        return ":".join(map(show, node.items))
    if isinstance(node, Group):
        return f"{node.opening}{', '.join(map(show, node.items))}{node.closing}"
    if isinstance(node, Many):
        return ", ".join(map(show, node.items))
    if isinstance(node, Union):
        return " \\cup ".join(map(show, node.items))
    if isinstance(node, Without):
        return f"{show(node.whole)} \\setminus {show(node.points)}"
    if isinstance(node, Matrix):
        return f"[{', '.join('[' + ', '.join(map(show, row)) + ']' for row in node.rows)}]"
    return " ".join(
        f"{sign} {show(side)}" for sign, side in zip(("", *node.signs), node.sides, strict=True)
    ).strip()
