"""Small knapsack: choose items of limited total weight."""

from __future__ import annotations

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
    is_record,
    pick,
    sentences,
)

_CAPACITY = 60
_ITEMS = 12
_GOALS = {
    "value": "Return the greatest total value.",
    "number": "Return the greatest number of items taken.",
    "weight": "Return the greatest total weight.",
}


def _variant(goal: str, unlimited: bool, most: int = 0, full: bool = False) -> Parameters:
    """``most``: items that may be taken, 0 for any number; ``full``: the capacity must be hit."""
    return {"goal": goal, "unlimited": unlimited, "most": most, "full": full}


def _variants(difficulty: int) -> list[Parameters]:
    flags = (False, True)
    if difficulty <= 2:
        return [_variant(goal, difficulty == 2) for goal in _GOALS]
    if difficulty == 3:
        return [_variant("value", unlimited, most) for unlimited in flags for most in (2, 3, 4)]
    if difficulty == 4:
        goals = ("value", "number")
        return [_variant(goal, unlimited, 0, True) for goal in goals for unlimited in flags]
    return [
        _variant("value", unlimited, most, True) for unlimited in flags for most in (2, 3, 4, 5)
    ]


def _statement(p: Parameters) -> str:
    task = sentences(
        "Each item is a pair [weight, value].",
        "Every item may be taken any number of times."
        if p["unlimited"]
        else "Every item may be taken once or not at all.",
        f"At most {p['most']} items may be taken in all." if p["most"] else "",
        "The total weight must be exactly the capacity."
        if p["full"]
        else "The total weight must not exceed the capacity.",
        _GOALS[p["goal"]][:-1] + (", -1 if there is no way." if p["full"] else "."),
    )
    return (
        f'{task}\nInput: {{"capacity": 0 to {_CAPACITY}, "items": a list of 0 to {_ITEMS} pairs '
        "[weight 1 to 30, value 0 to 99]}"
    )


def _reference(p: Parameters, data: Any) -> Any:
    capacity, most = data["capacity"], p["most"]
    best = {(0, 0): 0}  # (items, counted only where their number is limited; weight) -> gain
    for weight, value in data["items"]:
        gain = {"value": value, "number": 1, "weight": weight}[p["goal"]]
        copies = capacity // weight if p["unlimited"] else 1
        for (count, load), total in list(best.items()):
            for k in range(1, copies + 1):
                key = (count + k if most else 0, load + k * weight)
                if key[0] > most or key[1] > capacity:
                    break
                best[key] = max(best.get(key, -1), total + k * gain)
    return max(
        (v for (_, load), v in best.items() if load == capacity or not p["full"]), default=-1
    )


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    small = size == "small"
    items = [
        [integer(rng, 1, 6 if small else 15), integer(rng, 1, 9 if small else 99)]
        for _ in range(integer(rng, 2, 4) if small else integer(rng, 9, _ITEMS))
    ]
    capacity = integer(rng, 3, 12) if small else integer(rng, 35, _CAPACITY)
    if p["full"] and rng.random() < 0.6:
        chosen = rng.permutation(len(items))[: p["most"] or 3]
        capacity = min(_CAPACITY, sum(items[int(k)][0] for k in chosen))
    return {"capacity": capacity, "items": items}


def _is_valid(p: Parameters, data: Any) -> bool:  # noqa: ARG001 (one signature for all)
    return (
        is_record(data, "capacity", "items")
        and is_integer(data["capacity"], 0, _CAPACITY)
        and is_list(data["items"], 0, _ITEMS)
        and all(
            is_list(item, 2, 2) and is_integer(item[0], 1, 30) and is_integer(item[1], 0, 99)
            for item in data["items"]
        )
    )


def _edge_inputs(p: Parameters) -> list[Any]:  # noqa: ARG001 (one signature for all)
    cases: list[tuple[int, list[list[int]]]] = [
        (0, []),
        (0, [[1, 5]]),
        (5, [[5, 7]]),
        (4, [[5, 7]]),
        (6, [[3, 4]]),
        (10, [[6, 30], [5, 20], [5, 20]]),
        (8, [[2, 3], [3, 4], [5, 6], [3, 0]]),
        (12, [[1, 1], [1, 1], [1, 2], [4, 9], [4, 8], [3, 1]]),
        (7, [[2, 9], [6, 5]]),
        (30, [[1, 2], [7, 15], [9, 20]]),
    ]
    return [{"capacity": capacity, "items": items} for capacity, items in cases]


_PLAIN = """
def solve(data):
    room = data["capacity"]
    best = [0] + [-1] * room
    for weight, value in data["items"]:
        for w in $weights:
            if best[w - weight] >= 0:
                best[w] = max(best[w], best[w - weight] + $gain)
    return $result
"""

_COUNTED = """
def solve(data):
    room = data["capacity"]
    best = [[-1] * (room + 1) for _ in range($most + 1)]
    best[0][0] = 0
    for weight, value in data["items"]:
        for n in $counts:
            for w in range(weight, room + 1):
                if best[n - 1][w - weight] >= 0:
                    best[n][w] = max(best[n][w], best[n - 1][w - weight] + value)
    return max($rows for row in best)
"""

_OTHER = """
def solve(data):
    items = data["items"]
    memo = {}

    def best(k, room, left):
        if k == len(items) or left == 0:
            return $end
        key = (k, room, left)
        if key not in memo:
            weight, value = items[k]
            found = best(k + 1, room, left)
            if weight <= room:
                more = best(k$again, room - weight, left - 1)
                if more >= 0:
                    found = max(found, more + $gain)
            memo[key] = found
        return memo[key]

    return best(0, data["capacity"], $limit)
"""


def _fields(p: Parameters) -> dict[str, Any]:
    upward = "range(weight, room + 1)"
    return {
        "weights": upward if p["unlimited"] else "range(room, weight - 1, -1)",
        "gain": {"value": "value", "number": "1", "weight": "weight"}[p["goal"]],
        "result": "best[room]" if p["full"] else "max(best)",
        "most": p["most"],
        "counts": f"range(1, {p['most']} + 1)" if p["unlimited"] else f"range({p['most']}, 0, -1)",
        "rows": "row[room]" if p["full"] else "max(row)",
        "end": "(0 if room == 0 else -1)" if p["full"] else "0",
        "again": "" if p["unlimited"] else " + 1",
        "limit": p["most"] or 'len(items) + data["capacity"]',
    }


FAMILY = ProblemFamily(
    name="knapsack",
    title=lambda p: "Small knapsack",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=lambda p: _COUNTED if p["most"] else _PLAIN,
    fields=_fields,
    bugs=(
        Bug(
            "any number of copies",
            "for w in $weights:",
            "for w in range(weight, room + 1):",
            lambda p: not p["unlimited"],
        ),
        Bug(
            "one copy only",
            "for w in $weights:",
            "for w in range(room, weight - 1, -1):",
            lambda p: p["unlimited"],
        ),
        Bug(
            "capacity never reached",
            'room = data["capacity"]\n    best = [0]',
            'room = max(0, data["capacity"] - 1)\n    best = [0]',
        ),
        Bug("last item skipped", 'in data["items"]:', 'in data["items"][:-1]:'),
        Bug(
            "greedy",
            "best[w] = max(best[w], best[w - weight] + $gain)",
            "best[w] = best[w - weight] + $gain",
            lambda p: p["goal"] != "weight",
        ),
        Bug("may stay below", "return $result", "return max(best)", lambda p: p["full"]),
        Bug("one item fewer", "for row in best)", "for row in best[:-1])"),
        Bug(
            "latest item wins",
            "max(best[n][w], best[n - 1][w - weight] + value)",
            "best[n - 1][w - weight] + value",
        ),
        Bug(
            "row may stay below",
            "max($rows for row in best)",
            "max(max(row) for row in best)",
            lambda p: p["full"],
        ),
        Bug(
            "number must fit",
            "max($rows for row in best)",
            "max($rows for row in best[1:])",
            lambda p: not p["full"],
        ),
    ),
    alternative=lambda p: _OTHER,
)
