"""What endpoints reported of their replies: as a bundle holds it, and what it comes to per agent.

A report is ``[finish, prompt tokens, completion tokens]``, with null where the endpoint told no number.
Nobody can check it. It keeps a reply that the length limit cut apart from one that was refused.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from srl_agents.engines.endpoint import MOST_TOKENS
from srl_agents.records import Episode, Served, ServedFinish

if TYPE_CHECKING:
    from leaderboards.record import MatchRecord

ServedTurns = Mapping[int, tuple[Served, ...]]
"""Seat of an endpoint -> what it reported of its turns, in order."""
_WORDS: dict[ServedFinish, str] = {
    "length": "were cut by the length limit",
    "refused": "were refused by the model or its provider",
    "other": "ended for a reason that the endpoint does not explain",
}


def served_of(episode: Episode) -> ServedTurns:
    """The reports of a match that was just played."""
    found = {
        t.seat: tuple(turn.served for turn in t.turns if turn.served is not None)
        for t in episode.trajectories
    }
    return {seat: turns for seat, turns in found.items() if turns}


def written(served: ServedTurns) -> dict[str, Any]:
    """As a line of a bundle holds them."""
    return {
        str(seat): [[t.finish, t.prompt_tokens, t.completion_tokens] for t in turns]
        for seat, turns in served.items()
    }


def read(told: Mapping[str, Any]) -> ServedTurns:
    """The inverse of `written`.

    Raises:
        TypeError, ValueError: a seat, a finish or a count is something else.
    """
    found = {}
    for seat, turns in told.items():
        if str(int(seat)) != seat:
            raise ValueError(f"served: {seat!r} is no seat")
        found[int(seat)] = tuple(_turn(*turn) for turn in turns)
    return found


def _turn(finish: Any, *counts: Any) -> Served:
    if finish not in get_args(ServedFinish):
        raise ValueError(f"served: finish {finish!r} is none of {get_args(ServedFinish)}")
    for count in counts:
        if count is not None and not (type(count) is int and 0 <= count <= MOST_TOKENS):
            raise ValueError(f"served: {count!r} is no number of tokens")
    prompt_tokens, completion_tokens = counts
    return Served(finish=finish, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)


def served_fault(record: MatchRecord, endpoints: Iterable[str]) -> str:
    """Whether each reply of an endpoint, and no other, has a report; empty if so.

    Args:
        record: one match.
        endpoints: ids of the agents that answered through an endpoint.
    """
    known, replied = set(endpoints), Counter[int]()
    for step in record.transcript.steps:
        replied.update(seat for seat in step.replies if record.spec.seats[seat] in known)
    reported = {seat: len(turns) for seat, turns in record.served.items()}
    if reported != replied:
        return f"endpoints replied {dict(replied)} times by seat, and reported {reported} replies"
    return ""


class Reports:
    """Counts per agent over many matches."""

    def __init__(self) -> None:
        self._turns: dict[str, list[Served]] = defaultdict(list)

    def add(self, record: MatchRecord) -> None:
        """Count one match."""
        for seat, turns in record.served.items():
            self._turns[record.spec.seats[seat]] += turns

    def notes(self) -> list[str]:
        """One sentence per agent and kind of end, but for replies that ended by themselves."""
        notes = []
        for agent, turns in sorted(self._turns.items()):
            ends = Counter(turn.finish for turn in turns)
            notes += [
                f"{agent}: {ends[finish]} of {len(turns)} replies {words}"
                for finish, words in _WORDS.items()
                if ends[finish]
            ]
        return notes
