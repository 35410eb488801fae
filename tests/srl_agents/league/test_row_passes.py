"""Rows of a collection are asked once in a pass, in another order every pass, also by a run that goes on."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.league.curricula import SuccessRate
from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.matchmaking.row_passes import RowCounts, rows_of_match
from srl_agents.league.settings import OpponentSettings
from srl_agents.records import Episode, MatchSpec, Trajectory, WeightVersion
from srl_envs.row_seeds import rows_named

COUNTS = st.tuples(st.integers(1, 40), st.integers(1, 6)).map(
    lambda drawn: RowCounts(max(drawn), drawn[1])
)


def make_league(rows: RowCounts, *, seed: int = 0, others: int = 0) -> League:
    """A task of rows, by itself or beside games whose share follows success."""
    arenas = [Arena(env_id="task-v0", options={}, seats=1, mode="cooperative", rows=(rows,))]
    arenas += [Arena(env_id=f"game{k}-v0", options={}, seats=2) for k in range(others)]
    return League(
        arenas=arenas,
        versions={name: WeightVersion(name, 0, "0" * 16) for name in ("alice", "bob")},
        starts=dict.fromkeys(("alice", "bob"), "tiny"),
        opponents=OpponentSettings(),
        seed=seed,
        curriculum=SuccessRate(),
    )


def played(spec: MatchSpec) -> Episode:
    """The more often seat 0's seed is odd, the more often it wins."""
    won = float(2 * (spec.seed % 2) - 1)
    return Episode(
        spec=spec,
        trajectories=tuple(
            Trajectory(seat=k, policy=name, turns=(), outcome=won, total_reward=won, components={})
            for k, name in enumerate(spec.seats)
        ),
        termination="ok",
    )


def asked(specs: list[MatchSpec], learner: str) -> list[int]:
    """Rows of a learner's start states, in order."""
    return [
        row
        for spec in specs
        if spec.schedule == f"train/{learner}"
        for row in rows_named(spec.seed)
        if spec.attempt == 0
    ]


def passes(rows: list[int], count: int) -> list[list[int]]:
    """Whole ones."""
    return [rows[k : k + count] for k in range(0, len(rows) - count + 1, count)]


@given(rows=COUNTS, seed=st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_every_row_once_in_a_pass_and_never_twice_in_a_match(rows: RowCounts, seed: int) -> None:
    matches = [rows_of_match((seed, 1), rows, n) for n in range(3 * rows.total)]
    assert all(len(set(match)) == rows.each for match in matches)
    whole = passes([row for match in matches for row in match], rows.total)
    assert whole
    assert all(sorted(order) == list(range(rows.total)) for order in whole)


def test_orders_differ_by_pass_by_seed_and_by_learner() -> None:
    rows = RowCounts(30, 1)
    orders = [
        [rows_of_match(key, rows, n)[0] for n in range(begin, begin + 30)]
        for key, begin in (((0, 0), 0), ((0, 0), 30), ((0, 1), 0), ((1, 0), 0))
    ]
    assert all(one != other for k, one in enumerate(orders) for other in orders[:k])


@given(rows=COUNTS, seed=st.integers(0, 2**31), others=st.integers(0, 2), cut=st.integers(0, 10))
@settings(max_examples=25, deadline=None)
def test_a_league_asks_rows_in_passes_and_goes_on_where_it_was(
    rows: RowCounts, seed: int, others: int, cut: int
) -> None:
    """Also beside games whose share changes, where matches are drawn again, and after a checkpoint."""
    league = make_league(rows, seed=seed, others=others)
    specs: list[MatchSpec] = []
    states: list[str] = []
    for update in range(12):
        drawn = league.training_matches(update, 4, 2)
        assert league.training_matches(update, 4, 2) == drawn
        specs += drawn
        league.report([played(spec) for spec in drawn])
        states.append(json.dumps(league.state()))
    for learner in ("alice", "bob"):
        for order in passes(asked(specs, learner), rows.total):
            assert sorted(order) == list(range(rows.total))
    again = make_league(rows, seed=seed, others=others)
    again.load_state(json.loads(states[cut]))
    assert again.training_matches(cut + 1, 4, 2) == [
        spec for spec in specs if spec.number // 4 == cut + 1
    ]
