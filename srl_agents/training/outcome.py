"""How a run ended; light, for callers that only wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a run ended that came to its end, or that a callback stopped."""

    learned: bool
    """Whether any learner took a step."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Learner -> why it took none in the last update."""
    stopped: str = ""
    """Reason that a callback gave for stopping the run; empty where it came to its end."""
