"""Results of the red team's last published attack on an environment, for a board's page."""

from __future__ import annotations

import math
from typing import Any

from leaderboards.pages.standings import finite
from srl_envs.redteam import table
from srl_envs.redteam.published import published


def hackability(env_id: str) -> dict[str, Any] | None:
    """The row of the hackability table; None for an environment that was not attacked.

    Returns:
        ``rows``: pairs of a measure's name and its text. ``gain`` and ``half``: what the best
        thoughtless policy earns above the strong bot, with half of its joint 95 % interval, or None.
        ``findings``: how many there are.
    """
    report = published().get(env_id)
    if report is None:
        return None
    return {
        "rows": [list(pair) for pair in zip(table.COLUMNS[1:], table.row(report)[1:], strict=True)],
        "gain": finite(report.measures.get("gain", math.nan), 4),
        "half": finite(report.measures.get("half", math.nan), 4),
        "findings": len(report.findings),
    }
