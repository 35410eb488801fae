"""Sinks of metrics: a JSON lines file that survives crashes, and TensorBoard."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any, Protocol

from srl_agents.metrics.names import Record
from srl_agents.records import plain_json

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"
"""Their names in a run's folder."""
EVENT_FILES = "events.out.tfevents.*"
"""Pattern of the files in TensorBoard's folder; each attempt at a run has its own."""


class Sink(Protocol):
    """Takes one record per update."""

    def write(self, record: Record) -> None:
        """Keep or show the record."""

    def close(self) -> None:
        """Write what is still held."""


class JSONLines:
    """One line per update.

    Args:
        path: the file; made if absent.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def write(self, record: Record) -> None:
        """Append the record."""
        add_lines(self._path, plain_json(record.as_json()) + "\n")

    def close(self) -> None:
        """Does nothing: no file stays open."""
        return


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file.

    A last line that was cut off by a crash is left out; a damaged one elsewhere too, with a warning.
    """
    if not path.is_file():
        return []
    *whole, torn = path.read_text(errors="replace").split("\n")
    found = [(number, _parsed(line)) for number, line in enumerate(whole, start=1)]
    damaged = [str(number) for number, record in found if record is None]
    if damaged:
        lines = f"line{'s' * (len(damaged) > 1)} {', '.join(damaged)}"
        warnings.warn(f"{path} is damaged: left out {lines}.", stacklevel=2)
    records = [*(record for _, record in found), _parsed(torn)]
    return [record for record in records if record is not None]


def _parsed(line: str) -> dict[str, Any] | None:
    """The record of one line; None if the line holds something else."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("update"), int):
        return None
    learners = record.get("learners", {})
    if not isinstance(learners, dict):
        return None
    return record if all(map(_are_numbers, (record.get("run", {}), *learners.values()))) else None


def _are_numbers(values: Any) -> bool:
    """Whether these are metrics; one that was not finite is written as null."""
    return isinstance(values, dict) and all(
        v is None or isinstance(v, int | float) for v in values.values()
    )


class TensorBoard:
    """Scalars for ``tensorboard --logdir``; needs the ``train`` extra.

    Args:
        folder: of the event files; a record is there when `write` returns.
    """

    def __init__(self, folder: Path) -> None:
        # heavy, and optional; torch's SummaryWriter would be shorter, but metrics do not import torch
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))

    def write(self, record: Record) -> None:
        """One scalar per metric."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in record.flat().items()
        ]
        summary = self._summary(value=values)
        self._writer.add_event(
            self._event(wall_time=time.time(), step=record.update, summary=summary)
        )
        self._writer.flush()

    def close(self) -> None:
        """Flush the event file."""
        self._writer.close()


def add_lines(path: Path, text: str) -> None:
    """Append to a file; made if absent.

    Raises:
        OSError: it cannot be written; names the file, which may end with a part of the text.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:  # a full disk's names no file
        raise OSError(error.errno, error.strerror, str(path)) from None
