"""A progress bar with the time left; a line every half minute without a terminal. On stderr."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import TaskID

_EVERY_S = 30.0
"""Between two lines of a log; a shorter task prints none, and its command prints the result."""


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
        self._printed_s = time.monotonic()

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

    def show(self, name: str, done: int, total: int) -> None:
        """``done`` of ``total`` of a task; the first call starts it."""
        if self._quiet:
            return
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=total)
        self._bar.update(self._tasks[name], completed=done)
        if not self._console.is_terminal and time.monotonic() - self._printed_s >= _EVERY_S:
            print(f"{name}: {done} of {total}", file=sys.stderr, flush=True)
            self._printed_s = time.monotonic()
