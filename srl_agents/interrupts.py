"""Ctrl-C and SIGTERM: both raise `KeyboardInterrupt`, and a second signal ends the process at once.

A command that has something to say raises `KeyboardInterrupt(text)`; `srl` prints the text and exits with 130
after Ctrl-C and with 143 after SIGTERM. Only the main thread may set handlers: in others nothing changes.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from srl_envs.errors import SRLError, add_advice

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM ended the work; the text is as for `KeyboardInterrupt`."""


@contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM acts as Ctrl-C does; it leaves as `Terminated`. An ignored SIGTERM stays ignored."""
    came = False

    def act_as_ctrl_c(_number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        handler = signal.getsignal(signal.SIGINT)  # asyncio's, while one of its loops runs
        if not callable(handler):  # Ctrl-C is ignored: a shell's background job
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    with _restored() as in_main:
        if in_main and signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
            signal.signal(signal.SIGTERM, act_as_ctrl_c)
        try:
            yield
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            if not came or isinstance(error, Terminated):
                raise
            raise Terminated(*error.args) from error


@contextmanager
def naming(command: str) -> Iterator[None]:
    """What ends the inside, a signal or an error of ours, names the command that goes on."""
    advice = f"To go on: {command}"
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{str(stop) or 'interrupted.'} {advice}") from None
    except SRLError as error:
        add_advice(error, advice)
        raise


@contextmanager
def finished_first(say: Callable[[], object]) -> Iterator[None]:
    """Inside, a first signal is noted and acts at the end; a second one ends the process at once.

    Args:
        say: called when a first signal is noted.
    """
    noted: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        _act_at_once()
        say()

    with _restored() as in_main:
        for number in SIGNALS if in_main else ():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, note)
        yield
    for came in noted:
        signal.raise_signal(came)


@contextmanager
def second_ends_at_once() -> Iterator[None]:
    """Inside, which is what is done after a first signal, the next one ends the process at once."""
    with _restored() as in_main:
        if in_main:
            _act_at_once()
        yield


@contextmanager
def ctrl_c_ignored_by_children() -> Iterator[None]:
    """Processes that are started inside ignore Ctrl-C, which terminals send to them, too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # children inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _act_at_once() -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _restored() -> Iterator[bool]:
    """Put the handlers back at the end; yields whether this is the thread that may set any."""
    in_main = threading.current_thread() is threading.main_thread()
    before: list[tuple[int, Any]] = [(n, signal.getsignal(n)) for n in SIGNALS if in_main]
    try:
        yield in_main
    finally:
        for number, handler in before:
            if handler is not None:  # set outside Python
                signal.signal(number, handler)
