"""Reports why learners bring no gradient, when they begin not to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping


class IdleLearners:
    """Remembers the learners whose idleness was reported.

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
