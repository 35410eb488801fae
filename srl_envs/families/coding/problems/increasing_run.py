"""Longest rising or falling subsequence, with variants of what may follow what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from srl_envs.families.coding.problems.family import (
    Bug,
    Parameters,
    ProblemFamily,
    Size,
    integer,
    is_integer,
    is_list,
    pick,
    sentences,
)

_RELATIONS: dict[str, tuple[str, Callable[[int, int], bool], str]] = {
    "<": ("greater than", lambda x, y: x < y, ">"),
    "<=": ("at least", lambda x, y: x <= y, ">="),
    ">": ("less than", lambda x, y: x > y, "<"),
    ">=": ("at most", lambda x, y: x >= y, "<="),
}
_LONGEST = 60


def _variant(relation: str, gap: int = 0, goal: str = "length") -> Parameters:
    """``gap``: greatest difference between neighbours of the chosen numbers; 0 for any."""
    return {"relation": relation, "gap": gap, "goal": goal}


def _variants(difficulty: int) -> list[Parameters]:
    if difficulty == 1:
        return [_variant(relation) for relation in ("<", ">")] + [_variant("<", 0, "sum")]
    if difficulty == 2:
        return [_variant(relation) for relation in ("<=", ">=")] + [_variant(">", 0, "sum")]
    if difficulty == 3:
        return [_variant(relation, gap) for relation in _RELATIONS for gap in (2, 3, 5)]
    if difficulty == 4:
        return [_variant(relation, 0, goal) for relation in _RELATIONS for goal in ("sum", "ways")]
    return [
        _variant(relation, gap, goal)
        for relation in _RELATIONS
        for gap in (2, 3, 4, 6)
        for goal in ("sum", "ways")
    ]


def _title(p: Parameters) -> str:
    way = "rising" if p["relation"][0] == "<" else "falling"
    titles = {
        "length": f"Longest {way} choice",
        "sum": f"Greatest {way} sum",
        "ways": f"Number of {way} choices",
    }
    return titles[p["goal"]]


def _statement(p: Parameters) -> str:
    words = _RELATIONS[p["relation"]][0]
    near = f" and differs from it by at most {p['gap']}" if p["gap"] else ""
    goals = {
        "length": "Return the greatest number of numbers that can be kept.",
        "sum": "Return the greatest sum of the numbers kept; keeping none gives 0.",
        "ways": "Return in how many ways at least one number can be kept; "
        "keeping other positions is another way.",
    }
    task = sentences(
        "Cross out numbers of a list, keeping the others in order, so that every number kept",
        f"is {words} the one kept before it{near}.",
        goals[p["goal"]],
    )
    longest = 20 if p["goal"] == "ways" else _LONGEST
    return f"{task}\nInput: a list of 0 to {longest} integers from -99 to 99."


def _reference(p: Parameters, data: Any) -> Any:
    follows, gap = _RELATIONS[p["relation"]][1], p["gap"] or 1000
    ending: list[int] = []  # best (or number of ways) with the last kept number at this place
    for place, number in enumerate(data):
        own = number if p["goal"] == "sum" else 1
        before = [
            ending[k]
            for k in range(place)
            if follows(data[k], number) and abs(number - data[k]) <= gap
        ]
        ending.append(own + (sum(before) if p["goal"] == "ways" else max([0, *before])))
    return sum(ending) if p["goal"] == "ways" else max([0, *ending])


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    longest = 20 if p["goal"] == "ways" else _LONGEST
    length = integer(rng, 3, 8) if size == "small" else integer(rng, longest - 8, longest)
    reach = 9 if size == "small" else 40
    lowest = -reach // 2 if p["goal"] == "sum" else 0
    return [integer(rng, lowest, reach) for _ in range(length)]


def _is_valid(p: Parameters, data: Any) -> bool:
    longest = 20 if p["goal"] == "ways" else _LONGEST
    return is_list(data, 0, longest) and all(is_integer(number, -99, 99) for number in data)


def _edge_inputs(p: Parameters) -> list[Any]:
    gap = p["gap"] or 3
    rising = [
        [],
        [7],
        [-5, -5],
        [4, 4, 4, 5],
        [1, 1 + gap, 2 + 2 * gap, 3 + 2 * gap],
        [9, 1, 2, 8, 3, 4],
        [3, 0, 1, 9, 2, 10],
        [-9, -3, -6, -2],
        [5, 1, 6, 2, 7, 3],
    ]
    return [[-x for x in row] for row in rising] if p["relation"][0] == ">" else rising


_TEMPLATE = """
def solve(data):
    best = []
    for i in range(len(data)):
        before = [0]
        for j in range(i):
            if data[j] $relation data[i]$near:
                before.append(best[j])
        best.append($own + $join(before))
    return $total
"""

_OTHER = """
def solve(data):
    memo = {}

    def start(i):
        if i not in memo:
            after = [0]
            for j in range(i + 1, len(data)):
                if data[j] $reverse data[i]$near:
                    after.append(start(j))
            memo[i] = $own + $join(after)
        return memo[i]

    best = [start(i) for i in range(len(data))]
    return $total
"""


def _fields(p: Parameters) -> dict[str, Any]:
    ways = p["goal"] == "ways"
    return {
        "relation": p["relation"],
        "reverse": _RELATIONS[p["relation"]][2],
        "near": f" and abs(data[i] - data[j]) <= {p['gap']}" if p["gap"] else "",
        "own": "data[i]" if p["goal"] == "sum" else "1",
        "join": "sum" if ways else "max",
        "total": "sum(best)" if ways else "max([0] + best)",
        "tie": p["relation"][0] if len(p["relation"]) == 2 else p["relation"] + "=",
    }


FAMILY = ProblemFamily(
    name="increasing_run",
    title=_title,
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=lambda p: _TEMPLATE,
    fields=_fields,
    bugs=(
        Bug("wrong tie", "data[j] $relation data[i]", "data[j] $tie data[i]"),
        Bug("neighbours only", "for j in range(i):", "for j in range(max(0, i - 1), i):"),
        Bug("last one only", "return $total", "return best[-1] if best else 0"),
        Bug("first one lost", "for j in range(i):", "for j in range(1, i):"),
        Bug("gap ignored", "$near", "", lambda p: p["gap"] > 0),
    ),
    alternative=lambda p: _OTHER,
)
