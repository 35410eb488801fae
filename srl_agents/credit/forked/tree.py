"""Tree-GRPO: the advantage within a tree plus that among all leaves of the start state.

    A(leaf) = (R - mean over its tree) + (R - mean over all leaves of the start state)

with each part divided by its own deviation where ``scale_advantages`` asks for it. A match and all branches
that come from it are one tree; its leaves are their ends. A turn has the mean advantage of the leaves below
it, so a prefix that several leaves share is learned once, with what they have in common.

By hand, one start state: tree {1, 0} and tree {0, 0}: means 0.5, 0 and 0.25. The leaf with 1 has 0.5 + 0.75 =
1.25, its sibling -0.5 - 0.25 = -0.75, the others 0 - 0.25. A turn that the siblings share has 0.25.

Source: arXiv:2509.21240 section 3.3. Differences: deviations only on request (arXiv:2503.20783); the paper
repeats shared prefixes in every leaf's row, which weighs them by their leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.estimators import Advantages, Earned, Estimator, cells, flat, mean
from srl_agents.credit.group_relative import role_advantages

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Tree(Estimator):
    """Both comparisons of a leaf; needs no fork at every decision.

    Source: arXiv:2509.21240 section 3.3.
    """

    has_groups = True
    needs_turns = True
    reads_forks = True

    def advantages(self, earned: Earned) -> Advantages:
        """See `Estimator`; start states whose leaves all earned the same carry no signal."""
        total_E, valid_E = earned.returns_EK[:, 0], earned.valid_EK[:, 0]
        group_E, seat_E, forest = earned.group_E, earned.seat_E, earned.forest
        tree_E = np.arange(len(group_E)) if forest is None else forest.tree_E
        leaf_E = sum(
            role_advantages(total_E, of_E, seat_E, valid_E, scale=self.scale)
            for of_E in (tree_E, group_E)
        )
        flat_E = flat(total_E, group_E, seat_E, valid_E)
        _, firsts = np.unique(cells(group_E, seat_E)[valid_E], return_index=True)
        metrics = {"flat_groups": mean(flat_E[valid_E][firsts])}
        valid_EK = earned.valid_EK
        advantages_EK = np.where(valid_EK, np.asarray(leaf_E)[:, None], 0.0)
        if forest is not None:
            for (match, seat), e in forest.entries.items():
                for k in np.flatnonzero(valid_EK[e]):
                    below = forest.leaves(match, seat, int(k))
                    advantages_EK[e, k] = float(np.mean(np.asarray(leaf_E)[below]))
        flat_EK: Flags = flat_E[:, None] | ~valid_EK
        return advantages_EK, flat_EK, metrics
