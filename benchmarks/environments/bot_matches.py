"""Games between the bots of one environment, and what they come to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import srl_envs
from benchmarks.environments import lookahead
from srl_envs.api.episode import Step, Transcript
from srl_envs.errors import SandboxError
from srl_envs.redteam.search import scores_teams
from srl_envs.registry import EnvSpec

LEAST_SEEDS = 4


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean and half of its 95 % interval."""

    mean: float
    half: float
    clusters: int
    """Seeds it rests on."""

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.half:.3f}"


@dataclass(frozen=True, kw_only=True)
class Balance:
    """What was measured of one environment."""

    env: str
    mode: str
    seats: int
    bots: list[str]
    seeds: int
    games: int
    void: int
    """Games that ended by a fault of ours; they count nowhere."""
    payoffs: dict[str, dict[str, Estimate]]
    """Bot of the row -> bots of the other seats -> outcome of the row."""
    separation: Estimate
    """How far strong is above random: among random bots where the mode is competitive, in one seat among
    each bot in turn where only that is a score (`EnvSpec.strangers`), else as a team of strong bots above a
    team of random ones, because who takes from the meek may beat the able."""
    among_all: Estimate
    """How far strong is above random on average over all company, each bot in turn."""
    ladder: dict[str, Estimate]
    """Bot -> its mean outcome over all company, each bot in turn."""
    beside_strong: dict[str, Estimate]
    """Bot -> what it earns beside strong bots above a strong one in its seats."""
    teams: dict[str, Estimate]
    """Bot -> what a team of it earns above a team of strong; empty where teams are not scored."""
    look_ahead: Estimate | None
    """What `benchmarks.environments.lookahead` earns beside strong bots above a strong one; None where
    too few games fit into its time."""
    seat_gap: Estimate
    """Same bot everywhere: outcome of seat 0 above the mean of the others."""
    mover_gap: Estimate | None
    """The same for the seat that moves first; None where all move at once."""
    replies: float
    """Mean per seat and episode."""
    prompt_chars: float
    """Mean per reply."""
    prompt_chars_max: int
    reply_chars: float
    refused: float
    """Share of replies that were malformed or illegal."""
    cpu_s: float

    @property
    def separated(self) -> bool:
        """Whether strong clearly beats random, and does not clearly lose to it in mixed company."""
        apart, overall = self.separation, self.among_all
        return apart.mean - apart.half > 0.0 and overall.mean + overall.half > 0.0


def estimate(clusters: Sequence[float]) -> Estimate:
    """Mean of independent values, with the half-width of its 95 % interval.

    Student's quantile is Cornish and Fisher's expansion, which is within 1 % from 5 values on. A
    single value has an infinite interval, and so has none at all.
    """
    n = len(clusters)
    mean = math.fsum(clusters) / n if n else 0.0
    if n < 2:
        return Estimate(mean=mean, half=math.inf, clusters=n)
    variance = math.fsum((x - mean) ** 2 for x in clusters) / (n - 1)
    return Estimate(mean=mean, half=_student(n - 1) * math.sqrt(variance / n), clusters=n)


def _student(freedom: int) -> float:
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / (4 * freedom)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return z + first + second


class Games:
    """All games of one environment that are asked for, each played once.

    Args:
        spec: of the environment.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.env: Any = srl_envs.make(spec.id)
        self.played: dict[tuple[tuple[str, ...], int], Transcript | None] = {}
        """(bot per seat, seed) -> the game; None where it is void."""
        self.prompt_chars: list[int] = []

    def outcomes(self, bots: tuple[str, ...], seed: int) -> tuple[float, ...] | None:
        """Outcome per seat, None where the game is void."""
        if (bots, seed) not in self.played:
            policies = {
                seat: srl_envs.make_bot(self.spec.id, name, seed=1000 * seed + seat)
                for seat, name in enumerate(bots)
            }
            try:
                game = srl_envs.play(self.env, policies, seed=seed, on_step=self._count)
            except SandboxError:
                self.played[bots, seed] = None
            else:
                self.played[bots, seed] = game
        found = self.played[bots, seed]
        return None if found is None else found.outcomes

    def one_among(self, row: str, column: str, seed: int) -> float | None:
        """Mean outcome of ``row``, once in every seat, among ``column``; None if all are void."""
        seats = range(self.spec.seats)
        turns = seats if row != column else range(1)
        paid = []
        for turn in turns:
            bots = tuple(row if seat == turn else column for seat in seats)
            outcomes = self.outcomes(bots, seed)
            if outcomes is not None:
                paid += [outcomes[turn]] if row != column else list(outcomes)
        return math.fsum(paid) / len(paid) if paid else None

    def _count(self, observations: Mapping[str, dict[str, Any]], step: Step) -> None:
        agents = self.env.possible_agents
        self.prompt_chars += [len(observations[agents[seat]]["text"]) for seat in step.replies]


def separation(games: Games, seeds: range) -> Estimate:
    """How far ``strong`` is above ``random``, seed by seed; see `Balance.separation`."""
    if games.spec.strangers:
        return among_all(games, seeds)

    def gap(seed: int) -> float | None:
        if games.spec.mode == "competitive":
            return games.one_among("strong", "random", seed)
        return _less(games, seed, ("strong", "strong"), ("random", "random"))

    return _over(seeds, gap)


def among_all(games: Games, seeds: range) -> Estimate:
    """How far ``strong`` is above ``random``, seed by seed, the mean over who sits beside it."""

    def gap(seed: int) -> float | None:
        gaps = [_less(games, seed, ("strong", b), ("random", b)) for b in games.spec.bots]
        kept = [found for found in gaps if found is not None]
        return _mean(kept) if kept else None

    return _over(seeds, gap)


def ladder(games: Games, seeds: range) -> dict[str, Estimate]:
    """Every bot's mean outcome over all company; see `Balance.ladder`."""

    def mean(bot: str, seed: int) -> float | None:
        found = [games.one_among(bot, company, seed) for company in games.spec.bots]
        kept = [value for value in found if value is not None]
        return _mean(kept) if kept else None

    return {bot: _over(seeds, lambda seed, b=bot: mean(b, seed)) for bot in games.spec.bots}


def above_strong(
    games: Games, seeds: range, company: Callable[[str], tuple[str, str]]
) -> dict[str, Estimate]:
    """What other bots earn above strong, seed by seed.

    Args:
        games: of one environment.
        seeds: all of them.
        company: bot -> (who is paid, who else sits there).
    """
    base = company("strong")
    return {
        bot: _over(seeds, lambda seed, b=bot: _less(games, seed, company(b), base))
        for bot in games.spec.bots
        if bot != "strong"
    }


def look_ahead(games: Games, seeds: range, budget_s: float) -> Estimate | None:
    """See `Balance.look_ahead`."""
    alike = ("strong",) * games.spec.seats
    found = lookahead.gains(
        games.spec.id, lambda seed: games.outcomes(alike, seed), seeds, budget_s
    )
    return estimate(found) if len(found) >= LEAST_SEEDS else None


def _less(games: Games, seed: int, more: tuple[str, str], less: tuple[str, str]) -> float | None:
    """What (bot, company) ``more`` earns above ``less``; None where either is void."""
    first, second = games.one_among(*more, seed), games.one_among(*less, seed)
    return None if first is None or second is None else first - second


def _over(seeds: range, value: Any) -> Estimate:
    return estimate([found for seed in seeds if (found := value(seed)) is not None])


def seat_gaps(games: Games, seeds: range) -> tuple[Estimate, Estimate | None]:
    """Outcome above the mean of the others, same bot everywhere: of seat 0, and of who moves first."""
    first: list[float] = []
    mover: list[float] = []
    for seed in seeds:
        alike = [games.played.get(((bot,) * games.spec.seats, seed)) for bot in games.spec.bots]
        kept = [game for game in alike if game is not None]
        if not kept:
            continue
        first.append(_mean([_above(game.outcomes, 0) for game in kept]))
        openers = [next(iter(g.steps[0].replies)) for g in kept if len(g.steps[0].replies) == 1]
        if len(openers) == len(kept):
            mover.append(_mean([_above(g.outcomes, s) for g, s in zip(kept, openers, strict=True)]))
    return estimate(first), estimate(mover) if mover else None


def _above(outcomes: Sequence[float], seat: int) -> float:
    others = [outcome for s, outcome in enumerate(outcomes) if s != seat]
    return outcomes[seat] - _mean(others)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def measure(env_id: str, seeds: int, look_ahead_s: float = 0.0) -> Balance:
    """Play every bot among every other.

    Args:
        env_id: a registered id.
        seeds: of every pair of bots.
        look_ahead_s: seconds of processor time for the look-ahead.
    """
    spec = srl_envs.spec(env_id)
    start = time.process_time()
    games = Games(spec)
    names, numbers = list(spec.bots), range(seeds)
    try:
        payoffs = {
            row: {
                column: _over(numbers, lambda s, a=row, b=column: games.one_among(a, b, s))
                for column in names
            }
            for row in names
        }
        apart, overall = separation(games, numbers), among_all(games, numbers)
        ahead = look_ahead(games, numbers, look_ahead_s)
    finally:
        games.env.close()
    seat_gap, mover_gap = seat_gaps(games, numbers)
    done = [game for game in games.played.values() if game is not None]
    replies = [
        (r, step.invalid[s]) for g in done for step in g.steps for s, r in step.replies.items()
    ]
    return Balance(
        env=spec.id,
        mode=spec.mode,
        seats=spec.seats,
        bots=names,
        seeds=seeds,
        games=len(done),
        void=len(games.played) - len(done),
        payoffs=payoffs,
        separation=apart,
        among_all=overall,
        ladder=ladder(games, numbers),
        beside_strong=above_strong(games, numbers, lambda bot: (bot, "strong")),
        teams=above_strong(games, numbers, lambda bot: (bot, bot)) if scores_teams(spec.id) else {},
        look_ahead=ahead,
        seat_gap=seat_gap,
        mover_gap=mover_gap,
        replies=len(replies) / max(1, len(done)) / spec.seats,
        prompt_chars=_mean(games.prompt_chars),
        prompt_chars_max=max(games.prompt_chars, default=0),
        reply_chars=_mean([len(reply) for reply, _ in replies]),
        refused=_mean([label is not None for _, label in replies]),
        cpu_s=time.process_time() - start,
    )
