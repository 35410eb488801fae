"""Merge intervals: join what overlaps or lies close, then report the result."""

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
    pick,
    sentences,
)

_ANSWERS = {
    "list": "Return the joined intervals as [a, b] pairs sorted by a.",
    "count": "Return how many joined intervals there are.",
    "total": "Return the sum of b - a over the joined intervals.",
    "longest": "Return the greatest b - a of a joined interval, 0 if there is none.",
}
_EXPRESSIONS = {
    "list": "merged",
    "count": "len(merged)",
    "total": "sum(b - a for a, b in merged)",
    "longest": "max([b - a for a, b in merged], default=0)",
}


def _variant(answer: str, gap: int = 0, flipped: bool = False, shortest: int = 0) -> Parameters:
    return {"answer": answer, "gap": gap, "flipped": flipped, "shortest": shortest}


def _variants(difficulty: int) -> list[Parameters]:
    if difficulty == 1:
        return [_variant(answer) for answer in ("list", "count", "total")]
    if difficulty == 2:
        return [_variant(answer, gap) for answer in ("list", "count") for gap in (1, 2, 3)]
    if difficulty == 3:
        return [_variant(answer, gap) for answer in ("total", "longest") for gap in range(4)]
    shortest = (0,) if difficulty == 4 else (2, 3, 4)
    return [
        _variant(answer, gap, True, length)
        for answer in _ANSWERS
        for gap in (0, 1, 2)
        for length in shortest
        if answer != "longest" or not length
    ]


def _statement(p: Parameters) -> str:
    near = "if they share a point"
    if p["gap"]:
        near += f" or the gap between them is at most {p['gap']}"
    order = "in either order" if p["flipped"] else "with a <= b"
    task = sentences(
        f"Each pair [a, b] is an interval. Two intervals are joined into one {near};",
        "go on until no two can be joined.",
        f"Then drop every interval with b - a below {p['shortest']}." if p["shortest"] else "",
        _ANSWERS[p["answer"]],
    )
    return f"{task}\nInput: a list of 0 to 50 pairs [a, b] of integers from -99 to 99, {order}."


def _reference(p: Parameters, data: Any) -> Any:
    ends = sorted((min(pair), max(pair)) for pair in data)
    joined: list[list[int]] = []
    for low, high in ends:
        if joined and low - joined[-1][1] <= p["gap"]:
            joined[-1][1] = max(high, joined[-1][1])
        else:
            joined.append([low, high])
    joined = [pair for pair in joined if pair[1] - pair[0] >= p["shortest"]]
    lengths = [high - low for low, high in joined]
    answers = {
        "list": joined,
        "count": len(joined),
        "total": sum(lengths),
        "longest": max(lengths, default=0),
    }
    return answers[p["answer"]]


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    count = integer(rng, 2, 6) if size == "small" else integer(rng, 25, 50)
    reach = 16 + 5 * p["gap"] if size == "small" else 99
    pairs = []
    for _ in range(count):
        low = integer(rng, -reach if size == "large" else 0, reach)
        high = min(99, low + integer(rng, 0, 5))
        turn = p["flipped"] and rng.random() < 0.4
        pairs.append([high, low] if turn else [low, high])
    return pairs


def _is_valid(p: Parameters, data: Any) -> bool:
    return is_list(data, 0, 50) and all(
        is_list(pair, 2, 2)
        and all(is_integer(end, -99, 99) for end in pair)
        and (p["flipped"] or pair[0] <= pair[1])
        for pair in data
    )


def _edge_inputs(p: Parameters) -> list[Any]:
    gap, length = p["gap"], max(1, p["shortest"])
    first = [9, 1] if p["flipped"] else [1, 9]
    return [
        [],
        [[5, 5]],
        [first, [2, 4], [8 + gap, 12 + gap]],
        [[20, 20 + length], [9 + gap, 14 + gap], first],
        [first, [9 + gap, 15 + gap], [16 + 2 * gap, 20 + 2 * gap], [30, 29 + length]]
        if p["flipped"]
        else [first, [9 + gap, 15 + gap], [16 + 2 * gap, 20 + 2 * gap], [30, 30 + length]],
        [[0, 20], [3, 4], [15, 16]],
    ]


_TEMPLATE = """
def solve(data):
    merged = []
    for a, b in sorted($pairs):
        if merged and a <= merged[-1][1] + $gap:
            merged[-1][1] = max(merged[-1][1], b)
        else:
            merged.append([a, b])
$drop    return $answer
"""

_OTHER = """
def solve(data):
    merged = [list(pair) for pair in $pairs]
    changed = True
    while changed:
        changed = False
        for x in merged:
            for y in merged:
                if x is not y and x[0] <= y[1] + $gap and y[0] <= x[1] + $gap:
                    merged.remove(x)
                    merged.remove(y)
                    merged.append([min(x[0], y[0]), max(x[1], y[1])])
                    changed = True
                    break
            if changed:
                break
    merged.sort()
$drop    return $answer
"""

_DROP = "    merged = [[a, b] for a, b in merged if b - a >= {}]\n"


def _fields(p: Parameters) -> dict[str, Any]:
    return {
        "pairs": "[sorted(pair) for pair in data]" if p["flipped"] else "data",
        "gap": p["gap"],
        "drop": _DROP.format(p["shortest"]) if p["shortest"] else "",
        "answer": _EXPRESSIONS[p["answer"]],
    }


FAMILY = ProblemFamily(
    name="interval_merge",
    title=lambda p: "Merge intervals",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=lambda p: _TEMPLATE,
    fields=_fields,
    bugs=(
        Bug(
            "open ends",
            "a <= merged[-1][1] + $gap",
            "a < merged[-1][1] + $gap",
            lambda p: p["answer"] != "total" or p["gap"] > 0,
        ),
        Bug("last end wins", "max(merged[-1][1], b)", "b"),
        Bug("wrong gap", "+ $gap", "+ $gap + 1"),
        Bug("not sorted", "sorted($pairs)", "$pairs"),
        Bug("ends not ordered", "$pairs", "data", lambda p: p["flipped"]),
        Bug("keeps short ones", "$drop", "", lambda p: p["shortest"] > 0),
    ),
    alternative=lambda p: _OTHER,
)
