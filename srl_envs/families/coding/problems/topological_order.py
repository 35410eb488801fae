"""Topological order: line up tasks that wait for each other, with a fixed choice among the ready."""

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

_TASKS = 20
_EDGES = 40
_PICKS = {
    "smallest": "At each moment do the ready task with the smallest number.",
    "largest": "At each moment do the ready task with the largest number.",
    "alternate": "First do the ready task with the smallest number, then the one with the "
    "largest, then smallest again, and so on.",
    "other way": "First do the ready task with the largest number, then the one with the "
    "smallest, then largest again, and so on.",
}
_CYCLES = {
    "never": "The tasks can always all be done.",
    "empty": "If not all tasks can be done, return [].",
    "partial": "Stop when no task is ready, even if some are left.",
    "rounds": "In one round all tasks that are ready at its start are done together. "
    "Return the number of rounds until all are done, -1 if some never are.",
}


def _variant(arrow: str, pick_: str, cycle: str) -> Parameters:
    return {"arrow": arrow, "pick": pick_, "cycle": cycle}


def _variants(difficulty: int) -> list[Parameters]:
    cycles = {1: ["never"], 2: ["empty"], 3: ["partial"], 4: ["rounds", "empty"]}
    picks = {4: ["alternate"], 5: ["alternate", "other way"]}
    return [
        _variant(arrow, pick_, cycle)
        for arrow in ("before", "after")
        for pick_ in picks.get(difficulty, ["smallest", "largest"])
        for cycle in cycles.get(difficulty, ["partial"])
    ]


def _statement(p: Parameters) -> str:
    rounds = p["cycle"] == "rounds"
    task = sentences(
        "Tasks are numbered 0 to n-1. An edge [a, b] means that",
        "a must be done before b." if p["arrow"] == "before" else "a must be done after b.",
        "A task is ready when all that must come before it are done.",
        "" if rounds else _PICKS[p["pick"]],
        _CYCLES[p["cycle"]],
        "" if rounds else "Return the list of tasks in the order in which they are done.",
    )
    return (
        f'{task}\nInput: {{"edges": a list of 0 to {_EDGES} pairs [a, b] of different tasks, '
        f'"n": 0 to {_TASKS}}}. Pairs may repeat.'
    )


def _order(p: Parameters, data: Any) -> list[int]:
    """Tasks in the order of the rules, as far as one gets."""
    n = data["n"]
    earlier, later = (0, 1) if p["arrow"] == "before" else (1, 0)
    before: list[set[int]] = [set() for _ in range(n)]
    for edge in data["edges"]:
        before[edge[later]].add(edge[earlier])
    order: list[int] = []
    ready = [task for task in range(n) if not before[task]]
    while ready:
        turn = len(order) % 2
        largest = {"largest": 1, "alternate": turn, "other way": 1 - turn}.get(p["pick"], 0)
        task = max(ready) if largest else min(ready)
        order.append(task)
        done = set(order)
        ready = [t for t in range(n) if t not in done and before[t] <= done]
    return order


def _rounds(p: Parameters, data: Any) -> int:
    """Length of the longest chain of tasks, by relaxing edges along the order."""
    earlier, later = (0, 1) if p["arrow"] == "before" else (1, 0)
    order = _order(p, data)
    if len(order) < data["n"]:
        return -1
    depth = dict.fromkeys(order, 1)
    for task in order:
        for edge in data["edges"]:
            if edge[earlier] == task:
                depth[edge[later]] = max(depth[edge[later]], depth[task] + 1)
    return max(depth.values(), default=0)


def _reference(p: Parameters, data: Any) -> Any:
    if p["cycle"] == "rounds":
        return _rounds(p, data)
    order = _order(p, data)
    return [] if p["cycle"] == "empty" and len(order) < data["n"] else order


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    n = integer(rng, 3, 6) if size == "small" else integer(rng, 15, _TASKS)
    count = integer(rng, 1, n + 1) if size == "small" else integer(rng, n, 2 * n)
    places = [int(k) for k in rng.permutation(n)]
    cyclic = p["cycle"] != "never" and rng.random() < 0.25
    edges = []
    for _ in range(count):
        a, b = (int(k) for k in rng.choice(n, size=2, replace=False))
        ordered = (places[a] < places[b]) == (p["arrow"] == "before")
        edges.append([a, b] if ordered or (cyclic and rng.random() < 0.3) else [b, a])
    return {"n": n, "edges": edges}


def _is_valid(p: Parameters, data: Any) -> bool:
    if not is_record(data, "n", "edges") or not is_integer(data["n"], 0, _TASKS):
        return False
    well_formed = is_list(data["edges"], 0, _EDGES) and all(
        is_list(edge, 2, 2)
        and all(is_integer(task, 0, data["n"] - 1) for task in edge)
        and edge[0] != edge[1]
        for edge in data["edges"]
    )
    return well_formed and (p["cycle"] != "never" or len(_order(p, data)) == data["n"])


def _edge_inputs(p: Parameters) -> list[Any]:
    graphs: list[tuple[int, list[list[int]]]] = [
        (0, []),
        (1, []),
        (4, []),
        (3, [[2, 0], [2, 0]]),
        (5, [[4, 0], [3, 1], [1, 2]]),
        (6, [[5, 0], [0, 4], [3, 1], [1, 2]]),
        (6, [[0, 3], [1, 3], [2, 4], [3, 5], [4, 5], [2, 3]]),
        (4, [[3, 2], [2, 1], [1, 0], [3, 0]]),
    ]
    if p["cycle"] != "never":
        graphs += [(2, [[0, 1], [1, 0]]), (5, [[0, 1], [2, 3], [3, 4], [4, 2], [0, 2]])]
    turn = p["arrow"] == "after"
    return [{"n": n, "edges": [e[::-1] if turn else e for e in edges]} for n, edges in graphs]


_ORDER = """
def solve(data):
    n = data["n"]
    waits = [set() for _ in range(n)]
    for a, b in data["edges"]:
        waits[$later].add($earlier)
    order = []
    while True:
        ready = [t for t in range(n) if t not in order and waits[t] <= set(order)]
        if not ready:
            break
        order.append($choice)
    return $result
"""

_ROUNDS = """
def solve(data):
    n = data["n"]
    waits = [set() for _ in range(n)]
    for a, b in data["edges"]:
        waits[$later].add($earlier)
    done = set()
    rounds = 0
    while len(done) < n:
        ready = [t for t in range(n) if t not in done and waits[t] <= done]
        if not ready:
            return -1
        done.update(ready)
        rounds += 1
    return rounds
"""

_OTHER = """
def solve(data):
    n = data["n"]
    missing = [0] * n
    opens = {t: [] for t in range(n)}
    for a, b in data["edges"]:
        missing[$later] += 1
        opens[$earlier].append($later)
    ready = [t for t in range(n) if missing[t] == 0]
    order = []
    while ready:
        ready.sort()
        task = $choice
        ready.remove(task)
        order.append(task)
        for t in opens[task]:
            missing[t] -= 1
            if missing[t] == 0:
                ready.append(t)
    return $result
"""

_OTHER_ROUNDS = """
def solve(data):
    n = data["n"]
    level = [1] * n
    for _ in range(n + 1):
        old = list(level)
        for a, b in data["edges"]:
            level[$later] = max(level[$later], level[$earlier] + 1)
        if old == level:
            return max(level, default=0)
    return -1
"""

_CHOICES = {
    "smallest": "ready[0]",
    "largest": "ready[-1]",
    "alternate": "ready[-1] if len(order) % 2 else ready[0]",
    "other way": "ready[0] if len(order) % 2 else ready[-1]",
}


def _fields(p: Parameters) -> dict[str, Any]:
    return {
        "earlier": "a" if p["arrow"] == "before" else "b",
        "later": "b" if p["arrow"] == "before" else "a",
        "choice": _CHOICES[p["pick"]],
        "result": "order if len(order) == n else []" if p["cycle"] == "empty" else "order",
    }


FAMILY = ProblemFamily(
    name="topological_order",
    title=lambda p: "Order of tasks",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=lambda p: _ROUNDS if p["cycle"] == "rounds" else _ORDER,
    fields=_fields,
    bugs=(
        Bug(
            "arrow reversed",
            "waits[$later].add($earlier)\n    order",
            "waits[$earlier].add($later)\n    order",
        ),
        Bug("whole layers", "order.append($choice)", "order.extend(ready)"),
        Bug("middle task", "order.append($choice)", "order.append(ready[len(ready) // 2])"),
        Bug("one is enough", "waits[t] <= set(order)", "(not waits[t] or waits[t] & set(order))"),
        Bug(
            "partial order kept", "return $result", "return order", lambda p: p["cycle"] == "empty"
        ),
        Bug("starts at one", "rounds = 0", "rounds = 1"),
        Bug("cycle counts as done", "return -1", "return rounds"),
        Bug("one will do", "waits[t] <= done", "(not waits[t] or waits[t] & done)"),
    ),
    alternative=lambda p: _OTHER_ROUNDS if p["cycle"] == "rounds" else _OTHER,
)
