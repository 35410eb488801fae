"""Progress of models that load, download or convert for longer than a moment, on standard error.

On a terminal it is a bar of tqdm. Elsewhere, and above a live view of rich, it is a whole line every few
seconds, which a log keeps readable.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TextIO

from tqdm import tqdm  # type: ignore[import-untyped]
from transformers.utils import logging as transformers_logging

QUICK_S = 3.0
"""What ends within this time shows no bar."""
EVERY_S = 5.0
"""Between two lines."""


def on_terminal() -> bool:
    """Whether a bar can be redrawn in place: standard error is a terminal, and no live view draws there."""
    err = sys.__stderr__
    return err is not None and sys.stderr is err and err.isatty()


class LoadBar(tqdm):  # type: ignore[misc]
    """A bar on a terminal, and lines elsewhere; its arguments are tqdm's."""

    monitor_interval = 0
    """No thread that redraws, which the end of a process would wait for."""
    disable: bool
    said_s: ClassVar[float] = float("-inf")
    """When the last line of any bar was printed, on the monotonic clock."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._in_place = on_terminal()
        own: dict[str, Any] = {"leave": False}
        if not self._in_place:
            own = {"mininterval": EVERY_S, "miniters": 1, "ncols": 80, "file": sys.stderr}
        super().__init__(*args, **(own | options | {"delay": QUICK_S}))

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Draw the bar, or print its line if one is due."""
        if self._in_place:
            return bool(super().display(msg, pos))
        now = time.monotonic()
        text = str(self) if msg is None else msg
        if text and time.time() >= self.start_t + self.delay and now >= LoadBar.said_s + EVERY_S:
            _say(text.strip(), self.fp)
        return True

    def clear(self, nolock: bool = False) -> None:
        """Make room for other output; lines stay."""
        if self._in_place:
            super().clear(nolock)

    def moveto(self, n: int) -> None:
        """Go to the line of another bar; whole lines have no place."""
        if self._in_place:
            super().moveto(n)

    def close(self) -> None:
        """Take the bar away; lines stay."""
        if self._in_place:
            super().close()
        elif not self.disable:
            self.disable = True
            self._decr_instances(self)


LoadBar.set_lock(threading.RLock())  # tqdm's own starts a process that tracks semaphores


@contextmanager
def shown(doing: str) -> Iterator[None]:
    """Inside, transformers' progress is shown although libraries are quiet.

    Where standard output is not a terminal, a line every few seconds stands for progress that no bar shows.

    Args:
        doing: in words, for example ``loading tiny``.
    """
    before = transformers_logging.set_tqdm_hook(_bar)
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(doing, over, sys.stderr), name=doing, daemon=True)
    if not on_terminal():
        teller.start()
    try:
        yield
    finally:
        over.set()
        if teller.ident is not None:
            teller.join()
        transformers_logging.set_tqdm_hook(before)


def _bar(_factory: object, args: Sequence[Any], options: Mapping[str, Any]) -> LoadBar:
    """The bar that takes the place of one of transformers."""
    return LoadBar(*args, **options)


def _tell(doing: str, over: threading.Event, out: TextIO) -> None:
    """Print how long it takes, whenever nothing else was printed for a while."""
    started = time.monotonic()
    while not over.wait(EVERY_S):
        if time.monotonic() >= LoadBar.said_s + EVERY_S:
            _say(f"{doing}: {time.monotonic() - started:.0f} s", out)


def _say(line: str, out: TextIO) -> None:
    LoadBar.said_s = time.monotonic()
    print(line, file=out, flush=True)
