"""The gate plays batches until its tests have answers: first the best, then the anchors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.matchmaking.promotion import PromotionSettings
from srl_agents.league.settings import OpponentSettings
from srl_agents.records import Episode, MatchSpec, Trajectory, WeightVersion
from srl_agents.training.loop.promotion_gate import PromotionGate
from srl_envs.core import Mode

CANDIDATE, BEST, ANCHOR = WeightVersion("alice", 5, "d" * 16), "tiny", "bot:middle"
SETTINGS = PromotionSettings(elo1=150, anchor_pairs=10, anchor_margin=0.3)


class Table:
    """Plays matches by chance: who wins how much more often than evenly is given for each two agents."""

    def __init__(self, edges: dict[tuple[str, str], float], void: int = 0) -> None:
        self.edges, self.void = edges, void
        self.specs: list[MatchSpec] = []

    def play(self, phase: str, specs: Sequence[MatchSpec]) -> list[Episode]:
        """Every ``void``-th seed goes void."""
        assert phase.startswith("gate: ")
        self.specs += specs
        return [self._episode(spec) for spec in specs]

    def _episode(self, spec: MatchSpec) -> Episode:
        one, other = spec.seats
        edge = self.edges.get((one, other), 0.0) - self.edges.get((other, one), 0.0)
        draw = np.random.default_rng([spec.seed, one == str(CANDIDATE), len(one)]).random()
        outcome = 1.0 if draw < 0.5 + edge else -1.0
        void = bool(self.void) and spec.seed % self.void == 0
        return Episode(
            spec=spec,
            trajectories=tuple(
                Trajectory(seat=k, policy=name, turns=(), outcome=o, total_reward=o, components={})
                for k, (name, o) in enumerate(((one, outcome), (other, -outcome)))
            ),
            termination="void" if void else "ok",
        )


def judge(table: Table, mode: Mode = "competitive") -> tuple[bool, str]:
    league = League(
        arenas=[Arena(env_id="connect_four-v0", options={}, seats=2, mode=mode)],
        versions={"alice": CANDIDATE},
        starts={"alice": BEST},
        opponents=OpponentSettings(),
        seed=0,
    )
    return PromotionGate(league, SETTINGS, [ANCHOR], table.play).passes("alice")


def test_a_better_candidate_is_promoted_and_only_as_many_batches_are_played_as_needed() -> None:
    table = Table({(str(CANDIDATE), BEST): 0.45})
    passed, reason = judge(table)
    assert passed
    assert reason.endswith("promoted")
    against_best = [spec for spec in table.specs if ANCHOR not in spec.seats]
    assert len(against_best) == 2 * 20  # the smallest number of pairs, in two batches
    seeds = {spec.seed for spec in table.specs if ANCHOR in spec.seats}
    assert len(seeds) < SETTINGS.against_anchors.most
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
