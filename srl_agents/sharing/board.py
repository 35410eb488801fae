"""A notice board: the best of what learners did lately, for the others to read.

What is on it depends only on the order of updates, and its state is JSON, so a resumed run reads
the same board.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from srl_envs.reading.settings import build, dump

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice(Generic[T]):
    """One thing that a learner did."""

    learner: str
    policy: str
    """Version of the author at that time."""
    worth: float
    """Worth of the reply; compared across learners."""
    item: T


class Board(Generic[T]):
    """Keeps each learner's best recent notices.

    Args:
        kind: dataclass of the items.
        keep: most notices per learner.
        window: updates after which a notice comes down.
    """

    def __init__(self, kind: type[T], *, keep: int, window: int) -> None:
        self.kind, self.keep, self.window = kind, keep, window
        self._notices: dict[str, list[tuple[int, Notice[T]]]] = {}

    def offer(self, update: int, notices: Iterable[Notice[T]]) -> None:
        """Put up what is among its author's best; of equal items of one author the first stays.

        Args:
            update: now, not falling.
            notices: of any learners.
        """
        for notice in notices:
            own = self._notices.setdefault(notice.learner, [])
            if all(notice.item != other.item for _, other in own):
                own.append((update, notice))
        for learner, own in self._notices.items():
            recent = [(u, n) for u, n in own if update - u < self.window]
            # the best first; of equals the latest, and of those the one that was offered first
            recent.sort(key=lambda entry: (-entry[1].worth, -entry[0]))
            self._notices[learner] = recent[: self.keep]

    def best_for(self, reader: str, top: int) -> list[Notice[T]]:
        """The best notices of all other learners, best first."""
        others = [
            (-notice.worth, -update, learner, place, notice)
            for learner, own in self._notices.items()
            if learner != reader
            for place, (update, notice) in enumerate(own)
        ]
        return [entry[-1] for entry in sorted(others, key=lambda entry: entry[:-1])[:top]]

    def state(self) -> dict[str, Any]:
        """Content of the board, as JSON values."""
        return {
            learner: [
                {"update": update, "policy": n.policy, "worth": n.worth, "item": dump(n.item)}
                for update, n in own
            ]
            for learner, own in self._notices.items()
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._notices = {
            learner: [
                (
                    int(entry["update"]),
                    Notice(
                        learner=learner,
                        policy=entry["policy"],
                        worth=float(entry["worth"]),
                        item=build(self.kind, entry["item"], f"sharing of {learner}"),
                    ),
                )
                for entry in own
            ]
            for learner, own in state.items()
        }
