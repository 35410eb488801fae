"""Rows computed by hand, and the comparison of a claim with the recomputed rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboards.contents.claims import disagreement, ratings, wrong_claim
from leaderboards.protocol import HELD_OUT, Protocol, load_protocol, schedule
from srl_agents.league.ratings.tables import ELO_PER_NAT
from srl_agents.records import MatchResult, MatchSpec

R, S = "bot:random", "bot:strong"


def small(name: str) -> Protocol:
    return replace(load_protocol(name), anchors=("random", "strong"), pool=())


def played(
    protocol: Protocol, entrants: list[str], seeds: int, outcome: Any
) -> list[tuple[MatchSpec, MatchResult]]:
    """``outcome``: spec -> outcomes per seat."""
    return [
        (
            spec,
            MatchResult(
                match_id=spec.match_id,
                outcomes=tuple(outcome(spec)),
                rewards=tuple(outcome(spec)),
                termination="ok",
            ),
        )
        for spec in schedule(protocol, entrants, seeds)
    ]


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["agent"]: row for row in found["rows"]}


def test_elo_of_two_agents_is_the_ridged_log_odds() -> None:
    """6 wins to 2: at the top of the posterior 6 - 8 sigma(2t) - ridge t is 0 for skills t and -t."""
    protocol = small("connect_four-v0")
    lost = {(1, 0), (2, 1)}  # (seed, seat) in which strong loses

    def outcome(spec: MatchSpec) -> list[float]:
        won = (spec.number, spec.seats.index(S)) not in lost
        return [1.0 if (name == S) == won else -1.0 for name in spec.seats]

    found = ratings(protocol, played(protocol, [], 4, outcome))
    elo = {name: row["elo"] for name, row in rows(found).items()}
    t = elo[S] / ELO_PER_NAT
    assert elo[S] == -elo[R]
    gradient = 6 - 8 / (1 + math.exp(-2 * t)) - protocol.rating.ridge * t
    assert gradient == pytest.approx(0, abs=1e-5)
    assert [row["agent"] for row in found["rows"]] == [S, R]
    assert (rows(found)[S]["wins"], rows(found)[S]["losses"], rows(found)[S]["draws"]) == (6, 2, 0)
    assert rows(found)[S]["field_score"] == 0.75
    assert rows(found)[S]["seeds"] == 4
    assert "fewer than 30 seeds" in rows(found)[S]["provisional"]


def test_cross_play_by_hand() -> None:
    """With itself strong earns 1, random 0.2; together they earn 0.5; the entrant's row is its own."""
    protocol = small("codewords_duet-v0")

    def outcome(spec: MatchSpec) -> tuple[float, float]:
        value = {frozenset({S}): 1.0, frozenset({R}): 0.2, frozenset({"me"}): 0.9}.get(
            frozenset(spec.seats), 0.5
        )
        if set(spec.seats) == {"me", S}:
            value = 0.8
        return (2 * value - 1, 2 * value - 1)

    found = rows(ratings(protocol, played(protocol, ["me"], 3, outcome)))
    assert list(found) == ["me", R, S]
    assert found["me"]["cross_play"] == pytest.approx(0.65)
    assert found["me"]["self_play"] == pytest.approx(0.9)
    assert found["me"]["gap"] == pytest.approx(0.25)
    assert found["me"]["worst_partner"] == R
    assert found["me"]["matches"] == 3 * 5
    assert found[S]["cross_play"] == pytest.approx(
        0.5
    )  # its good games with the entrant do not count
    assert found[S]["gap"] == pytest.approx(0.5)


def test_a_code_that_an_entrant_agreed_with_itself_earns_it_nothing() -> None:
    """Two versions of one lineage earn 1 with themselves, 0.25 with the held-out bot, 0.5 with others."""
    protocol = load_protocol("codewords_duet-v0")
    assert set(protocol.references) > {HELD_OUT}

    def outcome(spec: MatchSpec) -> tuple[float, float]:
        others = set(spec.seats) - {"me@4", "me@8"}
        value = 1.0 if not others else 0.25 if others == {HELD_OUT} else 0.5
        return (2 * value - 1, 2 * value - 1)

    matches = played(protocol, ["me@4", "me@8"], 2, outcome)
    assert not [spec for spec, _ in matches if {"me@4", "me@8"} <= set(spec.seats)]
    found = rows(ratings(protocol, matches))
    for name in ("me@4", "me@8"):
        assert found[name]["cross_play"] == pytest.approx((0.25 + 3 * 0.5) / 4)
        assert found[name]["held_out"] == pytest.approx(0.25)
        assert found[name]["self_play"] == 1.0
    assert found[HELD_OUT]["held_out"] is None  # it does not meet itself as a stranger


def test_what_copies_earn_among_themselves_counts_nowhere_where_strangers_are_scored() -> None:
    """A single seat earns 0.6, and 1 where its copies hold four; only the first is its row."""
    protocol = small("undercover-v0")

    def outcome(spec: MatchSpec) -> list[float]:
        return [2 * (0.6 if spec.seats.count(name) == 1 else 1.0) - 1 for name in spec.seats]

    found = rows(ratings(protocol, played(protocol, ["me"], 2, outcome)))
    for name in (R, S, "me"):
        (visitor,) = found[name]["scenarios"]
        assert found[name]["focal_return"] == pytest.approx(0.6)
        assert (visitor["seats_held"], visitor["own"], visitor["others"]) == (1, 0.6, 1.0)
        assert found[name]["matches"] == 2 * 5 * (2 if name == "me" else 1)


def test_focal_returns_by_hand() -> None:
    """Four seats: strong takes 0.6 a seat, another agent there gets 0.1 times the strong seats."""
    protocol = small("commons-v1")

    def outcome(spec: MatchSpec) -> list[float]:
        strong = spec.seats.count(S)
        return [2 * (0.6 if name == S else 0.1 * strong) - 1 for name in spec.seats]

    found = rows(ratings(protocol, played(protocol, [], 2, outcome)))
    visitor, resident, self_play = found[R]["scenarios"]
    assert [s["seats_held"] for s in found[R]["scenarios"]] == [1, 3, 4]
    assert (visitor["own"], resident["own"], self_play["own"]) == pytest.approx((0.3, 0.1, 0.0))
    assert (visitor["others"], resident["others"], self_play["others"]) == (0.6, 0.6, None)
    assert found[R]["focal_return"] == pytest.approx(0.2)  # self-play is shown, not counted
    assert found[R]["matches"] == 2 * 9
    assert found[S]["focal_return"] == pytest.approx(0.6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["connect_four-v0", "codewords_duet-v0", "commons-v1"])
@given(order=st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_the_order_of_matches(name: str, order: Any) -> None:
    protocol = small(name)
    matches = played(
        protocol, ["me"], 2, lambda m: [((m.seed >> k) % 3 - 1) * 1.0 for k in range(len(m.seats))]
    )
    shuffled = list(matches)
    order.shuffle(shuffled)
    assert disagreement(ratings(protocol, shuffled), ratings(protocol, matches)) == ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(VALUES)
def test_a_value_agrees_with_itself(value: Any) -> None:
    assert disagreement(value, value) == ""


@pytest.mark.parametrize(
    ("claimed", "true"),
    [
        ({"a": 1.0}, {"a": 1.01}),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": None}, {"a": 0.0}),
        ({"a": [1]}, {"a": [1, 1]}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": 1}, {"a": 1, "b": 1}),
        ({"a": math.nan}, {"a": 1.0}),
        ({"a": math.inf}, {"a": 1.0}),
        ({"a": {}}, {"a": []}),
    ],
)
def test_what_differs_is_found_and_named(claimed: Any, true: Any) -> None:
    for one, other in ((claimed, true), (true, claimed)):
        found = disagreement(one, other, "it")
        assert found.startswith("it")


def test_rounding_is_no_difference() -> None:
    assert disagreement({"rows": [1.0, 2]}, {"rows": [1.0001, 2.0]}) == ""


def test_a_row_is_called_by_its_agent() -> None:
    assert "rows: alice: elo" in disagreement(
        {"rows": [{"agent": "alice", "elo": 1.0}]}, {"rows": [{"agent": "alice", "elo": 2.0}]}
    )


def test_a_file_of_schema_1_is_compared_without_elo_intervals() -> None:
    protocol = small("connect_four-v0")
    true = ratings(protocol, played(protocol, [], 3, lambda spec: (1.0, -1.0)))
    row = {**true["rows"][0], "low": -1.0, "best_rank": 2}
    claimed = {**true, "resolution": 1.0, "rows": [row, *true["rows"][1:]]}
    assert wrong_claim(true, true) == ""
    assert wrong_claim(claimed, true)
    assert wrong_claim({**claimed, "schema": 1}, true) == ""
    other = {**row, "elo": row["elo"] + 1}
    assert "elo" in wrong_claim({**claimed, "schema": 1, "rows": [other, *true["rows"][1:]]}, true)
