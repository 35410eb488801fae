"""The best and the last look at each learner, in words; a best that lies behind: the run went on too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KINDS: Mapping[str, str] = {
    "score_start": "against its start: {:.0%} of the points",
    "return_alone": "alone: a return of {:.2f}",
}
"""Metrics of a look that say whether a learner rose, and how they read."""


def best_and_last(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per learner that was looked at more than once.

    Args:
        records: lines of a run's metrics, in order.
    """
    lines = []
    learners = dict.fromkeys(name for record in records for name in record["learners"])
    for learner in learners:
        for kind, words in KINDS.items():
            looks = [
                (record["learners"][learner][kind], record["update"])
                for record in records
                if kind in record["learners"].get(learner, {})
            ]
            if len(looks) < 2:
                continue
            (last, update), (best, earlier) = looks[-1], max(looks, key=lambda look: look[0])
            where = f"{learner} {words.format(last)} in the last look (update {update})"
            number = words.split(": ")[1].format(best)
            end = ", its best" if best <= last else f"; its best was {number}, at update {earlier}"
            lines.append(f"{where}{end}")
    return lines
