"""The program's side of a test run: it defines things, and answers what the test's process asks.

It never sees the tests. Objects without a JSON form stay here and travel as numbers.
"""

from __future__ import annotations

import builtins
import operator
import os
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from . import codec
from .channel import Channel, Gone

_NAMES = 2000
_OPERATIONS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in """
add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift neg pos invert index eq ne
lt le gt ge contains getitem setitem delitem
""".split()  # noqa: SIM905 - a word list reads better than 150 quotes
} | {
    function.__name__: function
    for function in (
        abs,
        bool,
        delattr,
        float,
        getattr,
        hash,
        int,
        isinstance,
        iter,
        len,
        list,
        next,
        repr,
        reversed,
        round,
        setattr,
        str,
    )
}


class Candidate:
    """Serves one program's definitions over a channel."""

    def __init__(self, read: int, write: int) -> None:
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}  # id -> number; the objects are kept, so ids are too
        self._channel = Channel(read, write, self._refer, self._resolve)

    def serve(self, namespace: dict[str, Any], define: Callable[[], None]) -> None:
        """Define, tell the names, and answer until the other side leaves."""
        try:
            define()
        except BaseException as error:  # noqa: BLE001 - foreign code
            self._channel.send(_raised(error))
            return
        names = [name for name in namespace if not name.startswith("__")][:_NAMES]
        self._channel.send({"names": self._exports(namespace, names)})
        try:
            while True:
                self._answer(self._channel.receive())
        except Gone:
            return

    def _exports(self, namespace: dict[str, Any], names: list[str]) -> dict[str, Any]:
        exports = {}
        for name in names:
            export = self._export(namespace[name])
            try:
                codec.dumps(export, self._refer)
            except codec.CodecError:  # such as a list that contains itself
                continue
            exports[name] = export
        return exports

    def _export(self, value: Any) -> dict[str, Any]:
        """How the tests see a name."""
        if isinstance(value, types.ModuleType):
            return {"module": value.__name__}
        if isinstance(value, type):
            if issubclass(value, BaseException):
                return {"bases": _bases(value)}
            return {"class": self._number(value)}
        return {"function": self._number(value)} if callable(value) else {"value": value}

    def _number(self, value: Any) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def _refer(self, value: Any) -> dict[str, Any]:
        return {"object": self._number(value)}

    def _resolve(self, body: Any) -> Any:
        if not isinstance(body, dict):
            raise codec.CodecError("a malformed reference")
        if "object" in body:
            return self._objects[body["object"]]
        return self._callback(body["callback"])

    def _callback(self, number: int) -> Callable[..., Any]:
        """A function of the tests that was passed as an argument."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._channel.send({"callback": number, "args": list(args), "kwargs": kwargs})
            while "operation" in (message := self._channel.receive()):
                self._answer(message)  # the function called back into the program
            if "raise" in message:
                kind = getattr(builtins, str(message["raise"][0]), Exception)
                raise kind(*message["args"])
            return message["value"]

        return call

    def _answer(self, message: dict[str, Any]) -> None:
        args, kwargs = message["args"], message.get("kwargs", {})
        before = [_state(value) for value in args]
        try:
            value = self._perform(message, args, kwargs)
            reply = self._reply(value, args)
        except Gone:
            raise
        except BaseException as error:  # noqa: BLE001 - foreign code
            reply = _raised(error)
        changed = {
            place: value
            for place, value in enumerate(args)
            if before[place] is not None and _state(value) != before[place]
        }
        try:
            self._channel.send(reply | {"changed": changed})
        except Gone:
            raise
        except BaseException as error:  # noqa: BLE001 - foreign data, such as a list in itself
            self._channel.send(_raised(error))

    def _perform(self, message: dict[str, Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        if message["operation"] == "call":
            return self._objects[message["object"]](*args, **kwargs)
        return _OPERATIONS[message["operation"]](*args)

    @staticmethod
    def _reply(value: Any, args: list[Any]) -> dict[str, Any]:
        for place, given in enumerate(args):
            if value is given and _mutable(given):
                return {"same": place}
        return {"value": value}


def _mutable(value: Any) -> bool:
    return type(value) in (list, dict, set)


def _state(value: Any) -> bytes | None:
    """Fingerprint of a mutable argument, to tell whether a call changed it."""
    if not _mutable(value):
        return None
    try:
        return codec.dumps(value, id)
    except codec.CodecError:
        return b""


def _bases(kind: type) -> list[str]:
    return [base.__name__ for base in kind.__mro__]


def _raised(error: BaseException) -> dict[str, Any]:
    args: Iterable[Any] = error.args
    try:
        codec.dumps(list(args))
    except codec.CodecError:
        args = [str(error)]
    return {"raise": _bases(type(error)), "args": list(args), "changed": {}}


def serve(program: str, namespace: dict[str, Any]) -> None:
    """Run as the candidate of a test; requests come on descriptor 0, replies go to 3."""
    read, write = os.dup(0), os.dup(3)
    for descriptor in (0, 3):
        os.dup2(2, descriptor)  # standard error leads nowhere
    candidate = Candidate(read, write)
    code = compile  # bound before the program can replace it

    def define() -> None:
        exec(code(program, "solution.py", "exec", dont_inherit=True), namespace)  # noqa: S102

    candidate.serve(namespace, define)
    sys.stdout.flush()
