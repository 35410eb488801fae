"""A population's schedule: a function of seed, revision and number, not of speed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from srl_agents.agents.contents import model_contents
from srl_agents.league.agents import AgentVersion, Role
from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.population import MatchmakingSettings, Population
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.core import Mode
from srl_envs.errors import ConfigError, StoreError

ROLES: dict[str, Role] = {"a": "main", "b": "anchor", "c": "frozen", "h": "heldout"}


def population(
    seed: int = 0, roles: dict[str, Role] = ROLES, seats: int = 2, mode: Mode = "competitive",
    teams: tuple[int, ...] = (), **settings: Any,
) -> Population:  # fmt: skip
    agents = [AgentVersion(agent_id=n, lineage=n, role=r) for n, r in roles.items()]
    arena = Arena(env_id="duel-v0", options={}, seats=seats, mode=mode, teams=teams)
    values = {"block": 16, "evaluation_share": 0.5, **settings}
    return Population(arena, agents, MatchmakingSettings(**values), seed)


def played(spec: MatchSpec, order: str = "abch") -> MatchResult:
    """Earlier letters win."""
    ranks = [order.index(name) for name in spec.seats]
    outcomes = tuple(1.0 if r == min(ranks) and min(ranks) != max(ranks) else -1.0 for r in ranks)
    return MatchResult(
        match_id=spec.match_id, outcomes=outcomes, rewards=outcomes, termination="ok"
    )


def play_block(league: Population, order: str = "abch") -> list[MatchSpec]:
    specs = league.wanted()
    for spec in specs:
        league.report(spec, played(spec, order))
    return specs


def test_a_block_waits_for_the_one_before() -> None:
    league = population()
    assert league.next_match(15) is not None
    assert league.next_match(16) is None
    specs = league.wanted()
    assert [s.number for s in specs] == list(range(16))
    for spec in specs[:-1]:
        league.report(spec, played(spec))
    assert (league.revision, league.next_match(16)) == (0, None)
    assert league.wanted() == specs[-1:]
    league.report(specs[-1], played(specs[-1]))
    assert league.revision == 1
    assert [s.number for s in league.wanted()] == list(range(16, 32))


def test_the_order_of_arrival_changes_nothing() -> None:
    one, other = population(), population()
    rng = np.random.default_rng(0)
    for _ in range(5):
        specs = one.wanted()
        assert other.wanted() == specs
        for spec in specs:
            one.report(spec, played(spec))
        for k in rng.permutation(len(specs)):
            other.report(specs[int(k)], played(specs[int(k)]))
            other.report(specs[int(k)], played(specs[int(k)]))  # twice is once
    assert one.chances("a") == other.chances("a")


def test_void_matches_stay_wanted() -> None:
    league = population()
    spec = league.wanted()[3]
    void = MatchResult(match_id=spec.match_id, outcomes=(), rewards=(), termination="void")
    league.report(spec, void)
    assert spec in league.wanted()


def test_both_streams_get_their_share_and_mirrored_pairs() -> None:
    league = population(evaluation_share=0.25)
    specs = [s for _ in range(8) for s in play_block(league)]
    evals = [s for s in specs if s.split == "eval"]
    assert len(evals) == len(specs) // 4
    assert {s.purpose for s in evals} == {"eval"}
    assert {s.purpose for s in specs if s.split == "train"} == {"past"}
    assert not any(s.learner_seats for s in specs)
    for first, second in zip(specs[::2], specs[1::2], strict=True):
        assert (first.seed, first.cluster, first.seats) == (
            second.seed, second.cluster, second.seats[::-1],
        )  # fmt: skip


def test_evaluation_goes_round_all_pairs_and_adaptive_matches_leave_the_held_out_alone() -> None:
    league = population()
    specs = [s for _ in range(6) for s in play_block(league)]  # 48 evaluation matches, 6 pairings
    met = Counter(frozenset(s.seats) for s in specs if s.split == "eval")
    assert len(met) == 6
    assert set(met.values()) == {8}
    adaptive = [s for s in specs if s.split == "train"]
    assert not any("h" in s.seats for s in adaptive)
    assert all("a" in s.seats for s in adaptive)  # opponents are chosen for the main


def test_the_sampler_follows_the_results() -> None:
    league = population(sampler="pfsp_hard")
    for _ in range(12):
        play_block(league, order="bach")  # b beats the main a, c loses to it
    chances = league.chances("a")
    assert chances["b"] > 5 * chances["c"] > 0
    assert sum(chances.values()) == pytest.approx(1)


def test_fixed_weights_are_followed_exactly() -> None:
    league = population(sampler="fixed", sampler_options={"weights": {"c": 1}})
    specs = [s for _ in range(4) for s in play_block(league)]
    assert {frozenset(s.seats) for s in specs if s.split == "train"} == {frozenset("ac")}


def test_another_recipe_s_match_is_refused() -> None:
    spec = population(seed=1).wanted()[5]
    with pytest.raises(StoreError, match="match 5 of the store"):
        population(seed=2).report(spec, played(spec))


def test_other_schedules_are_not_ours() -> None:
    league = population()
    foreign = MatchSpec(env_id="duel-v0", seed=1, split="eval", seats=("a", "b"), number=0)
    league.report(foreign, played(foreign))
    assert len(league.wanted()) == 16


def test_many_seats_hold_one_against_the_others_and_teams_their_sides() -> None:
    league = population(seats=3, block=9)
    (first, second, third, *_) = league.wanted()
    assert len({first.seed, second.seed, third.seed}) == 1
    assert sorted(Counter(first.seats).values()) == [1, 2]
    teams = population(seats=4, teams=(0, 1, 0, 1))
    spec = teams.wanted()[0]
    assert spec.teams == (0, 1, 0, 1)
    assert spec.seats[0] == spec.seats[2] != spec.seats[1] == spec.seats[3]
    rows = [(spec.split, spec.seed, spec.seats) for spec in teams.wanted()]
    assert len({*rows}) == len(rows)  # each side once, not once per seat
    assert {seats[::-1] for _, _, seats in rows} == {seats for _, _, seats in rows}


def test_everybody_is_visitor_half_and_resident_in_mixed_games() -> None:
    league = population(seats=4, mode="mixed", evaluation_share=1.0, block=24)
    specs = [s for _ in range(3) for s in play_block(league)]  # 18 units: each pairing three times
    held = {name: {s.seats.count(name) for s in specs} - {0} for name in "abch"}
    assert held == {name: {1, 2, 3} for name in "abch"}
    for first in range(0, len(specs), 4):  # every share in all rotations
        seats = {s.seats for s in specs[first : first + 4]}
        assert all(len({s[k] for s in seats}) == 2 for k in range(4))


def test_cooperative_populations_meet_themselves_too() -> None:
    league = population(mode="cooperative", evaluation_share=1.0)
    specs = [s for _ in range(3) for s in play_block(league)]
    assert {frozenset(s.seats) for s in specs} >= {frozenset("a"), frozenset("ab")}


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="not held out"):
        population(roles={"a": "main", "h": "heldout"})
    with pytest.raises(ConfigError, match="evaluation_share=2"):
        MatchmakingSettings(evaluation_share=2)
    with pytest.raises(ConfigError, match="sampler"):
        MatchmakingSettings(sampler="worst")


def test_equal_contents_have_equal_digests() -> None:
    def version(
        name: str, adapter: str, temperature: float = 1.0, base: str = "tiny", sha: str = "b"
    ) -> AgentVersion:
        contents = model_contents(
            base=base, base_sha256=sha, adapter=adapter, prompt="p", tokenizer="t",
            sampling={"temperature": temperature}, parser="duel-v0",
        )  # fmt: skip
        return AgentVersion(agent_id=name, lineage=name, role="frozen", spec=contents)

    assert version("x", "sha").contents == version("y", "sha").contents
    assert version("x", "sha").contents != version("x", "other").contents
    assert version("x", "sha").contents != version("x", "sha", 0.5).contents
    assert version("x", "sha").contents == version("x", "sha", base="llama-405b").contents
    assert version("x", "sha").contents != version("x", "sha", sha="c").contents
