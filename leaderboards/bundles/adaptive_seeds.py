"""Seeds added until every two entrants are apart: when to look, and when to stop.

The looks are fixed before the first match: 8 seeds, then twice as many each time, up to the last. At
a look every two entrants are compared by what each earned with the references on the same seeds. A
comparison is an interval at 95 % for all looks together (Bonferroni), so it holds whenever the run stops.
Ordinary intervals do not: `benchmarks.league.adaptive_seeds` simulates by how much. So rows of a board, which
have ordinary intervals, never come from such a run: a ticket fixes the number of seeds.
Source: Jennison and Turnbull, "Group Sequential Methods", 2000, chapter 2, for looks and their error rates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from leaderboards.protocol import Protocol
from srl_agents.league.ratings.intervals import Comparison, Floats, compared, looks
from srl_agents.records import MatchResult, MatchSpec

APART = "apart"
"""Stands in a run or a registration in place of a number of seeds."""
Matches = Iterable[tuple[MatchSpec, MatchResult]]


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
