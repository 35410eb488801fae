"""Notices learners that lost the game's language: all of their replies are refused, and were not before.

Such a learner earns the same whatever it writes, so it does not come back, and its run means nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from srl_agents.records import Episode
from srl_envs.errors import ModelError

PATIENCE = 3
"""Updates in a row without one accepted reply; a run that ends waits for no more of them."""
_CHANCE = 1e-9
"""Below it so many refusals in a row are no accident of a learner that plays as before."""


@dataclass(slots=True)
class _Seen:
    """What became of one learner's replies."""

    accepted: int = 0
    refused: int = 0
    """Before the present silence."""
    silent: int = 0
    """Replies since the last accepted one, in whole updates."""
    updates: int = 0
    """Updates in a row without an accepted reply."""

    def count(self, accepted: int, refused: int) -> None:
        if not accepted + refused:
            return
        if accepted:
            self.accepted += accepted
            self.refused += refused + self.silent
            self.silent = self.updates = 0
        else:
            self.silent += refused
            self.updates += 1

    @property
    def by_chance(self) -> float:
        """How likely the silence is if nothing changed."""
        if not self.accepted:
            return 1.0
        refused = (self.refused + 1) / (self.accepted + self.refused + 2)
        return math.exp(self.silent * math.log(refused))


class CollapseWatch:
    """Counts accepted and refused replies of learners.

    Args:
        learners: their names.
    """

    def __init__(self, learners: Iterable[str]) -> None:
        self._seen = {name: _Seen() for name in learners}

    def observe(
        self, update: int, episodes: Sequence[Episode], live: Mapping[str, str], *, last: bool
    ) -> None:
        """Count one update's replies.

        Args:
            update: number of the update that is being played, from 1.
            episodes: of it.
            live: agent id -> learner.
            last: there is no further update.

        Raises:
            ModelError: a learner has collapsed.
        """
        for name in self._seen:
            turns = [
                turn.invalid is not None
                for episode in episodes
                if episode.valid
                for seat in episode.spec.learner_seats
                if live.get(episode.spec.seats[seat]) == name
                for turn in episode.trajectories[seat].turns
            ]
            seen = self._seen[name]
            seen.count(len(turns) - sum(turns), sum(turns))
            if seen.updates >= (1 if last else PATIENCE) and seen.by_chance < _CHANCE:
                raise ModelError(_in_words(name, update, seen))

    def state(self) -> dict[str, Any]:
        """JSON values."""
        return {name: asdict(seen) for name, seen in self._seen.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._seen = {name: _Seen(**state[name]) for name in self._seen}


def _in_words(name: str, update: int, seen: _Seen) -> str:
    before = seen.accepted / (seen.accepted + seen.refused)
    first = update - seen.updates + 1
    return (
        f"learner {name!r} has collapsed: the game refused all {seen.silent} of its replies since update "
        f"{first}, and accepted {before:.0%} of {seen.accepted + seen.refused} before. Its steps up to "
        f"update {first - 1} broke it. Train again in another folder with a lower training.learning_rate "
        "or a higher training.kl_coef; nothing was exported."
    )
