"""One match of a board: the three lines that a bundle holds of it, and the chain over them.

What the protocol decides is not written down again, and seats are numbers of agents: a reader builds
the spec from the schedule, so a line cannot claim another environment, split or option.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from leaderboards.served import ServedTurns, read, served_of, written
from srl_agents.records import Episode, MatchResult, MatchSpec, Termination, canonical_json
from srl_envs.episode import Transcript
from srl_envs.errors import TranscriptError

HEAD_DIGITS = 16
"""Hex digits of the chain that a line shows; the manifest holds the whole of the last one."""
_LOGPROB_DIGITS = 6
_FROM_SPEC = ("env_id", "options", "split", "seed")
_TUPLES = ("outcomes", "rewards", "forfeited", "invalid_replies", "tokens")

Line = dict[str, Any]


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
    """Why earlier tries were void."""
    served: ServedTurns = field(default_factory=dict)
    """Absent from the line where no seat is an endpoint's."""

    @property
    def lines(self) -> tuple[Line, Line, Line]:
        """(match, transcript, tokens), as JSON values; a bundle adds the chain to the first."""
        result = asdict(self.result)
        transcript = asdict(self.transcript)
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
        return match, transcript, tokens

    @classmethod
    def from_lines(
        cls, spec: MatchSpec, match: Line, transcript: Line, tokens: Line
    ) -> MatchRecord:
        """The inverse of `lines`, for the spec that the schedule has at this place.

        Raises:
            TranscriptError: a key is missing or unknown, or a value has another kind.
        """
        try:
            told: dict[str, Any] = {
                name: tuple(value) if name in _TUPLES else value
                for name, value in match["result"].items()
            }
            result = MatchResult(
                match_id=spec.match_id, trajectory_sha256=transcript["digest"], **told
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
        faults=faults,
        served=served_of(episode),
    )


def result_of(spec: MatchSpec, transcript: Transcript, tokens: Tokens) -> MatchResult:
    """What a transcript comes to, by the same rules as `Episode.result`."""
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


def next_link(link: str, match: Line, transcript: Line, tokens: Line) -> str:
    """The chain after one more record; ``match`` without its ``chain``."""
    hashed = hashlib.sha256(link.encode())
    for line in (match, transcript, tokens):
        hashed.update(b"\n" + canonical_json(line).encode())
    return hashed.hexdigest()
