"""How values cross between a program and its tests: real types, shared containers, references.

Plain data goes as `codec` writes it. Containers are numbered, see `heap`. What is left is an object
that stays where it is, and that each side refers to in its own way: `Writer.object`, `Reader.object`.
"""

from __future__ import annotations

import array
import builtins
import cmath
import collections
import importlib
import io
import math
import operator
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from . import codec
from .heap import Heap, Shared

_MAX_ARRAY_BYTES = 1 << 26
_SHARED: dict[type, str] = {
    kind: kind.__name__
    for kind in (
        list,
        dict,
        set,
        bytearray,
        collections.Counter,
        collections.OrderedDict,
        collections.defaultdict,
        collections.deque,
        io.StringIO,
        io.BytesIO,
    )
}
_SOME: dict[Any, Any] = {}
_KEYS, _ITEMS, _VALUES = type(_SOME.keys()), type(_SOME.items()), type(_SOME.values())
_SINGLE = (Ellipsis, NotImplemented)
_COMPUTING = (
    """abs all any ascii bin chr divmod hex len max min oct ord pow repr round sorted sum""".split()  # noqa: SIM905 - a word list reads better than many quotes
)
_PURE: dict[str, Any] = {
    **{name: getattr(builtins, name) for name in _COMPUTING},
    **{
        f"{module.__name__}.{name}": function
        for module in (operator, math, cmath)
        for name, function in vars(module).items()
        if type(function) is types.BuiltinFunctionType and not name.startswith("_")
    },
}
"""Functions of Python's own that only compute. Each side has them, so tests may compare them by identity."""
_PURE_NAMES = {id(function): name for name, function in _PURE.items()}
_RAW = "biufcSUMm"  # kinds of numpy data whose bytes say everything


def _numpy(value: Any, kind: type) -> str:
    """``ndarray`` or ``generic`` for numpy's own data; empty for anything else."""
    numpy = sys.modules.get("numpy") if kind.__module__.partition(".")[0] == "numpy" else None
    if numpy is None:
        return ""
    if kind is numpy.ndarray:
        return "ndarray"
    return "generic" if isinstance(value, numpy.generic) else ""


class Writer(codec.Encoder):
    """Values as trees, under the numbers of a heap."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self.named: set[int] = set()
        """Numbers of containers in what was written since this was last emptied."""

    def object(self, value: Any, kind: type, depth: int) -> Any:
        """A reference to a value that is not data. Raises `codec.CodecError`."""
        raise NotImplementedError

    def attempt(self, write: Callable[[], Any], instead: Any) -> Any:
        """A tree, or another one where the value has no form."""
        mark = self._heap.mark()
        try:
            return write()
        except (codec.CodecError, RecursionError):
            self._heap.undo(mark)
            return instead

    def undo(self) -> None:
        """What was written since the last `settle` was not sent."""
        self._heap.undo()

    def settle(self) -> None:
        """What was written was sent."""
        self._heap.settle()

    def container(self, value: Any, kind: type, depth: int) -> Any:
        """A container, or the number of one that the other side has."""
        return self._shared(_SHARED[kind], value, depth)

    def _shared(self, kind: str, value: Any, depth: int) -> Any:
        number = self._heap.number_of(value)
        if number is not None:
            self.named.add(number)
            return {"old": number}
        number = self._heap.add(kind, value)
        self.named.add(number)
        return {"new": [number, kind, self.content(kind, value, depth)]}

    def content(self, kind: str, value: Any, depth: int = 0) -> Any:
        """Content of a container of this kind."""
        if kind in ("list", "set"):
            return self.items(value, depth)
        if kind == "OrderedDict":  # whose order the methods of dict do not see
            pairs = list(value.items())
            return [self.items(pair, depth) for pair in pairs]
        if kind in ("dict", "Counter"):
            return self.pairs(value, depth)
        if kind == "defaultdict":
            return [self.encode(value.default_factory, depth + 1), self.pairs(value, depth)]
        if kind == "deque":
            return [value.maxlen, self.items(value, depth)]
        if kind == "bytearray":
            return value.hex()
        if kind == "ndarray":
            return self._array(value, depth)
        text = value.getvalue()
        return [text if kind == "StringIO" else text.hex(), value.tell()]

    def _array(self, value: Any, depth: int) -> Any:
        shape = list(value.shape)
        if value.dtype.kind in _RAW:
            return [value.dtype.str, shape, value.tobytes().hex()]
        return ["O", shape, self.items(value.ravel().tolist(), depth)]

    def unusual(self, value: Any, kind: type, depth: int) -> Any:
        """Real types that call mode flattens; then objects."""
        if kind in _SHARED:
            return self._shared(_SHARED[kind], value, depth)
        numpy = _numpy(value, kind)
        if numpy == "ndarray":
            return self._shared(numpy, value, depth)
        if numpy and value.dtype.kind in _RAW:
            return {"scalar": [value.dtype.str, value.tobytes().hex()]}
        if kind is slice:
            return {"slice": self.items((value.start, value.stop, value.step), depth)}
        if kind is _KEYS or kind is _ITEMS:
            return {"keys" if kind is _KEYS else "items": self.items(value, depth)}
        if kind is _VALUES:
            return {"values": self.items(value, depth)}
        if kind is array.array:
            return {"array": [value.typecode, self.items(value, depth)]}
        if kind is re.Pattern:
            return {"pattern": [self.encode(value.pattern, depth + 1), value.flags]}
        if kind is re.Match:
            return {"match": self._match(value, depth)}
        if value is Ellipsis or value is NotImplemented:
            return {"builtin": repr(value)}
        name = value.__name__ if isinstance(value, type) else ""
        if name and vars(builtins).get(name) is value:
            return {"builtin": name}
        if id(value) in _PURE_NAMES:
            return {"builtin": _PURE_NAMES[id(value)]}
        return self.object(value, kind, depth)

    def _match(self, value: re.Match[Any], depth: int) -> list[Any]:
        pattern = self.unusual(value.re, re.Pattern, depth)["pattern"]
        return [pattern, self.encode(value.string, depth + 1), *value.span(), value.endpos]


class Reader(codec.Decoder):
    """Values from trees, under the numbers of a heap."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self.named: set[int] = set()
        """Numbers of containers in what was read since this was last emptied."""

    def object(self, tag: str, body: Any, depth: int) -> Any:
        """What a reference stands for. Raises `codec.CodecError`."""
        raise NotImplementedError

    def other(self, tag: str, body: Any, depth: int) -> Any:
        """A container, a real type that call mode flattens, or an object."""
        if tag == "new":
            number, kind, content = body
            value = self._empty(kind, content, depth)
            self._heap.receive(number, kind, value)
            self.named.add(number)
            self.fill(kind, value, content, depth)
            return value
        if tag == "old":
            if type(body) is not int or body not in self._heap:
                raise codec.CodecError("a reference to nothing")
            self.named.add(body)
            return self._heap[body].value
        if tag in _REAL:
            return _REAL[tag](self, body, depth)
        return self.object(tag, body, depth)

    def _empty(self, kind: Any, content: Any, depth: int) -> Any:
        if kind == "defaultdict":
            return collections.defaultdict(self._factory(content[0], depth))
        if kind == "deque":
            return collections.deque(maxlen=_length(content[0]))
        if kind == "ndarray":
            return _empty_array(*content)
        return _EMPTY[kind]()

    def _factory(self, tree: Any, depth: int) -> Any:
        factory = self.decode(tree, depth + 1)
        if factory is not None and not callable(factory):
            raise codec.CodecError("a factory that cannot be called")
        return factory

    def refresh(self, shared: Shared, content: Any) -> None:
        """Give a container other content."""
        if shared.kind not in ("ndarray", "StringIO", "BytesIO"):
            shared.value.clear()
        self.fill(shared.kind, shared.value, content, 0)

    def another(self, kind: str, content: Any) -> Any:
        """A container like the one of this kind, with this content."""
        value = self._empty(kind, content, 0)
        self.fill(kind, value, content, 0)
        return value

    def fill(self, kind: str, value: Any, content: Any, depth: int) -> None:
        """Fill an empty container."""
        if kind == "list":
            value.extend(self.items(content, depth))
        elif kind == "set":
            items = self.items(content, depth)
            codec.hashable(items)
            value.update(items)
        elif kind in ("dict", "Counter", "OrderedDict"):
            self._mapping(value, content, depth)
        elif kind == "defaultdict":
            self._mapping(value, content[1], depth)
        elif kind == "deque":
            value.extend(self.items(content[1], depth))
        elif kind == "bytearray":
            value.extend(bytes.fromhex(codec.as_kind(str, content)))
        elif kind == "ndarray":
            self._fill_array(value, content, depth)
        else:
            _fill_stream(kind, value, *content)

    def _mapping(self, value: Any, content: Any, depth: int) -> None:
        filled = self.filled({}, content, depth)
        for key in filled:  # an ordered dict keeps its order only by its own methods
            value[key] = filled[key]

    def _fill_array(self, value: Any, content: Any, depth: int) -> None:
        dtype, _, data = content
        np = importlib.import_module("numpy")
        if dtype == "O":
            items = np.empty(len(data), dtype=object)
            items[:] = self.items(data, depth)
            value[...] = items.reshape(value.shape)
        else:
            found = np.frombuffer(bytes.fromhex(data), dtype=value.dtype)
            value[...] = found.reshape(value.shape)


def _length(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 0):
        raise codec.CodecError("not a length")
    return value


def _fill_stream(kind: str, value: Any, text: Any, position: Any) -> None:
    value.seek(0)
    value.truncate()
    value.write(codec.as_kind(str, text) if kind == "StringIO" else bytes.fromhex(text))
    value.seek(codec.as_kind(int, position))


def _dtype(text: Any) -> Any:
    np = importlib.import_module("numpy")
    dtype = np.dtype(codec.as_kind(str, text))
    if dtype.kind not in _RAW and text != "O":
        raise codec.CodecError("a kind of array that does not cross")
    return dtype


def _empty_array(dtype: Any, shape: Any, data: Any) -> Any:
    np = importlib.import_module("numpy")
    sizes = [codec.as_kind(int, size) for size in shape]
    kind = _dtype(dtype)
    given = len(data) if kind.kind == "O" else len(data) // 2 // max(kind.itemsize, 1)
    if min(sizes, default=0) < 0 or (math.prod(sizes) != given and kind.itemsize):
        raise codec.CodecError("an array whose shape is not that of its data")
    if math.prod(sizes) * kind.itemsize > _MAX_ARRAY_BYTES:
        raise codec.CodecError("an array that is too large")
    return np.empty(sizes, dtype=kind)


def _scalar(dtype: Any, data: Any) -> Any:
    np = importlib.import_module("numpy")
    return np.frombuffer(bytes.fromhex(data), dtype=_dtype(dtype), count=1)[0]


def _pattern(reader: Reader, body: Any, depth: int) -> re.Pattern[Any]:
    text, flags = body
    text = reader.decode(text, depth + 1)
    kind = flags & ~re.UNICODE if isinstance(text, bytes) else flags
    return re.compile(text, kind & ~re.DEBUG)


def _match(reader: Reader, body: Any, depth: int) -> Any:
    pattern, string, start, end, last = body
    compiled = _pattern(reader, pattern, depth)
    found = compiled.match(reader.decode(string, depth + 1), start, last)
    if found is None or found.end() != end:
        found = compiled.fullmatch(found.string if found else string, start, end)
    if found is None:
        raise codec.CodecError("a match that does not match")
    return found


def _builtin(_: Reader, body: Any, __: int) -> Any:
    name = codec.as_kind(str, body)
    found = _PURE.get(name, vars(builtins).get(name))
    if name in _PURE or isinstance(found, type) or found in _SINGLE:
        return found
    raise codec.CodecError("not a builtin type or function")


_EMPTY: dict[str, Callable[[], Any]] = {
    name: kind for kind, name in _SHARED.items() if name not in ("defaultdict", "deque")
}
_REAL: dict[str, Callable[[Reader, Any, int], Any]] = {
    "slice": lambda reader, body, depth: slice(*reader.items(body, depth)),
    "keys": lambda reader, body, depth: dict.fromkeys(reader.items(body, depth)).keys(),
    "items": lambda reader, body, depth: dict(reader.items(body, depth)).items(),
    "values": lambda reader, body, depth: dict(enumerate(reader.items(body, depth))).values(),
    "array": lambda reader, body, depth: array.array(body[0], reader.items(body[1], depth)),
    "scalar": lambda reader, body, depth: _scalar(*body),
    "pattern": _pattern,
    "match": _match,
    "builtin": _builtin,
}
