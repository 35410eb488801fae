"""The store keeps what it acknowledged, refuses what contradicts it, and never drops a match."""

from __future__ import annotations

import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.league.store.history import LeagueStore
from srl_agents.records import MatchSpec
from srl_envs.errors import ConfigError, StoreError
from tests.srl_agents.league.stored_matches import AGENTS, agent, result, spec

# --- what goes in comes out ------------------------------------------------------------------


def test_a_match_reads_back_as_it_was(store: LeagueStore) -> None:
    written = spec(
        options={"b": [1, {"c": None}], "a": "ü"}, seed=2**63 + 11, split="train",
        learner_seats=(1,), purpose="past", cluster="s7", schedule="train/3", attempt=2,
    )  # fmt: skip
    reported = result(
        written, rewards=(0.9, -1.1), termination="forfeit", forfeited=(1,), invalid_replies=(0, 3),
        turns=9, tokens=(12, 40), trajectory_sha256="ab",
    )  # fmt: skip
    assert store.report(written, reported)
    assert store.matches() == [(written, reported)]


OPTION_VALUES = (
    st.none() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
)
SPECS = st.builds(
    MatchSpec,
    env_id=st.text(min_size=1, max_size=5),
    options=st.dictionaries(st.text(max_size=3), OPTION_VALUES, max_size=3),
    seed=st.integers(-(2**70), 2**70),
    split=st.sampled_from(["train", "eval"]),
    seats=st.lists(st.sampled_from(AGENTS), min_size=1, max_size=5).map(tuple),
    purpose=st.sampled_from(["self", "past", "bot", "eval", "gate"]),
    cluster=st.text(max_size=4),
    schedule=st.text(max_size=4),
    number=st.integers(0, 2**40),
    attempt=st.integers(0, 99),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(SPECS, st.data())
def test_any_spec_keeps_its_identity(any_spec: MatchSpec, data: st.DataObject) -> None:
    seats = len(any_spec.seats)
    learners = tuple(sorted(data.draw(st.sets(st.integers(0, seats - 1)))))
    any_spec = replace(any_spec, learner_seats=learners)
    outcomes = tuple(data.draw(st.floats(-1, 1)) for _ in range(seats))
    reported = result(any_spec, outcomes, invalid_replies=(1,) * seats, tokens=(2,) * seats)
    with tempfile.TemporaryDirectory() as folder, LeagueStore(f"{folder}/league.db") as store:
        for name in AGENTS:
            store.add_agent(agent(name))
        store.report(any_spec, reported)
        assert store.matches() == [(any_spec, reported)]
        assert store.matches()[0][0].match_id == any_spec.match_id


def test_a_match_that_need_not_repeat_keeps_its_first_result(store: LeagueStore) -> None:
    first, other = result(spec(0)), result(spec(0), turns=99)
    assert store.report_many([(spec(0), first)], repeatable=False) == 1
    assert store.report_many([(spec(0), other), (spec(1), result(spec(1)))], repeatable=False) == 1
    assert [reported.turns for _, reported in store.matches()] == [first.turns, 0]
    with pytest.raises(StoreError, match="two results"):
        store.report_many([(spec(0), other)])


def test_agents_and_environments_read_back(store: LeagueStore) -> None:
    version = agent("z@4", parent="z@2", role="main", step=4, spec={"adapter": "sha", "t": 0.7})
    assert store.add_agent(version)
    assert store.agents()[-1] == version
    for n, options in enumerate(({}, {"size": 3}, {})):
        store.report(spec(n, options=options), result(spec(n, options=options)))
    assert store.environments() == [("duel-v0", {}), ("duel-v0", {"size": 3})]


def test_filters_select(store: LeagueStore) -> None:
    specs = [
        spec(0), spec(1, split="train", purpose="self"), spec(2, env_id="other-v0"),
        spec(3, schedule="eval/final"), spec(4, options={"size": 3}), spec(5, purpose="gate"),
    ]  # fmt: skip
    store.report_many((s, result(s)) for s in specs)

    def numbers(**filters: Any) -> list[int]:
        found = [s.number for s, _ in store.matches(**filters)]
        assert store.count(**filters) == len(found)
        return found

    assert numbers() == [0, 1, 2, 3, 4, 5]
    assert numbers(split="train") == [1]
    assert numbers(env_id="other-v0") == [2]
    assert numbers(schedule="eval/final", split="eval") == [3]
    assert numbers(options={"size": 3}) == [4]
    assert numbers(purpose="gate") == [5]
    assert numbers(env_id="nothing-v0") == []


# --- what feeds a rating ---------------------------------------------------------------------


def test_only_played_evaluation_feeds_a_rating(store: LeagueStore) -> None:
    fed = spec(0, cluster="s1")
    for s in (fed, spec(1, split="train"), spec(2, purpose="gate"), spec(3, env_id="other-v0")):
        store.report(s, result(s))
    void = spec(4)
    store.report(void, result(void, (), rewards=(), termination="void"))
    pairs = store.pairs("duel-v0")
    assert pairs.agents == ("a@1", "bot:x")
    assert (pairs.a_M.tolist(), pairs.b_M.tolist(), pairs.score_M.tolist()) == ([0], [1], [1.0])
    assert store.pairs("duel-v0", split="train").a_M.size == 1
    assert store.pairs("duel-v0", purpose=None).a_M.size == 2


def test_pairs_of_many_seats_and_of_oneself(store: LeagueStore) -> None:
    s = spec(seats=("a@1", "bot:x", "c", "a@1"), cluster="k")
    store.report(s, result(s, (1.0, 0.0, 0.0, -1.0)))
    pairs = store.pairs("duel-v0")
    rows = [
        (pairs.agents[a], pairs.agents[b], x)
        for a, b, x in zip(pairs.a_M, pairs.b_M, pairs.score_M, strict=True)
    ]
    assert rows == [
        ("a@1", "bot:x", 1.0), ("a@1", "c", 1.0), ("bot:x", "c", 0.5),
        ("bot:x", "a@1", 1.0), ("c", "a@1", 1.0),
    ]  # fmt: skip
    assert set(pairs.cluster_M.tolist()) == {0}


def test_without_a_cluster_the_seed_is_one(store: LeagueStore) -> None:
    for n, (seed, cluster) in enumerate([(1, ""), (1, ""), (2, ""), (3, "c"), (4, "c")]):
        s = spec(n, seed=seed, cluster=cluster)
        store.report(s, result(s))
    assert sorted(store.pairs("duel-v0").cluster_M.tolist().count(k) for k in range(3)) == [1, 2, 2]


def test_equal_contents_give_equal_arrays(tmp_path: Path) -> None:
    arrays = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        with LeagueStore(tmp_path / f"{order[0]}.db") as store:
            for name in AGENTS:
                store.add_agent(agent(name))
            for n in order:
                s = spec(n, seed=n)
                store.report(s, result(s, (1.0, -1.0) if n % 2 else (-1.0, 1.0)))
            pairs = store.pairs("duel-v0")
            arrays.append((pairs.score_M.tolist(), pairs.cluster_M.tolist()))
    assert arrays[0] == arrays[1]


def test_forfeits_and_truncations_are_results(store: LeagueStore) -> None:
    for n, termination in enumerate(("forfeit", "truncated")):
        store.report(spec(n), result(spec(n), termination=termination))
    assert store.pairs("duel-v0").a_M.size == 2


# --- reporting twice -------------------------------------------------------------------------


def test_the_same_report_twice_is_one_match(store: LeagueStore) -> None:
    assert store.report(spec(), result(spec()))
    before = store.content_digest()
    assert not store.report(spec(), result(spec()))
    assert not store.report(spec(), result(spec(), invalid_replies=(0, 0), tokens=(0, 0)))
    assert store.content_digest() == before
    assert len(store.matches()) == 1


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"outcomes": (-1.0, 1.0)}, "outcomes"), ({"rewards": (0.0, 0.0)}, "rewards"),
        ({"termination": "truncated"}, "termination"), ({"forfeited": (1,)}, "forfeited"),
        ({"invalid_replies": (0, 1)}, "invalid_replies"), ({"turns": 3}, "turns"),
        ({"tokens": (0, 1)}, "tokens"), ({"trajectory_sha256": "x"}, "trajectory_sha256"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_by_name(
    store: LeagueStore, change: dict[str, Any], word: str
) -> None:
    store.report(spec(), result(spec()))
    with pytest.raises(StoreError, match=rf"already stored with {word}="):
        store.report(spec(), replace(result(spec()), **change))
    assert store.matches() == [
        (spec(), replace(result(spec()), invalid_replies=(0, 0), tokens=(0, 0)))
    ]


def test_a_void_match_can_be_played_later(store: LeagueStore) -> None:
    void = result(spec(), (), rewards=(), termination="void")
    assert store.report(spec(), void)
    assert not store.report(spec(), replace(void, turns=4))
    assert store.report(spec(), result(spec()))
    assert [r.termination for _, r in store.matches()] == ["void", "ok"]
    assert store.matches()[0][1].outcomes == ()
    assert store.pairs("duel-v0").a_M.size == 1


def test_a_batch_is_all_or_nothing(store: LeagueStore) -> None:
    store.report(spec(3), result(spec(3)))
    bad = [(spec(n), result(spec(n), (0.0, 0.0))) for n in range(5)]
    with pytest.raises(StoreError):
        store.report_many(bad)
    assert [s.number for s, _ in store.matches()] == [3]
    assert store.report_many((spec(n), result(spec(n))) for n in range(5)) == 4


def test_a_version_never_changes(store: LeagueStore) -> None:
    version = agent("v@1", spec={"lr": 1})
    assert store.add_agent(version)
    assert not store.add_agent(agent("v@1", spec={"lr": 1}))
    with pytest.raises(StoreError, match=r"spec=\{'lr': 1\}"):
        store.add_agent(agent("v@1", spec={"lr": 2}))
    with pytest.raises(StoreError, match="role='frozen'"):
        store.add_agent(agent("v@1", spec={"lr": 1}, role="anchor"))


@pytest.mark.parametrize(
    ("spec_change", "result_change", "words"),
    [
        ({}, {"match_id": "0"}, "belongs to match 0"),
        ({"learner_seats": (1, 0)}, {}, "rising order"),
        ({"learner_seats": (2,)}, {}, "seats below 2"),
        ({}, {"outcomes": (1.0,)}, "for 2 seats"),
        ({}, {"tokens": (1, 2, 3)}, "for 2 seats"),
        ({}, {"outcomes": (float("nan"), 0.0)}, "not finite"),
        ({}, {"rewards": (float("inf"), 0.0)}, "not finite"),
        ({}, {"outcomes": (2.0, -2.0)}, r"lies in \[-1, 1\]"),
        ({}, {"forfeited": (2,)}, "names a seat"),
        ({"seats": ("a@1", "stranger")}, {}, "'stranger'"),
    ],
)
def test_what_could_not_be_read_back_is_refused(
    store: LeagueStore, spec_change: dict[str, Any], result_change: dict[str, Any], words: str
) -> None:
    s = spec(**spec_change)
    with pytest.raises(StoreError, match=words):
        store.report(s, replace(result(s), **result_change))
    assert store.matches() == []


def test_impossible_agents_are_refused() -> None:
    with pytest.raises(ConfigError, match="role 'boss'"):
        agent("a", role="boss")
    with pytest.raises(ConfigError, match="must not be empty"):
        agent("")
    with pytest.raises(ConfigError, match="step=-1"):
        agent("a", step=-1)


# --- append-only -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE match SET turns = 0", "DELETE FROM match", "UPDATE seat SET outcome = 1",
        "DELETE FROM seat", "UPDATE agent SET role = 'anchor'", "DELETE FROM agent",
        "UPDATE env SET env_id = 'x'", "DELETE FROM env",
        "INSERT OR REPLACE INTO seat SELECT match_no, seat, agent_no, 0, -outcome, reward, 0, 0, 0,"
        " NULL FROM seat",
        "INSERT OR REPLACE INTO match SELECT * FROM match",
        "INSERT OR REPLACE INTO match SELECT match_no + 9, match_id, env_no, split, purpose, schedule,"
        " number, attempt, cluster, seed, 'truncated', 0, '', 0, NULL FROM match",
        "INSERT OR REPLACE INTO agent SELECT * FROM agent",
        "INSERT OR REPLACE INTO env SELECT * FROM env",
    ],
)  # fmt: skip
def test_history_cannot_be_rewritten(store: LeagueStore, statement: str) -> None:
    """Through a foreign connection, as a user with the sqlite3 shell would."""
    store.report(spec(), result(spec()))
    before = store.content_digest()
    other = sqlite3.connect(store.path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        other.execute(statement)
    other.close()
    assert store.content_digest() == before


# --- digest ----------------------------------------------------------------------------------


def filled(path: Path, order: list[int], **change: Any) -> str:
    with LeagueStore(path) as store:
        for name in ("a@1", "bot:x")[:: -1 if order[0] else 1]:
            store.add_agent(agent(name))
        for n in order:
            store.report(spec(n), replace(result(spec(n)), **(change if n == 1 else {})))
        return store.content_digest()


def test_the_digest_sees_content_and_not_arrival(tmp_path: Path) -> None:
    first = filled(tmp_path / "1.db", [0, 1, 2])
    assert filled(tmp_path / "2.db", [2, 0, 1]) == first
    assert filled(tmp_path / "3.db", [0, 1]) != first
    assert filled(tmp_path / "4.db", [0, 1, 2], tokens=(1, 0)) != first
    assert filled(tmp_path / "5.db", [0, 1, 2], rewards=(0.5, 0.5)) != first


# --- leases ----------------------------------------------------------------------------------


def test_a_lease_is_granted_once_until_it_expires(store: LeagueStore) -> None:
    wanted = [spec(n, seed=n) for n in range(3)]
    assert store.lease(wanted, "one", 10, now_ms=1000) == wanted
    assert store.lease(wanted, "two", 10, now_ms=10_999) == []
    assert store.expired(now_ms=10_999) == []
    assert store.expired(now_ms=11_000) == wanted
    assert store.lease(wanted[:1], "two", 10, now_ms=11_000) == wanted[:1]
    assert [(lease.owner, lease.issued) for lease in store.leases()] == [
        ("two", 2), ("one", 1), ("one", 1),
    ]  # fmt: skip


def test_a_leased_spec_comes_back_as_it_was(store: LeagueStore) -> None:
    odd = spec(
        options={"b": [1]}, seed=2**70, learner_seats=(1,), split="train", teams=(0, 1), attempt=2
    )
    store.lease([odd], "one", 10)
    assert store.leases()[0].spec == odd
    assert store.leases()[0].spec.match_id == odd.match_id


def test_a_report_ends_the_lease_and_a_played_match_is_leased_no_more(store: LeagueStore) -> None:
    store.lease([spec(0), spec(1)], "one", 10)
    store.report(spec(0), result(spec(0)))
    assert [lease.spec for lease in store.leases()] == [spec(1)]
    assert store.lease([spec(0), spec(1)], "one", 10) == [spec(1)]


def test_a_void_match_is_leased_again(store: LeagueStore) -> None:
    store.lease([spec(0)], "one", 10)
    store.report(spec(0), result(spec(0), (), rewards=(), termination="void"))
    assert store.leases() == []
    assert store.lease([spec(0)], "two", 10) == [spec(0)]


def test_leases_of_the_dead_end_at_once(store: LeagueStore) -> None:
    store.lease([spec(0)], "dead", 1000)
    store.lease([spec(1)], "alive", 1000)
    assert store.expire_leases("dead") == 1
    assert store.expired() == [spec(0)]
    assert store.expire_leases() == 2
    assert store.expired() == [spec(0), spec(1)]


def test_leases_are_no_part_of_the_content(store: LeagueStore) -> None:
    before = store.content_digest()
    store.lease([spec(0)], "one", 10)
    assert store.content_digest() == before


# --- summaries -------------------------------------------------------------------------------


def test_pair_counts_say_what_the_matches_say(store: LeagueStore) -> None:
    for n, outcomes in enumerate([(1.0, -1.0), (0.0, 0.0), (-1.0, 1.0), (1.0, -1.0)]):
        s = spec(n, seats=("a@1", "bot:x") if n < 3 else ("bot:x", "a@1"))
        store.report(s, result(s, outcomes, termination="forfeit" if n == 3 else "ok"))
    store.report(spec(0), result(spec(0)))  # known: counted once
    store.report(spec(9), result(spec(9), (), rewards=(), termination="void"))
    (count,) = store.pair_counts()
    assert (count.agent, count.opponent) == ("a@1", "bot:x")
    assert (count.wins, count.ties, count.losses, count.forfeits) == (1, 1, 2, 1)
    assert store.pair_counts(split="train") == []


def test_without_errors_forfeits_are_left_out(store: LeagueStore) -> None:
    for n, termination in enumerate(("ok", "forfeit", "truncated", "forfeit")):
        store.report(spec(n), result(spec(n), termination=termination))
    assert store.pairs("duel-v0").a_M.size == 4
    assert store.pairs("duel-v0", errors=False).a_M.size == 2


def test_teams_meet_as_sides(store: LeagueStore) -> None:
    s = spec(seats=("a@1", "c", "bot:x", "c"), teams=(0, 1, 0, 1), cluster="k")
    store.report(s, result(s, (1.0, -1.0, 1.0, -1.0)))
    assert store.team_results("duel-v0") == [(("a@1", "bot:x"), ("c", "c"), 1.0, "k")]
    assert len(store.pairs("duel-v0").a_M) == 4  # mates are not compared
    assert store.matches()[0][0] == s
    counts = {(c.agent, c.opponent): c.wins + c.ties + c.losses for c in store.pair_counts()}
    assert counts == {("a@1", "c"): 2, ("bot:x", "c"): 2}


def test_a_side_whose_seats_are_paid_apart_is_worth_their_mean(store: LeagueStore) -> None:
    s = spec(seats=("a@1", "c", "bot:x", "c"), teams=(0, 1, 0, 1), cluster="k")
    store.report(s, result(s, (1.0, 0.2, -1.0, 0.0)))
    assert store.team_results("duel-v0") == [(("a@1", "bot:x"), ("c", "c"), 0.0, "k")]


def test_seated_results_leave_void_ones_out(store: LeagueStore) -> None:
    store.report(spec(0), result(spec(0)))
    store.report(spec(1), result(spec(1), (), rewards=(), termination="void"))
    (row,) = store.seated("duel-v0")
    assert (row.seats, row.outcomes, row.cluster) == (("a@1", "bot:x"), (1.0, -1.0), "seed 7")
