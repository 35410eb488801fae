"""The best and the last look at each learner, in words; a best that lies behind: the run went on too long."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

KINDS: Mapping[str, str] = {
    "score_start": "against its start: {:.0%} of the points",
    "return_alone": "alone: a return of {:.2f}",
}
"""Metrics of a look that say whether a learner rose, and how they read."""


_IN_GAME = re.compile(r"game/(?P<game>.+)/(?P<kind>[^/]+)")


def best_and_last(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per learner that was looked at more than once, and per game where there are several.

    Args:
        records: lines of a run's metrics, in order.
    """
    lines = []
    learners = dict.fromkeys(name for record in records for name in record["learners"])
    for learner in learners:
        own = [(record["learners"].get(learner, {}), record["update"]) for record in records]
        names = dict.fromkeys(name for values, _ in own for name in values)
        for name in sorted(names, key=lambda name: "/" in name):
            found = _IN_GAME.fullmatch(name)
            words = KINDS.get(found["kind"] if found else name)
            looks = [(values[name], update) for values, update in own if name in values]
            if words is None or len(looks) < 2:
                continue
            (last, update), (best, earlier) = looks[-1], max(looks, key=lambda look: look[0])
            place = f" in {_titled(found['game'], own)}" if found else ""
            where = f"{learner}{place} {words.format(last)} in the last look (update {update})"
            number = words.split(": ")[1].format(best)
            end = ", its best" if best <= last else f"; its best was {number}, at update {earlier}"
            lines.append(f"{where}{end}")
    return lines


def _titled(game: str, own: Sequence[tuple[Mapping[str, float], int]]) -> str:
    """A game's name, and whether the learner never trains in it."""
    shares = [values[key] for values, _ in own if (key := f"game/{game}/share") in values]
    return f"{game} (not trained)" if shares and not any(shares) else game
