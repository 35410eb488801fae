"""One match of a board: the three lines that a bundle holds of it, and the chain over them.

What the protocol decides is not written down again, and seats are numbers of agents: a reader builds
the spec from the schedule, so a line cannot claim another environment, split or option.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from leaderboards.contents.intake import Line
from leaderboards.contents.schemas import MOST_FAULT_CHARACTERS
from leaderboards.contents.served import Asked, ServedTurns, read, served_fault, served_of, written
from srl_agents.league.store.rows import check_fit
from srl_agents.records import Episode, MatchResult, MatchSpec, Termination, canonical_json
from srl_envs.api.episode import Transcript
from srl_envs.errors import StoreError, TranscriptError

HEAD_DIGITS = 16
"""Hex digits of the chain that a line shows; the manifest holds the whole of the last one."""
_LOGPROB_DIGITS = 6
_FROM_SPEC = ("env_id", "options", "split", "seed")
_TUPLES = ("outcomes", "rewards", "forfeited", "invalid_replies", "tokens")


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """The tokens of one reply of a model."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


Tokens = Mapping[int, tuple[SampledTurn, ...]]
"""Seat of a model -> its turns, in order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchRecord:
    """One match as it was played."""

    spec: MatchSpec
    result: MatchResult
    transcript: Transcript
    tokens: Tokens
    faults: tuple[str, ...] = ()
    """Reasons why earlier tries were void."""
    served: ServedTurns = field(default_factory=dict)
    """Absent from the line where no seat is an endpoint's."""
    happened: str = field(default="", compare=False)
    """Hash of a bundle's result and transcript; shows whether two records of one match agree."""

    @property
    def lines(self) -> tuple[Line, Line, Line]:
        """(match, transcript, tokens), as JSON values; a bundle adds the chain to the first."""
        result = asdict(self.result)
        transcript = self.transcript.data(thoughts=False)
        # both stand in the other line
        for name in ("match_id", "trajectory_sha256"):
            del result[name]
        for name in (*_FROM_SPEC, "outcomes", "rewards", "forfeited"):
            del transcript[name]
        match = {"seed": self.spec.seed, "seats": list(self.spec.seats), "result": result}
        if self.faults:
            match["faults"] = list(self.faults)
        if self.served:
            match["served"] = written(self.served)
        tokens = {
            str(seat): [[list(t.token_ids), list(t.logprobs)] for t in turns]
            for seat, turns in self.tokens.items()
        }
        return _plain(match), _plain(transcript), _plain(tokens)

    @classmethod
    def from_lines(
        cls, spec: MatchSpec, match: Line, transcript: Line, tokens: Line
    ) -> MatchRecord:
        """The inverse of `lines`, for the spec that the schedule has at this place.

        Raises:
            TranscriptError: a key is missing or unknown, or a value has another kind.
        """
        try:
            facts: dict[str, Any] = {
                name: tuple(value) if name in _TUPLES else value
                for name, value in match["result"].items()
            }
            result = MatchResult(
                match_id=spec.match_id, trajectory_sha256=transcript["digest"], **facts
            )
            played = Transcript.from_data(
                {
                    **transcript,
                    **{
                        name: getattr(result, name) for name in ("outcomes", "rewards", "forfeited")
                    },
                    **{name: getattr(spec, name) for name in _FROM_SPEC},
                }
            )
            record = cls(
                spec=spec,
                result=result,
                transcript=played,
                tokens={
                    int(seat): tuple(SampledTurn(tuple(t[0]), tuple(t[1])) for t in turns)
                    for seat, turns in tokens.items()
                },
                faults=tuple(match.get("faults", ())),
                served=read(match.get("served", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise TranscriptError(f"{type(error).__name__}: {error}") from None
        return record


def record_of(episode: Episode, transcript: Transcript, faults: tuple[str, ...]) -> MatchRecord:
    """The record of a match that was just played."""
    return MatchRecord(
        spec=episode.spec,
        result=episode.result(),
        transcript=transcript,
        tokens={
            t.seat: tuple(
                SampledTurn(
                    turn.completion_ids,
                    tuple(round(value, _LOGPROB_DIGITS) for value in turn.logprobs),
                )
                for turn in t.turns
            )
            for t in episode.trajectories
            if any(turn.finish in ("stop", "length") for turn in t.turns)
        },
        faults=tuple(_told(fault) for fault in faults),
        served=served_of(episode),
    )


def _told(fault: str) -> str:
    """What an exception said, as a bundle may hold it."""
    return fault.encode(errors="replace").decode()[:MOST_FAULT_CHARACTERS] or "unknown"


def result_of(spec: MatchSpec, transcript: Transcript, tokens: Tokens) -> MatchResult:
    """Result of a transcript, by the same rules as `Episode.result`."""
    termination: Termination = "truncated" if transcript.truncated else "ok"
    if transcript.forfeited:
        termination = "forfeit"
    seats = range(len(spec.seats))
    return MatchResult(
        match_id=spec.match_id,
        outcomes=transcript.outcomes,
        rewards=transcript.rewards,
        termination=termination,
        forfeited=transcript.forfeited,
        invalid_replies=tuple(
            sum(step.invalid[seat] is not None for step in transcript.steps) for seat in seats
        ),
        turns=sum(len(step.replies) for step in transcript.steps),
        tokens=tuple(sum(len(t.token_ids) for t in tokens.get(seat, ())) for seat in seats),
        trajectory_sha256=transcript.digest,
    )


def first_difference(claimed: MatchResult, true: MatchResult) -> str:
    """The first field that differs, with both values; empty where none does."""
    for item in fields(MatchResult):
        one, other = getattr(claimed, item.name), getattr(true, item.name)
        if one != other:
            return f"{item.name} is claimed as {one} and is {other}"
    return ""


def contradiction(
    record: MatchRecord, models: Sequence[int], endpoints: Mapping[str, Asked]
) -> str:
    """What contradicts itself within one record; empty if nothing does.

    Args:
        record: read by `MatchRecord.from_lines`.
        models: seats that models sit on.
        endpoints: the agents that answered through an endpoint, by id.
    """
    seats = len(record.spec.seats)
    for step in record.transcript.steps:
        if {len(step.rewards), len(step.invalid)} != {seats} or max(
            step.replies, default=0
        ) >= seats:
            return (
                f"replies, rewards or invalid of a step have other seats than the match's {seats}"
            )
    if len(record.transcript.components) != seats:
        return f"components are given for {len(record.transcript.components)} of {seats} seats"
    if wrong := served_fault(record.spec.seats, record.transcript, record.served, endpoints):
        return wrong
    if not set(record.tokens) <= set(models):
        return f"tokens of the seats {sorted(record.tokens)}, models sit on {list(models)}"
    for seat in models:
        turns = sum(seat in step.replies for step in record.transcript.steps)
        if len(record.tokens.get(seat, ())) != turns:
            return f"seat {seat} replied {turns} times, tokens are there for another number"
    if any(len(t.token_ids) != len(t.logprobs) for turns in record.tokens.values() for t in turns):
        return "token ids do not have one log-probability each"
    try:
        check_fit(record.spec.match_id, record.spec, record.result)
    except StoreError as error:
        return str(error)
    return first_difference(record.result, result_of(record.spec, record.transcript, record.tokens))


def next_link(link: str, *texts: bytes) -> str:
    """The chain after one more record.

    Args:
        link: the chain before it.
        texts: canonical JSON of the match without its ``chain``, of the transcript, of the tokens.
    """
    hashed = hashlib.sha256(link.encode())
    for text in texts:
        hashed.update(b"\n" + text)
    return hashed.hexdigest()


def line_text(line: Line) -> bytes:
    """A line as it stands in a file, without its break."""
    return canonical_json(line).encode()


def _plain(value: Any) -> Any:
    """Lists for tuples, and no zero with a sign: equal records have one text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value + 0.0 if isinstance(value, float) else value
