"""The program's side of a test run: it defines things, and answers what the test's process asks.

It never sees the tests. Objects that are not data stay here and travel as numbers.
"""

from __future__ import annotations

import builtins
import copy
import importlib
import math
import operator
import os
import sys
from collections.abc import Callable
from typing import Any

from ..exchange import codec
from ..exchange.channel import Channel, Gone
from ..exchange.heap import Heap, Shared
from . import source
from .giving import Export, Giver, Objects, Raised, Taker

_LOADING = 0
"""Number of the reply that answers no request: the program is loaded, or failed to load."""
_POLL_S = 0.005
_OPERATIONS: dict[str, Callable[..., Any]] = {
    name.rstrip("_"): getattr(operator, name)
    for name in """
add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift neg pos invert index eq ne
lt le gt ge contains getitem setitem delitem iadd isub imul itruediv ifloordiv imod ipow imatmul iand
ior ixor
""".split()  # noqa: SIM905 - a word list reads better than 150 quotes
} | {
    function.__name__: function
    for function in (
        abs, bool, complex, copy.copy, copy.deepcopy, delattr, divmod, float, format, getattr, hash,
        int, isinstance, iter, len, list, math.ceil, math.floor, math.trunc, next, repr, reversed,
        round, setattr, str, vars,
    )
}  # fmt: skip


class Candidate:
    """Serves one program's definitions over a channel."""

    def __init__(self, read: int, write: int) -> None:
        heap = Heap(parity=1)
        self._objects = Objects()
        self._namespace: dict[str, Any] = {}
        self._giver = Giver(heap, self._objects)
        self._taker = Taker(heap, self._objects, self._callback)
        self._channel = Channel(read, write, heap, self._giver, self._taker, self._renew)
        self._callbacks: dict[int, Callable[..., Any]] = {}
        self._loop: Any = None
        self._tasks: dict[int, Any] = {}
        self._shown = 0
        self._operations: dict[str, Callable[..., Any]] = {
            **_OPERATIONS,
            "export": self._export,
            "make": self._make,
            "call": lambda function, args, kwargs: function(*args, **dict(kwargs)),
            "invoke": lambda value, name, args, kwargs: getattr(value, name)(*args, **dict(kwargs)),
            "base": _base,
            "close": lambda value: value.close() if hasattr(value, "close") else None,
            "awaitable": _awaiting,
            "send": lambda value, sent: value.send(sent),
            "start": self._start,
            "poll": self._poll,
        }

    def serve(self, namespace: dict[str, Any], define: Callable[[], None]) -> None:
        """Define, tell how that went, and answer until the other side leaves."""
        self._namespace = namespace
        try:
            define()
        except BaseException as error:  # noqa: BLE001 - foreign code
            self._channel.send({"number": _LOADING, **self._raised(error)})
            return
        self._channel.send({"number": _LOADING, "value": None})
        try:
            while True:
                self._answer(self._channel.receive())
        except Gone:
            return

    def _renew(self, _: int, shared: Shared, content: Any) -> None:
        self._taker.refresh(shared, content)

    def _export(self, names: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[Any, ...]:
        """How the tests see those of the names that the program defines."""
        self._giver.wanted = frozenset(wanted)
        return tuple(
            (name, Export(self._namespace[name])) for name in names if name in self._namespace
        )

    def _make(self, kind: Any, args: tuple[Any, ...], kwargs: tuple[Any, ...]) -> Any:
        """Call a class for the tests."""
        value = kind(*args, **dict(kwargs))
        if isinstance(kind, type) and isinstance(value, kind):
            self._giver.made(value)
        return value

    # -- coroutines --------------------------------------------------------------------------------

    def _start(self, coroutine: Any) -> int:
        """Make a task of a coroutine; its number."""
        asyncio = importlib.import_module("asyncio")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)

        async def awaited() -> Any:
            return await coroutine

        task = self._loop.create_task(awaited())
        number = self._objects.number(task)
        self._tasks[number] = task
        return number

    def _poll(self, number: int, cancel: bool) -> tuple[Any, ...]:
        """Let all tasks run for a moment: the value of this one, or nothing."""
        asyncio = importlib.import_module("asyncio")
        task = self._tasks[number]
        if cancel:
            task.cancel()
        self._loop.run_until_complete(asyncio.wait({task}, timeout=_POLL_S))
        if not task.done():
            return ()
        del self._tasks[number]
        return (task.result(),)

    # -- functions of the tests --------------------------------------------------------------------

    def _callback(self, number: int, name: str, doc: Any, is_async: bool) -> Callable[..., Any]:
        """A function of the tests that was passed as an argument."""
        if number in self._callbacks:
            return self._callbacks[number]

        def call(*args: Any, **kwargs: Any) -> Any:
            self._channel.send({"callback": number, "args": args, "kwargs": tuple(kwargs.items())})
            while "operation" in (message := self._channel.receive()):
                self._answer(message)  # the function called back into the program
            if "raise" in message:
                raise self._of_the_tests(*message["raise"])
            return message["value"]

        async def called(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        made = called if is_async else call
        made.__name__, made.__qualname__, made.__doc__ = name, name, doc
        made.__module__ = "__main__"
        self._callbacks[number] = made
        self._giver.stands_for(made, number)
        return made

    @staticmethod
    def _of_the_tests(number: int, name: str, args: tuple[Any, ...]) -> BaseException:
        kind = getattr(builtins, name, Exception)
        error: BaseException = kind(*args)
        error.__number__ = number  # type: ignore[attr-defined]
        return error

    # -- requests ----------------------------------------------------------------------------------

    def _answer(self, message: dict[str, Any]) -> None:
        number = message["number"]
        try:
            value = self._operations[message["operation"]](*message["args"])
            reply = {"number": number, "value": value} | self._printed()
            value = None
            message.clear()  # what only it holds need not be watched
        except Gone:
            raise
        except BaseException as error:  # noqa: BLE001 - foreign code
            reply = {"number": number, **self._raised(error), **self._printed()}
        try:
            self._channel.send(reply)
        except Gone:
            raise
        except BaseException as error:  # noqa: BLE001 - foreign data that has no form
            self._channel.send({"number": number, **self._raised(error)})

    def _printed(self) -> dict[str, Any]:
        """What the program has printed, where the tests look at it."""
        if "stdout" not in self._giver.wanted and "redirect_stdout" not in self._giver.wanted:
            return {}
        sys.stdout.flush()
        parts = []
        while part := os.pread(1, 1 << 16, self._shown):
            self._shown += len(part)
            parts.append(part)
        return {"printed": b"".join(parts)} if parts else {}

    def _raised(self, error: BaseException) -> dict[str, Any]:
        number = getattr(error, "__number__", None)
        if type(number) is int:
            return {"own": number}
        return {"raise": Raised(error)}


def _base(value: Any) -> Any:
    """What an object of a class that derives from a plain type holds."""
    return next(strip(value) for base, strip in codec.STRIP if isinstance(value, base))


async def _awaiting(value: Any) -> Any:
    return await value


def serve(program: str, namespace: dict[str, Any]) -> None:
    """Run as the candidate of a test; requests come on descriptor 0, replies go to 3."""
    read, write = os.dup(0), os.dup(3)
    for descriptor in (0, 3):
        os.dup2(2, descriptor)  # standard error leads nowhere
    candidate = Candidate(read, write)

    def define() -> None:
        exec(source.compiled(program), namespace)  # noqa: S102 - what the sandbox is for

    candidate.serve(namespace, define)
    sys.stdout.flush()
