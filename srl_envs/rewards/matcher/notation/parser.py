r"""Parses LaTeX and plain mathematics into trees; bounded work, and nothing is ever executed.

Recursive descent over at most `tokens.MAX_TOKENS` tokens and `MAX_DEPTH` levels. What it cannot
read raises `Unreadable`; it never guesses.
"""

from __future__ import annotations

import re
from fractions import Fraction

from srl_envs.rewards.matcher.notation.naming import is_function, is_point, probability_name
from srl_envs.rewards.matcher.notation.number import MAX_NUMBER_CHARS
from srl_envs.rewards.matcher.notation.tokens import FUNCTIONS, Token, tokenize, written_number
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
    Unreadable,
    Without,
    is_proper_fraction,
)

MAX_DEPTH = 100
_MAX_DETERMINANT = 4

_RELATIONS = {
    "=": "=", "==": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "!=": "!=", "\\le": "<=",
    "\\ge": ">=", "\\ne": "!=", "\\in": "in",
}  # fmt: skip
_CLOSERS = {"(": (")", "]"), "[": ("]", ")"), "\\{": ("\\}",), "{": ("}",)}


_OPENING = frozenset(("(", "[", "{", "\\{"))
_CLOSING = frozenset((")", "]", "}", "\\}"))
_INVERTIBLE = frozenset(("f", "g", "h", "F", "G", "H"))
_END = Token("end", "")
_MAX_INSIDE = 40
"""Tokens in the brackets of a function or a named point; with more it is a product."""
_MINUS_ONE = Op("neg", (Num(Fraction(1)),))
_REPEATING = re.compile(
    r"(?<![0-9])([0-9]*)\.([0-9]*)(?:\\(?:overline|bar|dot)\s?\{?([0-9]+)\}?|\(([0-9]{1,20})\))"
)
_GOING_ON = re.compile(r"(?<![0-9])([0-9]{1,20})\.([0-9]{0,20}?)([0-9]{1,6}?)\3{2,20}\.\.\.")


def parse(text: str) -> Node:
    """The tree of an answer in unified notation (`notation.unify`).

    Raises:
        Unreadable: the text is something else, or too long or deep.
    """
    if "..." in text:
        text = _GOING_ON.sub(r"\1.\2(\3)", text)
    if "." in text:
        text = _REPEATING.sub(_repeating, text)
    parser = _Parser(tokenize(text))
    tree = parser.answer()
    if parser.peek().kind != "end":
        raise Unreadable(f"unexpected {parser.peek().text!r}")
    return tree


def _repeating(found: re.Match[str]) -> str:
    """``0.1\\overline{6}`` and ``0.1(6)`` as ``(15/90)``."""
    whole, fixed, period = found[1] or "0", found[2], found[3] or found[4]
    if len(found[0]) > MAX_NUMBER_CHARS:
        raise Unreadable("a repeating decimal of this length")
    top = int(whole + fixed + period) - int(whole + fixed)
    return f"({top}/{(10 ** len(period) - 1) * 10 ** len(fixed)})"


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    # --- reading tokens ---

    def peek(self, ahead: int = 0) -> Token:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else _END

    def next(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    def eat(self, *texts: str) -> str:
        token = self.peek()
        if token.kind == "op" and token.text in texts:
            self.at += 1
            return token.text
        return ""

    def need(self, *texts: str) -> str:
        found = self.eat(*texts)
        if not found:
            raise Unreadable(f"expected {texts[0]!r}")
        return found

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("too deep")

    # --- answers: lists, relations, unions ---

    def answer(self) -> Node:
        rows, joints = [[self.entry()]], set()
        while sign := self.eat(",", ";", "or", "and"):
            sign = self.eat("or", "and") or sign
            joints.add(sign)
            if sign == ";":
                rows.append([])
            rows[-1].append(self.entry())
        if len(rows) > 1 and any(len(row) > 1 for row in rows):  # ``x=1, y=2; x=3, y=4``
            return Many(tuple(_listed(row) for row in rows))
        joint = joints.pop() if len(joints) == 1 else ""
        return _listed([item for row in rows for item in row], joint if joint.isalpha() else "")

    def entry(self) -> Node:
        if self.peek().kind == "sym" and is_point(self.peek().text, self._inside(1)):
            return Relation(("=",), (Sym(self.next().text), self.atom()))
        sides = [self.union()]
        signs = []
        while self.peek().kind == "op" and self.peek().text in _RELATIONS:
            signs.append(_RELATIONS[self.next().text])
            sides.append(self.union())
        return Relation(tuple(signs), tuple(sides)) if signs else sides[0]

    def union(self) -> Node:
        items = [self.ratio()]
        while self._eat_union(items[-1]):
            items.append(self.ratio())
        whole = items[0] if len(items) == 1 else Union(tuple(items))
        return Without(whole, self.ratio()) if self.eat("\\setminus") else whole

    def ratio(self) -> Node:
        """``3:2`` and ``1:2:3`` are groups of their own."""
        items = [self.sum()]
        while self.eat(":"):
            items.append(_scalar(self.sum()))
        if len(items) == 1:
            return items[0]
        return Group(":", (_scalar(items[0]), *items[1:]), ":")

    def _eat_union(self, left: Node) -> bool:
        """A union sign, or the letter U between two sets."""
        letter = self.peek() == ("sym", "U") and isinstance(left, Group)
        if letter and self.peek(1).text in ("(", "[", "\\{", "{"):
            self.at += 1
            return True
        return bool(self.eat("\\cup"))

    # --- expressions ---

    def sum(self) -> Node:
        self._deeper()
        left = self.product()
        while sign := self.eat("+", "-", "\\pm", "\\mp"):
            left = Op(sign, (_scalar(left), _scalar(self.product())))
        self.depth -= 1
        return left

    def product(self) -> Node:
        left = self.signed()
        while True:
            if self.eat("\\wedge"):
                left = Op("cross", (_scalar(left), _scalar(self.signed())))
            elif sign := self.eat("*", "/"):
                left = Op(sign, (_scalar(left), _scalar(self.signed())))
            elif self._starts_factor():
                left = self._times(left, self.power())
            else:
                return left

    def _starts_factor(self) -> bool:
        kind, text = self.peek()
        if (kind, text) == ("sym", "U") and self.peek(1).text in ("(", "["):
            return False
        factors = ("(", "{", "\\frac", "\\sqrt", "\\binom", "\\lfloor", "\\lceil")
        return kind in ("num", "sym", "const", "fn") or (kind == "op" and text in factors)

    def _times(self, left: Node, right: Node) -> Node:
        """Two neighbours: a mixed number such as ``1 1/2``, else a product."""
        if isinstance(left, Op) and left.name == "neg" and isinstance(left.args[0], Num):
            return Op("neg", (self._times(left.args[0], right),))
        if isinstance(right, Num):
            whole = isinstance(left, Num) and left.places is None and right.places is None
            if not whole:
                if isinstance(left, Num):
                    raise Unreadable("two numbers side by side")
                return Op("*", (_scalar(left), right))
            self.need("/")
            right = Op("/", (right, self.power()))
        if is_proper_fraction(right) and isinstance(left, Num) and left.places is None:
            return Op("+", (left, right))
        return Op("*", (_scalar(left), _scalar(right)), joined=True)

    def signed(self) -> Node:
        self._deeper()
        sign = self.eat("-", "+", "\\pm", "\\mp")
        inner = self.signed() if sign else self.power()
        self.depth -= 1
        if sign in ("", "+"):
            return inner
        zero = Num(Fraction(0))
        return Op("neg", (_scalar(inner),)) if sign == "-" else Op(sign, (zero, _scalar(inner)))

    def power(self) -> Node:
        base = self.postfix()
        if not self.eat("^"):
            return base
        if self.eat("\\circ"):
            return Op("deg", (_scalar(base),))
        if self.peek().text == "{" and self.peek(1).text == "\\circ":
            self.at += 2
            self.need("}")
            return Op("deg", (_scalar(base),))
        exponent = self.argument() if self.peek().text == "{" else self.signed()
        return self._factorials(Op("^", (_scalar(base), _scalar(exponent))))

    def postfix(self) -> Node:
        base = self._factorials(self.atom())
        while self.eat("_"):
            if isinstance(base, Num) and base.places is None:  # ``1011_2`` names itself
                digits, number_base = base, self._subscript()
                base = digits if number_base == "10" else Sym(f"{digits.value}_{number_base}")
                continue
            if not isinstance(base, Sym):
                raise Unreadable("a subscript on something other than a variable")
            base = Sym(f"{base.name}_{self._subscript()}")
        return self._application(base) if isinstance(base, Sym) else base

    def _application(self, base: Sym) -> Node:
        """A name with its primes and, where it is a function, with its arguments."""
        while self.eat("'"):
            base = Sym(f"{base.name}'")
        inverse = "".join(token.text for token in self.tokens[self.at : self.at + 5]) == "^{-1}"
        inside = self._inside(5 if inverse else 0)
        if name := probability_name(base.name, inside):
            self.at += len(inside) + 2
            return Sym(name)
        if not is_function(base.name, inside) or (inverse and base.name not in _INVERTIBLE):
            return base
        if inverse:
            self.at += 5
            base = Sym(f"{base.name}^-1")
        self.need("(")
        arguments = [_scalar(item) for item in self._items()]
        self.need(")")
        return Op("apply", (base, *arguments))

    def _inside(self, ahead: int) -> list[Token]:
        """The tokens in the round brackets that open there; none where none open."""
        if self.peek(ahead).text != "(":
            return []
        depth, start = 0, self.at + ahead
        for at, token in enumerate(self.tokens[start : start + _MAX_INSIDE]):
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if depth == 0:
                return self.tokens[start + 1 : start + at]
        return []

    def _factorials(self, base: Node) -> Node:
        while sign := self.eat("!", "%"):
            hundred = Num(Fraction(100))
            base = Op("!", (_scalar(base),)) if sign == "!" else Op("/", (_scalar(base), hundred))
        return base

    def _subscript(self) -> str:
        if not self.eat("{"):
            return self.next().text
        parts = []
        while not self.eat("}"):
            if self.peek().kind == "end":
                raise Unreadable("an open subscript")
            parts.append(self.next().text)
        return "".join(parts)

    def argument(self) -> Node:
        r"""A LaTeX argument: ``{...}``, one digit (``\frac12``) or one atom."""
        if self.eat("{"):
            inner = self.sum()
            self.need("}")
            return _scalar(inner)
        kind, text = self.peek()
        if kind == "num" and len(text) > 1 and text.isdigit():
            self.tokens[self.at] = Token("num", text[1:])
            return written_number(text[0])
        return _scalar(self.atom())

    def atom(self) -> Node:
        self._deeper()
        value = self._atom(*self.next())
        self.depth -= 1
        return value

    def _atom(self, kind: str, text: str) -> Node:
        if kind == "num":
            return written_number(text)
        if kind == "sym":
            return Sym(text)
        if kind == "const":
            return Const(text)
        if kind == "fn":
            return self.function(text)
        if kind == "op" and text in _CLOSERS:
            return self.brackets(text)
        return self.command(text)

    def brackets(self, opening: str) -> Node:
        closers = _CLOSERS[opening]
        if opening == "\\{" and self.peek().kind == "sym" and self.peek(1).text in (":", "|"):
            self.at += 2  # ``{x : x > 2}`` means ``x > 2``
            condition = self.entry()
            self.need("\\}")
            return condition
        items: list[Node] = []
        if not (closing := self.eat(*closers)):
            items = self._items()
            closing = self.need(*closers)
        matching = closing == closers[0]
        if opening != "\\{" and len(items) == 1 and matching and not _is_bracketed(items[0]):
            return items[0]
        if opening == "{":
            opening, closing = "\\{", "\\}"
        if not items and opening != "\\{":
            raise Unreadable("empty brackets")
        if not matching and len(items) != 2:
            raise Unreadable("brackets that do not match")
        return Group(opening, tuple(items), closing)

    def _items(self) -> list[Node]:
        """What stands in brackets; ``1,2;3,4`` are two rows."""
        rows = [[self.entry()]]
        while sign := self.eat(",", ";"):
            if sign == ";":
                rows.append([])
            rows[-1].append(self.entry())
        if len(rows) > 1 and any(len(row) > 1 for row in rows):
            return [Group("[", tuple(row), "]") for row in rows]
        return [item for row in rows for item in row]

    def function(self, name: str) -> Node:
        if name == "sqrt" and self.eat("["):
            degree = _scalar(self.sum())
            self.need("]")
            return Op("root", (self.argument(), degree))
        if name == "log" and self.eat("_"):
            base = self.argument()
            return Op("/", (Op("ln", (self._operand(),)), Op("ln", (base,))))
        power = self.argument() if self.eat("^") else None
        if power == _MINUS_ONE and f"arc{name}" in FUNCTIONS:
            name, power = f"arc{name}", None
        if name == "cis":
            turn: Node = Op("^", (Const("e"), Op("*", (_scalar(self._operand()), Sym("i")))))
            return turn if power is None else Op("^", (turn, power))
        if name in ("min", "max", "gcd", "lcm"):
            group = self.brackets(self.need("(", "\\{"))
            arguments = group.items if isinstance(group, Group) else (group,)
        else:
            arguments = (self._operand() if name != "sqrt" else self._radicand(),)
        value = Op(name, tuple(_scalar(argument) for argument in arguments))
        return value if power is None else Op("^", (value, power))

    def _radicand(self) -> Node:
        return self.argument() if self.peek().text != "(" else _scalar(self.atom())

    def _operand(self) -> Node:
        if self.peek().text in ("(", "{"):
            return _scalar(self.atom())
        operand = self.power() if not self.eat("-") else Op("neg", (_scalar(self.power()),))
        while self.peek().kind in ("sym", "const"):
            operand = Op("*", (_scalar(operand), _scalar(self.power())))
        return _scalar(operand)

    def command(self, text: str) -> Node:
        if text == "\\frac":
            return Op("/", (self.argument(), self.argument()))
        if text == "\\binom":
            return Op("binom", (self.argument(), self.argument()))
        if text == "\\emptyset":
            return Group("\\{", (), "\\}")
        if text == "\\mathbb" and [self.next().text for _ in range(3)] == ["{", "R", "}"]:
            infinite = Const("inf")
            return Group("(", (Op("neg", (infinite,)), infinite), ")")
        for opening, closing, name in (
            ("|", "|", "abs"), ("\\lfloor", "\\rfloor", "floor"), ("\\lceil", "\\rceil", "ceil"),
        ):  # fmt: skip
            if text == opening:
                inner = _scalar(self.sum())
                self.need(closing)
                return Op(name, (inner,))
        if text in ("\\sum", "\\prod"):
            return self.over_an_index(text[1:])
        if text in ("\\begin", "\\begin|"):
            rows = self.matrix()
            return _determinant(rows) if text.endswith("|") else Matrix(rows)
        raise Unreadable(f"unexpected {text!r}")

    def over_an_index(self, fold: str) -> Node:
        self.need("_")
        self.need("{")
        name = self.next()
        if name.kind != "sym":
            raise Unreadable("a sum without an index")
        self.need("=")
        low = _scalar(self.sum())
        self.need("}")
        self.need("^")
        return Op(fold, (Sym(name.text), low, self.argument(), _scalar(self.product())))

    def matrix(self) -> tuple[tuple[Node, ...], ...]:
        rows: list[list[Node]] = [[]]
        while True:
            rows[-1].append(_scalar(self.sum()))
            if self.eat("\\\\"):
                if self.peek().text == "\\end":
                    break
                rows.append([])
            elif not self.eat("&"):
                break
        self.need("\\end")
        if len({len(row) for row in rows}) != 1:
            raise Unreadable("a matrix with uneven rows")
        return tuple(tuple(row) for row in rows)


def _is_bracketed(node: Node) -> bool:
    return isinstance(node, Group) and node.opening != ":"


def _listed(items: list[Node], joint: str = "") -> Node:
    return items[0] if len(items) == 1 else Many(tuple(items), joint)


def _determinant(rows: tuple[tuple[Node, ...], ...]) -> Node:
    """Expanded along the first row."""
    if len(rows) > _MAX_DETERMINANT or len(rows) != len(rows[0]):
        raise Unreadable("a determinant of this form")
    if len(rows) == 1:
        return rows[0][0]
    total: Node = Num(Fraction(0))
    for column, entry in enumerate(rows[0]):
        minor = _determinant(tuple(row[:column] + row[column + 1 :] for row in rows[1:]))
        total = Op("-" if column % 2 else "+", (total, Op("*", (entry, minor))))
    return total


def _scalar(node: Node) -> Node:
    if isinstance(node, Num | Sym | Const | Op):
        return node
    raise Unreadable("a structure where a value is needed")
