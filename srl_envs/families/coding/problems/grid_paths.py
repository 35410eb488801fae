"""Grid paths: count the ways through a grid, or find the richest one."""

from __future__ import annotations

from typing import Any

import numpy as np

from srl_envs.families.coding.problems.family import (
    Bug,
    Parameters,
    ProblemFamily,
    Size,
    integer,
    is_list,
    is_text,
    pick,
    sentences,
    text,
)

_SIDE = 10


def _variant(
    start: str, wall: str, answer: str = "count", modulus: int = 0, diagonals: int = 0
) -> Parameters:
    """``diagonals``: how many diagonal steps a path may make; 99 stands for any number."""
    return {
        "start": start,
        "wall": wall,
        "answer": answer,
        "modulus": modulus,
        "diagonals": diagonals,
    }


def _variants(difficulty: int) -> list[Parameters]:
    corners = [(start, wall) for start in ("left", "right") for wall in "#x"]
    if difficulty == 1:
        return [_variant(start, wall) for start, wall in corners]
    if difficulty == 2:
        return [_variant(start, wall, "count", m) for start, wall in corners for m in (5, 7, 10)]
    if difficulty == 3:
        return [
            _variant(start, wall, "count", m, 99) for start, wall in corners for m in (7, 10, 100)
        ]
    if difficulty == 4:
        return [
            _variant(start, wall, goal) for start, wall in corners for goal in ("most", "least")
        ]
    return [
        _variant(start, wall, answer, m, most)
        for start, wall in corners
        for answer, m in (("count", 7), ("count", 100), ("least", 0))
        for most in (1, 2)
    ]


def _statement(p: Parameters) -> str:
    side, other = p["start"], "right" if p["start"] == "left" else "left"
    often = "" if p["diagonals"] == 99 else f", at most {p['diagonals']} times on a path"
    diagonal = f", or{often} diagonally to the cell below that one" if p["diagonals"] else ""
    modulo = f" modulo {p['modulus']}" if p["modulus"] else ""
    best = "greatest" if p["answer"] == "most" else "smallest"
    count = p["answer"] == "count"
    task = sentences(
        f"A path leads from the top {side} to the bottom {other} cell of a grid.",
        f"Each step goes to the next cell below or to the {other}{diagonal}.",
        f"Cells marked {p['wall']} are walls that no path may touch, the others "
        f"{'are marked .' if count else 'hold a digit.'}",
        f"Return the number of paths{modulo}."
        if count
        else "The sum of a path is that of the digits on its cells, both ends included. "
        f"Return the {best} sum, -1 if there is no path.",
    )
    return f"{task}\nInput: a list of 1 to {_SIDE} strings, the rows, all of one length from 1 to {_SIDE}."


def _reference(p: Parameters, data: Any) -> Any:
    grid = data if p["start"] == "left" else [row[::-1] for row in data]
    counting = p["answer"] == "count"
    # by cell, then by the number of diagonal steps so far: the number of paths, or the best sum
    found: dict[tuple[int, int], dict[int, int]] = {}
    for r, row in enumerate(grid):
        for c, cell in enumerate(row):
            if cell == p["wall"]:
                continue
            here: dict[int, int] = {0: 1 if counting else 0} if r == c == 0 else {}
            for dr, dc in ((1, 0), (0, 1), (1, 1)):
                for used, value in found.get((r - dr, c - dc), {}).items():
                    key = used + (dr + dc == 2)
                    if key > p["diagonals"]:
                        continue
                    if counting:
                        here[key] = here.get(key, 0) + value
                    elif key not in here or (value > here[key]) == (p["answer"] == "most"):
                        here[key] = value
            found[r, c] = {k: v if counting else v + int(cell) for k, v in here.items()}
    ends = list(found.get((len(grid) - 1, len(grid[0]) - 1), {}).values())
    if counting:
        return sum(ends) % p["modulus"] if p["modulus"] else sum(ends)
    return (max if p["answer"] == "most" else min)(ends, default=-1)


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    low, high = (2, 4) if size == "small" else (8, _SIDE)
    rows, cols = integer(rng, low, high), integer(rng, low, high)
    free = "." if p["answer"] == "count" else "0123456789"
    cells = [
        [p["wall"] if rng.random() < 0.12 else text(rng, free, 1) for _ in range(cols)]
        for _ in range(rows)
    ]
    if rng.random() < 0.9:  # walls on the ends make most grids the same
        first = 0 if p["start"] == "left" else -1
        cells[0][first] = text(rng, free, 1)
        cells[-1][-1 - first] = text(rng, free, 1)
    return ["".join(row) for row in cells]


def _is_valid(p: Parameters, data: Any) -> bool:
    letters = "." if p["answer"] == "count" else "0123456789"
    return (
        is_list(data, 1, _SIDE)
        and all(is_text(row, letters + p["wall"], _SIDE) for row in data)
        and len(data[0]) > 0
        and all(len(row) == len(data[0]) for row in data)
    )


def _edge_inputs(p: Parameters) -> list[Any]:
    patterns = [
        ["1"],
        ["#"],
        ["#1", "11"],
        ["1#", "11"],
        ["112", "#90", "131"],
        ["1234567"],
        ["9", "0", "9"],
        ["1119", "1#10", "1011"],
        ["19111", "11911", "11191"],
        ["11#", "1#1", "#11"],
        ["1111"] * 4,
    ]
    if p["start"] == "right":
        patterns = [[row[::-1] for row in rows] for rows in patterns]
    table = {**{d: "." for d in "0123456789" if p["answer"] == "count"}, "#": p["wall"]}
    return [["".join(table.get(c, c) for c in row) for row in rows] for rows in patterns]


_COUNT = """
def solve(data):
    grid = $grid
    rows, cols = len(grid), len(grid[0])
    ways = [[0] * cols for _ in range(rows)]
    for r in range(rows):
        for c in range(cols):
            if grid[r][c] == "$wall":
                continue
            if r == 0 and c == 0:
                ways[r][c] = 1
            if r > 0:
                ways[r][c] += ways[r - 1][c]
            if c > 0:
                ways[r][c] += ways[r][c - 1]
$diagonal    return ways[rows - 1][cols - 1]$modulo
"""

_COUNT_DIAGONAL = """            if r > 0 and c > 0:
                ways[r][c] += ways[r - 1][c - 1]
"""

_SEARCH = """
from functools import lru_cache


def solve(data):
    grid = $grid
    rows, cols = len(grid), len(grid[0])

    @lru_cache(None)
    def walk(r, c, left):
        if r == rows or c == cols or grid[r][c] == "$wall":
            return []
        if r == rows - 1 and c == cols - 1:
            return [$own]
        ends = walk(r + 1, c, left) + walk(r, c + 1, left)
        if left > 0:
            ends = ends + walk(r + 1, c + 1, left - 1)
        return $join

    return $result
"""

_OTHER = """
def solve(data):
    grid = $grid
    rows, cols = len(grid), len(grid[0])
    # each layer: cells at one distance from the start -> values by diagonal steps left
    memo = {}
    for r in range(rows - 1, -1, -1):
        for c in range(cols - 1, -1, -1):
            for left in range($start + 1):
                if grid[r][c] == "$wall":
                    ends = []
                elif (r, c) == (rows - 1, cols - 1):
                    ends = [$own]
                else:
                    ends = memo.get((r + 1, c, left), []) + memo.get((r, c + 1, left), [])
                    if left:
                        ends = ends + memo.get((r + 1, c + 1, left - 1), [])
                    ends = $join
                memo[r, c, left] = ends
    walk = lambda r, c, left: memo[r, c, left]
    return $result
"""


def _template(p: Parameters) -> str:
    return _COUNT if p["answer"] == "count" and p["diagonals"] in (0, 99) else _SEARCH


def _fields(p: Parameters) -> dict[str, Any]:
    modulo = f" % {p['modulus']}" if p["modulus"] else ""
    most = min(p["diagonals"], _SIDE)
    best = {"count": "sum", "most": "max", "least": "min"}[p["answer"]]
    own = "int(grid[r][c])"
    return {
        "grid": "data" if p["start"] == "left" else "[row[::-1] for row in data]",
        "mirrored": "[row[::-1] for row in data]" if p["start"] == "left" else "data",
        "wall": p["wall"],
        "diagonal": _COUNT_DIAGONAL if p["diagonals"] else "",
        "modulo": modulo,
        "start": most,
        "own": "1" if best == "sum" else own,
        "join": "[sum(ends)] if ends else []"
        if best == "sum"
        else f"[{own} + {best}(ends)] if ends else []",
        "result": f"sum(walk(0, 0, {most})){modulo}"
        if best == "sum"
        else f"{best}(walk(0, 0, {most}), default=-1)",
    }


FAMILY = ProblemFamily(
    name="grid_paths",
    title=lambda p: "Grid paths",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=_template,
    fields=_fields,
    bugs=(
        Bug(
            "walls ignored",
            'if grid[r][c] == "$wall":',
            'if grid[r][c] == "$wall" and r > 0 and c > 0:',
        ),
        Bug("first row lost", "            if r > 0:\n", "            if r > 1:\n"),
        Bug("first column lost", "            if c > 0:\n", "            if c > 1:\n"),
        Bug("corner mixed up", "grid = $grid", "grid = $mirrored"),
        Bug("no modulus", "$modulo", "", lambda p: p["modulus"] > 0),
        Bug("no diagonal", "$diagonal", "", lambda p: p["diagonals"] > 0),
        Bug("one step too many", "if left > 0:", "if left >= 0:"),
        Bug("one step too few", "if left > 0:", "if left > 1:", lambda p: p["diagonals"] > 0),
        Bug("first way only", "walk(r + 1, c, left) + walk", "walk(r + 1, c, left) or walk"),
        Bug("end not counted", "return [$own]", "return [0]"),
        Bug("last column lost", "or c == cols or", "or c == cols - 1 < rows - 1 or"),
    ),
    alternative=lambda p: _OTHER,
)
