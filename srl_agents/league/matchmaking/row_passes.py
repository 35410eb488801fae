"""Order of a collection's rows in training: each once per pass, in another order every pass.

Rows are a sequence of passes, one behind the other, and match ``n`` asks the next ``each`` of it. So what a
match asks is a function of seed and number, and a run that goes on needs no more than its count of matches.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np


class RowCounts(NamedTuple):
    """Sizes of a collection of tasks in a game."""

    total: int
    """Rows that may be trained on, at least ``each``; 0 where the game draws its tasks by itself."""
    each: int
    """Number of different rows that one match uses."""


NO_ROWS = RowCounts(0, 1)


def rows_of_match(entropy: tuple[int, ...], rows: RowCounts, match: int) -> tuple[int, ...]:
    """Places of the rows that a match asks, all different.

    Args:
        entropy: of the order: whose matches, and of what.
        rows: of the collection.
        match: counted from 0.
    """
    number, start = divmod(match * rows.each, rows.total)
    asked = pass_order(entropy, rows, number)[start : start + rows.each]
    if len(asked) < rows.each:
        asked += pass_order(entropy, rows, number + 1)[: rows.each - len(asked)]
    return asked


@lru_cache(maxsize=256)
def pass_order(entropy: tuple[int, ...], rows: RowCounts, number: int) -> tuple[int, ...]:
    """All places once, in the order of one pass.

    A match that begins in the pass before ends in this one, where they do not come out even: then the first
    places are those that it has not had yet. Every ``each`` passes they do, so no more are looked at.
    """
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([*entropy, number])))
    order = [int(place) for place in rng.permutation(rows.total)]
    begun = rows.total * number % rows.each
    if begun:
        had = pass_order(entropy, rows, number - 1)[-begun:]
        first = [place for place in order if place not in had][: rows.each - begun]
        order = first + [place for place in order if place not in first]
    return tuple(order)
