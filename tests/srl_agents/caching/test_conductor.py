"""Placement of requests on instances: prefixes are found again, work is shared, nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.caching.conductor import Conducted, Conductor, Placed
from srl_agents.caching.traces import Request, unlimited_hits
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
    """Blocks that prompts share count once; one that needs more than there is begins alone."""
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
