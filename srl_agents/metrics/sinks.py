"""Where records go: a JSON lines file that survives crashes, and TensorBoard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from srl_agents.metrics.names import Record


class Sink(Protocol):
    """Takes one record per update."""

    def write(self, record: Record) -> None:
        """Keep or show the record."""

    def close(self) -> None:
        """Write what is still held."""


class JSONLines:
    """One line per update; on resume, later lines of a crashed run are cut off.

    Args:
        path: the file.
        done: updates that the checkpoint holds; lines after them are dropped.
    """

    def __init__(self, path: Path, done: int = 0) -> None:
        self._path = path
        kept = [line for line in read_lines(path) if line["update"] <= done]
        temporary = path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in kept))
        temporary.replace(path)

    def write(self, record: Record) -> None:
        """Append the record."""
        with self._path.open("a") as file:
            file.write(json.dumps(record.as_json()) + "\n")

    def close(self) -> None:
        """Nothing is held."""
        return


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file; a last line that was cut off by a crash is left out."""
    if not path.is_file():
        return []
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records


class TensorBoard:
    """Scalars for ``tensorboard --logdir``; needs the ``train`` extra.

    Args:
        folder: of the event files.
        done: updates that the checkpoint holds; TensorBoard hides later points of a crashed run.
    """

    def __init__(self, folder: Path, done: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - heavy, and optional

        self._writer = SummaryWriter(str(folder), purge_step=done + 1)

    def write(self, record: Record) -> None:
        """One scalar per metric."""
        for name, value in record.flat().items():
            self._writer.add_scalar(name, value, record.update)

    def close(self) -> None:
        """Flush the event file."""
        self._writer.close()
