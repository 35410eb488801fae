"""Estimators of advantages: one class per baseline, a kind of `ESTIMATORS`.

Axes: ``E`` one entry per episode and seat that the policy held, ``K`` the seat's own turns, or 1 where an
episode counts as a whole; ``X`` all of them in one row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.baselines import RoleBaselines
from srl_agents.credit.forks import Forest
from srl_agents.credit.group_relative import role_advantages
from srl_agents.credit.returns import gae
from srl_agents.kinds import Kinds, class_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

FLAT = 1e-9
"""Returns closer than this are equal: their group carries no signal."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Earned:
    """Returns of one policy in an update, with their groups and roles."""

    rewards_EK: Floats
    """0 where not valid."""
    returns_EK: Floats
    """Discounted rewards from each turn on; 0 where not valid."""
    valid_EK: Flags
    """False for turns that were not played, and for all of an episode that failed."""
    group_E: Ints
    """Which attempts are at one start state with one set of policies."""
    seat_E: Ints
    roles_E: tuple[tuple[str, int, str], ...]
    """Environment id, seat and learner."""
    forest: Forest | None = None
    """Decisions that branches answered anew; None where the episodes hold no branch."""
    answers_EK: Floats | None = None
    """Log-probability of the right answer in place of each turn's reply, nats; NaN where there is none; None
    unless the estimator needs it."""
    questions_EK: Ints | None = None
    """Number of the question that this answers, in each entry from 0; None: all are of one question."""


Advantages = tuple[Floats, Flags, dict[str, float]]
"""(E, K) advantages, (E, K) what carries no signal and is left out, and metrics."""


class EstimatorSettings(Protocol):
    """What estimators read of `srl_agents.credit.settings.CreditSettings`."""

    @property
    def discount(self) -> float:
        """Of the next turn's worth."""

    @property
    def trace(self) -> float:
        """GAE's lambda."""

    @property
    def estimator_options(self) -> Mapping[str, Any]:
        """Only estimators of other packages: what they read."""


BASELINE_DECAY = 0.95
"""How much of the old running mean of a role one return leaves."""


class Estimator(ABC):
    """Turns returns into advantages, and remembers what it needs between updates.

    Args:
        settings: of the recipe's ``credit`` section.
        scale: divide by the deviation of the group; only for estimators that have groups.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    """Which of ``trace`` and ``estimator_options`` it reads; the other is refused."""
    remembers: ClassVar[bool] = False
    """Whether an update's advantages depend on updates before it."""
    has_groups: ClassVar[bool] = False
    """Whether it compares attempts at one start state, so that ``scale_advantages`` means something."""
    needs_turns: ClassVar[bool] = False
    """Whether episodes as a whole (level ``episode``) are nothing to it."""
    reads_forks: ClassVar[bool] = False
    """Whether it compares alternatives at a decision (`Earned.forest`); branches are left out of what others
    read."""
    needs_joint: ClassVar[bool] = False
    """Whether all seats on move must answer anew together (`Branch.joint`)."""
    needs_answers: ClassVar[bool] = False
    """Whether it reads how likely the right answer was at every turn (`Earned.answers_EK`)."""

    def __init__(self, settings: EstimatorSettings, *, scale: bool) -> None:
        self.settings, self.scale = settings, scale

    @abstractmethod
    def advantages(self, earned: Earned) -> Advantages:
        """Advantages of one learner's update.

        Args:
            earned: by one policy, at least one entry of it valid.
        """

    def state(self) -> dict[str, Any]:
        """State that later updates depend on, as JSON values."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - most remember nothing
        """The inverse of `state`."""


class GroupMean(Estimator):
    """Against the mean of the attempts of the same group, seat and turn number.

        A_i = R_i - mean of the group's R,    also divided by (deviation + 1e-6) with ``scale_advantages``

    Source: arXiv:2402.03300 section 4.1; not divided, arXiv:2503.20783; per seat and turn, arXiv:2510.11062
    section 3.
    """

    has_groups = True
    leave_one_out: ClassVar[bool] = False

    def advantages(self, earned: Earned) -> Advantages:
        """See `Estimator`; turns of groups in which all earned the same carry no signal."""
        shape = earned.valid_EK.shape
        group_X = np.repeat(earned.group_E, shape[1])
        role_X = (earned.seat_E[:, None] * shape[1] + turn_numbers(earned.valid_EK)).ravel()
        returns_X, valid_X = earned.returns_EK.ravel(), earned.valid_EK.ravel()
        flat_X = flat(returns_X, group_X, role_X, valid_X)
        advantages_X = role_advantages(
            returns_X,
            group_X,
            role_X,
            valid_X,
            scale=self.scale,
            leave_one_out=self.leave_one_out,
        )
        _, firsts = np.unique(cells(group_X, role_X)[valid_X], return_index=True)
        metrics = {"flat_groups": mean(flat_X[valid_X][firsts])}
        return advantages_X.reshape(shape), flat_X.reshape(shape), metrics


class LeaveOneOut(GroupMean):
    """Against the mean of the other attempts: A_i = R_i - 1 / (G - 1) * sum over j != i of R_j.

    Source: arXiv:2402.14740 equation 8.
    """

    leave_one_out = True


class RoleMean(Estimator):
    """Against the running mean of the role, which this update's returns move afterwards: A = R - b(role).

    Source: arXiv:2506.24119 section 3.3; see `RoleBaselines` for the differences.
    """

    remembers = True

    def __init__(self, settings: EstimatorSettings, *, scale: bool) -> None:
        super().__init__(settings, scale=scale)
        self._baselines = RoleBaselines(BASELINE_DECAY)

    def advantages(self, earned: Earned) -> Advantages:
        """See `Estimator`; whatever was played carries a signal."""
        valid_EK = earned.valid_EK
        values_EK = np.array(
            [
                [self._baselines.read((*role, k)) for k in range(valid_EK.shape[1])]
                for role in earned.roles_E
            ]
        )
        advantages_EK = self._against(earned, values_EK)
        self._baselines.update(
            [
                ((*earned.roles_E[e], int(k)), float(earned.returns_EK[e, k]))
                for e, k in np.argwhere(valid_EK)
            ]
        )
        return advantages_EK, ~valid_EK, {"baseline": mean(values_EK[valid_EK])}

    def _against(self, earned: Earned, values_EK: Floats) -> Floats:
        return np.where(earned.valid_EK, earned.returns_EK - values_EK, 0.0)

    def state(self) -> dict[str, Any]:
        """See `Estimator`."""
        return {"baselines": self._baselines.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """See `Estimator`."""
        self._baselines.load_state(state["baselines"])


class RoleGAE(RoleMean):
    """Generalized advantage estimation over turns, with the roles' running means as values.

    Source: arXiv:1506.02438 equation 16; see `srl_agents.credit.returns.gae`.
    """

    reads = ("trace",)
    needs_turns = True

    def _against(self, earned: Earned, values_EK: Floats) -> Floats:
        settings = self.settings
        return gae(
            earned.rewards_EK,
            values_EK,
            earned.valid_EK,
            discount=settings.discount,
            trace=settings.trace,
        )


ESTIMATORS: Kinds[type[Estimator]] = Kinds(
    what="estimator",
    group="srl_agents.estimators",
    built_in={
        "group": "srl_agents.credit.estimators:GroupMean",
        "leave_one_out": "srl_agents.credit.estimators:LeaveOneOut",
        "role_baseline": "srl_agents.credit.estimators:RoleMean",
        "gae": "srl_agents.credit.estimators:RoleGAE",
        "c3": "srl_agents.credit.forked.c3:C3",
        "vine": "srl_agents.credit.forked.vine:Vine",
        "tree": "srl_agents.credit.forked.tree:Tree",
        "at_grpo": "srl_agents.credit.forked.at_grpo:ATGRPO",
        "magrpo": "srl_agents.credit.forked.magrpo:MAGRPO",
        "magrpo_crossed": "srl_agents.credit.forked.magrpo:MAGRPOCrossed",
        "information_gain": "srl_agents.credit.forked.information_gain:InformationGain",
    },
    fault=class_of(Estimator),
)
"""Names for recipes."""


def turn_numbers(valid_EK: Flags) -> Ints:
    """(E, K) the number of each turn."""
    return np.broadcast_to(np.arange(valid_EK.shape[1]), valid_EK.shape)


def cells(group_E: Ints, role_E: Ints) -> Ints:
    """(E,) a number per (group, role)."""
    cell_E: Ints = group_E * (int(role_E.max(initial=0)) + 1) + role_E
    return cell_E


def mean(values: NDArray[Any]) -> float:
    """Their mean; 0 of none."""
    return float(np.mean(values)) if len(values) else 0.0


def flat(returns_E: Floats, group_E: Ints, role_E: Ints, valid_E: Flags) -> Flags:
    """(E,) whether all valid attempts of an entry's (group, role) earned the same; True if invalid."""
    flat_E = np.ones(len(returns_E), dtype=bool)
    for i in np.flatnonzero(valid_E):
        peers_E = valid_E & (group_E == group_E[i]) & (role_E == role_E[i])
        flat_E[i] = np.ptp(returns_E[peers_E]) < FLAT
    return flat_E
