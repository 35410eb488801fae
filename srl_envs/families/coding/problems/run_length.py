"""Run-length encoding: write a string as its runs of equal letters."""

from __future__ import annotations

from itertools import groupby
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

_LETTERS = "abcx"
_LONGEST = 150


def _variant(
    order: str = "letter", glue: str = "", ones: bool = True, cap: int = 0, skip: str = ""
) -> Parameters:
    return {"order": order, "glue": glue, "ones": ones, "cap": cap, "skip": skip}


def _variants(difficulty: int) -> list[Parameters]:
    orders, glues, caps = ("letter", "count"), ("", "-", "+"), (3, 4, 5)
    if difficulty == 1:
        return [_variant(order, glue) for order in orders for glue in glues]
    if difficulty == 2:
        return [_variant(order, glue, ones=False) for order in orders for glue in glues]
    if difficulty == 3:
        return [
            _variant(order, "", ones, 0, x)
            for order in orders
            for ones in (True, False)
            for x in "bx"
        ]
    if difficulty == 4:
        return [
            _variant(order, glue, cap=cap) for order in orders for glue in glues for cap in caps
        ]
    return [
        _variant(order, glue, False, cap, skip)
        for order in orders
        for glue in glues
        for cap in caps
        for skip in "bx"
    ]


def _statement(p: Parameters) -> str:
    n_after = p["order"] == "letter"
    task = sentences(
        f"First remove every {p['skip']} from the string." if p["skip"] else "",
        "Then write" if p["skip"] else "Write",
        "the string as its runs of equal letters, in order: a run of n letters c becomes",
        "c followed by n." if n_after else "n followed by c.",
        "" if p["ones"] else "Leave n out where it is 1.",
        f"Cut a run longer than {p['cap']} into runs of {p['cap']} and a rest." if p["cap"] else "",
        f'Put "{p["glue"]}" between two runs.' if p["glue"] else "",
    )
    return f"{task}\nInput: a string of 0 to {_LONGEST} letters, each one of a, b, c, x."


def _reference(p: Parameters, data: Any) -> Any:
    kept = "".join(letter for letter in data if letter != p["skip"])
    cap = p["cap"] or len(kept) + 1
    pieces = []
    for letter, run in groupby(kept):
        full, rest = divmod(len(list(run)), cap)
        for count in [cap] * full + [rest] * (rest > 0):
            number = str(count) if count > 1 or p["ones"] else ""
            pieces.append(letter + number if p["order"] == "letter" else number + letter)
    return str(p["glue"]).join(pieces)


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    runs = integer(rng, 2, 5) if size == "small" else integer(rng, 12, 18)
    longest = max(3, p["cap"] + 2) if size == "small" else 14
    drawn = [pick(rng, _LETTERS) * integer(rng, 1, longest) for _ in range(runs)]
    return "".join(drawn)[:_LONGEST] if size == "large" else "".join(drawn)[:24]


def _is_valid(p: Parameters, data: Any) -> bool:  # noqa: ARG001 (one signature for all)
    return is_text(data, _LETTERS, _LONGEST)


def _edge_inputs(p: Parameters) -> list[Any]:
    cap = p["cap"] or 4
    return [
        "",
        "a",
        "xabxxbab",
        "a" * (2 * cap + 1) + "b",
        "c" * 12 + "ab" + "a" * (cap + 1),
        "bb" + "x" * (2 * cap) + "b",
        "cba" * 3,
    ]


_TEMPLATE = """
def solve(data):
$prepare    runs = []
    for c in data:
        if runs and runs[-1][0] == c$below:
            runs[-1][1] += 1
        else:
            runs.append([c, 1])
    return "$glue".join($piece for c, n in runs)
"""

_OTHER = """
def solve(data):
$prepare    out = []
    start = 0
    while start < len(data):
        end = start
        while end < len(data) and data[end] == data[start]$width:
            end += 1
        c, n = data[start], end - start
        out.append($piece)
        start = end
    return "$glue".join(out)
"""


def _fields(p: Parameters) -> dict[str, Any]:
    number = "str(n)" if p["ones"] else '(str(n) if n > 1 else "")'
    return {
        "prepare": f'    data = data.replace("{p["skip"]}", "")\n' if p["skip"] else "",
        "below": f" and runs[-1][1] < {p['cap']}" if p["cap"] else "",
        "width": f" and end - start < {p['cap']}" if p["cap"] else "",
        "glue": p["glue"],
        "piece": f"c + {number}" if p["order"] == "letter" else f"{number} + c",
    }


FAMILY = ProblemFamily(
    name="run_length",
    title=lambda p: "Run lengths",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=lambda p: _TEMPLATE,
    fields=_fields,
    bugs=(
        Bug("last run lost", "for c, n in runs)", "for c, n in runs[:-1])"),
        Bug(
            "single digit",
            "for c, n in runs)",
            "for c, n in [(c, n % 10) for c, n in runs])",
            lambda p: not p["cap"],
        ),
        Bug("runs sorted", "for c, n in runs)", "for c, n in sorted(runs))"),
        Bug("counts from zero", "runs.append([c, 1])", "runs.append([c, 0])"),
        Bug("runs not cut", "$below", "", lambda p: p["cap"] > 0),
        Bug("letter kept", "$prepare", "", lambda p: p["skip"] != ""),
    ),
    alternative=lambda p: _OTHER,
)
