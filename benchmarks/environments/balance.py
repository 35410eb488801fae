"""Balance of the environments: bot against bot, with intervals.

    python -m benchmarks.environments.balance [ENV ...] [--seeds N] [--json FILE] [--report FILE]

A cell of a payoff matrix is the mean outcome of the bot of its row in one seat while the bot of its
column sits in all the others; each seed is played once with the row's bot in every seat, so that
neither a lucky start nor a seat counts. Intervals are at 95 %, by Student's t over seeds, because
games of one seed share their start. Measured environments are merged into the file of numbers, the
report is written from that file, and the program ends with code 1 where a strong bot does not
clearly beat a random one.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import srl_envs
from srl_envs.episode import Step, Transcript
from srl_envs.errors import SandboxError
from srl_envs.registry import EnvSpec

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results/balance.json"
REPORT = ROOT / "docs/environments/balance.md"
DEFAULT_SEEDS = 60
SEEDS = {
    "code_duel-v0": 6,
    "codewords_duet-v0": 30,
    "connect_four-v0": 12,
    "pair_programming-v0": 8,
    "spec_golf-v0": 8,
    "undercover-v0": 30,
    "word_chain-v0": 20,
}
"""Environments whose bots search or run programs get fewer."""
CHARS_PER_TOKEN = 4
"""Rule of thumb for English; the report says so."""


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
    """How far strong is above random: among random bots where the mode is competitive, else as a team
    of strong bots above a team of random ones, because who takes from the meek may beat the able."""
    among_all: Estimate
    """How far strong is above random on average over all company, each bot in turn."""
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


def measure(env_id: str, seeds: int) -> Balance:
    """Play every bot among every other."""
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
        seat_gap=seat_gap,
        mover_gap=mover_gap,
        replies=len(replies) / max(1, len(done)) / spec.seats,
        prompt_chars=_mean(games.prompt_chars),
        prompt_chars_max=max(games.prompt_chars, default=0),
        reply_chars=_mean([len(reply) for reply, _ in replies]),
        refused=_mean([label is not None for _, label in replies]),
        cpu_s=time.process_time() - start,
    )


def loaded(data: Mapping[str, Any]) -> Balance:
    """The inverse of `dataclasses.asdict`."""

    def read(numbers: Any) -> Any:
        return None if numbers is None else Estimate(**numbers)

    payoffs = {
        row: {column: read(cell) for column, cell in cells.items()}
        for row, cells in data["payoffs"].items()
    }
    single = {
        name: read(data[name]) for name in ("separation", "among_all", "seat_gap", "mover_gap")
    }
    return Balance(**{**data, "payoffs": payoffs, **single})


def report(balances: Sequence[Balance], provenance: str) -> str:
    """The page, in Markdown."""
    lines = [
        "# Balance of the environments",
        "",
        f"Written by `benchmarks/environments/balance.py`; do not edit. {provenance}",
        "",
        "Every bot plays one seat while another bot plays all the others, once in every seat of every",
        "seed. Outcomes are per episode, in [-1, 1]; intervals are at 95 %, by Student's t over seeds.",
        f"Tokens are characters / {CHARS_PER_TOKEN}, of what a bot was asked with.",
        "",
        "`strong - random` is what a strong bot earns among random ones where the mode is competitive,",
        "and else what a team of strong bots earns above a team of random ones. `in all company` is what",
        "strong earns above random beside each bot in turn, on average; where the mode is mixed, one",
        "that takes from the meek may come close to one that plays well.",
        "",
        "A `seat 0` or `opener` gap is what that seat, or the one that moves first, earns above the",
        "others when the same bot sits everywhere.",
        *_unmeasured(balances),
        "",
        "| environment | mode | strong - random | in all company | seat 0 gap | opener gap | replies a seat "
        "| prompt tokens, mean (longest) | refused | games |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for b in balances:
        mark = "" if b.separated else " **not apart**"
        cells = (
            f"[`{b.env}`]({b.env}.md)",
            f"{b.mode}, {b.seats}",
            f"{b.separation}{mark}",
            b.among_all,
            b.seat_gap,
            b.mover_gap or "at once",
            f"{b.replies:.1f}",
            f"{b.prompt_chars / CHARS_PER_TOKEN:.0f} ({b.prompt_chars_max / CHARS_PER_TOKEN:.0f})",
            f"{b.refused:.1%}",
            f"{b.games}{f' ({b.void} void)' if b.void else ''}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for b in balances:
        lines += ["", f"## {b.env}", "", f"{b.seeds} seeds; row among columns.", "", *_matrix(b)]
    return "\n".join(lines) + "\n"


def _unmeasured(balances: Sequence[Balance]) -> list[str]:
    known = {b.env for b in balances}
    missing = [
        env_id for env_id in srl_envs.list_envs() if "/" not in env_id and env_id not in known
    ]
    return ["", f"Not measured yet: {', '.join(missing)}."] if missing else []


def _matrix(b: Balance) -> list[str]:
    heads = "".join(f" {name} |" for name in b.bots)
    rows = (
        f"| **{row}** |" + "".join(f" {b.payoffs[row][column]} |" for column in b.bots)
        for row in b.bots
    )
    return [f"| |{heads}", "|---|" + "---|" * len(b.bots), *rows]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write numbers and report; 1 where a strong bot does not clearly beat a random one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("envs", nargs="*", metavar="ENV", help="all registered ones by default")
    parser.add_argument("--seeds", type=int, help="a number of its own per environment by default")
    parser.add_argument("--json", type=Path, default=RESULTS, help="the file of numbers")
    parser.add_argument("--report", type=Path, default=REPORT, help="the page")
    options = parser.parse_args(argv)
    if options.seeds is not None and options.seeds < 2:
        parser.error(f"--seeds {options.seeds}: an interval needs 2 or more.")
    known = json.loads(options.json.read_text()) if options.json.is_file() else {"environments": {}}
    results: dict[str, Any] = known["environments"]
    for env_id in options.envs or srl_envs.list_envs():
        spec = srl_envs.spec(env_id)
        found = measure(spec.id, options.seeds or SEEDS.get(spec.id, DEFAULT_SEEDS))
        results[spec.id] = asdict(found)
        print(f"{spec.id:22} strong - random {found.separation}  ({found.cpu_s:.0f} s)", flush=True)
        data = {
            "command": "python -m benchmarks.environments.balance",
            "python": platform.python_version(),
            "srl": srl_envs.__version__,
            "environments": dict(sorted(results.items())),
        }
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    balances = [loaded(data) for _, data in sorted(results.items())]
    provenance = f"SRL {srl_envs.__version__}, Python {platform.python_version()}, split train."
    options.report.write_text(report(balances, provenance))
    weak = [b.env for b in balances if not b.separated]
    for env_id in weak:
        print(f"{env_id}: strong does not clearly beat random.", file=sys.stderr)
    return int(bool(weak))


if __name__ == "__main__":
    sys.exit(main())
