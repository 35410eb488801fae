"""Placement of requests on instances: prefixes are found again, work is shared, nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.caching.conductor import Conducted, Conductor, Placed
from srl_agents.caching.objectives import Objectives
from srl_agents.caching.simulation.traces import Request, unlimited_hits
from srl_envs.errors import ConfigError
from tests.srl_agents.caching.prefix_workloads import matches

STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(-3, 3), st.booleans()), max_size=40
)


def played(requests: list[Request], instances: int, at_once: int) -> list[list[Request]]:
    """Requests per instance, with so many unanswered at a time."""
    conductor = Conductor(instances, places=at_once)
    per_instance: list[list[Request]] = [[] for _ in range(instances)]
    live: list[Placed] = []
    for request in requests:
        if len(live) == at_once:
            conductor.end(live.pop(0))
        placed = conductor.place(request.blocks)
        conductor.take(placed.instance)
        live.append(placed)
        per_instance[placed.instance].append(request)
    return per_instance


@pytest.mark.parametrize("instances", [2, 4, 8])
def test_nearly_all_possible_hits_remain_and_every_instance_works(instances: int) -> None:
    requests = matches(groups=24, attempts=8, turns=8, rules=12)
    parts = played(requests, instances, at_once=32)
    hits = sum(unlimited_hits(part) for part in parts)
    assert hits >= 0.97 * unlimited_hits(requests)
    assert min(map(len, parts)) > 0.4 * len(requests) / instances


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, instances=st.integers(1, 3), places=st.integers(1, 2))
def test_no_more_run_than_there_are_places_and_the_lowest_priority_begins(
    steps: list[tuple[int, int, int, bool]], instances: int, places: int
) -> None:
    conductor = Conductor(instances, places=places)
    waiting: list[Placed] = []
    running: list[Placed] = []
    for family, length, priority, ends in steps:
        placed = conductor.place([(family, n) for n in range(length)], priority)
        waiting.append(placed)
        if ends and running:
            conductor.end(running.pop(0))
        for number in range(instances):
            begun = conductor.take(number)
            for each in begun:
                own = [w.priority for w in waiting if w.instance == number]
                assert each.priority == min(own)
                waiting.remove(each)
                running.append(each)
            assert sum(r.instance == number for r in running) <= places
            if any(w.instance == number for w in waiting):
                assert sum(r.instance == number for r in running) == places
    for each in (*running, *waiting):
        conductor.end(each)
    assert conductor.place(["new"]).instance == 0  # nothing is left anywhere


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, capacity=st.integers(1, 12))
def test_what_an_instance_works_on_fits_its_memory_and_nothing_waits_for_ever(
    steps: list[tuple[int, int, int, bool]], capacity: int
) -> None:
    """Blocks that prompts share count once; one that needs more than an instance has runs by itself."""
    conductor = Conductor(1, places=3, capacity=[capacity])
    running: list[Placed] = []
    left = 0

    def begin() -> None:
        running.extend(conductor.take(0))
        blocks = {key for each in running for key in each.blocks}
        needed = len(blocks) + sum(each.reply_blocks for each in running)
        assert needed <= capacity or len(running) == 1

    for family, length, priority, ends in steps:
        chain = [(family, n) for n in range(length)]
        conductor.place(chain, priority, reply_blocks=1 + family)
        left += 1
        if ends and running:
            conductor.end(running.pop(0))
            left -= 1
        begin()
    while running:
        conductor.end(running.pop(0))
        left -= 1
        begin()
    assert not left


def test_what_a_conductor_did_is_told_once() -> None:
    conductor = Conductor(2, places=4)
    chain = ["rules", "turn"]
    first = conductor.place(chain)
    home = first.instance
    conductor.end(first)
    conductor.place([*chain, "next"])
    conductor.place(chain, without=[home])
    done = conductor.take_done()
    assert done.requests == {home: 2, 1 - home: 1}
    assert (done.blocks, done.known, done.moved) == (7, 2, 1)
    assert conductor.take_done() == Conducted()


def test_one_that_nobody_waits_for_gives_its_turn_away() -> None:
    conductor = Conductor(1, places=1)
    first, second, third = (conductor.place([n]) for n in range(3))
    assert conductor.take(0) == [first]
    conductor.end(second)
    conductor.end(first)
    assert conductor.take(0) == [third]


def test_nothing_goes_to_an_instance_that_died() -> None:
    conductor = Conductor(2, places=4)
    chain = ["rules", "turn"]
    home = conductor.place(chain).instance
    conductor.lose(home)
    assert {conductor.place(chain).instance for _ in range(5)} == {1 - home}
    conductor.lose(1 - home)
    with pytest.raises(ConfigError, match="no instance is left"):
        conductor.place(chain)
    with pytest.raises(ConfigError, match="capacity"):
        Conductor(2, places=4, capacity=[5])


ARRIVALS = st.lists(
    st.tuples(st.floats(0, 0.4), st.integers(1, 6), st.integers(1, 20)), min_size=1, max_size=60
)
"""Per request: seconds after the one before, blocks of its prompt, tokens of its reply."""


def served(
    arrivals: list[tuple[float, int, int]], objectives: Objectives
) -> tuple[list[int], list[int]]:
    """Numbers in the order in which they began, and how many ran in each step: 10 ms, 10 ms for each reply
    and 20 ms for each block that is read."""
    now_s, step = 0.0, 0
    conductor = Conductor(1, places=16, objectives=objectives, clock=lambda: now_s)
    line: list[tuple[float, int]] = []
    for number, (later_s, _, _) in enumerate(arrivals):
        line.append((later_s + (line[-1][0] if line else 0.0), number))
    numbers: dict[Placed, int] = {}
    left: dict[Placed, int] = {}
    begun: list[int] = []
    running: list[int] = []
    while line or len(begun) < len(arrivals) or left:
        step += 1
        assert step < 10**5
        while line and line[0][0] <= now_s:
            _, number = line.pop(0)
            chain = [(number, n) for n in range(arrivals[number][1])]
            numbers[conductor.place(chain)] = number
        fresh = conductor.take(0)
        left |= {placed: arrivals[numbers[placed]][2] for placed in fresh}
        begun += [numbers[placed] for placed in fresh]
        if not left:
            now_s = line[0][0]
            continue
        running.append(len(left))
        now_s += 0.01 + 0.01 * len(left) + 0.02 * sum(placed.cost - 1 for placed in fresh)
        for placed in list(left):
            left[placed] -= 1
            if not left[placed]:
                del left[placed]
                conductor.end(placed, arrivals[numbers[placed]][2])
    return begun, running


@settings(max_examples=40, deadline=None)
@given(arrivals=ARRIVALS, first_s=st.none() | st.just(0.3), between_s=st.none() | st.just(0.1))
def test_with_objectives_all_begin_once_and_the_same_times_give_the_same_order(
    arrivals: list[tuple[float, int, int]], first_s: float | None, between_s: float | None
) -> None:
    objectives = Objectives(first_token_s=first_s, between_tokens_s=between_s)
    begun, running = served(arrivals, objectives)
    assert sorted(begun) == list(range(len(arrivals)))
    assert served(arrivals, objectives) == (begun, running)


def test_fewer_run_at_once_where_a_time_between_tokens_is_to_be_held() -> None:
    arrivals = [(0.02, 1, 12)] * 120
    _, free = served(arrivals, Objectives())
    _, held = served(arrivals, Objectives(between_tokens_s=0.1))
    assert max(free[60:]) == 16
    assert 4 <= max(held[60:]) <= 9  # 70 ms of 100 are left for replies, by estimates of whole ones
