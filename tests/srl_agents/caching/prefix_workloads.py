"""Random requests over a small tree of prefixes."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from srl_agents.caching.simulation.traces import Request, Trace

CHAIN = st.lists(st.integers(0, 2), min_size=1, max_size=5)


def trace_of(paths: list[list[int]]) -> Trace:
    """A block's id is its path through a ternary tree, so equal ids have equal prefixes."""
    rows = []
    for number, path in enumerate(paths):
        blocks, key = [], 1
        for step in path:
            key = 4 * key + step
            blocks.append(key)
        rows.append(
            Request(
                float(number),
                len(blocks),
                20 * path[-1],
                tuple(blocks),
                f"s{path[0]}",
                path[-1] == 2,
            )
        )
    return Trace(tuple(rows), tokens_per_block=1)


TRACES = st.lists(CHAIN, min_size=1, max_size=40).map(trace_of)


def chat_trace(sessions: int, seed: int) -> Trace:
    """A quarter of the sessions ask four times and get short replies; the others ask once."""
    rng = np.random.default_rng(seed)
    requests = []
    for session in range(sessions):
        turns = 4 if rng.random() < 0.25 else 1
        blocks = tuple(range(8 * session, 8 * session + 8))
        at = rng.uniform(0, sessions)
        for turn in range(turns):
            reply = 10 if turns > 1 else 500
            requests.append(Request(at, 8, reply, blocks, f"s{session}", turn == turns - 1))
            at += rng.exponential(sessions / 20)
    return Trace(tuple(sorted(requests, key=lambda r: r.arrival_s)), tokens_per_block=1)


def matches(groups: int, attempts: int, turns: int, rules: int) -> list[Request]:
    """Groups of attempts that share the rules and their start, whose prompts grow by a block a turn."""
    names: dict[tuple[int, ...], int] = {}
    rows: list[Request] = []
    for turn in range(turns):
        for group in range(groups):
            for attempt in range(attempts):
                path: list[tuple[int, ...]] = [(n,) for n in range(rules)] + [(rules, group)]
                path += [(rules + n, group, attempt) for n in range(1, turn + 1)]
                blocks = tuple(names.setdefault(place, len(names)) for place in path)
                rows.append(Request(float(len(rows)), len(blocks), 1, blocks))
    return rows
