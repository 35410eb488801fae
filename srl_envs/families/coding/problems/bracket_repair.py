"""Bracket repair: the cheapest insertions that balance a string of brackets."""

from __future__ import annotations

from itertools import combinations
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
    text,
)

_PAIRS = ("()", "[]", "{}")
_LONGEST = 40
_ANSWERS = {
    "count": "Return the smallest number of brackets to insert so that all of them match.",
    "length": "Insert as few brackets as possible so that all of them match, "
    "and return the length of the result.",
    "kept": "Remove as few brackets as possible so that all others match, "
    "and return how many are left.",
    "near": "Insert an opening bracket right before every closing one that has no partner, "
    "then add the missing closing ones at the end. Return the result.",
    "far": "Put the missing opening brackets at the very front and the missing closing ones "
    "at the very end, as few as possible. Return the result.",
    "cost": "Return the least total cost of insertions after which all brackets match.",
}


def _variant(pairs: tuple[str, ...], answer: str, costs: tuple[int, ...] = ()) -> Parameters:
    return {"pairs": list(pairs), "answer": answer, "costs": list(costs) or [1] * len(pairs)}


def _variants(difficulty: int) -> list[Parameters]:
    two = list(combinations(_PAIRS, 2))
    if difficulty == 1:
        return [
            _variant((pair,), answer) for pair in _PAIRS for answer in ("count", "length", "kept")
        ]
    if difficulty == 2:
        return [_variant((pair,), answer) for pair in _PAIRS for answer in ("near", "far")]
    if difficulty == 3:
        return [_variant(pairs, answer) for pairs in two for answer in ("count", "length", "kept")]
    if difficulty == 4:
        return [_variant(_PAIRS, answer) for answer in ("count", "length", "kept")]
    costs = [(a, b) for a in range(1, 5) for b in range(1, 5) if a != b]
    return [_variant(pairs, "cost", cost) for pairs in two for cost in costs]


def _statement(p: Parameters) -> str:
    prices = [
        f"one of {pair} costs {cost}" for pair, cost in zip(p["pairs"], p["costs"], strict=True)
    ]
    task = sentences(
        "Brackets match when every opening one is closed by its own kind, properly nested.",
        f"To insert {' and '.join(prices)}." if p["answer"] == "cost" else "",
        _ANSWERS[p["answer"]],
    )
    letters = " ".join("".join(p["pairs"]))
    return f"{task}\nInput: a string of 0 to {_LONGEST} of the characters {letters}"


def _cheapest(p: Parameters, data: str) -> int:
    """Least cost of insertions, by the spans of the string, shortest first."""
    closer = {pair[0]: pair[1] for pair in p["pairs"]}
    price = {c: cost for pair, cost in zip(p["pairs"], p["costs"], strict=True) for c in pair}
    n = len(data)
    best = [[0] * (n + 1) for _ in range(n + 2)]  # best[i][j]: data[i:j]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n + 1):
            options = [price[data[i]] + best[i + 1][j]]
            for k in range(i + 1, j):
                if closer.get(data[i]) == data[k]:
                    options.append(best[i + 1][k] + best[k + 1][j])
            best[i][j] = min(options)
    return best[0][n]


def _repaired(p: Parameters, data: str) -> str:
    opener, closer = tuple(str(p["pairs"][0]))
    out, depth, missing = "", 0, 0
    for c in data:
        if c == closer and depth == 0:
            missing += 1
            out += opener if p["answer"] == "near" else ""
        else:
            depth += 1 if c == opener else -1
        out += c
    front = opener * (missing if p["answer"] == "far" else 0)
    return front + out + closer * depth


def _reference(p: Parameters, data: Any) -> Any:
    if p["answer"] in ("near", "far"):
        return _repaired(p, data)
    cost = _cheapest(p, data)
    return {"length": len(data) + cost, "kept": len(data) - cost}.get(p["answer"], cost)


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    length = integer(rng, 2, 9) if size == "small" else integer(rng, 26, _LONGEST)
    return text(rng, "".join(p["pairs"]), length)


def _is_valid(p: Parameters, data: Any) -> bool:
    return is_text(data, "".join(p["pairs"]), _LONGEST)


def _edge_inputs(p: Parameters) -> list[Any]:
    a, b = p["pairs"][0], p["pairs"][-1]
    return [
        "",
        a[1] + a[0],
        a[0] * 4 + a[1],
        a[1] * 3 + a[0] + a[1],
        a + b,
        a[0] + b[0] + a[1] + b[1],
        b[0] + a + a[0] + b[1],
        a[0] + b + b + a[1],
        a * 4 + b[1],
    ]


_ONE_KIND = """
def solve(data):
    depth = missing = 0
    for c in data:
        if c == "$open":
            depth += 1
        elif depth > 0:
            depth -= 1
        else:
            missing += 1
    return $total
"""

_ONE_KIND_TEXT = """
def solve(data):
    out = ""
    depth = missing = 0
    for c in data:
        if c == "$open":
            depth += 1
        elif depth > 0:
            depth -= 1
        else:
            missing += 1
            out += "$insert"
        out += c
    return $front + out + "$close" * depth
"""

_KINDS = """
from functools import lru_cache

PARTNER = $partner
COST = $cost


def solve(data):
    @lru_cache(None)
    def best(i, j):
        if i == j:
            return 0
        least = COST[data[i]] + best(i + 1, j)
        for k in range(i + 1, j):
            if PARTNER.get(data[i]) == data[k]:
                least = min(least, best(i + 1, k) + best(k + 1, j))
        return least

    cost = best(0, len(data))
    return $result
"""

_OTHER = """
PARTNER = $partner
COST = $cost


def solve(data):
    n = len(data)
    best = [[0] * (n + 1) for _ in range(n + 1)]
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            j = i + width
            least = COST[data[j - 1]] + best[i][j - 1]
            for k in range(i, j - 1):
                if PARTNER.get(data[k]) == data[j - 1]:
                    least = min(least, best[i][k] + best[k + 1][j - 1])
            best[i][j] = least
    cost = best[0][n]
    return $result
"""

_OTHER_TEXT = """
def solve(data):
    rest = data
    while "$open$close" in rest:
        rest = rest.replace("$open$close", "")
    out = ""
    depth = 0
    for c in data:
        depth += 1 if c == "$open" else -1
        if depth < 0:
            out += "$insert"
            depth = 0
        out += c
    missing = rest.count("$close")
    return $front + out + "$close" * rest.count("$open")
"""


def _template(p: Parameters) -> str:
    if p["answer"] in ("near", "far"):
        return _ONE_KIND_TEXT
    return _ONE_KIND if len(p["pairs"]) == 1 else _KINDS


def _fields(p: Parameters) -> dict[str, Any]:
    opener, closer = p["pairs"][0]
    prices = dict(zip(p["pairs"], p["costs"], strict=True))
    results = {"length": "len(data) + {}", "kept": "len(data) - {}"}
    result = results.get(p["answer"], "{}")
    return {
        "open": opener,
        "close": closer,
        "insert": opener if p["answer"] == "near" else "",
        "front": f'"{opener}" * missing' if p["answer"] == "far" else '""',
        "total": result.format("(missing + depth)" if "len" in result else "missing + depth"),
        "result": result.format("cost"),
        "partner": {pair[0]: pair[1] for pair in p["pairs"]},
        "cost": {c: cost for pair, cost in prices.items() for c in pair},
    }


def _alternative(p: Parameters) -> str:
    return _OTHER_TEXT if p["answer"] in ("near", "far") else _OTHER


FAMILY = ProblemFamily(
    name="bracket_repair",
    title=lambda p: "Bracket repair",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=_template,
    fields=_fields,
    bugs=(
        Bug("open ones forgotten", "    return $total", "    depth = 0\n    return $total"),
        Bug(
            "lone closers forgotten",
            "            missing += 1\n    return",
            "            pass\n    return",
        ),
        Bug("depth off by one", "elif depth > 0:", "elif depth > 1:"),
        Bug("end not closed", " * depth\n", " * (depth > 0)\n"),
        Bug("never inserts", 'out += "$insert"', "missing -= 1"),
        Bug("last one skipped", "range(i + 1, j)", "range(i + 1, j - 1)"),
        Bug(
            "kinds mixed up",
            "PARTNER.get(data[i]) == data[k]",
            "data[i] in PARTNER and data[k] not in PARTNER",
        ),
        Bug("rest forgotten", "best(i + 1, k) + best(k + 1, j)", "best(i + 1, k)"),
        Bug("prices ignored", "COST[data[i]]", "1", lambda p: p["answer"] == "cost"),
    ),
    alternative=_alternative,
)
