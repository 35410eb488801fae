"""Settings of an exchange of rollouts: frozen data, checked when made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srl_envs.errors import ConfigError
from srl_envs.reading.settings import refuse_unread

WINDOW = 5
"""Updates over whose mean a learner's capability in a game and seat is taken, as in arXiv:2603.02604."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExchangeSettings:
    """How rows that other learners wrote enter a learner's update. Source: arXiv:2603.02604 (HACPO)."""

    estimator: Literal["hacpo", "no_rescaling", "no_discrepancy", "naive"] = "hacpo"
    """``hacpo``: rows of others are weighed by capability and by how likely the reader finds them.
    ``no_rescaling``: without the ratio of capabilities in the baseline. ``no_discrepancy``: without that
    ratio before the advantage. ``naive``: rows of others as if the reader had written them, a control that
    is known to harm."""
    exponent: float = 1.0
    """A row is weighed by its probability ratio to the power 1 + exponent."""
    clip: tuple[float, float] | None = (0.2, 0.025)
    """[below, step]: rows with a probability ratio below 1 - below, or above 1, are dropped; the lower bound
    rises by step with every optimizer step on one batch. Null drops none."""

    def __post_init__(self) -> None:
        if self.exponent < 0:
            raise ConfigError(f"exponent={self.exponent}: use 0 or more.")
        if self.clip is not None and not (0 < self.clip[0] <= 1 and 0 <= self.clip[1] < 1):
            raise ConfigError(
                f"clip={[*self.clip]}: use [below, step] with below more than 0, at most 1, and step 0 to "
                "below 1; or null."
            )
        if self.estimator == "naive":
            refuse_unread(self, "exponent", "clip", because="estimator 'naive' weighs nothing")
