"""Opponents among agents that do not learn: bots, saved adapters, held-out references.

Two streams from one numbering. Evaluation matches go round all pairs evenly and feed ratings; the
others are chosen by a sampler to compare the mains, and feed only the sampler.
Matches come in blocks. The sampler reads the blocks before its own, so `next_match` is a function of
(seed, revision, number) where the revision is the number of whole blocks counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement

import numpy as np

from srl_agents.league.agents import AgentVersion
from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.pair_record import PairRecord, expected_scores, mean_points
from srl_agents.league.sampling import SamplerSettings, find_sampler
from srl_agents.league.settings import require
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.errors import ConfigError, StoreError

SCHEDULE = "league"


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchmakingSettings(SamplerSettings):
    """Settings of matchmaking in a population."""

    evaluation_share: float = 0.5
    """Share of matches that go round all pairs evenly and feed ratings."""
    sampler: str = "pfsp_variance"
    """Whom a main meets in the other matches: one of `srl_agents.league.sampling.SAMPLERS`, or
    ``package.module:function``."""
    block: int = 64
    """Matches between two looks of the sampler at the results."""

    def __post_init__(self) -> None:
        require(
            0 <= self.evaluation_share <= 1,
            f"evaluation_share={self.evaluation_share}: a share lies in [0, 1].",
        )
        require(self.block >= 1, f"block={self.block}: use 1 or more.")
        find_sampler(self.sampler, self.sampler_options)


class Population:
    """Schedules matches between fixed agents, and counts what came of them.

    Args:
        arena: the environment.
        agents: at least two. Mains are the agents that the sampler chooses opponents for (all agents, if
            none is a main); held-out agents are met only in evaluation.
        settings: of the choice.
        seed: root of the schedule.

    Raises:
        ConfigError: too few agents.
    """

    def __init__(
        self,
        arena: Arena,
        agents: Sequence[AgentVersion],
        settings: MatchmakingSettings,
        seed: int,
    ) -> None:
        met = [a.agent_id for a in agents if a.role != "heldout"]
        if len(agents) < 2 or len(met) < 2:
            raise ConfigError(
                f"{len(agents)} agents, {len(met)} of them not held out: give at least 2 that are "
                "not held out."
            )
        self.arena, self.settings, self.seed = arena, settings, seed
        self.revision = 0
        """Whole blocks counted."""
        self._met = tuple(met)
        self.mains = tuple(a.agent_id for a in agents if a.role == "main") or self._met
        names = [a.agent_id for a in agents]
        together = arena.mode == "cooperative"
        self._pairings = list(
            combinations_with_replacement(names, 2) if together else combinations(names, 2)
        )
        self._record = PairRecord()
        self._pending: dict[int, tuple[MatchSpec, MatchResult]] = {}
        self._prior: dict[tuple[str, str], float] = {}
        self._choose = find_sampler(settings.sampler, settings.sampler_options)

    def next_match(self, number: int) -> MatchSpec | None:
        """Match ``number``; None while results of earlier blocks are missing."""
        if number // self.settings.block > self.revision:
            return None
        unit, place = divmod(number, len(self.arena.turns))
        turn = self.arena.turns[place]
        share = self.settings.evaluation_share
        counted = int(unit * share + 1e-9)
        if int((unit + 1) * share + 1e-9) > counted:
            return self._evaluation(number, counted, turn)
        return self._adaptive(number, unit, turn)

    def wanted(self) -> list[MatchSpec]:
        """Matches of the present block that have no result yet, in order."""
        first = self.revision * self.settings.block
        numbers = range(first, first + self.settings.block)
        specs = [self.next_match(n) for n in numbers if n not in self._pending]
        return [spec for spec in specs if spec is not None]

    def report(self, spec: MatchSpec, result: MatchResult) -> None:
        """Count a result; one that was counted, or went void, changes nothing.

        Raises:
            StoreError: the match is not the one that this league schedules under its number.
        """
        block = spec.number // self.settings.block
        if result.termination == "void" or block < self.revision or spec.schedule != SCHEDULE:
            return
        if self.next_match(spec.number) != spec:
            raise StoreError(
                f"match {spec.number} of the store is not the one that this recipe schedules: the "
                "recipe, its agents or SRL's matchmaking changed. Start in another folder."
            )
        self._pending[spec.number] = (spec, result)
        if len(self._pending) == self.settings.block:
            for number in sorted(self._pending):  # sums of fractions depend on their order
                self._count(*self._pending[number])
            self._pending.clear()
            self.revision += 1
            self._prior = self._expected_scores()

    def chances(self, agent: str) -> dict[str, float]:
        """Opponent -> probability, for the present block's adaptive matches of a main."""
        others = [name for name in self._met if name != agent]
        prior = np.array([self._prior.get((agent, name), 0.5) for name in others])
        payoff_NN = self._record.payoffs(others, lambda a, b: self._prior.get((a, b), 0.5))
        found = self._choose(self._record.view(agent, others, prior=prior, payoff_NN=payoff_NN))
        return dict(zip(others, found.tolist(), strict=True))

    def _evaluation(self, number: int, unit: int, turn: int) -> MatchSpec:
        """Evaluation pair ``unit``: every round plays all pairings once, in an order of its own.

        With more than two seats the first of a pairing holds one seat in one round and all but one in
        another, in mixed games also half of them.
        """
        round_, place = divmod(unit, len(self._pairings))
        order = self._rng(0, round_).permutation(len(self._pairings))
        a, b = self._pairings[int(order[place])]
        n = self.arena.seats
        shares = (1, n // 2, n - 1) if self.arena.mode == "mixed" else (1, n - 1)
        seats = self._lineup(a, b, turn, max(1, shares[round_ % len(shares)]))
        return self._match(number, seats, unit, evaluation=True)

    def _adaptive(self, number: int, unit: int, turn: int) -> MatchSpec:
        rng = self._rng(1, unit)
        me = self.mains[unit % len(self.mains)]
        chances = self.chances(me)
        others = list(chances)
        other = others[int(rng.choice(len(others), p=np.array(list(chances.values()))))]
        seed = int(rng.integers(2**31))
        return self._match(number, self._lineup(me, other, turn), seed, evaluation=False)

    def _lineup(self, a: str, b: str, turn: int, held: int = 1) -> tuple[str, ...]:
        """``a`` holds as many seats from ``turn`` on, or its team's; ``b`` the others."""
        n = self.arena.seats
        if self.arena.teams:
            return tuple(a if team == self.arena.teams[turn] else b for team in self.arena.teams)
        return tuple(a if (seat - turn) % n < held else b for seat in range(n))

    def _match(
        self, number: int, seats: tuple[str, ...], seed: int, *, evaluation: bool
    ) -> MatchSpec:
        split = "eval" if evaluation else "train"
        return MatchSpec(
            env_id=self.arena.env_id,
            options=self.arena.options,
            seed=seed,
            split="eval" if evaluation else "train",
            seats=seats,
            purpose="eval" if evaluation else "past",
            cluster=f"{split}/{seed}",
            schedule=SCHEDULE,
            number=number,
            teams=self.arena.teams,
        )

    def _count(self, spec: MatchSpec, result: MatchResult) -> None:
        a, b = next(iter(spec.seats)), next((s for s in spec.seats if s != spec.seats[0]), None)
        if b is None:
            return
        points = mean_points(spec.seats, result.outcomes, a, self.arena.mode)
        back = mean_points(spec.seats, result.outcomes, b, self.arena.mode)
        self._record.add(a, b, points)
        self._record.add(b, a, back)

    def _expected_scores(self) -> dict[tuple[str, str], float]:
        """What ratings of all counted matches expect; the centre that win rates shrink to."""
        names = self._met
        expected = expected_scores([self._record], names)
        if expected is None or self.arena.mode == "cooperative":
            return {}
        return {
            (a, b): float(expected[i, j]) for i, a in enumerate(names) for j, b in enumerate(names)
        }

    def _rng(self, *position: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, *position])))
