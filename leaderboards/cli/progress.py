"""A progress bar with the time left; a line per tenth where there is no terminal. On stderr."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import TaskID

_LINES = 10


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """Shows several tasks, one after the other, by name.

    Args:
        quiet: show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._quiet = quiet
        self._console = Console(file=sys.stderr)
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._printed: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def told(self, name: str, done: int, total: int) -> None:
        """``done`` of ``total`` of a task; the first call starts it."""
        if self._quiet:
            return
        tenth = done * _LINES // max(1, total)
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=total)
            self._printed[name] = tenth
        self._bar.update(self._tasks[name], completed=done)
        if tenth > self._printed[name] and not self._console.is_terminal:
            print(f"{name}: {done} of {total}", file=sys.stderr, flush=True)
            self._printed[name] = tenth
