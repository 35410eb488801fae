"""Matrix spiral: read a matrix along a spiral from one corner."""

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

_SIDE = 8
_CORNERS = ("top left", "top right", "bottom right", "bottom left")
_HEADINGS = ((0, 1), (1, 0), (0, -1), (-1, 0))  # right, down, left, up


def _variant(corner: str, clockwise: bool, every: int = 1, inside_out: bool = False) -> Parameters:
    return {"corner": corner, "clockwise": clockwise, "every": every, "inside_out": inside_out}


def _variants(difficulty: int) -> list[Parameters]:
    ways = [(corner, clockwise) for corner in _CORNERS for clockwise in (True, False)]
    if difficulty == 1:
        return [_variant(corner, True) for corner in _CORNERS]
    if difficulty == 2:
        return [_variant(*way) for way in ways]
    if difficulty == 3:
        return [_variant(*way, every) for way in ways for every in (2, 3)]
    if difficulty == 4:
        return [_variant(*way, 1, True) for way in ways]
    return [_variant(*way, every, True) for way in ways for every in (2, 3, 4)]


def _statement(p: Parameters) -> str:
    turn = "clockwise" if p["clockwise"] else "counterclockwise"
    task = sentences(
        f"Read a matrix along a spiral: start at the {p['corner']} corner, go round {turn},",
        "and turn inward until every number is read.",
        "Then reverse the list." if p["inside_out"] else "",
        f"Return numbers 1, {1 + p['every']}, {1 + 2 * p['every']} and so on of that list."
        if p["every"] > 1
        else "Return the list.",
    )
    return (
        f"{task}\nInput: a list of 1 to {_SIDE} rows, all with the same number (1 to {_SIDE}) "
        "of integers from -99 to 99."
    )


def _peel(rows: list[list[int]]) -> list[int]:
    """Clockwise from the top left: take the top row off, turn the rest, again."""
    out: list[int] = []
    while rows:
        out += rows[0]
        rows = [list(column) for column in zip(*rows[1:], strict=True)][::-1]
    return out


def _reference(p: Parameters, data: Any) -> Any:
    rows = [list(row) for row in data]
    for _ in range(_CORNERS.index(p["corner"])):  # turn until the corner is at the top left
        rows = [list(column) for column in zip(*rows, strict=True)][::-1]
    if not p["clockwise"]:
        rows = [list(column) for column in zip(*rows, strict=True)]
    out = _peel(rows)
    return (out[::-1] if p["inside_out"] else out)[:: p["every"]]


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    low, high = (2, 4) if size == "small" else (6, _SIDE)
    rows, cols = integer(rng, low, high), integer(rng, low, high)
    if size == "small" and rows * cols > 12:
        rows = 3
    reach = 9 if size == "small" else 99
    return [[integer(rng, 0, reach) for _ in range(cols)] for _ in range(rows)]


def _is_valid(p: Parameters, data: Any) -> bool:  # noqa: ARG001 (one signature for all)
    return (
        is_list(data, 1, _SIDE)
        and all(is_list(row, 1, _SIDE) for row in data)
        and all(len(row) == len(data[0]) for row in data)
        and all(is_integer(number, -99, 99) for row in data for number in row)
    )


def _edge_inputs(p: Parameters) -> list[Any]:  # noqa: ARG001 (one signature for all)
    shapes = [(1, 1), (1, 5), (5, 1), (2, 2), (3, 3), (3, 5), (5, 3), (5, 5), (2, 4)]
    return [[[r * cols + c for c in range(cols)] for r in range(rows)] for rows, cols in shapes]


_TEMPLATE = """
def solve(data):
    rows, cols = len(data), len(data[0])
    r, c = $start
    dr, dc = $heading
    out = []
    seen = set()
    for _ in range(rows * cols):
        out.append(data[r][c])
        seen.add((r, c))
        nr, nc = r + dr, c + dc
        if not (0 <= nr < rows and 0 <= nc < cols) or (nr, nc) in seen:
            dr, dc = $turn
        r, c = r + dr, c + dc
    return out$tail
"""

_OTHER = """
def solve(data):
    rows = data$flip_rows
    rows = [row$flip_cols for row in rows]
    if $transpose:
        rows = [list(column) for column in zip(*rows)]
    out = []
    top, left, bottom, right = 0, 0, len(rows) - 1, len(rows[0]) - 1
    while top <= bottom and left <= right:
        for c in range(left, right + 1):
            out.append(rows[top][c])
        for r in range(top + 1, bottom + 1):
            out.append(rows[r][right])
        if top < bottom:
            for c in range(right - 1, left - 1, -1):
                out.append(rows[bottom][c])
        if left < right:
            for r in range(bottom - 1, top, -1):
                out.append(rows[r][left])
        top, left, bottom, right = top + 1, left + 1, bottom - 1, right - 1
    return out$tail
"""


def _fields(p: Parameters) -> dict[str, Any]:
    corner = _CORNERS.index(p["corner"])
    heading = _HEADINGS[corner if p["clockwise"] else (corner + 1) % 4]
    starts = ("0, 0", "0, cols - 1", "rows - 1, cols - 1", "rows - 1, 0")
    turns = ("dc, -dr", "-dc, dr")
    step = f"[::{p['every']}]" if p["every"] > 1 else ""
    return {
        "start": starts[corner],
        "heading": f"{heading[0]}, {heading[1]}",
        "turn": turns[0] if p["clockwise"] else turns[1],
        "tail": ("[::-1]" if p["inside_out"] else "") + step,
        "late": ("[::-1]" if p["inside_out"] else "") + f"[{p['every'] - 1}::{p['every']}]",
        "flip_rows": "[::-1]" if corner >= 2 else "",
        "flip_cols": "[::-1]" if corner in (1, 2) else "",
        "transpose": (corner in (1, 3)) == p["clockwise"],
    }


FAMILY = ProblemFamily(
    name="matrix_spiral",
    title=lambda p: "Matrix spiral",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=lambda p: _TEMPLATE,
    fields=_fields,
    bugs=(
        Bug("last number lost", "range(rows * cols)", "range(rows * cols - 1)"),
        Bug("outer ring only", "range(rows * cols)", "range(max(1, 2 * (rows + cols) - 4))"),
        Bug("sides mixed up", "0 <= nc < cols)", "0 <= nc < rows)"),
        Bug(
            "wrong corner",
            "r, c = $start",
            "r, c = 0, cols - 1",
            lambda p: p["corner"] == "top left",
        ),
        Bug("reads from the second", "out$tail", "out$late", lambda p: p["every"] > 1),
        Bug("not reversed", "out$tail", "out", lambda p: p["inside_out"]),
    ),
    alternative=lambda p: _OTHER,
)
