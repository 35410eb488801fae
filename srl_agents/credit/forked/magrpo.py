"""MAGRPO: all agents of a step answer together, and share the advantage of their joint action.

    R_j = r_j + mean over the joint actions that follow j of their R,    A_j = R_j - mean over its siblings

`MAGRPO` is the aligned form: joint action j holds the j-th reply of every agent, and A_j is equal for all of
them. `MAGRPOCrossed` credits each reply by itself, over all joint actions in which it was played:

    Q(a) = mean of R over the joint actions that hold a,    A(a) = Q(a) - mean of Q over the agent's replies

The joint actions of a step are those of its joint forks, and of forks of one seat in which the others'
replies were kept, also forks of such branches. Where each reply was played once, both forms agree.

By hand, agents a and b: R(a0, b0) = 1, R(a1, b0) = 0.5, R(a0, b1) = 0, R(a1, b2) = 0.1. Aligned siblings 1
and 0.2 have A = 0.4 and -0.4. Crossed: Q(a0) = 0.5, Q(a1) = 0.3, so A(a0) = 0.1 and A(a1) = -0.1; Q(b) =
0.75, 0, 0.1 with mean 0.283.

Source: arXiv:2508.04652. Differences: deviations only with ``scale_advantages``; discounts are read; the
crossed form credits products, which its package computes and then credits as aligned. Agents of one learner
share the mean of what they earned; agents of several learners each their own, which is equal in games with
one payoff.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.estimators import FLAT, Advantages, Earned
from srl_agents.credit.forked.alternatives import ByAlternatives, gathered
from srl_agents.credit.forks import Forest, Fork, Place
from srl_agents.credit.group_relative import group_advantages

Floats = NDArray[np.float64]


class MAGRPO(ByAlternatives):
    """Joint actions against their siblings; forks of single seats are left out.

        R_j = r_j + mean over the joint actions that follow j of their R
        A_j = R_j - mean over the siblings of j

    Source: arXiv:2508.04652.
    """

    needs_joint = True

    def compared(
        self, earned: Earned, forest: Forest, fork: Fork
    ) -> Iterable[tuple[Sequence[Place], Floats]]:
        """See `ByAlternatives`; every agent's places with the one return of the joint action."""
        if not fork.joint or not fork.choices:
            return
        returns_A = np.mean(
            [forest.backed_up(fork, seat, earned.returns_EK) for seat in fork.choices], axis=0
        )
        for places in fork.choices.values():
            yield places, returns_A

    def against(self, returns_A: Floats) -> Floats:
        """See `ByAlternatives`."""
        valid_1A = np.ones((1, len(returns_A)), dtype=bool)
        return group_advantages(returns_A[None], valid_1A, scale=self.scale).ravel()


class MAGRPOCrossed(MAGRPO):
    """Each reply over all joint actions that hold it: A(a) = Q(a) - mean of Q over the agent's replies.

    Source: the package of arXiv:2508.04652, which computes it and does not credit it.
    """

    needs_joint = False

    def advantages(self, earned: Earned) -> Advantages:
        """See `Estimator`; steps in which an agent's replies were all worth the same carry no signal."""
        found: list[tuple[Place, float]] = []
        flat: list[bool] = []
        if earned.forest is None:
            return gathered(earned, found, flat_forks=flat)
        for forks in _steps(earned.forest):
            for worths in _replies(earned, earned.forest, forks):
                q_A = np.array([np.mean(returns) for returns in worths.values()])
                if len(q_A) < 2:
                    continue
                flat.append(bool(np.ptp(q_A) < FLAT))
                if not flat[-1]:
                    found += zip(worths, self.against(q_A).tolist(), strict=True)
        return gathered(earned, found, flat_forks=flat)


def _steps(forest: Forest) -> Iterator[list[Fork]]:
    """Forks of one step of one match together, with those of the branches that left it in that step."""
    left_in = {match: fork for fork in forest.forks for match in fork.matches[1:]}
    found: dict[tuple[str, int], list[Fork]] = {}
    for fork in forest.forks:
        first = fork.parent
        while first in left_in and left_in[first].end == fork.end:
            first = left_in[first].parent
        found.setdefault((first, fork.end), []).append(fork)
    yield from found.values()


def _replies(
    earned: Earned, forest: Forest, forks: Sequence[Fork]
) -> Iterator[dict[Place, list[float]]]:
    """Per agent on move in a step: where each of its replies was sampled -> returns of its joint actions."""
    turns = {seat: own[0][1] for fork in forks for seat, own in fork.choices.items()}
    matches = dict.fromkeys(match for fork in forks for match in fork.matches)
    parents = {child: match for match, own in forest.children.items() for child in own}
    joint: dict[str, float] = {}
    for match in matches:
        if all((match, seat) in forest.entries for seat in turns):
            worths = [
                forest.worth(match, seat, k, forks[0].end, earned.returns_EK)
                for seat, k in turns.items()
            ]
            joint[match] = float(np.mean(worths))
    for seat, k in turns.items():
        found: dict[Place, list[float]] = {}
        for match, value in joint.items():
            author = match
            while author in joint and not forest.sampled_EK[forest.entries[author, seat], k]:
                author = parents[author]
            if author in joint:
                found.setdefault((forest.entries[author, seat], k), []).append(value)
        yield found
