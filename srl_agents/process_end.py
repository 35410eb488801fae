"""Ends a process that loaded torch: frees models first, and exits with the status of the work.

While an interpreter finalises, CPython ends each other thread that asks for its lock, by unwinding the
thread's stack. Where C++ code stands on that stack, as it does wherever a tensor is freed, the C++ library
answers with ``std::terminate``: the process aborts, and a finished command ends with status 134. So
`run_process` frees what the work left behind on the main thread, waits for the other threads, and does not
finalise an interpreter that still has some.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from srl_envs.child_imports import SAFE

_PATIENCE_S = 2.0
"""For daemons to end by themselves once nothing is left to do."""
_JOIN_S = 30.0
"""For other threads, which an interpreter would wait for without end."""
_FAILED, _INTERRUPTED = 1, 130
_log = logging.getLogger(__name__)


def run_process(work: Callable[[], int | None]) -> NoReturn:
    """Do the work of this process, on its main thread, and end the process with the work's exit status.

    Processes that it starts do not import from the current folder.

    Args:
        work: returns the exit status, None for 0, or raises as a main program may: `SystemExit` keeps its
            code, another error is printed and gives 1, an interrupt 130.
    """
    os.environ.update(SAFE)
    _open_streams()
    status = _status_of(work)
    try:
        _finish(status)
    except KeyboardInterrupt:
        _end_now(_INTERRUPTED)
    threads = [*_python_threads(), *_native_threads()]
    if threads:
        _end_now(status, threads)
    sys.exit(status)


def _open_streams() -> None:
    """Open streams that this process was started without: else the next file gets their descriptor."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest descriptor that is free
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115


def _status_of(work: Callable[[], int | None]) -> int:
    """Exit status of the work; its frames are gone afterwards, with all that they referred to."""
    try:
        return work() or 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)  # noqa: T201 - as Python prints what ends a program
        return _FAILED
    except BaseException as error:  # noqa: BLE001 - as Python ends a program
        sys.excepthook(type(error), error, error.__traceback__)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else _FAILED


def _finish(status: int) -> None:
    """What the interpreter does before it finalises, in its order, and a collection before that."""
    gc.collect()  # models lie in circles
    joined = threading.Event()
    threading.Thread(
        target=_end_when_late, args=(joined, status), name="late end", daemon=True
    ).start()
    threading._shutdown()  # type: ignore[attr-defined]  # joins threads that are not daemons
    joined.set()
    atexit._run_exitfuncs()
    deadline_s = time.monotonic() + _PATIENCE_S
    for thread in _others():
        thread.join(max(deadline_s - time.monotonic(), 0.0))


def _end_when_late(joined: threading.Event, status: int) -> None:
    """End the process if a thread that the interpreter waits for does not end."""
    if not joined.wait(_JOIN_S):
        with contextlib.suppress(Exception):  # one of them may need the thread that hangs
            atexit._run_exitfuncs()
        _end_now(status, _python_threads())


def _end_now(status: int, threads: Iterable[str] = ()) -> NoReturn:
    """End without finalising; what was written is flushed."""
    for thread in threads:
        _log.debug("%s still runs; leaving with status %d without finalising", thread, status)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or its reader left
            stream.flush()
    os._exit(status & 0xFF)


def _others() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread is not threading.current_thread()]


def _python_threads() -> Iterator[str]:
    for thread in _others():
        yield f"thread {thread.name!r}"


def _native_threads() -> Iterator[str]:
    """Threads of libraries, where torch is loaded: its threads may ask for the interpreter's lock."""
    if "torch" not in sys.modules:
        return
    ours = {thread.native_id for thread in threading.enumerate()}
    for task in Path("/proc/self/task").glob("*"):
        if int(task.name) not in ours:
            with contextlib.suppress(OSError):  # it has just ended
                yield f"native thread {(task / 'comm').read_text().strip()!r}"
