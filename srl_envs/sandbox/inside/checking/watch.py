"""What the tests' checks looked at, and where: counted, held to shapes, and seen in threads and tasks.

`suite` puts a call of this module's `Checks` around every check of the tests' text. So it is known
that a check ran, that it looked at something, and that it failed, wherever it ran.
"""

from __future__ import annotations

import functools
import gc
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from . import suite
from .standins import Peer, Reasons

_LINGER_S = 1.0
"""How long an end is waited for that no interpreter waits for: of daemon threads and thread pools."""


class Checks:
    """Counts the checks that ran.

    Args:
        peer: notes a refusal.
        given: whether a container came from the program.
        failed: notes a failure that the tests' process may never see.
    """

    def __init__(
        self, peer: Peer, given: Callable[[Any], bool], failed: Callable[[str], None]
    ) -> None:
        self.count = 0
        self._peer = peer
        self._given = given
        self._failed = failed
        self._looked: dict[int, bool] = {}

    def __call__(self, value: Any) -> Any:
        """What an assert looks at, counted."""
        self.count += 1
        if in_worker() and not value:
            self._failed("an assert failed in a thread or task of the tests")
        return value

    def method(self, function: Any) -> Any:
        """A method such as ``assertEqual``, counted."""
        self.count += 1
        if not in_worker():
            return function

        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except AssertionError as error:
                self._failed(str(error))
                raise

        return called

    def every(self, site: int, function: Any) -> Callable[..., Any]:
        """``all`` in an assert, with a note of whether it looked at anything."""

        def called(*args: Any, **kwargs: Any) -> Any:
            owner = getattr(function, "__self__", None)
            if function is all and len(args) == 1:
                seen = _Seen(args[0])
                value, looked = all(seen), seen.count > 0
            else:
                value = function(*args, **kwargs)
                looked = not any(_is_empty(part) for part in (owner, *args[:1]))
            self._looked[site] = self._looked.get(site, False) or looked
            return value

        return called

    @property
    def looked_at_nothing(self) -> bool:
        """Whether an assert held each time only because there was nothing to look at."""
        return not all(self._looked.values())

    # -- shapes ------------------------------------------------------------------------------------

    def equal(self, constant: tuple[bool, ...]) -> Callable[[Any, Any], Any]:
        """``==`` whose result is asked for ``all()``."""
        return self.close(operator.eq, constant)

    def close(self, function: Any, constant: tuple[bool, ...]) -> Callable[..., Any]:
        """A comparison of arrays that does not stretch one to the shape of the other.

        Args:
            function: numpy's; any other is left as it is.
            constant: of each operand, whether the tests' text determines its value.
        """
        function = getattr(function, "__unstretched__", function)
        numpy = sys.modules.get("numpy")
        module = getattr(function, "__module__", "") or ""
        if numpy is None or not (module.startswith("numpy") or function is operator.eq):
            return function  # type: ignore[no-any-return]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            named = [kwargs[name] for name in _OPERANDS if name in kwargs]
            both = (*args, *named)[:2]
            if len(both) == 2 and self._differ(numpy, both, constant):
                return _unequal(numpy, function, both)
            return function(*args, **kwargs)

        called.__unstretched__ = function  # type: ignore[attr-defined]
        return called

    def watch_numpy(self) -> None:
        """Hold numpy's comparisons to shapes also where the tests call them by other names."""
        for module in ("numpy", "numpy.testing"):
            for name in suite.COMPARISONS & vars(sys.modules.get(module, suite)).keys():
                function = getattr(sys.modules[module], name)
                setattr(sys.modules[module], name, self.close(function, (False, False)))

    def _differ(self, numpy: Any, args: tuple[Any, ...], constant: tuple[bool, ...]) -> bool:
        if type(args[0]) is str or not any(isinstance(a, _arrays(numpy)) for a in args[:2]):
            return False
        try:
            shapes = [numpy.shape(arg) for arg in args[:2]]
        except Exception:  # noqa: BLE001 - rows of several lengths; numpy reports what is wrong
            return False
        if shapes[0] == shapes[1]:
            return False
        if 0 in shapes[0] or 0 in shapes[1]:
            return True
        place = shapes.index(()) if () in shapes else -1
        if place >= 0 and constant[place] and not self._given(args[1 - place]):
            return False  # the tests compute an array and give one number for all of it
        self._peer.doubt(Reasons.SHAPE)
        return True


_OPERANDS = ("a", "b", "a1", "a2", "actual", "desired", "x", "y")


def _arrays(numpy: Any) -> tuple[type, ...]:
    return (list, tuple, numpy.ndarray)


def _unequal(numpy: Any, function: Any, args: tuple[Any, ...]) -> Any:
    name = getattr(function, "__name__", "")
    if name.startswith("assert"):
        raise AssertionError(f"shapes differ: {numpy.shape(args[0])} and {numpy.shape(args[1])}")
    return False if name in ("allclose", "array_equal", "array_equiv") else numpy.zeros(1, bool)


class _Seen:
    """An iterable that counts what is taken from it."""

    def __init__(self, items: Any) -> None:
        self._items = items
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self.count += 1
            yield item


def _is_empty(value: Any) -> bool:
    return getattr(value, "size", None) == 0 or (type(value) in (list, tuple) and not value)


# -- threads, pools and tasks ----------------------------------------------------------------------

_mains: set[int] = set()  # ids of tasks that a loop runs until they are complete


def in_worker() -> bool:
    """Whether this is a thread or task whose exceptions need not reach the end of the tests."""
    if threading.current_thread() is not threading.main_thread():
        return True
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return False
    task = asyncio.current_task()
    return task is not None and id(task) not in _mains


class Workers:
    """Exceptions in threads, pools and tasks of the tests that nothing has taken note of.

    Args:
        failed: notes a failure.
    """

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._untaken: dict[Any, tuple[Any, BaseException]] = {}
        self._results: list[Any] = []
        threading.excepthook = self._in_thread
        if "concurrent.futures" in sys.modules:
            self._watch_futures()
        if "multiprocessing.pool" in sys.modules:
            self._watch_pools()
        if "asyncio" in sys.modules:
            self._watch_loops()

    def finish(self) -> None:
        """Wait for what still runs, and note what failed there."""
        exit_pools = getattr(sys.modules.get("concurrent.futures.thread"), "_python_exit", None)
        if exit_pools is not None:
            exit_pools()
        for result in self._results:
            result.wait(_LINGER_S)
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                self._join(thread)
        if "asyncio" in sys.modules:
            gc.collect()  # a task reports an exception that was never retrieved when it is freed
        for _, error in self._untaken.values():
            self._note(error)

    def _join(self, thread: threading.Thread) -> None:
        target = getattr(thread, "_target", None)
        code = getattr(target, "__code__", None)
        if not thread.daemon:
            thread.join()
        elif getattr(code, "co_filename", "") == suite.FILE:
            thread.join(_LINGER_S)

    def _note(self, error: BaseException) -> None:
        text = str(error)[:200]
        self._failed(f"{type(error).__name__}{': ' if text else ''}{text} (in a thread or task)")

    def _in_thread(self, found: Any) -> None:
        if found.exc_value is not None and found.exc_type is not SystemExit:
            self._note(found.exc_value)

    def _watch_futures(self) -> None:
        kind: Any = sys.modules["concurrent.futures"].Future
        untaken = self._untaken

        def set_exception(self: Any, error: BaseException) -> None:
            if error is not None:
                untaken[id(self)] = self, error
            given(self, error)

        given, kind.set_exception = kind.set_exception, set_exception
        for name in ("result", "exception"):
            setattr(kind, name, _taking(getattr(kind, name), untaken))

    def _watch_pools(self) -> None:
        pool: Any = sys.modules["multiprocessing.pool"]
        untaken, results = self._untaken, self._results
        for kind in (pool.ApplyResult, pool.MapResult):

            def _set(self: Any, place: Any, found: Any, *, given: Any = kind._set) -> None:
                given(self, place, found)
                if not found[0]:
                    untaken[id(self)] = self, found[1]

            kind._set = _set
        begin = pool.ApplyResult.__init__

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            begin(self, *args, **kwargs)
            results.append(self)

        pool.ApplyResult.__init__ = __init__
        pool.ApplyResult.get = _taking(pool.ApplyResult.get, untaken)
        step = pool.IMapIterator.next

        def taken(self: Any, *args: Any) -> Any:
            try:
                return step(self, *args)
            except BaseException as error:
                untaken.pop(id(error), None)
                raise

        for kind in (pool.IMapIterator, pool.IMapUnorderedIterator):
            kind._set = _kept(kind._set, untaken)
            kind.next = kind.__next__ = taken

    def _watch_loops(self) -> None:
        asyncio = sys.modules["asyncio"]
        loop: Any = asyncio.BaseEventLoop
        note = self._note

        def call_exception_handler(self: Any, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if error is not None:
                note(error)
            handle(self, context)

        def run_until_complete(self: Any, future: Any) -> Any:
            task = asyncio.ensure_future(future, loop=self)
            _mains.add(id(task))
            try:
                return run(self, task)
            finally:
                _mains.discard(id(task))

        handle, loop.call_exception_handler = loop.call_exception_handler, call_exception_handler
        run, loop.run_until_complete = loop.run_until_complete, run_until_complete


def _kept(put: Any, untaken: dict[Any, Any]) -> Any:
    def keep(self: Any, place: Any, found: Any) -> None:
        if not found[0]:
            untaken[id(found[1])] = self, found[1]
        put(self, place, found)

    return keep


def _taking(method: Any, untaken: dict[Any, Any]) -> Any:
    def taken(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        finally:
            if id(self) in untaken:
                del untaken[id(self)]

    return taken
