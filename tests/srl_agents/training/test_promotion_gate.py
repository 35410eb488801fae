"""The gate plays batches until its tests have answers: first the best, then the anchors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.lessons import LessonPlan
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.matchmaking.promotion import PromotionSettings
from srl_agents.league.settings import OpponentSettings
from srl_agents.records import Episode, MatchSpec, Trajectory, WeightVersion
from srl_agents.training.loop.promotion_gate import PromotionGate

CANDIDATE, BEST, ANCHOR = WeightVersion("alice", 5, "d" * 16), "tiny", "bot:middle"
SETTINGS = PromotionSettings(elo1=150, anchor_pairs=10, anchor_margin=0.3)


Edges = dict[tuple[str, str], float]


class Table:
    """Plays matches by chance: who wins how much more often than evenly is given for each two agents.

    Args:
        edges: of two agents; in a team or by itself, with the first agent in any seat.
        void: every so many seeds a match goes void.
        by_game: environment -> edges that hold there instead.
    """

    def __init__(
        self, edges: Edges, void: int = 0, by_game: dict[str, Edges] | None = None
    ) -> None:
        self.edges, self.void, self.by_game = edges, void, by_game or {}
        self.specs: list[MatchSpec] = []

    def play(self, phase: str, specs: Sequence[MatchSpec]) -> list[Episode]:
        """Every ``void``-th seed goes void."""
        assert phase.startswith("gate: ")
        self.specs += specs
        return [self._episode(spec) for spec in specs]

    def _episode(self, spec: MatchSpec) -> Episode:
        one, other = spec.seats[0], spec.seats[-1]
        edges = self.by_game.get(spec.env_id, self.edges)
        edge = edges.get((one, other), 0.0) - edges.get((other, one), 0.0)
        together = spec.env_id in (PARTNERS.env_id, TASK.env_id)
        if together:
            edge = edges.get((str(CANDIDATE), BEST), 0.0) if str(CANDIDATE) in spec.seats else 0.0
        key = [spec.seed, one == str(CANDIDATE), len(one), len(spec.env_id)]
        outcome = 1.0 if np.random.default_rng(key).random() < 0.5 + edge else -1.0
        void = bool(self.void) and spec.seed % self.void == 0
        outcomes = (outcome, outcome if together else -outcome)
        return Episode(
            spec=spec,
            trajectories=tuple(
                Trajectory(seat=k, policy=name, turns=(), outcome=o, total_reward=o, components={})
                for k, (name, o) in enumerate(zip(spec.seats, outcomes, strict=False))
            ),
            termination="void" if void else "ok",
        )


GAME = Arena(env_id="connect_four-v0", options={}, seats=2, rated_against=(ANCHOR,))
PARTNERS = Arena(
    env_id="hanabi_mini-v0", options={}, seats=2, mode="cooperative", rated_against=(ANCHOR,)
)
OTHER = Arena(env_id="nim-v0", options={}, seats=2, rated_against=("bot:random",))
TASK = Arena(env_id="math_duel-v0", options={"players": 1}, seats=1)


def judge(
    table: Table,
    *arenas: Arena,
    plans: dict[str, LessonPlan] | None = None,
    held: dict[str, list[int]] | None = None,
) -> tuple[bool, str]:
    league = League(
        arenas=arenas or [GAME],
        versions={"alice": CANDIDATE},
        starts={"alice": BEST},
        opponents=OpponentSettings(),
        seed=0,
        plans=plans,
        held=held,
    )
    return PromotionGate(league, SETTINGS, table.play).passes("alice")


def test_a_better_candidate_is_promoted_and_only_as_many_batches_are_played_as_needed() -> None:
    table = Table({(str(CANDIDATE), BEST): 0.45})
    passed, reason = judge(table)
    assert passed
    assert reason.endswith("promoted")
    against_best = [spec for spec in table.specs if ANCHOR not in spec.seats]
    assert len(against_best) == 2 * 20  # the smallest number of pairs, in two batches
    seeds = {spec.seed for spec in table.specs if ANCHOR in spec.seats}
    assert len(seeds) < SETTINGS.against_anchors().most
    assert len(seeds) % SETTINGS.anchor_pairs == 0


def test_one_that_is_as_good_as_the_best_stays_out() -> None:
    passed, reason = judge(Table({}))
    assert not passed
    assert "not shown to be better" in reason


def test_one_that_beats_the_best_and_loses_to_the_anchors_stays_out() -> None:
    passed, reason = judge(
        Table({(str(CANDIDATE), BEST): 0.45, (BEST, ANCHOR): 0.4, (ANCHOR, str(CANDIDATE)): 0.4})
    )
    assert not passed
    assert "not shown to hold its points against the anchors" in reason


def test_seeds_with_a_void_match_are_left_out() -> None:
    table = Table({(str(CANDIDATE), BEST): 0.45}, void=2)
    passed, reason = judge(table)
    assert passed
    against_best = {spec.seed for spec in table.specs if ANCHOR not in spec.seats}
    assert len(against_best) == 40
    assert " 20 pairs, " in reason


def test_a_gate_whose_matches_are_all_void_ends() -> None:
    table = Table({}, void=1)
    passed, _ = judge(table)
    assert not passed
    assert len(table.specs) <= 2 * (2 * SETTINGS.against_best.most + SETTINGS.min_pairs)


STRONGER: Edges = {(str(CANDIDATE), BEST): 0.45}
WEAKER: Edges = {(str(CANDIDATE), BEST): -0.3}


def test_better_in_one_of_two_games_and_equal_in_the_other_is_promoted() -> None:
    passed, reason = judge(Table({}, by_game={GAME.env_id: STRONGER}), GAME, OTHER)
    assert passed
    assert reason.endswith("promoted")
    assert "connect_four-v0 9" in reason


@pytest.mark.parametrize("loss", [0.2, 0.3])
def test_one_game_never_promotes_a_candidate_that_is_worse_in_another(loss: float) -> None:
    """Although it wins more in the first than it loses in the second."""
    worse: Edges = {(str(CANDIDATE), BEST): -loss}
    passed, reason = judge(
        Table({}, by_game={GAME.env_id: STRONGER, OTHER.env_id: worse}), GAME, OTHER
    )
    assert not passed
    assert reason.endswith("worse in nim-v0")


def test_rivals_partners_and_tasks_share_one_gate() -> None:
    """Games of which some are cooperative were refused when a gate added points up."""
    table = Table({}, by_game={PARTNERS.env_id: STRONGER})
    passed, reason = judge(table, GAME, PARTNERS, TASK)
    assert passed, reason
    worse = {TASK.env_id: {(str(CANDIDATE), BEST): -0.5}, PARTNERS.env_id: STRONGER}
    passed, reason = judge(Table({}, by_game=worse), GAME, PARTNERS, TASK)
    assert (passed, reason.endswith("worse in math_duel-v0")) == (False, True)


def test_each_game_has_its_own_anchors() -> None:
    table = Table(STRONGER, by_game={OTHER.env_id: {(BEST, "bot:random"): 0.4}})
    passed, reason = judge(table, GAME, OTHER)
    assert not passed
    assert "against the anchors in nim-v0" in reason
    met = {(spec.env_id, name) for spec in table.specs for name in spec.seats if "bot:" in name}
    assert met == {("connect_four-v0", ANCHOR), ("nim-v0", "bot:random")}


def test_a_learner_is_judged_in_the_games_that_it_trains_in() -> None:
    table = Table({}, by_game={GAME.env_id: STRONGER, OTHER.env_id: WEAKER})
    plan = LessonPlan(weights={GAME.title: 1.0})
    passed, _ = judge(table, GAME, OTHER, plans={"alice": plan})
    assert passed
    assert {spec.env_id for spec in table.specs} == {GAME.env_id}


def test_a_seed_that_is_void_in_one_game_counts_in_none() -> None:
    class Uneven(Table):
        def _episode(self, spec: MatchSpec) -> Episode:
            found = super()._episode(spec)
            lost = spec.env_id == OTHER.env_id and spec.seed % 2 == 0
            return replace(found, termination="void") if lost else found

    passed, reason = judge(Uneven(STRONGER), GAME, OTHER)
    assert passed
    counts = {int(count) for count in re.findall(r"in (\d+) pairs", reason)}
    assert len(counts) == 1


def test_a_learner_with_a_seat_of_its_own_is_compared_with_its_best_in_that_seat() -> None:
    """Both never meet, so each plays with the same strangers: here the start, which is the best so far."""
    table = Table({(str(CANDIDATE), BEST): 0.45})
    passed, reason = judge(table, held={"alice": [0]})
    assert passed, reason
    lineups = {spec.seats for spec in table.specs if ANCHOR not in spec.seats}
    assert lineups == {(str(CANDIDATE), BEST), (BEST, BEST)}
    passed, reason = judge(Table({}), held={"alice": [0]})
    assert "not shown to be better" in reason
