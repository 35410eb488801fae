"""Settings of a learned judge of replies beside the rules: frozen data, checked when made, without TRL."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from srl_agents.credit.preferences import ComparisonSettings, PairSettings
from srl_agents.trainers.update_settings import RankSettings, UpdateSettings, check_positive
from srl_envs.reading.settings import Removed, with_defaults

CENTERING = 0.01
"""Weight of the squared sum of a pair's scores, which have no zero of their own (arXiv:2312.09244)."""


@dataclass(frozen=True, kw_only=True, slots=True)
@with_defaults(
    learning_rate=5e-4, pairs=field(default_factory=lambda: PairSettings(sources=("rank",)))
)
class RewardModelSettings(UpdateSettings, ComparisonSettings, RankSettings):
    """One reward model for all learners of a run. Names are ours; `to_trl` translates them.

    It learns from pairs that the rules ordered, and scores each reply by which it would have
    preferred; ratings never read it. On the learners' base its adapter has the recipe's shape.
    Source: arXiv:2203.02155 equation 1.
    """

    model: str | None = None
    """A base of its own, larger or smaller than the learners': a catalog name, hub id or folder. It is in
    memory only while replies are judged and while it learns, reads what a learner read as text under its own
    chat template, and where that is longer than its context, the end of it. None: the learners' base."""
    weight: float = 0.2
    """Most that the mean judgement of an episode's replies adds to its reward, or takes from it."""
    ready_pairs: int = 64
    """Pairs that it must have learned from before its scores count."""

    removed: ClassVar[Removed] = {"centering": (CENTERING, "lower reward_model.weight")}

    def __post_init__(self) -> None:
        UpdateSettings.__post_init__(self)
        check_positive(self, "weight", "ready_pairs", "rank")

    def to_trl(self, output_dir: Path, *, seed: int, cpu: bool) -> Any:
        """TRL's `RewardConfig`."""
        from trl import RewardConfig  # noqa: PLC0415 - seconds; recipes must fail in the first one

        return RewardConfig(
            **self.arguments(output_dir, seed=seed, cpu=cpu),
            center_rewards_coefficient=CENTERING,
            max_length=None,
        )
