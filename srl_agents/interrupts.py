"""Ctrl-C, SIGTERM and SIGHUP raise `KeyboardInterrupt`, and a second signal ends the process at once.

A command that has a last line raises `KeyboardInterrupt(text)`; `srl` prints the text and exits with 128 plus
the number of the signal. A signal that this process was started to ignore stays ignored, as Ctrl-C is in a
shell's background jobs. Only the main thread may set handlers: in others nothing changes. `limit` bounds the
time of what no signal can end.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self, TypeVar

from srl_envs.errors import SRLError, add_advice

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ECHO_S = 0.05
"""In which a signal may come again: `timeout` sends it to the process and then to its group."""
T = TypeVar("T")


class FirstSignal:
    """A handler that acts on the first signal; the next one ends the process, whatever hangs in it.

    A hang-up does not count as a second one: shells and service managers send it in addition.

    Args:
        act: called once.
    """

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._settled = False
        self.number: int | None = None
        """Of the signal that came."""

    @property
    def status(self) -> int:
        """Exit status of a process that the signal ended, or another handler of Ctrl-C."""
        return 128 + (self.number or signal.SIGINT)

    def handle(self, numbers: Iterable[int]) -> None:
        """Be the handler of those of these signals that are not ignored."""
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal, as `signal.signal` has it."""
        if self._settled and number != signal.SIGHUP:  # it was made the handler again
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if self.number is not None:
            return
        self.number = number
        time.sleep(_ECHO_S)
        self._settled = True
        for other in SIGNALS:
            if signal.getsignal(other) is self:
                next_one = signal.SIG_IGN if other == signal.SIGHUP else signal.SIG_DFL
                signal.signal(other, next_one)
        self._act()


_commands: list[FirstSignal] = []
"""Handlers of the commands that run in the main thread, outermost first."""
_loops: list[EventLoop] = []
"""Event loops that run in the main thread, outermost first."""


@contextmanager
def terminable() -> Iterator[FirstSignal]:
    """Inside, the first signal raises `KeyboardInterrupt` or ends the event loop; the next ends the process.

    A handler of Ctrl-C that a program has set for itself stays.

    Yields:
        The handler; inside of another `terminable` that one's.
    """
    stop = _commands[0] if _commands else FirstSignal(_interrupt)
    with _restored() as in_main:
        if not in_main:
            yield stop
            return
        own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        stop.handle(SIGNALS if own else (signal.SIGTERM, signal.SIGHUP))
        _commands.append(stop)
        try:
            yield stop
        finally:
            _commands.pop()


def _interrupt() -> None:
    if not _loops:
        raise KeyboardInterrupt
    _loops[-1].interrupt()


def _in_a_loop() -> bool:
    """Whether this thread is inside of a running loop, as the cell of a notebook is."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class EventLoop:
    """An `asyncio.Runner`; inside of `terminable` each of our signals ends its tasks in order.

    asyncio itself does so only at Ctrl-C, and only where Python's own handler is set.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._main: asyncio.Task[Any] | None = None
        self._interrupted = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """See `asyncio.Runner.run`; where the caller's own loop runs, as in a notebook, beside it."""
        if _in_a_loop():
            return self._beside(self._cancellable(work))
        if threading.current_thread() is not threading.main_thread():
            return self._runner.run(work)
        self._interrupted = False
        _loops.append(self)
        try:
            return self._runner.run(self._cancellable(work))
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            raise KeyboardInterrupt from None
        finally:
            _loops.pop()
            self._main = None

    def _beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Run in a thread: one thread runs one loop. Ctrl-C here ends the tasks there in order."""
        self._interrupted = False
        context = contextvars.copy_context()
        with ThreadPoolExecutor(max_workers=1) as pool:
            done = pool.submit(context.run, self._runner.run, work)
            try:
                return done.result()
            except KeyboardInterrupt:
                self._interrupted = True
                if self._main is not None:
                    self._main.get_loop().call_soon_threadsafe(self._main.cancel)
                with suppress(CancelledError, asyncio.CancelledError):
                    done.result()
                raise
            finally:
                self._main = None

    async def _cancellable(self, work: Coroutine[Any, Any, T]) -> T:
        self._main = asyncio.current_task()
        if self._interrupted:
            work.close()
            raise asyncio.CancelledError
        return await work

    def interrupt(self) -> None:
        """In a signal handler: cancel what runs.

        Raises:
            KeyboardInterrupt: it has just ended.
        """
        if self._main is not None and self._main.done():
            raise KeyboardInterrupt
        self._interrupted = True
        if self._main is not None:
            self._main.cancel()
        self._runner.get_loop().call_soon_threadsafe(lambda: None)  # wakes a loop that waits

    def close(self) -> None:
        """See `asyncio.Runner.close`."""
        if not _in_a_loop():
            self._runner.close()
            return
        with ThreadPoolExecutor(max_workers=1) as pool:
            pool.submit(self._runner.close).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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

    def note() -> None:
        with suppress(OSError):  # a terminal that hung up takes no line
            say()

    noted = FirstSignal(note)
    try:
        with _restored() as in_main:
            if in_main:
                noted.handle(SIGNALS)
            yield
    finally:
        if noted.number is not None:
            signal.raise_signal(noted.number)


@contextmanager
def terminal_ignored_by_children() -> Iterator[None]:
    """Processes that are started inside ignore Ctrl-C and hang-ups, which terminals send to them, too."""
    terminals = {signal.SIGINT, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, terminals)  # children inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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


@contextmanager
def limit(doing: str, deadline_s: float, expired: Callable[[str], None]) -> Iterator[None]:
    """Call ``expired`` from another thread if the inside takes too long.

    Args:
        doing: what is done inside; what ``expired`` is called with.
        deadline_s: seconds.
        expired: is expected not to come back. What it refers to is freed by this thread:
            the other one has ended when the inside has.
    """
    timer = threading.Timer(min(deadline_s, threading.TIMEOUT_MAX), expired, [doing])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
