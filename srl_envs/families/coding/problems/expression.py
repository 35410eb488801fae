"""Expression evaluation: integers and operators under a stated order of precedence."""

from __future__ import annotations

from typing import Any

import numpy as np

from srl_envs.families.coding.problems.family import (
    Bug,
    Parameters,
    ProblemFamily,
    Size,
    integer,
    is_text,
    pick,
    sentences,
)

_LONGEST = 60
_CUSTOM = {
    "": ("", ""),
    "max": ("a@b is the greater of a and b.", "max(value, right)"),
    "gap": ("a@b is the distance |a - b|.", "abs(value - right)"),
    "twice": ("a@b is 2*a + b.", "2 * value + right"),
}


def _variant(operators: str, rule: str, parens: bool = False, custom: str = "") -> Parameters:
    return {"operators": operators, "rule": rule, "parens": parens, "custom": custom}


def _variants(difficulty: int) -> list[Parameters]:
    sets = ("+*", "-*", "+-*")
    if difficulty == 1:
        return [_variant(operators, "left") for operators in ("+-", *sets)]
    if difficulty == 2:
        return [_variant(operators, "usual") for operators in sets]
    if difficulty == 3:
        return [_variant(operators, "reverse") for operators in sets]
    if difficulty == 4:
        return [
            _variant(operators, rule, True)
            for operators in sets
            for rule in ("left", "usual", "reverse")
        ]
    return [
        _variant(operators, rule, True, custom)
        for operators in sets
        for rule in ("usual", "reverse")
        for custom in ("max", "gap", "twice")
    ]


def _ranks(p: Parameters) -> list[str]:
    """Operators by rank, the loosest first."""
    sums = p["operators"].replace("*", "")
    ranks = {"left": [p["operators"]], "usual": [sums, "*"], "reverse": ["*", sums]}[p["rule"]]
    return [*ranks, "@"] if p["custom"] else ranks


def _statement(p: Parameters) -> str:
    sums = " and ".join(p["operators"].replace("*", ""))
    rules = {
        "left": "All operators have the same rank and are applied from left to right.",
        "usual": f"* is applied before {sums}; within a rank go from left to right.",
        "reverse": f"* is applied after {sums}; within a rank go from left to right.",
    }
    task = sentences(
        "Evaluate an expression of whole numbers and return its value.",
        rules[p["rule"]],
        f"{_CUSTOM[p['custom']][0]} It is applied before all others." if p["custom"] else "",
        "What stands in parentheses is evaluated first." if p["parens"] else "",
    )
    signs = " ".join(p["operators"] + ("@" if p["custom"] else ""))
    more = ", with ( )" if p["parens"] else ""
    return (
        f"{task}\nInput: a string of 1 to {_LONGEST} characters without spaces: "
        f"integers 0 to 99 joined by {signs}{more}"
    )


def _tokens(data: str) -> list[str]:
    found: list[str] = []
    for c in data:
        if c.isdigit() and found and found[-1].isdigit():
            found[-1] += c
        else:
            found.append(c)
    return found


def _combine(p: Parameters, sign: str, a: int, b: int) -> int:
    custom = {"max": max(a, b), "gap": abs(a - b), "twice": 2 * a + b}
    return {"+": a + b, "-": a - b, "*": a * b}[sign] if sign != "@" else custom[p["custom"]]


def _reference(p: Parameters, data: Any) -> Any:
    rank = {sign: k for k, signs in enumerate(_ranks(p)) for sign in signs}
    values: list[int] = []
    waiting: list[str] = []

    def settle(limit: int) -> None:
        """Apply the operators on top of the stack that bind at least as tightly as ``limit``."""
        while waiting and waiting[-1] != "(" and rank[waiting[-1]] >= limit:
            b, a = values.pop(), values.pop()
            values.append(_combine(p, waiting.pop(), a, b))

    for token in _tokens(data):
        if token.isdigit():
            values.append(int(token))
        elif token == "(":
            waiting.append(token)
        elif token == ")":
            settle(0)
            waiting.pop()
        else:
            settle(rank[token])
            waiting.append(token)
    settle(0)
    return values[0]


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    count = integer(rng, 3, 5) if size == "small" else integer(rng, 13, 16)
    signs = p["operators"] + ("@@" if p["custom"] else "")
    out, depth = "", 0
    for k in range(count):
        if k:
            out += pick(rng, signs)
        if p["parens"] and k < count - 1 and depth < 3 and rng.random() < 0.3:
            out, depth = out + "(", depth + 1
        out += str(integer(rng, 0, 9 if rng.random() < 0.7 else 30))
        if depth and k and rng.random() < 0.35 and not out[:-1].endswith("("):
            out, depth = out + ")", depth - 1
    return out + ")" * depth


def _is_valid(p: Parameters, data: Any) -> bool:
    signs = p["operators"] + ("@" if p["custom"] else "")
    letters = "0123456789" + signs + ("()" if p["parens"] else "")
    if not is_text(data, letters, _LONGEST) or not data:
        return False
    depth, wants_number = 0, True
    for token in _tokens(data):
        number = token.isdigit()
        if number and (len(token) > 2 or (len(token) == 2 and token[0] == "0")):
            return False
        if (number or token == "(") != wants_number:
            return False
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            return False
        wants_number = token in signs or token == "("
    return depth == 0 and not wants_number


def _edge_inputs(p: Parameters) -> list[Any]:
    signs = p["operators"]
    a, b = signs[0], signs[-1]
    plain = ["0", "12", f"10{a}2{b}3", f"2{b}3{a}4{b}5", f"9{a}4{a}3", f"20{b}3{a}11", f"0{b}7{a}1"]
    if p["parens"]:
        plain += ["(7)", f"2{b}(3{a}4)", f"((1{a}2){b}3){b}4", f"9{a}(5{a}(3{a}1))"]
    if p["custom"]:
        plain += [f"2{b}3@4", f"1@2@3{a}4", f"5@(1{a}9)"]
    return plain


_TEMPLATE = """
RANKS = $ranks


def solve(data):
    pos = 0

    def read(k):
        nonlocal pos
        if k == len(RANKS):
            return atom()
        value = read(k + 1)
        while pos < len(data) and data[pos] in RANKS[k]:
            sign = data[pos]
            pos += 1
            right = read(k + 1)
$apply        return value

    def atom():
        nonlocal pos
$parens        start = pos
        while pos < len(data) and data[pos].isdigit():
            pos += 1
        return int(data[start:pos])

    return read(0)
"""

_PARENS = """        if data[pos] == "(":
            pos += 1
            value = read(0)
            pos += 1
            return value
"""

_OTHER = """
import re

RANKS = $ranks


def flat(tokens):
    for signs in reversed(RANKS):
        out = [tokens[0]]
        for k in range(1, len(tokens), 2):
            sign, right = tokens[k], tokens[k + 1]
            if sign in signs:
                value = out.pop()
$apply                out.append(value)
            else:
                out += [sign, right]
        tokens = out
    return tokens[0]


def solve(data):
    stack = [[]]
    for token in re.findall(r"\\d+|.", data):
        if token == "(":
            stack.append([])
        elif token == ")":
            value = flat(stack.pop())
            stack[-1].append(value)
        else:
            stack[-1].append(int(token) if token.isdigit() else token)
    return flat(stack[0])
"""


def _apply(p: Parameters, depth: int) -> str:
    """The lines that apply ``sign`` to ``value`` and ``right``, so many spaces deep."""
    results = {"+": "value + right", "-": "value - right", "*": "value * right"}
    results["@"] = _CUSTOM[p["custom"]][1]
    lines = []
    for k, sign in enumerate(p["operators"] + ("@" if p["custom"] else "")):
        lines.append(f'{"elif" if k else "if"} sign == "{sign}":')
        lines.append(f"    value = {results[sign]}")
    return "".join(f"{' ' * depth}{line}\n" for line in lines)


def _fields(p: Parameters) -> dict[str, Any]:
    return {
        "ranks": str(_ranks(p)).replace("'", '"'),
        "one_rank": str(["".join(_ranks(p))]).replace("'", '"'),
        "parens": _PARENS if p["parens"] else "",
        "apply": _apply(p, 12),
    }


def _alternative(p: Parameters) -> str:
    return _OTHER.replace("$apply", _apply(p, 16))


def _order_matters(p: Parameters) -> bool:
    """Whether some rank holds operators that give another value from right to left."""
    return "-" in p["operators"] or p["rule"] == "left" or p["custom"] in ("gap", "twice")


FAMILY = ProblemFamily(
    name="expression",
    title=lambda p: "Expressions",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=lambda p: _TEMPLATE,
    fields=_fields,
    bugs=(
        Bug("right to left", "right = read(k + 1)", "right = read(k)", _order_matters),
        Bug(
            "single digits",
            "        while pos < len(data) and data[pos].isdigit():",
            "        if pos < len(data):",
        ),
        Bug(
            "stops after one",
            "        while pos < len(data) and data[pos] in RANKS[k]:",
            "        if pos < len(data) and data[pos] in RANKS[k]:",
        ),
        Bug("ranks ignored", "RANKS = $ranks", "RANKS = $one_rank", lambda p: len(_ranks(p)) > 1),
        Bug(
            "ranks turned round",
            "RANKS = $ranks",
            "RANKS = $ranks[::-1]",
            lambda p: len(_ranks(p)) > 1,
        ),
    ),
    alternative=_alternative,
)
