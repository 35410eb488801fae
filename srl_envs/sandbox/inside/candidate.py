"""The program's side of a test run: it defines things, and answers what the test's process asks.

It never sees the tests. Objects without a JSON form stay here and travel as numbers.
"""

from __future__ import annotations

import builtins
import operator
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from . import codec, source
from .channel import Channel, Gone

_LOADING = 0
"""Number of the reply that nobody asks for: the program is loaded, or failed to load."""
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
        self._namespace: dict[str, Any] = {}
        self._channel = Channel(read, write, self._refer, self._resolve)

    def serve(self, namespace: dict[str, Any], define: Callable[[], None]) -> None:
        """Define, tell how that went, and answer until the other side leaves."""
        self._namespace = namespace
        try:
            define()
        except BaseException as error:  # noqa: BLE001 - foreign code
            self._channel.send(self._raised(error) | {"number": _LOADING})
            return
        self._channel.send({"value": None, "changed": {}, "number": _LOADING})
        try:
            while True:
                self._answer(self._channel.receive())
        except Gone:
            return

    def _export(self, *names: str) -> dict[str, tuple[str, Any]]:
        """How the tests see those of the names that the program defines."""
        exports = {}
        for name in names:
            if name not in self._namespace:
                continue
            export = self._exported(self._namespace[name])
            try:
                codec.dumps(export, self._refer)
            except codec.CodecError:  # such as a list that contains itself
                continue
            exports[name] = export
        return exports

    def _exported(self, value: Any) -> tuple[str, Any]:
        if isinstance(value, type):
            if issubclass(value, BaseException):
                return "error", self._mro(value)
            return "class", self._number(value)
        return ("function", self._number(value)) if callable(value) else ("value", value)

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
        if "slice" in body:
            return slice(*body["slice"])
        if "builtin" in body:
            return getattr(builtins, body["builtin"])
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
            reply = self._raised(error)
        changed = {
            place: value
            for place, value in enumerate(args)
            if before[place] is not None and _state(value) != before[place]
        }
        try:
            self._channel.send(reply | {"changed": changed, "number": message["number"]})
        except Gone:
            raise
        except BaseException as error:  # noqa: BLE001 - foreign data, such as a list in itself
            self._channel.send(self._raised(error) | {"number": message["number"]})

    def _perform(self, message: dict[str, Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        if message["operation"] == "call":
            return self._objects[message["object"]](*args, **kwargs)
        if message["operation"] == "export":
            return self._export(*args)
        return _OPERATIONS[message["operation"]](*args)

    def _raised(self, error: BaseException) -> dict[str, Any]:
        args: Iterable[Any] = error.args
        try:
            codec.dumps(list(args))
        except codec.CodecError:
            args = [str(error)]
        return {"raise": self._mro(type(error)), "args": list(args), "changed": {}}

    def _mro(self, kind: type) -> list[tuple[str, int]]:
        """A class and its ancestors: name, and number where it is no builtin."""
        return [
            (base.__name__, -1 if vars(builtins).get(base.__name__) is base else self._number(base))
            for base in kind.__mro__
        ]

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
