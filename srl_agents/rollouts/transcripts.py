"""Transcripts of matches as a file: one line each, added while they are played."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from srl_agents.metrics.sinks import add_lines
from srl_agents.records import Episode, MatchResult, MatchSpec
from srl_agents.rollouts.record_lines import read_record
from srl_envs.api.episode import Transcript
from srl_envs.errors import TranscriptError

TRANSCRIPTS = "transcripts.jsonl"
"""Name of the file in a run's folder."""


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
