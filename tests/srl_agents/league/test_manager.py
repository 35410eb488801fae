"""Schedules are functions of (league seed, position) and of the state that a checkpoint holds."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.league.agents import lineage
from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.matchmaking.pair_record import mean_points
from srl_agents.league.settings import LearnerRole, OpponentSettings
from srl_agents.records import Episode, MatchSpec, Trajectory, WeightVersion, digest
from srl_envs.core import Mode
from srl_envs.errors import ConfigError


def named(learner: str, number: int) -> WeightVersion:
    return WeightVersion(learner, number, digest([learner, number])[:16])


def agent(learner: str, number: int) -> str:
    return str(named(learner, number))


def make_league(
    seed: int = 0,
    seats: int = 2,
    *,
    learners: tuple[str, ...] = ("alice", "bob"),
    roles: dict[str, LearnerRole] | None = None,
    mode: Mode = "competitive",
    teams: tuple[int, ...] = (),
    held: dict[str, tuple[int, ...]] | None = None,
    **opponents: Any,
) -> League:
    return League(
        arenas=[Arena(env_id="connect_four-v0", options={}, seats=seats, mode=mode, teams=teams)],
        versions={name: named(name, 0) for name in learners},
        roles=roles,
        held=held,
        starts=dict.fromkeys(learners, "tiny"),
        opponents=OpponentSettings(**opponents),
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
    league.versions["alice"] = named("alice", 3)
    for spec in league.training_matches(0, 32, 1):
        live = {agent("alice", 3), agent("bob", 0)}
        assert spec.learner_seats == tuple(i for i, name in enumerate(spec.seats) if name in live)
        assert spec.learner_seats


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"mirror": 1, "live": 0, "past": 0}, {agent("alice", 0), agent("bob", 0)}),
        ({"mirror": 0, "live": 0, "past": 1}, {"tiny"}),
        ({"mirror": 0, "live": 0, "past": 0, "bots": {"random": 1.0}}, {"bot:random"}),
    ],
)
def test_opponents_come_from_the_kinds_with_weight(
    weights: dict[str, Any], expected: set[str]
) -> None:
    for spec in make_league(**weights).training_matches(0, 16, 1):
        learner = spec.schedule.removeprefix("train/")
        others = list(spec.seats)
        others.remove(agent(learner, 0))
        assert set(others) <= expected


def test_evaluation_is_mirrored_and_never_learns() -> None:
    specs = make_league().evaluation.matches("eval/1", [(agent("alice", 0), "tiny")], range(5))
    by_seed: dict[int, list[tuple[str, ...]]] = {}
    for spec in specs:
        assert spec.split == "eval"
        assert spec.learner_seats == ()
        by_seed.setdefault(spec.seed, []).append(spec.seats)
    assert set(by_seed) == set(range(5))
    assert all(
        sorted(s) == [(agent("alice", 0), "tiny"), ("tiny", agent("alice", 0))]
        for s in by_seed.values()
    )


def test_final_seeds_were_never_looked_at() -> None:
    league = make_league()
    looked = {s.seed for s in league.evaluation.matches("eval/1", [("a", "b")], range(500))}
    assert not looked & {
        s.seed for s in league.evaluation.round_robin("eval/final", ["a", "b"], 500)
    }


def test_three_seats_rotate() -> None:
    league = make_league(seats=3)
    specs = league.evaluation.matches("eval/1", [("a", "b")], range(1))
    assert sorted(s.seats for s in specs) == [("a", "b", "b"), ("b", "a", "b"), ("b", "b", "a")]


def test_a_table_of_three_seats_has_everybody_alone_and_together() -> None:
    specs = make_league(seats=3).evaluation.round_robin("eval/final", ["a", "b"], 1)
    assert Counter(s.seats.count("a") for s in specs) == {1: 3, 2: 3}


def test_the_pool_keeps_the_newest_and_always_the_start() -> None:
    league = make_league(past_limit=2)
    gone = []
    for version in range(1, 6):
        league.versions["alice"] = named("alice", version)
        frozen, dropped = league.freeze("alice")
        assert frozen == agent("alice", version)
        gone += dropped
    assert league.past == ["tiny", agent("alice", 4), agent("alice", 5)]
    assert gone == [agent("alice", 1), agent("alice", 2), agent("alice", 3)]


def test_hard_opponents_are_met_more_often() -> None:
    league = make_league(mirror=0, live=0, past=1)
    league.versions["bob"] = named("bob", 1)
    league.freeze("bob")
    league.versions["bob"] = named("bob", 2)
    spec = league.evaluation.matches("x", [(agent("alice", 0), "tiny")], range(1))[0]
    for other, outcome in (("tiny", 1.0), (agent("bob", 1), -1.0)):
        for attempt in range(20):
            played = MatchSpec(
                env_id=spec.env_id, seed=1, split="train", seats=(agent("alice", 0), other),
                learner_seats=(0,), attempt=attempt,
            )  # fmt: skip
            league.report([episode(played, (outcome, -outcome))])
    met = Counter(
        spec.seats[1 - spec.learner_seats[0]]
        for spec in league.training_matches(0, 400, 1)
        if spec.schedule == "train/alice"
    )
    assert met[agent("bob", 1)] > 5 * met["tiny"] > 0


def test_void_episodes_and_with_even_priors_evaluations_move_nothing() -> None:
    league = make_league(prior="even")
    before = json.dumps(league.state())
    train = league.training_matches(0, 4, 1)
    evals = league.evaluation.matches("eval/1", [(agent("alice", 0), "tiny")], range(2))
    league.report([episode(s, (1.0, -1.0), void=True) for s in train])
    league.report([episode(s, (1.0, -1.0)) for s in evals])
    assert json.dumps(league.state()) == before


def test_state_survives_json_and_continues_alike() -> None:
    league = make_league(bots={"random": 1.0})
    league.versions["alice"] = named("alice", 2)
    league.freeze("alice")
    league.report([episode(s, (1.0, -1.0)) for s in league.training_matches(0, 8, 2)])
    other = make_league(bots={"random": 1.0})
    other.load_state(json.loads(json.dumps(league.state())))
    assert other.training_matches(1, 8, 2) == league.training_matches(1, 8, 2)
    assert other.state() == league.state()


def test_held_out_bots_are_refused_in_training() -> None:
    with pytest.raises(ConfigError, match="held_out"):
        OpponentSettings(bots={"held_out": 1.0})


def test_lineage() -> None:
    assert (lineage(agent("alice", 12)), lineage("tiny"), lineage("bot:x")) == (
        "alice",
        "tiny",
        "bot:x",
    )


def met_by(league: League, learner: str, update: int = 0, states: int = 200) -> Counter[str]:
    """Who sits opposite a learner in one update."""
    return Counter(
        name
        for spec in league.training_matches(update, states, 1)
        if spec.schedule == f"train/{learner}"
        for k, name in enumerate(spec.seats)
        if k not in spec.learner_seats or name != league.live(learner)
    )


def beat(league: League, me: str, other: str, points: float, games: int = 20) -> None:
    """``me`` (a live version) takes ``points`` per game in training."""
    for attempt in range(games):
        spec = MatchSpec(
            env_id="connect_four-v0", seed=attempt, split="train", seats=(me, other), learner_seats=(0,),
            number=len(other), schedule=me, purpose="exploit",
        )  # fmt: skip
        won = attempt < points * games
        league.report([episode(spec, (1.0, -1.0) if won else (-1.0, 1.0))])


def test_one_match_is_the_list_s_match() -> None:
    league = make_league(bots={"random": 1.0})
    for update in (0, 3):
        listed = league.training_matches(update, 4, 3)
        per_update = len(listed)
        assert [
            league.next_match(update * per_update + k, 4, 3) for k in range(per_update)
        ] == listed


def test_a_match_is_counted_once() -> None:
    league = make_league(mirror=0, live=0)
    specs = league.training_matches(0, 4, 1)
    league.report([episode(s, (1.0, -1.0)) for s in specs])
    before = json.dumps(league.state())
    league.report([episode(s, (1.0, -1.0)) for s in specs])
    assert json.dumps(league.state()) == before


# --- roles -----------------------------------------------------------------------------------

EVE: dict[str, Any] = {"learners": ("alice", "eve"), "roles": {"eve": "main_exploiter"}}


def test_an_exploiter_meets_the_main_and_learns_alone() -> None:
    league = make_league(mirror=1, live=1, past=0, **EVE)
    for spec in league.training_matches(0, 16, 1):
        if spec.schedule == "train/eve":
            assert sorted(spec.seats) == [agent("alice", 0), agent("eve", 0)]
            assert spec.purpose == "exploit"
            assert [spec.seats[k] for k in spec.learner_seats] == [agent("eve", 0)]
        else:  # a main never trains against the exploiter as it is
            assert set(spec.seats) == {agent("alice", 0)}


def test_an_exploiter_goes_to_the_past_while_the_main_is_too_hard() -> None:
    league = make_league(**EVE)
    league.versions["alice"] = named("alice", 1)
    league.freeze("alice")
    league.versions["alice"] = named("alice", 2)
    assert set(met_by(league, "eve")) == {agent("alice", 2)}
    beat(league, agent("eve", 0), agent("alice", 2), 0.0, games=60)
    assert set(met_by(league, "eve")) == {agent("alice", 1)}


def test_an_exploiter_is_done_when_it_beats_every_main() -> None:
    league = make_league(learners=("alice", "bob", "eve"), roles={"eve": "main_exploiter"})
    beat(league, agent("eve", 0), agent("alice", 0), 1.0)
    assert not league.beats_mains("eve")
    beat(league, agent("eve", 0), agent("bob", 0), 0.9)
    assert league.beats_mains("eve")
    assert league.starts_again("eve")
    assert not league.beats_mains("eve")  # its record went with its weights
    other = make_league(learners=("alice", "bob", "eve"), roles={"eve": "main_exploiter"})
    other.load_state(json.loads(json.dumps(league.state())))
    assert other.state() == league.state()


def test_league_exploiters_start_again_sometimes_and_always_alike() -> None:
    def again(seed: int) -> list[bool]:
        league = make_league(seed, learners=("a", "x"), roles={"x": "league_exploiter"})
        out = []
        for version in range(200):
            league.versions["x"] = named("x", version)
            out.append(league.starts_again("x"))
        return out

    assert 25 <= sum(again(0)) <= 75
    assert again(0) == again(0) != again(1)


def test_a_league_exploiter_meets_all_that_is_frozen() -> None:
    league = make_league(learners=("alice", "x"), roles={"x": "league_exploiter"})
    league.versions["alice"] = named("alice", 1)
    league.freeze("alice")
    assert set(met_by(league, "x")) == {"tiny", agent("alice", 1)}


def test_verification_meets_exploiters_that_win_then_forgotten_versions() -> None:
    league = make_league(mirror=0, live=0, past=0, verify=1, **EVE)
    assert met_by(league, "alice") == Counter()  # no exploiter beats it: itself
    for learner in ("alice", "eve"):
        league.versions[learner] = named(learner, 1)
        league.freeze(learner)
        league.versions[learner] = named(learner, 2)
    beat(league, agent("alice", 2), agent("alice", 1), 0.3)
    assert set(met_by(league, "alice")) == {agent("alice", 1)}
    beat(league, agent("alice", 2), agent("eve", 1), 0.0)
    assert set(met_by(league, "alice")) == {agent("eve", 1)}


def test_candidates_wait_and_are_overdue() -> None:
    league = make_league()
    assert not league.overdue("alice", 39, 10)
    assert league.overdue("alice", 40, 10)
    league.freeze("alice", 40)
    assert not league.overdue("alice", 79, 10)


def test_the_best_never_leaves_the_pool() -> None:
    league = make_league(past_limit=1)
    league.versions["alice"] = named("alice", 1)
    league.promote("alice")
    for version in range(1, 5):
        league.versions["alice"] = named("alice", version)
        league.freeze("alice")
    assert league.past == ["tiny", agent("alice", 1), agent("alice", 4)]


# --- kinds of game ---------------------------------------------------------------------------


def test_strangers_come_from_other_lineages() -> None:
    league = make_league(mode="cooperative", mirror=0, live=0, past=1, strangers=True)
    for learner in ("alice", "bob"):
        league.versions[learner] = named(learner, 1)
        league.freeze(learner)
    assert set(met_by(league, "alice")) == {"tiny", agent("bob", 1)}


def test_cooperative_points_are_returns() -> None:
    league = make_league(mode="cooperative", mirror=0, live=0, past=1)
    spec = next(s for s in league.training_matches(0, 8, 1) if "tiny" in s.seats)
    league.report([episode(spec, (0.6, 0.6))])
    (learner,) = [n for n in ("alice", "bob") if league.live(n) in spec.seats]
    assert league.state()["games"]["connect_four-v0"][learner]["tiny"] == [1.0, pytest.approx(0.8)]


def test_cooperative_tables_have_a_diagonal() -> None:
    specs = make_league(mode="cooperative").evaluation.round_robin("eval/final", ["a", "b"], 3)
    assert Counter(s.seats for s in specs) == {
        ("a", "a"): 3, ("b", "b"): 3, ("a", "b"): 3, ("b", "a"): 3,
    }  # fmt: skip


def test_focal_shares_hold_one_half_and_all_but_one_seat() -> None:
    league = make_league(seats=4, mirror=0, live=0, past=1, preset="mixed")
    held = Counter(len(s.learner_seats) for s in league.training_matches(0, 300, 1))
    assert set(held) == {1, 2, 3}
    assert min(held.values()) > 120


def test_teams_are_filled_with_itself_half_of_the_time() -> None:
    league = make_league(seats=4, teams=(0, 0, 1, 1), mirror=0, live=0, past=1)
    specs = league.training_matches(0, 200, 1)
    held = Counter(len(s.learner_seats) for s in specs)
    assert set(held) == {1, 2}
    assert 120 < held[1] < 280
    assert all(s.teams == (0, 0, 1, 1) for s in specs)
    evals = league.evaluation.matches("eval/1", [("a", "b")], range(1))
    assert [s.seats for s in evals] == [("a", "a", "b", "b"), ("b", "b", "a", "a")]


def test_a_side_of_several_learners_is_completed_with_live_mates() -> None:
    held: dict[str, tuple[int, ...]] = {"alice": (0, 2), "bob": (1, 3)}
    league = make_league(seats=4, teams=(0, 0, 1, 1), held=held, mirror=0, live=0, past=1)
    alice, bob = map(league.live, league.learners)
    specs = league.training_matches(0, 200, 1)
    beside = Counter(len(s.learner_seats) for s in specs)
    assert set(beside) == {1, 2}
    assert 120 < beside[1] < 280
    for spec in specs:
        assert {k for k, name in enumerate(spec.seats) if name == alice} <= {0, 2}
        assert {k for k, name in enumerate(spec.seats) if name == bob} <= {1, 3}
        assert spec.learner_seats in ((0,), (1,), (2,), (3,), (0, 1), (2, 3))
    schedule = league.evaluation
    pairings = [(alice, "tiny"), (bob, "tiny"), (alice, bob), ("tiny", "bot:random")]
    evals = schedule.matches("eval/1", pairings, range(2))
    rivals = ("tiny", "tiny")
    found = [(alice, bob, *rivals), (*rivals, alice, bob)]
    found += [(*rivals, "bot:random", "bot:random"), ("bot:random", "bot:random", *rivals)]
    assert Counter(spec.seats for spec in evals) == dict.fromkeys(found, 2)
    old = agent("alice", 3)
    gate = schedule.gate(league.arenas.all[0], alice, old, range(1))
    assert [s.seats for s in gate] == [(alice, bob, old, bob), (old, bob, alice, bob)]


def test_points_of_a_side_are_against_the_other_side_and_not_against_mates() -> None:
    seats, outcomes = ("a", "m", "old", "m"), (1.0, 1.0, -1.0, -1.0)
    assert mean_points(seats, outcomes, "a", teams=(0, 0, 1, 1)) == 1
    assert mean_points(seats, outcomes, "old", teams=(0, 0, 1, 1)) == 0
    assert mean_points(seats, outcomes, "a") == pytest.approx((0.5 + 1 + 1) / 3)
    assert mean_points(("a", "a", "b", "b"), outcomes, "b", teams=(0, 0, 1, 1)) == 0


def test_an_agent_without_a_seat_in_a_team_is_measured_in_the_others() -> None:
    held: dict[str, tuple[int, ...]] = {"alice": (0, 1), "bob": (2, 3)}
    league = make_league(seats=4, teams=(0, 0, 1, 1), held=held)
    alice = league.live("alice")
    evals = league.evaluation.matches("eval/1", [(alice, "tiny")], range(1))
    assert [spec.seats for spec in evals] == [(alice, alice, "tiny", "tiny")]


# --- payoffs ---------------------------------------------------------------------------------


def test_payoffs_of_snapshots_decide_whom_nash_meets() -> None:
    league = make_league(mirror=0, live=0, past_sampler="nash", payoff_pairs=10)
    league.versions["bob"] = named("bob", 1)
    league.freeze("bob")
    specs = league.evaluation.payoffs(agent("bob", 1), league.past, league.opponents.payoff_pairs)
    assert len(specs) == 20
    assert {s.purpose for s in specs} == {"payoff"}
    assert not any(s.learner_seats for s in specs)
    wins = [(1.0, -1.0) if s.seats[0] == agent("bob", 1) else (-1.0, 1.0) for s in specs]
    league.report([episode(s, w) for s, w in zip(specs, wins, strict=True)])
    met = met_by(league, "alice")
    assert met[agent("bob", 1)] > 20 * met["tiny"] > 0 or met["tiny"] <= 5


def test_nash_without_payoffs_is_refused() -> None:
    with pytest.raises(ConfigError, match="payoff_pairs"):
        OpponentSettings(past_sampler="nash")


def test_new_parts_of_the_state_survive_json() -> None:
    league = make_league(payoff_pairs=2, **EVE)
    league.versions["alice"] = named("alice", 1)
    league.freeze("alice", 5)
    league.promote("alice")
    specs = league.evaluation.payoffs(agent("alice", 1), league.past, league.opponents.payoff_pairs)
    league.report([episode(s, (1.0, -1.0)) for s in specs])
    other = make_league(payoff_pairs=2, **EVE)
    other.load_state(json.loads(json.dumps(league.state())))
    assert other.state() == league.state()
    assert other.best["alice"] == agent("alice", 1)


def test_a_state_whose_versions_have_no_digest_is_refused() -> None:
    league = make_league()
    old = league.state() | {"versions": {"alice": 1, "bob": 1}}
    with pytest.raises(ConfigError, match="'1' is not a version"):
        league.load_state(old)


def test_ratings_from_looks_tell_who_is_hard_before_any_game() -> None:
    league = make_league(mirror=0, live=0, past=1, prior="ratings")
    for version in (1, 2):
        league.versions["bob"] = named("bob", version)
        looks = league.evaluation.matches(
            f"eval/{version}", [(agent("bob", version), "tiny")], range(30)
        )
        wins = (1.0, -1.0) if version == 2 else (-1.0, 1.0)
        league.report([episode(s, wins if s.seats[0] != "tiny" else wins[::-1]) for s in looks])
        league.freeze("bob", version)
    final = league.evaluation.round_robin("eval/final", [agent("bob", 1), "tiny"], 30)
    before = json.dumps(league.state())
    league.report([episode(s, (1.0, -1.0)) for s in final])
    assert json.dumps(league.state()) == before
    met = met_by(league, "alice", states=400)
    assert met[agent("bob", 2)] > 1.5 * met[agent("bob", 1)] > 0


def test_old_games_fade() -> None:
    league = make_league(**EVE)
    beat(league, agent("eve", 0), agent("alice", 0), 0.5, games=100)  # won 50, then lost 50
    (cell,) = league.state()["games"]["connect_four-v0"]["eve"].values()
    assert cell[0] == pytest.approx((1 - 0.998**100) / 0.002)
    assert cell[1] == pytest.approx(0.998**50 * (1 - 0.998**50) / 0.002)


# --- learners with seats of their own ------------------------------------------------------------


@given(st.integers(0, 5), st.sampled_from([{"alice": (0,), "bob": (1, 2)}, {"alice": (2, 0)}]))
def test_nobody_sits_where_its_role_is_not(seed: int, held: dict[str, tuple[int, ...]]) -> None:
    league = make_league(seed, seats=3, held=held, mirror=1, live=1, past=2, bots={"random": 1})
    league.freeze("alice")
    league.freeze("bob")
    league.versions["alice"], league.versions["bob"] = named("alice", 1), named("bob", 1)
    specs = [spec for update in range(3) for spec in league.training_matches(update, 4, 2)]
    specs += league.evaluation.round_robin(
        "eval/final", ["tiny", agent("alice", 1), agent("bob", 1)], 2
    )
    for spec in specs:
        for seat, name in enumerate(spec.seats):
            assert seat in held.get(lineage(name), (0, 1, 2))
    for name, seats in held.items():
        mine = [s for s in specs if s.schedule == f"train/{name}"]
        learned = {s.seats.index(league.live(name)) for s in mine}
        assert learned == set(seats)


def test_who_left_the_pool_is_drawn_no_more_and_stays_away_after_a_resume() -> None:
    opponents = {"mirror": 0.0, "live": 0.0, "past": 0.0, "agents": {"org/model": 1.0}}
    league, again = (make_league(**opponents) for _ in range(2))  # type: ignore[arg-type]
    assert all("org/model" in spec.seats for spec in league.training_matches(0, 3, 2))
    league.gone.add(("org/model", "connect_four-v0"))
    again.load_state(json.loads(json.dumps(league.state())))
    assert not any("org/model" in spec.seats for spec in again.training_matches(1, 3, 2))


def test_in_a_game_of_one_seat_everybody_has_each_seed_once_and_nobody_is_met() -> None:
    league = make_league(seats=1, mode="cooperative", past=1.0)
    alice, bob = league.live("alice"), league.live("bob")
    final = league.evaluation.round_robin("eval/final", [alice, bob, "tiny"], 3)
    assert Counter(spec.seats for spec in final) == {(alice,): 3, (bob,): 3, ("tiny",): 3}
    assert len({spec.match_id for spec in final}) == len(final)
    gate = league.evaluation.gate(league.arenas.all[0], alice, "tiny", range(2))
    assert [(spec.seats, spec.seed) for spec in gate] == [
        ((name,), seed) for name in (alice, "tiny") for seed in sorted({s.seed for s in gate})
    ]
    assert league.evaluation.payoffs(alice, [bob, "tiny"], 2) == []
    trained = league.training_matches(1, 3, 2)
    assert {spec.seats for spec in trained} == {(alice,), (bob,)}
    league.report([episode(spec, (1.0,)) for spec in (*trained, *final)])
