"""Notices learners that stall: those whose replies are all refused, and those that bring no gradient.

A learner whose replies are all refused earns the same whatever it writes, so it does not come back, and its
run means nothing. It may have lost the game's language, or never had it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from srl_agents.recipes.sections.fault_policy import SILENT_UPDATES
from srl_agents.records import Episode
from srl_agents.training.faults.vital_signs import Finding

PATIENCE = 3
"""Updates in a row without one accepted reply; a run that ends waits for no more of them."""
_CHANCE = 1e-9
"""Below this probability, so many refusals in a row are not chance in a learner that plays as before."""


@dataclass(slots=True)
class _Seen:
    """Counts of one learner's accepted and refused replies."""

    accepted: int = 0
    refused: int = 0
    """Refused replies up to the last accepted one."""
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
    ) -> list[Finding]:
        """Count one update's replies.

        Args:
            update: number of the update that is being played, from 1.
            episodes: of it.
            live: agent id -> learner.
            last: whether this is the last update.

        Returns:
            One finding per collapsed learner; and one, after `SILENT_UPDATES`, where no reply was accepted.
        """
        found = []
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
                first = update - seen.updates + 1
                message = _in_words(name, first, seen)
                found.append(
                    Finding(fault="replies_refused", message=message, learner=name, since=first)
                )
        played = [seen for seen in self._seen.values() if seen.updates or seen.accepted]
        if played and all(not seen.accepted and seen.updates >= SILENT_UPDATES for seen in played):
            replies = sum(seen.silent for seen in played)
            message = f"none of {replies} replies in {max(s.updates for s in played)} updates"
            found.append(Finding(fault="never_accepted", message=message, since=1))
        return found

    def state(self) -> dict[str, Any]:
        """The counts of all learners, as JSON values."""
        return {name: asdict(seen) for name, seen in self._seen.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._seen = {name: _Seen(**state[name]) for name in self._seen}


def _in_words(name: str, first: int, seen: _Seen) -> str:
    before = seen.accepted / (seen.accepted + seen.refused)
    return (
        f"learner {name!r} has collapsed: the game refused all {seen.silent} of its replies since update "
        f"{first}, and accepted {before:.0%} of {seen.accepted + seen.refused} before"
    )


class IdleLearners:
    """Reports why learners bring no gradient, when they begin not to.

    Args:
        say: shows a line.
        together: learners that take one common step.
    """

    def __init__(self, say: Callable[[str], None], *, together: Collection[str] = ()) -> None:
        self._say, self._together = say, frozenset(together)
        self._reasons: dict[str, str] = {}

    @property
    def reasons(self) -> Mapping[str, str]:
        """Learner -> why it was idle in the last update."""
        return self._reasons

    def say(
        self, update: int, learners: Mapping[str, Mapping[str, float]], busy: Collection[str]
    ) -> None:
        """Name each learner that is idle for a new reason.

        Args:
            update: its number.
            learners: metrics of each learner's play.
            busy: those that have something to learn from.
        """
        reasons = {name: why_idle(v) for name, v in learners.items() if name not in busy}
        for name, reason in reasons.items():
            if self._reasons.get(name) != reason:
                does = "takes no step"
                if name in self._together and not self._together.isdisjoint(busy):
                    does = "adds nothing to the others' step"
                self._say(f"update {update}: {name} {does}: {reason}.")
        self._reasons = reasons


def why_idle(values: Mapping[str, float]) -> str:
    """What the metrics of a learner's play say about why there is nothing to learn from."""
    if not values:
        return "it played no valid episode"
    if values.get("unread_share") == 1:
        return "no prompt fitted the model's context"
    refused = values.get("invalid_share") == 1
    reason = "all of its replies were refused, and " if refused else ""
    if values.get("pairs") == 0:
        return f"{reason}no two replies to one prompt differed in worth"
    if values.get("flat_groups") == 1:
        return f"{reason}all attempts at each start state earned the same"
    return f"{reason}nothing that it played can be learned from"
