"""Advantages of a decision's alternatives, gathered over all forks of an update.

Axes: ``E`` one entry per episode and seat that the policy held, ``K`` the seat's own turns, ``A``
alternatives of one fork, the parent first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.estimators import FLAT, Advantages, Earned, Estimator, mean
from srl_agents.credit.forks import Forest, Fork, Place

Floats = NDArray[np.float64]


class ByAlternatives(Estimator):
    """Credits the reply at a fork against its alternatives; turns without a fork are left out.

    Where a reply is an alternative of several forks, its advantage is the mean over them.
    """

    has_groups = True
    needs_turns = True
    reads_forks = True
    backs_up: ClassVar[bool] = True
    """Whether what an alternative led to is averaged over later forks; else its own match counts."""

    def advantages(self, earned: Earned) -> Advantages:
        """See `Estimator`; forks whose alternatives all earned the same carry no signal."""
        if earned.forest is None:
            return gathered(earned, [], flat_forks=[])
        found: list[tuple[Place, float]] = []
        flat_forks: list[bool] = []
        for fork in earned.forest.forks:
            for places, returns_A in self.compared(earned, earned.forest, fork):
                flat = bool(np.ptp(returns_A) < FLAT)
                flat_forks.append(flat)
                if not flat:
                    found += zip(places, self.against(returns_A).tolist(), strict=True)
        return gathered(earned, found, flat_forks=flat_forks)

    def compared(
        self, earned: Earned, forest: Forest, fork: Fork
    ) -> Iterable[tuple[Sequence[Place], Floats]]:
        """Per deciding seat the places of the alternatives, and what each was worth."""
        for seat, places in fork.choices.items():
            if self.backs_up:
                yield places, forest.backed_up(fork, seat, earned.returns_EK)
            else:
                yield places, np.array([earned.returns_EK[place] for place in places])

    @abstractmethod
    def against(self, returns_A: Floats) -> Floats:
        """(A,) advantages of alternatives that did not all earn the same.

        Args:
            returns_A: from the decision on, the parent's first; two or more.
        """


def gathered(
    earned: Earned, found: Iterable[tuple[Place, float]], *, flat_forks: Sequence[bool]
) -> Advantages:
    """(E, K) means of what was found for each place; the other turns carry no signal.

    Args:
        earned: of the update.
        found: advantages of single turns.
        flat_forks: for every fork and deciding seat, whether all alternatives earned the same.
    """
    sums_EK = np.zeros(earned.valid_EK.shape)
    count_EK = np.zeros(earned.valid_EK.shape, dtype=np.int64)
    for place, advantage in found:
        sums_EK[place] += advantage
        count_EK[place] += 1
    metrics = {"flat_groups": mean(np.array(flat_forks, dtype=float))}
    return sums_EK / np.maximum(count_EK, 1), count_EK == 0, metrics
