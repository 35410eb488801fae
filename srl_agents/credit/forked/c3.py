"""C3: an alternative against the mean of the others at the same decision.

    A_k = R_k - 1 / (K - 1) * sum over j != k of R_j

All K replies answer the same transcript, and live partners play each of them to the end, so the difference is
what the reply itself changed. R_k is backed up over later forks of the alternative (`Forest.backed_up`).

By hand: returns 1, 0, 0.5 give 1 - 0.25 = 0.75, 0 - 0.75 = -0.75, 0.5 - 0.5 = 0.

Source: arXiv:2603.06859. Differences: no critic in the baseline, as in its main results; any number of
alternatives per decision.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.forked.alternatives import ByAlternatives
from srl_agents.credit.group_relative import group_advantages

Floats = NDArray[np.float64]


class C3(ByAlternatives):
    """Leave-one-out at a fixed context: A_k = R_k - 1 / (K - 1) * sum over j != k of R_j.

    Source: arXiv:2603.06859.
    """

    def against(self, returns_A: Floats) -> Floats:
        """See `ByAlternatives`; ``scale`` also divides by the deviation of the alternatives."""
        valid_1A = np.ones((1, len(returns_A)), dtype=bool)
        return group_advantages(
            returns_A[None], valid_1A, scale=self.scale, leave_one_out=True
        ).ravel()
