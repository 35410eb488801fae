"""The tests' side of references: what is sent to the program, and what its references become."""

from __future__ import annotations

import builtins
import enum
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, Protocol

from ..exchange import codec
from ..exchange.forms import Reader, Writer
from ..exchange.heap import Heap
from . import replies, standins
from .classes import Classes, number_of, shown_kind
from .standins import ClassMeta, Peer, Reasons

_MAX_NUMBER = 1 << 31
_FUNCTIONS = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    functools.partial,
    type,
)


class Asker(Peer, Protocol):
    """Interface to the program that its references use."""

    asked: int
    """Number of the present request."""

    def callback(self, number: int) -> Any:
        """The tests' function with this number."""

    def callback_number(self, function: Any) -> int:
        """A number for one of the tests' functions."""

    def awaited(self, coroutine: int) -> Any:
        """A coroutine that waits for one of the program's."""


class Table:
    """Stand-ins by the program's number, and numbers by stand-in."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.errors = replies.Errors()
        self.remotes: dict[int, Any] = {}
        self.functions: dict[int, Any] = {}  # number -> stand-in
        self.numbers: dict[int, int] = {}  # id of a function or stream, which is kept -> number

    def keep(self, number: int, value: Any) -> Any:
        """Keep a function or stream, so that it can be sent back."""
        self.functions[number] = value
        self.numbers[id(value)] = number
        return value


class Sender(Writer):
    """Writes what the tests pass to the program."""

    def __init__(self, heap: Heap, table: Table) -> None:
        super().__init__(heap)
        self._table = table

    def object(self, value: Any, kind: type, depth: int) -> Any:
        """A stand-in's number, a member or record of the program's, or a callback."""
        if type(kind) is ClassMeta:
            return {"object": standins.state_of(value).number}
        if kind is Numbered:
            return {"object": value.number}
        number = self._table.numbers.get(id(value))
        if number is None:
            number = number_of(value)
        if number is None and isinstance(value, type):
            number = self._table.errors.number_of(value)
        if number is not None:
            return {"object": number}
        number = number_of(kind)
        if number is not None and isinstance(value, enum.Enum):
            return {"member": [number, value._name_, self.encode(value._value_, depth + 1)]}
        if number is not None:
            return {"record": [number, self.items(tuple.__iter__(value), depth)]}
        if isinstance(value, type) and _is_library(value):
            return {"known": [value.__module__, value.__qualname__]}
        for base, strip in codec.STRIP:
            if isinstance(value, base):
                return self.encode(strip(value), depth + 1)
        if isinstance(value, Exception) and vars(builtins).get(kind.__name__) is kind:
            return {"error": [kind.__name__, self.items(value.args, depth)]}
        if callable(value):
            return {"callback": self._callback(value)}
        raise codec.CodecError(f"{kind.__name__} cannot be passed to the program")

    def _callback(self, value: Any) -> list[Any]:
        if not isinstance(value, _FUNCTIONS):  # such as a mock, which has more than its call
            self._table.asker.doubt(Reasons.CALLABLE)
        name = getattr(value, "__name__", "function")
        doc = getattr(value, "__doc__", None)
        return [
            self._table.asker.callback_number(value),
            name if type(name) is str else "function",
            doc if type(doc) is str else None,
            inspect.iscoroutinefunction(value),
        ]


def _is_library(kind: type) -> bool:
    root = kind.__module__.partition(".")[0]
    return root in sys.stdlib_module_names or root == "numpy"


class Receiver(Reader):
    """Reads what the program gives."""

    def __init__(self, heap: Heap, table: Table) -> None:
        super().__init__(heap)
        self._table = table
        self._classes = Classes(table.asker, lambda tree: self.decode(tree, 2))

    def object(self, tag: str, body: Any, depth: int) -> Any:
        """The stand-in for a reference."""
        read = _READERS.get(tag)
        if read is None:
            raise codec.CodecError("unknown kind")
        return read(self, body, depth)

    def _export(self, body: Any, depth: int) -> Any:
        kind, tree = body
        if kind == "error":
            return replies.Export(kind, replies.mro_of(tree))
        return replies.Export(kind, None if kind == "nothing" else self.decode(tree, depth + 1))

    def _raised(self, body: Any, depth: int) -> Any:
        return replies.raised(body, self.decode, depth)

    def _error(self, body: Any, depth: int) -> Any:
        mro, args = body
        values = tuple(self.items(args, depth))
        found = self._table.errors.error(replies.Raised(replies.mro_of(mro), values, None))
        return found or RuntimeError(*values)

    def _remote(self, body: Any, depth: int) -> Any:
        number, kind, hashed = _number(body[0]), self._classes.of(body[1]), body[2]
        remotes = self._table.remotes
        if type(kind) is not ClassMeta:
            raise codec.CodecError("an object of a class that has none")
        if number not in remotes:
            remotes[number] = standins.new(self._table.asker, kind, number)
            standins.state_of(remotes[number]).born = self._table.asker.asked
        remote = remotes[number]
        state = standins.state_of(remote)
        state.before = state.origin
        state.origin = (
            standins.GIVEN
        )  # what the program hands back does not belong to the tests any more
        if hashed is not None:
            state.hash = codec.as_kind(int, self.decode(hashed, depth + 1))
        return remote

    def _function(self, body: Any, depth: int) -> Any:
        number, name, is_async, extras = body
        if _number(number) in self._table.functions:
            return self._table.functions[number]
        made = _function(self._table.asker, number, codec.as_kind(str, name), bool(is_async))
        for key, tree in extras:
            _dress(made, key, self.decode(tree, depth + 1))
        return self._table.keep(number, made)

    def _stream(self, body: Any, _: int) -> Any:
        number = _number(body)
        if number not in self._table.functions:
            self._table.keep(number, _stream(self._table.asker, Numbered(number)))
        return self._table.functions[number]

    def _coroutine(self, body: Any, _: int) -> Any:
        return self._table.asker.awaited(_number(body))

    def _member(self, body: Any, depth: int) -> Any:
        kind, name, value = self._classes.of(body[0]), body[1], body[2]
        if not issubclass(kind, enum.Enum):
            raise codec.CodecError("a member of a class that has none")
        return kind[name] if name in kind.__members__ else kind(self.decode(value, depth + 1))

    def _record(self, body: Any, depth: int) -> Any:
        kind, values = self._classes.of(body[0]), self.items(body[1], depth)
        if not issubclass(kind, tuple) or len(values) != len(kind._fields):
            raise codec.CodecError("a record of a class that has none")
        return tuple.__new__(kind, values)

    def _stripped(self, body: Any, depth: int) -> Any:
        self._table.asker.doubt(Reasons.MEMBERS)
        return self.decode(body[1], depth + 1)

    def _known(self, body: Any, _: int) -> Any:
        module, name = (codec.as_kind(str, part) for part in body)
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if not isinstance(found, type) or not _is_library(found):
            raise codec.CodecError("a class that is not in a library")
        return found

    def _errors(self, body: Any, _: int) -> Any:
        mro = replies.mro_of(body)
        return self._table.errors.named(mro[0][0], mro)

    def _class(self, body: Any, _: int) -> Any:
        return self._classes.of(body)

    def _own(self, body: Any, _: int) -> Any:
        return self._table.asker.callback(_number(body))


_READERS: dict[str, Callable[[Receiver, Any, int], Any]] = {
    "export": Receiver._export,
    "raised": Receiver._raised,
    "error": Receiver._error,
    "errors": Receiver._errors,
    "object": Receiver._remote,
    "class": Receiver._class,
    "function": Receiver._function,
    "stream": Receiver._stream,
    "coroutine": Receiver._coroutine,
    "member": Receiver._member,
    "record": Receiver._record,
    "stripped": Receiver._stripped,
    "known": Receiver._known,
    "own": Receiver._own,
}


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MAX_NUMBER:
        raise codec.CodecError("a reference out of range")
    return value


class Numbered:
    """An object that has no stand-in, as an operand."""

    def __init__(self, number: int) -> None:
        self.number = number


def _function(asker: Asker, number: int, name: str, is_async: bool) -> types.FunctionType:
    """A stand-in for a function of the program's."""
    target = Numbered(number)

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return asker.act("call", target, args, tuple(kwargs.items()))

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await asker.act("call", target, args, tuple(kwargs.items()))

    made = awaited if is_async else stand_in
    made.__name__ = made.__qualname__ = name
    made.__module__ = "solution"
    assert isinstance(made, types.FunctionType)
    return made


def _dress(function: Any, key: Any, value: Any) -> None:
    """Give a stand-in what the tests look at."""
    if key == "doc":
        function.__doc__ = None if value is None else codec.as_kind(str, value)
    elif key == "annotations":
        function.__annotations__ = {
            codec.as_kind(str, name): shown_kind(kind) for name, kind in value
        }
    elif key == "signature" and value is not None:
        function.__signature__ = _signature(*value)


def _signature(rows: Any, returned: Any) -> inspect.Signature:
    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            name,
            inspect._ParameterKind(kind),
            default=default[0] if default else empty,
            annotation=shown_kind(annotation[0]) if annotation else empty,
        )
        for name, kind, default, annotation in rows
    ]
    shown = shown_kind(returned[0]) if returned else empty
    return inspect.Signature(parameters, return_annotation=shown)


def _stream(asker: Asker, target: Numbered) -> Any:
    """A real generator over a generator or iterator of the program's."""
    sent = None
    while True:
        try:
            item = asker.act("next", target) if sent is None else asker.act("send", target, sent)
        except StopIteration as end:
            return end.value
        try:
            sent = yield item
        except GeneratorExit:
            asker.act("close", target)
            raise
