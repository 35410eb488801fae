"""Schedules are functions of (league seed, position) and of the state that a checkpoint holds."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.league.manager import Arena, League, lineage
from srl_agents.league.settings import OpponentSettings
from srl_agents.records import Episode, MatchSpec, Trajectory
from srl_envs.errors import ConfigError


def make_league(seed: int = 0, seats: int = 2, **opponents: object) -> League:
    return League(
        arena=Arena(env_id="connect_four-v0", options={}, seats=seats),
        learners=("alice", "bob"),
        start="tiny",
        opponents=OpponentSettings(**opponents),  # type: ignore[arg-type]
        seed=seed,
    )


def episode(spec: MatchSpec, outcomes: tuple[float, ...], void: bool = False) -> Episode:
    return Episode(
        spec=spec,
        trajectories=tuple(
            Trajectory(
                seat=i, policy=name, turns=(), outcome=o, total_reward=o, components={"outcome": o}
            )
            for i, (name, o) in enumerate(zip(spec.seats, outcomes, strict=True))
        ),
        termination="void" if void else "ok",
    )


@given(seed=st.integers(0, 2**32), update=st.integers(0, 1000))
def test_the_same_position_gives_the_same_matches(seed: int, update: int) -> None:
    first = make_league(seed).training_matches(update, 4, 2)
    again = make_league(seed)
    again.training_matches(update + 1, 4, 2)
    assert again.training_matches(update, 4, 2) == first


def test_match_ids_never_repeat_within_a_run() -> None:
    league = make_league()
    specs = [spec for update in range(20) for spec in league.training_matches(update, 8, 4)]
    assert len({spec.match_id for spec in specs}) == len(specs)


def test_a_group_differs_in_its_attempt_alone() -> None:
    groups: dict[tuple[str, int], set[tuple[object, ...]]] = {}
    for spec in make_league().training_matches(3, 8, 4):
        key = (spec.schedule, spec.number)
        groups.setdefault(key, set()).add((spec.seed, spec.seats, spec.learner_seats, spec.cluster))
    assert all(len(kinds) == 1 for kinds in groups.values())
    assert len(groups) == 2 * 8


def test_learners_hold_every_seat_equally_often() -> None:
    league = make_league(mirror=0, live=0, past=1)
    seats = Counter(
        spec.learner_seats for update in range(4) for spec in league.training_matches(update, 8, 1)
    )
    assert seats[(0,)] == seats[(1,)] == 4 * 8


def test_only_live_learners_learn() -> None:
    league = make_league(bots={"random": 1.0})
    league.versions["alice"] = 3
    for spec in league.training_matches(0, 32, 1):
        live = {"alice@3", "bob@0"}
        assert spec.learner_seats == tuple(i for i, name in enumerate(spec.seats) if name in live)
        assert spec.learner_seats


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"mirror": 1, "live": 0, "past": 0}, {"alice@0", "bob@0"}),
        ({"mirror": 0, "live": 0, "past": 1}, {"tiny"}),
        ({"mirror": 0, "live": 0, "past": 0, "bots": {"random": 1.0}}, {"bot:random"}),
    ],
)
def test_opponents_come_from_the_kinds_with_weight(
    weights: dict[str, object], expected: set[str]
) -> None:
    for spec in make_league(**weights).training_matches(0, 16, 1):
        learner = spec.schedule.removeprefix("train/")
        others = list(spec.seats)
        others.remove(f"{learner}@0")
        assert set(others) <= expected


def test_evaluation_is_mirrored_and_never_learns() -> None:
    specs = make_league().evaluation_matches("eval/1", [("alice@0", "tiny")], range(5))
    by_seed: dict[int, list[tuple[str, ...]]] = {}
    for spec in specs:
        assert spec.split == "eval"
        assert spec.learner_seats == ()
        by_seed.setdefault(spec.seed, []).append(spec.seats)
    assert set(by_seed) == set(range(5))
    assert all(sorted(s) == [("alice@0", "tiny"), ("tiny", "alice@0")] for s in by_seed.values())


def test_final_seeds_were_never_looked_at() -> None:
    league = make_league()
    looked = {s.seed for s in league.evaluation_matches("eval/1", [("a", "b")], range(500))}
    assert not looked & {s.seed for s in league.round_robin("eval/final", ["a", "b"], 500)}


def test_three_seats_rotate() -> None:
    league = make_league(seats=3)
    specs = league.evaluation_matches("eval/1", [("a", "b")], range(1))
    assert sorted(s.seats for s in specs) == [("a", "b", "b"), ("b", "a", "b"), ("b", "b", "a")]


def test_the_pool_keeps_the_newest_and_always_the_start() -> None:
    league = make_league(past_limit=2)
    gone = []
    for version in range(1, 6):
        league.versions["alice"] = version
        frozen, dropped = league.freeze("alice")
        assert frozen == f"alice@{version}"
        gone += dropped
    assert league.past == ["tiny", "alice@4", "alice@5"]
    assert gone == ["alice@1", "alice@2", "alice@3"]


def test_hard_opponents_are_met_more_often() -> None:
    league = make_league(mirror=0, live=0, past=1)
    league.versions["bob"] = 1
    league.freeze("bob")
    league.versions["bob"] = 2
    spec = league.evaluation_matches("x", [("alice@0", "tiny")], range(1))[0]
    for other, outcome in (("tiny", 1.0), ("bob@1", -1.0)):
        played = MatchSpec(
            env_id=spec.env_id, seed=1, split="train", seats=("alice@0", other), learner_seats=(0,)
        )
        league.observe([episode(played, (outcome, -outcome))] * 20)
    met = Counter(
        spec.seats[1 - spec.learner_seats[0]]
        for spec in league.training_matches(0, 400, 1)
        if spec.schedule == "train/alice"
    )
    assert met["bob@1"] > 5 * met["tiny"] > 0


def test_void_episodes_and_evaluations_move_nothing() -> None:
    league = make_league()
    before = json.dumps(league.state())
    train = league.training_matches(0, 4, 1)
    evals = league.evaluation_matches("eval/1", [("alice@0", "tiny")], range(2))
    league.observe([episode(s, (1.0, -1.0), void=True) for s in train])
    league.observe([episode(s, (1.0, -1.0)) for s in evals])
    assert json.dumps(league.state()) == before


def test_state_survives_json_and_continues_alike() -> None:
    league = make_league(bots={"random": 1.0})
    league.versions["alice"] = 2
    league.freeze("alice")
    league.observe([episode(s, (1.0, -1.0)) for s in league.training_matches(0, 8, 2)])
    other = make_league(bots={"random": 1.0})
    other.load_state(json.loads(json.dumps(league.state())))
    assert other.training_matches(1, 8, 2) == league.training_matches(1, 8, 2)
    assert other.state() == league.state()


def test_held_out_bots_are_refused_in_training() -> None:
    with pytest.raises(ConfigError, match="held_out"):
        OpponentSettings(bots={"held_out": 1.0})


def test_lineage() -> None:
    assert (lineage("alice@12"), lineage("tiny"), lineage("bot:x")) == ("alice", "tiny", "bot:x")
