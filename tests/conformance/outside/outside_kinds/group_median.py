"""An estimator: against the median of the attempts, which one lucky attempt does not move."""

from __future__ import annotations

import numpy as np

from srl_agents.credit.estimators import Advantages, Earned, Estimator


class GroupMedian(Estimator):
    """Attempts of one group and seat are compared turn by turn; a margin around the median is flat."""

    reads = ("estimator_options",)

    def advantages(self, earned: Earned) -> Advantages:
        margin = float(self.settings.estimator_options.get("margin", 0.0))
        advantages_EK = np.zeros(earned.valid_EK.shape)
        for group, seat in {*zip(earned.group_E, earned.seat_E, strict=True)}:
            here_E = (earned.group_E == group) & (earned.seat_E == seat)
            for k in range(earned.valid_EK.shape[1]):
                peers_E = here_E & earned.valid_EK[:, k]
                if peers_E.any():
                    returns_E = earned.returns_EK[peers_E, k]
                    advantages_EK[peers_E, k] = returns_E - np.median(returns_E)
        return advantages_EK, ~earned.valid_EK | (np.abs(advantages_EK) <= margin), {}
