"""One placement rule: the simulator sends prompts where the conductor of real engines would."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.caching.placements import HANABI, LOADS, cluster, matches, row
from srl_agents.caching.conductor import Conductor
from srl_agents.caching.placement import CAPACITY, PATIENCE, Placement
from srl_agents.caching.simulation.cluster import simulate
from srl_envs.errors import ConfigError

SMALL = HANABI | {"states": 2, "attempts": 4, "turns": 8}


@pytest.mark.parametrize("patience", [0.0, PATIENCE, 16.0])
@pytest.mark.parametrize("share", [None, 0.3])
def test_the_simulator_places_as_the_conductor_does(patience: float, share: float | None) -> None:
    trace = matches(**SMALL)
    where = cluster(trace, 4, patience, share)
    jobs = simulate(trace, where).jobs
    size = where.tiers[0].size_bytes / (trace.tokens_per_block * where.shape.kv_bytes_per_token)
    capacity = CAPACITY if share is None else int(size)
    conductor = Conductor(4, places=64, capacity=capacity, patience=patience)
    events = [(job.arrival_s, 1, job) for job in jobs] + [(job.done_s, 0, job) for job in jobs]
    placed = {}
    for _, arrives, job in sorted(events, key=lambda event: (event[0], event[1], event[2].number)):
        if arrives:
            placed[job.number] = conductor.place(job.request.blocks)
        else:
            conductor.end(placed[job.number])
    assert [placed[job.number].instance for job in jobs] == [job.reader for job in jobs]


def test_the_planner_models_what_the_conductor_ships_with() -> None:
    assert Conductor(2, places=1)._placement._patience == PATIENCE


@pytest.mark.parametrize("load", ["hanabi", "long rules"])
def test_nearly_all_hits_remain_and_no_node_reads_alone(load: str) -> None:
    trace = matches(**(LOADS[load] | {"states": 4}))
    found = row(trace, cluster(trace, 4, PATIENCE, None))
    assert found["of_possible"] >= 0.97
    assert found["busiest_node"] < 0.6


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=60),
    st.integers(1, 4),
    st.floats(0, 20),
)
def test_every_prompt_has_a_place_and_work_that_ended_leaves_none(
    prompts: list[list[int]], nodes: int, patience: float
) -> None:
    rule = Placement([8] * nodes, patience=patience)
    prefixes = [[tuple(p[: i + 1]) for i in range(len(p))] for p in prompts]
    chosen = [rule.place(blocks) for blocks in prefixes]
    assert all(0 <= one.instance < nodes for one in chosen)
    assert all(one.cost == len(p) - one.depth + 1 for one, p in zip(chosen, prompts, strict=True))
    for one in chosen:
        rule.end(one)
    assert all(site.load == 0 for site in rule._sites)


def test_a_lost_instance_gets_nothing_and_without_any_there_is_no_place() -> None:
    rule = Placement([8, 8])
    rule.lose(0)
    assert rule.place([1, 2]).instance == 1
    with pytest.raises(ConfigError, match="no instance is left"):
        rule.place([1], without=[1])
