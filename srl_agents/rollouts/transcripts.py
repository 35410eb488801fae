"""Transcripts of matches as a file: one line each, added while they are played."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import srl_envs
from srl_agents.metrics.sinks import add_lines
from srl_agents.records import Episode, MatchResult, MatchSpec
from srl_agents.rollouts.record_frames import read_record
from srl_envs.api.episode import Recorder, Transcript
from srl_envs.errors import TranscriptError

TRANSCRIPTS = "transcripts.jsonl"
"""Name of the file in a run's folder, of the final round robin."""
TRAINING_MATCHES = "training_matches.jsonl"
"""Likewise, of the matches that were learned from and their branches."""


class TranscriptLog:
    """Adds each match that ends; pass `add` to `Rollouts.play` as ``finished``.

    Args:
        path: JSON lines; made if absent. A line that a crash cut off goes; a match that is played
            again is added again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_file():
            content = path.read_bytes()
            os.truncate(path, content.rfind(b"\n") + 1)

    def add(self, episode: Episode, transcript: Transcript) -> None:
        """Add one match, unless our own machinery lost it."""
        if episode.valid:
            match = {"spec": asdict(episode.spec), "result": asdict(episode.result())}
            line = json.dumps(
                {"match_id": episode.spec.match_id, "match": match, **transcript.data()}
            )
            add_lines(self._path, line + "\n")


def transcript_of(episode: Episode) -> Transcript:
    """What was recorded of an episode that another process played: its replies are given again.

    Args:
        episode: a valid one, with the steps of its turns.

    Raises:
        TranscriptError: it does not come to what it came to there; the game or its data differ.
    """
    spec = episode.spec
    env: Any = srl_envs.make(spec.env_id, **spec.options)
    with closing(env):
        observations, _ = env.reset(seed=spec.seed, options={"split": spec.split})
        recorder = Recorder(env, observations)
        turns = sorted(
            ((turn, own.seat) for own in episode.trajectories for turn in own.turns),
            key=lambda pair: pair[0].turn_index,
        )
        for step, played in groupby(turns, key=lambda pair: pair[0].step):
            for before, number in episode.reshuffles:
                if before == step:
                    recorder.reshuffle(number)
            own = {seat: turn for turn, seat in played}
            replies = {seat: own[seat].reply for seat in sorted(own)}
            result = env.step({env.possible_agents[seat]: text for seat, text in replies.items()})
            recorder.add(replies, result, {seat: turn.thoughts for seat, turn in own.items()})
        transcript = recorder.transcript()
    if transcript.digest != episode.transcript_sha256:
        raise TranscriptError(
            f"match {spec.match_id} of {spec.env_id} does not replay to what another process played: do both "
            "have the same game and data?"
        )
    return transcript


def read_transcripts(path: Path, wanted: Collection[str] | None = None) -> dict[str, Transcript]:
    """Match id -> transcript; a last line that was cut off by a crash is left out.

    Args:
        path: what a `TranscriptLog` wrote; without the file no transcripts are found.
        wanted: match ids; all by default.

    Raises:
        TranscriptError: a line is not a transcript.
    """
    found = {}
    for number, line in _whole_lines(path):
        try:
            data = json.loads(line)
            match_id = data.pop("match_id")
            data.pop("match", None)
            if wanted is None or match_id in wanted:
                found[match_id] = Transcript.from_data(data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TranscriptError(
                f"{path}, line {number} is not a transcript: {type(error).__name__}: {error}"
            ) from None
    return found


def read_results(path: Path) -> list[tuple[MatchSpec, MatchResult]]:
    """The matches of a file of transcripts as a store has them; lines that are damaged or older are left out.

    Args:
        path: as in `read_transcripts`.
    """
    found = []
    for _, line in _whole_lines(path):
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            data = json.loads(line)
            spec = read_record(MatchSpec, data["match"]["spec"])
            result = read_record(MatchResult, data["match"]["result"])
            if data["match_id"] == spec.match_id == result.match_id:
                found.append((spec, result))
    return found


def _whole_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number, from 1, and text of each line; none if the file does not exist."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.endswith("\n"):
                yield number, line
