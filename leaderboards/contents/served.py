"""Usage reports of endpoints: their form in a bundle, and sums per agent.

A report is a row: how the reply ended; tokens of the prompt and of the reply, of these thoughts, of those of
the prompt that were cached; cost; model and system as the endpoint names them; the tries that failed before.
Numbers are null where the endpoint reported none. Only the cost can be checked, from tokens and
declared price. It keeps a reply that the length limit cut apart from one that was refused.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from leaderboards.contents.fields import (
    FieldError,
    Integer,
    ListOf,
    Nullable,
    Number,
    OneOf,
    Row,
    Text,
)
from srl_agents.engines.endpoint.completions import (
    MOST_FINGERPRINT_CHARACTERS,
    MOST_MODEL_CHARACTERS,
    MOST_TOKENS,
)
from srl_agents.engines.endpoint.prices import COST_DIGITS, MOST_PRICE, Price
from srl_agents.records import Episode, FailedTry, Served, ServedFinish
from srl_envs.api.episode import Transcript

ServedTurns = Mapping[int, tuple[Served, ...]]
"""Seat of an endpoint -> what it reported of its turns, in order."""
_REPORTED_TOKENS = Nullable(Integer(0, MOST_TOKENS))
_MOST_TRIES = 1000
REPORT = Row(
    (
        OneOf(get_args(ServedFinish)),
        *(_REPORTED_TOKENS,) * 4,
        Nullable(Number(0.0, 2 * MOST_PRICE * MOST_TOKENS)),
        Text(MOST_MODEL_CHARACTERS),
        Text(MOST_FINGERPRINT_CHARACTERS),
        ListOf(OneOf(get_args(FailedTry)), _MOST_TRIES),
    )
)
"""What an endpoint reported of a reply: the fields of `Served`, in order."""
SECONDS = Number(0.0, 1e9)
"""Seconds of a reply: one more column in a run's folder, and none in a bundle, whose claim holds no times."""
_COLUMNS = tuple(item.name for item in fields(Served) if item.name != "seconds")
_SUMS = (
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "cost",
    "seconds",
)
_WORDS: dict[ServedFinish, str] = {
    "length": "were cut by the length limit",
    "refused": "were refused by the model or its provider",
    "empty": "had no text, and no reason for it",
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
    """Reports as JSON for a line of a bundle."""
    return {str(seat): [_row(turn) for turn in turns] for seat, turns in served.items()}


def _row(served: Served) -> list[Any]:
    row = [list(v) if isinstance(v, tuple) else v for v in (getattr(served, k) for k in _COLUMNS)]
    return row if served.seconds is None else [*row, served.seconds]


def without_times(served: ServedTurns) -> ServedTurns:
    """The same reports, as a bundle holds them."""
    return {
        seat: tuple(replace(turn, seconds=None) for turn in turns) for seat, turns in served.items()
    }


def read(turns_of: Mapping[str, Any]) -> ServedTurns:
    """The inverse of `written`.

    Raises:
        TypeError, ValueError: a seat, a finish or a count is something else.
    """
    found = {}
    for seat, turns in turns_of.items():
        if str(int(seat)) != seat:
            raise ValueError(f"served: {seat!r} is not a seat")
        found[int(seat)] = tuple(_turn(*turn) for turn in turns)
    return found


def _turn(*row: Any) -> Served:
    row, times = row[: len(_COLUMNS)], row[len(_COLUMNS) :]
    try:
        REPORT.check(list(row))
        ListOf(SECONDS, 1).check(list(times))
    except FieldError as error:
        raise ValueError(f"served: {error}") from None
    values = dict(zip((*_COLUMNS, "seconds"), (*row, *times), strict=False))
    return Served(**{**values, "failed_tries": tuple(values["failed_tries"])})


def served_fault(
    seats: Sequence[str],
    transcript: Transcript,
    served: ServedTurns,
    endpoints: Mapping[str, Asked],
) -> str:
    """Whether each reply of an endpoint, and no other, has a report that can be; empty if so.

    Args:
        seats: agents of one match, by seat.
        transcript: of the match.
        served: what endpoints reported of it.
        endpoints: the agents that answered through an endpoint, by id.
    """
    known, replied = set(endpoints), Counter[int]()
    for step in transcript.steps:
        replied.update(seat for seat in step.replies if seats[seat] in known)
    reported = {seat: len(turns) for seat, turns in served.items()}
    if reported != replied:
        return f"endpoints replied {dict(replied)} times by seat, and reported {reported} replies"
    for seat, turns in served.items():
        asked = endpoints[seats[seat]]
        for turn in turns:
            if turn.model != asked.model:
                return f"seat {seat} is {asked.model!r}, a reply of it is from {turn.model!r}"
            cost = None if asked.price is None else asked.price.cost(turn)
            if turn.cost != cost:
                return f"a reply of seat {seat} cost {turn.cost}, by tokens and price it is {cost}"
    return ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What reports of one agent have to agree with."""

    model: str
    """Name of the model, as the server reports it."""
    price: Price | None


class Reports:
    """Counts per agent over many matches."""

    def __init__(self) -> None:
        self._turns: dict[str, list[Served]] = defaultdict(list)

    def add(self, seats: Sequence[str], served: ServedTurns) -> None:
        """Count one match of these agents."""
        for seat, turns in served.items():
            self._turns[seats[seat]] += turns

    def notes(self) -> list[str]:
        """Sentences on each agent: how its replies ended, unless by themselves, and what they took."""
        notes = []
        for agent, turns in sorted(self._turns.items()):
            ends = Counter(turn.finish for turn in turns)
            notes += [
                f"{agent}: {ends[finish]} of {len(turns)} replies {words}"
                for finish, words in _WORDS.items()
                if ends[finish]
            ]
            notes.append(f"{agent}: {usage_text(usage(turns))}")
        return notes

    def usage(self) -> dict[str, dict[str, Any]]:
        """Agent -> `usage` of its replies."""
        return {agent: usage(turns) for agent, turns in self._turns.items()}


def usage(turns: Sequence[Served]) -> dict[str, Any]:
    """Sums over replies as JSON values; a sum is null where a reply does not report it."""
    ends, failed = Counter(turn.finish for turn in turns), Counter[str]()
    for turn in turns:
        failed.update(turn.failed_tries)
    sums = {name: _sum(getattr(turn, name) for turn in turns) for name in _SUMS}
    return {
        "replies": len(turns),
        **sums,
        "cost": None if sums["cost"] is None else round(sums["cost"], COST_DIGITS),
        "seconds": None if sums["seconds"] is None else round(sums["seconds"], 3),
        "finishes": dict(sorted(ends.items())),
        "failed_tries": dict(sorted(failed.items())),
        "fingerprints": sorted({turn.fingerprint for turn in turns if turn.fingerprint}),
    }


def usage_text(usage: Mapping[str, Any]) -> str:
    """`usage` in one line."""
    known = {k: "unknown" if usage[k] is None else f"{usage[k]:,}" for k in _SUMS}
    cost = "unknown" if usage["cost"] is None else f"{usage['cost']:g}"
    return (
        f"{usage['replies']:,} replies, tokens: {known['prompt_tokens']} prompt "
        f"({known['cached_tokens']} cached), {known['completion_tokens']} reply "
        f"({known['reasoning_tokens']} thoughts); cost: {cost}"
        + (
            ""
            if usage["seconds"] is None
            else f"; {usage['seconds']:,.1f} s of waiting for replies"
        )
    )


def _sum(values: Iterable[Any]) -> Any:
    known = list(values)
    return None if any(value is None for value in known) else sum(known)
