"""Usual return of each role: running means, read before they are updated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srl_envs.errors import ConfigError

Role = tuple[str, int, str, int]
"""Environment id, seat, learner, turn number (0 where episodes count as a whole)."""


class RoleBaselines:
    """One running mean of returns per role.

    A mean of n returns seen at once moves the old one by 1 - decay^n, whatever their order; divided
    by 1 - decay^(returns so far) it is the weighted mean of what was seen, so the first reading is
    no shrunken one. Before anything was seen it is 0.

    Source: role-conditioned advantage estimation, arXiv:2506.24119 section 3.3. Differences: keyed by
    game, learner and turn number too; a batch is read as a whole before it moves anything, else an
    episode would be compared with itself; corrected for its start.

    Args:
        decay: share of the old mean that one return leaves, in [0, 1).
    """

    def __init__(self, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ConfigError(f"decay={decay}: use 0 to below 1.")
        self.decay = decay
        self._cells: dict[Role, tuple[float, int]] = {}

    def read(self, role: Role) -> float:
        """The role's mean return so far; 0 if there is none."""
        total, count = self._cells.get(role, (0.0, 0))
        return total / (1 - self.decay**count) if count else 0.0

    def update(self, returns: Sequence[tuple[Role, float]]) -> None:
        """Move the means by a batch of returns of valid episodes."""
        seen: dict[Role, list[float]] = {}
        for role, value in returns:
            seen.setdefault(role, []).append(value)
        for role, values in seen.items():
            total, count = self._cells.get(role, (0.0, 0))
            kept = self.decay ** len(values)
            self._cells[role] = (
                kept * total + (1 - kept) * float(np.mean(values)),
                count + len(values),
            )

    def state(self) -> list[list[float | int | str]]:
        """JSON values."""
        return [[*role, total, count] for role, (total, count) in sorted(self._cells.items())]

    def load_state(self, state: Sequence[Sequence[float | int | str]]) -> None:
        """The inverse of `state`."""
        self._cells = {
            (str(env), int(seat), str(learner), int(turn)): (float(total), int(count))
            for env, seat, learner, turn, total, count in state
        }
