"""Seeds added until every two entrants are apart: when to look, and when to stop.

The looks are fixed before the first match: `FIRST` seeds, then twice as many each time, up to the last. At
a look every two entrants are compared by what each earned with the references on the same seeds. A
comparison is an interval at 95 % for all looks together (Bonferroni), so it holds whenever the run stops.
Ordinary intervals do not: `benchmarks.league.adaptive_seeds` simulates by how much. So rows of a board, which
have ordinary intervals, never come from such a run: a ticket fixes the number of seeds.
Source: Jennison and Turnbull, "Group Sequential Methods", 2000, chapter 2, for looks and their error rates.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from leaderboards.protocol import Protocol
from srl_agents.league.ratings.intervals import Floats, t_quantile
from srl_agents.records import MatchResult, MatchSpec

APART = "apart"
"""What a run, or a registration, says in place of a number of seeds."""
FIRST = 8
"""Seeds at the first look."""
ALPHA = 0.05
"""Chance that a comparison misses at any look."""
_LEAST_ERROR = 0.5
"""Least standard error of a mean over n seeds, times n: equal values of few seeds prove little."""

Matches = Iterable[tuple[MatchSpec, MatchResult]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one entrant earns above another per match with the references, on the same seeds."""

    one: str
    other: str
    mean: float
    low: float
    high: float
    seeds: int

    @property
    def apart(self) -> bool:
        """Whether one of the two is shown to earn more."""
        return self.low > 0 or self.high < 0


def looks(most: int) -> tuple[int, ...]:
    """Numbers of seeds at which a run looks; the last is all of them."""
    found = []
    seeds = FIRST
    while seeds < most:
        found.append(seeds)
        seeds *= 2
    return (*found, most)


def comparisons(
    protocol: Protocol, entrants: Sequence[str], matches: Matches, seeds: int, count: int
) -> list[Comparison]:
    """Every two entrants on the first ``seeds`` seeds.

    Args:
        protocol: of the run.
        entrants: agents that are compared.
        matches: of the run; later seeds are left out.
        seeds: how many.
        count: number of looks that the run may take.
    """
    earned = _earned(protocol, entrants, matches, seeds)
    return [
        compared(one, other, earned[one] - earned[other], count)
        for one, other in combinations(sorted(entrants), 2)
    ]


def compared(one: str, other: str, gap_S: Floats, count: int) -> Comparison:
    """The interval of a mean gap, at `ALPHA` over ``count`` looks.

    Args:
        one: whose earnings are the larger where the gap is positive.
        other: the other one.
        gap_S: one number per seed.
        count: number of looks.
    """
    n = gap_S.size
    mean = float(gap_S.mean())
    if n < 2:
        return Comparison(one, other, mean, -math.inf, math.inf, n)
    error = max(float(gap_S.std(ddof=1)) / math.sqrt(n), _LEAST_ERROR / n)
    reach = t_quantile(n - 1, 1 - ALPHA / (2 * count)) * error
    return Comparison(one, other, mean, mean - reach, mean + reach, n)


def stops(
    protocol: Protocol, entrants: Sequence[str], matches: Sequence[tuple[MatchSpec, MatchResult]],
    most: int,
) -> int:  # fmt: skip
    """The number of seeds after which a run of at most ``most`` stops.

    Args:
        protocol: of the run.
        entrants: that are compared.
        matches: those that were played, seed by seed; of too few seeds the answer is more than they have.
        most: seeds of the last look.
    """
    planned = looks(most)
    have = 1 + max((spec.number for spec, _ in matches), default=-1)
    for seeds in planned:
        if seeds > have or seeds == most:
            return seeds
        found = comparisons(protocol, entrants, matches, seeds, len(planned))
        if all(comparison.apart for comparison in found):
            return seeds
    return most


def _earned(
    protocol: Protocol, entrants: Sequence[str], matches: Matches, seeds: int
) -> Mapping[str, Floats]:
    """Entrant -> (S,) mean outcome of its seats per seed, over its matches with the references."""
    references = frozenset(protocol.references)
    sums: dict[str, Floats] = {name: np.zeros(seeds) for name in entrants}
    counts: dict[str, Floats] = defaultdict(lambda: np.zeros(seeds))
    for spec, result in matches:
        own = {*spec.seats} - references
        if spec.number >= seeds or len(own) != 1 or not {*spec.seats} & references:
            continue  # references among themselves, or an entrant with itself
        (name,) = own
        if name in sums:
            held = [result.outcomes[seat] for seat, who in enumerate(spec.seats) if who == name]
            sums[name][spec.number] += sum(held) / len(held)
            counts[name][spec.number] += 1
    return {name: sums[name] / counts[name] for name in entrants}
