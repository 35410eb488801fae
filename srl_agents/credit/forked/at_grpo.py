"""AT-GRPO: groups by game state, agent and turn, in units of the group's deviation.

    A_k = (R_k - mean of all K) / (deviation of all K + 1e-6)

How the path goes on, from the best or from a sampled alternative, is chosen where branches are made
(``forks`` of a recipe). R_k is the alternative's own return and is not averaged over later forks: the best
alternative was chosen for its return, so a mean with fresh continuations would regress only it.

By hand: returns 1, 0, 0, 1 have mean 0.5 and deviation 0.5, so A = 1, -1, -1, 1.

Source: arXiv:2510.11062 section 3. Differences: R_k is the return from the decision on, where the paper takes
the reward of the step, which most of our games do not pay; no filter of groups. Every seat sees what the
seats before it replied, as in the paper and unlike its published code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.forked.alternatives import ByAlternatives
from srl_agents.credit.group_relative import group_advantages

Floats = NDArray[np.float64]


class ATGRPO(ByAlternatives):
    """Mean and deviation of the alternatives; ``scale_advantages`` changes nothing.

    Source: arXiv:2510.11062 section 3.
    """

    backs_up = False

    def against(self, returns_A: Floats) -> Floats:
        """See `ByAlternatives`."""
        advantages_1A = group_advantages(
            returns_A[None], np.ones((1, len(returns_A)), dtype=bool), scale=True
        )
        return advantages_1A.ravel()
