"""What a league run may be told: opponents and evaluation. Checked when made."""

from __future__ import annotations

from dataclasses import dataclass, field

from srl_agents.league.sampling import SAMPLERS
from srl_envs.errors import ConfigError


def require(condition: bool, message: str) -> None:
    """Raise `ConfigError` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise ConfigError(message)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpponentSettings:
    """Whom a learner meets in training: relative weights of four kinds of opponent."""

    mirror: float = 1.0
    """Itself, at its present version."""
    live: float = 1.0
    """Another learner, at its present version."""
    past: float = 1.0
    """A frozen snapshot of any learner, or the start; drawn by prioritised fictitious self-play."""
    bots: dict[str, float] = field(default_factory=dict)
    """Bot name -> weight; ``held_out`` is refused, it is for rating only."""
    past_sampler: str = "pfsp_hard"
    """Which of the past: one of `srl_agents.league.sampling.SAMPLERS`."""
    past_limit: int = 6
    """Most recent snapshots per learner that stay in the pool."""

    def __post_init__(self) -> None:
        weights = {"mirror": self.mirror, "live": self.live, "past": self.past, **self.bots}
        for name, weight in weights.items():
            require(weight >= 0, f"{name}={weight}: a weight is 0 or more.")
        require(sum(weights.values()) > 0, "all weights are 0, so nobody could be met.")
        require(
            "held_out" not in self.bots,
            "bots: 'held_out' is for rating only; train against another bot.",
        )
        require(
            self.past_sampler in SAMPLERS,
            f"past_sampler={self.past_sampler!r}: use one of {', '.join(SAMPLERS)}.",
        )
        require(self.past_limit >= 1, f"past_limit={self.past_limit}: use 1 or more.")


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationSettings:
    """Matches on the eval split; only these feed ratings."""

    every: int = 10
    """Updates between two looks at the learners; 0 looks only at the end."""
    pairs: int = 20
    """Mirrored pairs (one seed, all seat rotations) per opponent at each look."""
    final_pairs: int = 60
    """Mirrored pairs between any two agents of the final round robin."""
    bots: tuple[str, ...] = ("random", "middle")
    """Scripted agents on the leaderboard; each is met at every look."""

    def __post_init__(self) -> None:
        require(self.every >= 0, f"every={self.every}: use 0 or more.")
        require(len(set(self.bots)) == len(self.bots), f"bots={list(self.bots)}: a name twice.")
        for name in ("pairs", "final_pairs"):
            value = getattr(self, name)
            require(value >= 1, f"{name}={value}: use 1 or more.")
