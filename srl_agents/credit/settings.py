"""Settings of credit: how rewards become advantages. Frozen data, checked when made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from srl_agents.credit.estimators import BASELINE_DECAY, ESTIMATORS
from srl_envs.errors import ConfigError
from srl_envs.reading.potentials import find_potential
from srl_envs.reading.settings import Removed, refuse_unread

Mode = Literal["individual", "cooperative", "competitive", "mixed", "adaptive"]
TeamShare = Literal["mean", "difference", "shapley"]
ADAPTATION_RATE = 0.1
"""Mode adaptive: share of the way to its target that a weight moves per update, so about ten updates."""


@dataclass(frozen=True, kw_only=True)
class DiscountSettings:
    """How later pay counts earlier. Without slots: PPO's settings have another base, too."""

    discount: float = 1.0
    """Of the next turn's worth, in (0, 1]; tokens of one turn are not discounted. In ``credit`` only with
    level turn."""
    trace: float = 0.95
    """GAE's lambda, in [0, 1]. In ``credit`` only of estimator gae."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CreditSettings(DiscountSettings):
    """What an update climbs, L + beta * C + gamma * P, and against which baseline."""

    mode: Mode = "individual"
    """Which terms count: ``individual`` L; ``cooperative`` L and C; ``competitive`` L and P; ``mixed``
    all three; ``adaptive`` all three, with weights that follow the game."""
    cooperation: float = 0.5
    """beta in [0, 1]: share of the team's mean in each seat's outcome; the most of it if adaptive."""
    competition: float = 0.5
    """gamma, 0 or more: weight of the standing among rivals; the most of it if adaptive."""
    standing: Literal["rank", "margin"] = "rank"
    """How P compares outcomes: rivals beaten, or the distance to their mean."""
    team_share: TeamShare = "mean"
    """Modes with C: what a seat has of its team. ``mean``: the mean outcome. ``difference``: what that mean
    lost if the seat had left every choice to the game's default moves. ``shapley``: its Shapley share
    of the team's sum. The last two replay the episode, once and 2^team times."""
    estimator: str = "group"
    """Baseline: ``group``, the attempts of the group; ``leave_one_out``, the other attempts;
    ``role_baseline``, running means per role; ``gae`` on those; with ``forks``, level turn, the alternatives
    at a decision: ``c3``, the mean of the others; ``vine``, values from fresh continuations; ``tree``, within
    the tree and between trees; ``at_grpo``, mean and deviation; ``magrpo`` and ``magrpo_crossed``, joint
    actions; ``information_gain``, gain of the log-probability of the right answer, in games that hold one; or
    ``package.module:Class``."""
    estimator_options: dict[str, Any] = field(default_factory=dict)
    """Only estimators of other packages: what they read."""
    level: Literal["episode", "turn"] = "episode"
    """One advantage per episode, or one per turn from what was paid from there on."""
    normalise: Literal["none", "agent", "turn"] = "none"
    """Centre and scale the batch's advantages: per learner, or per learner and turn number."""
    importance_cap: float | None = None
    """Most that a token's probability ratio to its sampler may weigh it; None weighs nothing."""
    importance_level: Literal["token", "sequence"] = "token"
    """Only importance_cap: one ratio per token, or one per reply."""
    train_thoughts: bool = True
    """Whether the tokens of thoughts are learned from as those of replies are; otherwise they are only
    read. With ``prompt.thoughts``."""
    potential: str = ""
    """Only level turn: ``package.module:function`` of (text that the seat reads, seat) -> how good its
    position is, in reward units. Its changes are added to what the turns are paid."""

    removed: ClassVar[Removed] = {
        "adaptation_rate": (ADAPTATION_RATE, "set credit.mode: mixed"),
        "baseline_decay": (BASELINE_DECAY, "set credit.estimator: group, which has no memory"),
    }

    def __post_init__(self) -> None:
        _within("cooperation", self.cooperation, 0 <= self.cooperation <= 1, "0 to 1")
        _within("competition", self.competition, self.competition >= 0, "0 or more")
        _within("discount", self.discount, 0 < self.discount <= 1, "more than 0, at most 1")
        _within("trace", self.trace, 0 <= self.trace <= 1, "0 to 1")
        if self.importance_cap is not None:
            _within("importance_cap", self.importance_cap, self.importance_cap > 0, "more than 0")
        if self.importance_level != "token" and self.importance_cap is None:
            raise ConfigError("importance_level='sequence' weighs nothing without importance_cap.")
        if self.team_share != "mean" and self.mode in ("individual", "competitive"):
            raise ConfigError(
                f"team_share={self.team_share!r}: mode {self.mode!r} has no team's term; "
                "use cooperative, mixed or adaptive."
            )
        self._check_read()
        self._check_level()
        if self.potential:
            find_potential(self.potential)

    def _check_read(self) -> None:
        """Nothing is given that the mode or the estimator would not read."""
        if self.mode in ("individual", "competitive"):
            refuse_unread(self, "cooperation", because=f"mode {self.mode!r} has no team's term")
        if self.mode in ("individual", "cooperative"):
            refuse_unread(
                self, "competition", "standing", because=f"mode {self.mode!r} has no rivals' term"
            )
        if ESTIMATORS.find(self.estimator).reads_forks and self.team_share != "mean":
            raise ConfigError(
                f"team_share={self.team_share!r}: estimator {self.estimator!r} compares what live partners "
                "answered, and a replay keeps their old answers. Use team_share 'mean'."
            )
        reads = ESTIMATORS.find(self.estimator).reads
        unread = [n for n in ("trace", "estimator_options") if n not in reads]
        refuse_unread(self, *unread, because=f"estimator {self.estimator!r} does not read it")

    def _check_level(self) -> None:
        if self.level == "episode" and ESTIMATORS.find(self.estimator).needs_turns:
            raise ConfigError(f"estimator={self.estimator!r} weighs turns: set level to 'turn'.")
        if self.level == "episode" and self.normalise == "turn":
            raise ConfigError("normalise='turn' needs advantages per turn: set level to 'turn'.")
        if self.level == "episode" and self.discount != 1:
            raise ConfigError(
                f"discount={self.discount}: an episode's return has no turns to discount; "
                "set level to 'turn'."
            )
        if self.level == "episode" and self.potential:
            raise ConfigError(
                f"potential={self.potential!r}: over a whole episode its changes sum to a constant; "
                "set level to 'turn'."
            )


def _within(name: str, value: float, fits: bool, allowed: str) -> None:
    if not fits:
        raise ConfigError(f"{name}={value}: use {allowed}.")
