"""The program's side of references: what the tests are given in place of objects that are not data.

Everything here runs beside the program and may be rewritten by it: it is a claim, which
`standins` and `classes` hold to the rules.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import enum
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

from ..exchange import codec
from ..exchange.forms import Reader, Writer
from ..exchange.heap import Heap

DUNDERS = frozenset(
    f"__{name}__"
    for name in """
abs add aenter aexit aiter and anext await bool call ceil complex contains delitem divmod enter eq exit
float floor floordiv format ge getitem gt hash iadd iand ifloordiv imatmul imod imul index int invert
ior ipow isub iter itruediv ixor le len lshift lt matmul mod mul neg next or pos pow radd rand rdivmod
repr reversed rfloordiv rlshift rmatmul rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor
setitem str sub truediv trunc xor instancecheck
""".split()  # noqa: SIM905 - a word list reads better than 80 quotes
)
"""Methods of a class that Python calls by itself; the tests are given their names."""
_ENUMS = (enum.IntFlag, enum.Flag, enum.IntEnum, enum.StrEnum, enum.Enum)
_ROUTINES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)


class Objects:
    """The program's objects that the tests hold, by number; they are kept, so ids are too."""

    def __init__(self) -> None:
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int:
        """Number of an object, a new one if it has none."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def __getitem__(self, number: int) -> Any:
        return self._objects[number]


class Export:
    """A name of the program's, on its way to the tests."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Raised:
    """An exception of the program's, on its way to the tests."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Giver(Writer):
    """Writes what the program gives."""

    def __init__(self, heap: Heap, objects: Objects) -> None:
        super().__init__(heap)
        self._objects = objects
        self._described: set[int] = set()
        self._unsent: list[int] = []
        self._callbacks: dict[int, int] = {}
        self._made: set[int] = set()
        self.wanted: frozenset[str] = frozenset()
        """Attributes of functions that the tests' text names."""

    def stands_for(self, function: Any, callback: int) -> None:
        """Note that a function is the tests' own callback with this number."""
        self._callbacks[id(function)] = callback

    def made(self, value: Any) -> None:
        """Note an object that the tests made by calling a class: it stays one, list or not."""
        data = isinstance(value, enum.Enum) or hasattr(type(value), "_fields")
        if type(value).__module__ != "builtins" and not data:
            self._made.add(self._objects.number(value))

    def _is_made(self, value: Any) -> bool:
        return bool(self._made) and self._objects._numbers.get(id(value), -1) in self._made

    def object(self, value: Any, kind: type, depth: int) -> Any:
        """An export, an exception, a member, a class, a record, a function, or an object."""
        if kind is Export:
            return {"export": _exported(self, value.value)}
        if kind is Raised:
            return {"raised": _told(self, value.error)}
        if isinstance(value, BaseException):
            return {"error": [self.mro(kind), self.items(value.args, depth)]}
        if id(value) in self._callbacks:
            return {"own": self._callbacks[id(value)]}
        if isinstance(value, type):
            return self._class_form(value, depth)
        data = None if self._is_made(value) else self._data(value, kind, depth)
        return data or self._reference(value, kind, depth)

    def _class_form(self, value: type, depth: int) -> Any:
        """A class, by its place in a library, as an exception, or by number."""
        library = value.__module__ in sys.stdlib_module_names or _is_numpy(value)
        if library and value.__module__ != "builtins":
            return {"known": [value.__module__, value.__qualname__]}
        if issubclass(value, BaseException):
            return {"errors": self.mro(value)}
        return {"class": self._class(value, depth)}

    def _data(self, value: Any, kind: type, depth: int) -> Any:
        """A member of an enum, a named tuple, or data of a class that derives from a plain type."""
        if isinstance(value, enum.Enum):
            member = [self._class(kind, depth), value._name_, self.encode(value._value_, depth + 1)]
            return {"member": member}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {"record": [self._class(kind, depth), self.items(tuple.__iter__(value), depth)]}
        for base, strip in codec.STRIP:
            if isinstance(value, base):
                return self._stripped(strip(value), kind, base, depth)
        return None

    def _reference(self, value: Any, kind: type, depth: int) -> Any:
        """Reference to an object that stays in this process."""
        if isinstance(value, _ROUTINES) and not _has_attributes(value):
            return {"function": self.function(value, depth)}
        if hasattr(kind, "__await__") and kind.__module__ == "builtins":
            return {"coroutine": self._objects.number(value)}
        if hasattr(kind, "__next__") and kind.__module__ in _LIBRARIES:
            return {"stream": self._objects.number(value)}
        return {
            "object": [self._objects.number(value), self._class(kind, depth), self._hash(value)]
        }

    def _stripped(self, data: Any, kind: type, base: type, depth: int) -> Any:
        """Data of a class that derives from a plain type, read by that type's own slots."""
        own = {name for k in kind.__mro__[: kind.__mro__.index(base)] for name in vars(k)}
        if not own - _HARMLESS:
            return self.encode(data, depth + 1)
        return {"stripped": [kind.__name__, self.encode(data, depth + 1)]}

    def _hash(self, value: Any) -> Any:
        """The object's own hash, if its class defines one; hashed containers are read without a question."""
        own: Any = type(value).__hash__
        if own is None or own is object.__hash__:
            return None
        try:
            return self.encode(hash(value))
        except Exception:  # noqa: BLE001 - foreign code
            return None

    def function(self, value: Any, depth: int = 0) -> list[Any]:
        """Number, name, and what else the tests' text asks of functions."""
        asked = {}
        if "__doc__" in self.wanted:
            asked["doc"] = getattr(value, "__doc__", None)
        if "__annotations__" in self.wanted:
            found = getattr(value, "__annotations__", {})
            asked["annotations"] = tuple((name, _shown(kind)) for name, kind in found.items())
        if self.wanted & {"signature", "getfullargspec", "getargspec"}:
            asked["signature"] = _signature(value)
        name = getattr(value, "__name__", "function")
        extras = [[key, self.encode(item, depth + 1)] for key, item in asked.items()]
        name = name if type(name) is str else "function"
        return [self._objects.number(value), name, _is_async(value), extras]

    def mro(self, kind: type) -> list[Any]:
        """A class and its ancestors: name, number where it is not a builtin, and its module."""
        return [
            [base.__name__, number, base.__module__ if type(base.__module__) is str else ""]
            for base in kind.__mro__
            for number in [-1 if _is_builtin(base) else self._objects.number(base)]
        ]

    # -- classes -----------------------------------------------------------------------------------

    def _class(self, kind: type, depth: int) -> list[Any]:
        """Number of a class, with its description the first time."""
        number = self._objects.number(kind)
        if number in self._described:
            return [number]
        self._described.add(number)
        self._unsent.append(number)
        return [number, self._description(kind, depth)]

    def undo(self) -> None:
        """What was written since the last `settle` was not sent."""
        super().undo()
        self._described.difference_update(self._unsent)
        self._unsent = []

    def settle(self) -> None:
        """What was written was sent."""
        super().settle()
        self._unsent = []

    def _description(self, kind: type, depth: int) -> list[Any]:
        names = [name for base in kind.__mro__ if base is not object for name in vars(base)]
        dunders = sorted(DUNDERS & set(names))
        methods = sorted({n for n in names if _is_method(kind, n)})
        doc = kind.__doc__ if type(kind.__doc__) is str else None
        return [self.mro(kind), doc, dunders, methods, self._sort(kind, depth)]

    def _sort(self, kind: type, depth: int) -> Any:
        """What more than a class it is."""
        if issubclass(kind, enum.Enum):
            base = next(base for base in _ENUMS if issubclass(kind, base))
            mixed = next((b.__name__ for b in (int, str, float) if issubclass(kind, b)), "")
            members = [
                [name, self.encode(m._value_, depth)] for name, m in kind.__members__.items()
            ]
            return ["enum", base.__name__, mixed, members]
        if issubclass(kind, tuple) and type(getattr(kind, "_fields", None)) is tuple:
            defaults = getattr(kind, "_field_defaults", {})
            known = [[name, self.encode(value, depth)] for name, value in defaults.items()]
            return ["record", list(getattr(kind, "_fields", ())), known]
        if dataclasses.is_dataclass(kind):
            return ["dataclass", *self._dataclass(kind)]
        return None

    @staticmethod
    def _dataclass(kind: type) -> list[Any]:
        fields = [
            [f.name, f.compare, f.repr, f.init, _shown(f.type)] for f in dataclasses.fields(kind)
        ]
        generated = [name for name in ("__eq__", "__repr__", "__lt__") if _is_generated(kind, name)]
        return [fields, generated]


class Taker(Reader):
    """Reads what the tests give."""

    def __init__(self, heap: Heap, objects: Objects, callback: Callable[..., Any]) -> None:
        super().__init__(heap)
        self._objects = objects
        self._callback = callback

    def object(self, tag: str, body: Any, depth: int) -> Any:
        """An object of the program's, a member, a record, a library's object, or a callback."""
        if tag == "object":
            return self._objects[body]
        if tag == "member":
            kind = self._objects[body[0]]
            return kind[body[1]] if body[1] is not None else kind(self.decode(body[2], depth + 1))
        if tag == "record":
            return tuple.__new__(self._objects[body[0]], self.items(body[1], depth))
        if tag == "known":
            return find_known(*body)
        if tag == "error":
            return getattr(builtins, body[0])(*self.items(body[1], depth))
        if tag == "callback":
            return self._callback(*body)
        raise codec.CodecError("unknown kind")


def _exported(giver: Giver, value: Any) -> list[Any]:
    if isinstance(value, type) and issubclass(value, BaseException):
        return ["error", giver.mro(value)]
    found: list[Any] = giver.attempt(lambda: ["value", giver.encode(value, 2)], ["nothing", None])
    return found


def _told(giver: Giver, error: BaseException) -> list[Any]:
    """Ancestors, arguments, text, attributes and cause of an exception."""
    own_text = type(error).__str__ not in (BaseException.__str__, KeyError.__str__, OSError.__str__)
    try:
        text = str(error) if own_text else None
    except Exception:  # noqa: BLE001 - foreign code
        text = None
    args = giver.attempt(lambda: giver.items(error.args, 2), [text if text else _text(error)])
    attributes = []
    for name, value in _attributes(error).items():
        tree = giver.attempt(lambda value=value: giver.encode(value, 3), None)  # type: ignore[misc]
        attributes.append([name, tree])
    cause = error.__cause__
    cause_sent = (
        _told(giver, cause) if isinstance(cause, Exception) and cause is not error else None
    )
    return [
        giver.mro(type(error)),
        args,
        text if type(text) is str else None,
        attributes,
        cause_sent,
    ]


def _attributes(error: BaseException) -> dict[str, Any]:
    """What an exception holds, and what the program's classes add: data, properties, methods."""
    kind = type(error)
    if kind.__module__ == "builtins":
        return {}
    own = [base for base in kind.__mro__ if base.__module__ not in sys.stdlib_module_names]
    names = {name for base in own for name in vars(base) if not name.startswith("_")}
    found = dict(vars(error))
    for name in sorted(names - found.keys() - set(dir(BaseException))):
        with contextlib.suppress(Exception):  # a property that fails is one that the tests lack
            found[name] = getattr(error, name)
    return found


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - foreign code
        return ""


def find_known(module: Any, name: Any) -> Any:
    """A function or class of a library by its place."""
    found: Any = sys.modules.get(module) or __import__(module, fromlist=["_"])
    for part in name.split("."):
        found = getattr(found, part)
    return found


_LIBRARIES = (
    "builtins",
    "itertools",
    "collections",
    "_collections",
    "enum",
    "re",
    "csv",
    "_csv",
    "zip",
)
_HARMLESS = frozenset(
    """__module__ __doc__ __dict__ __weakref__ __slots__ __annotations__ __orig_bases__ __qualname__
__parameters__ __static_attributes__ __firstlineno__""".split()  # noqa: SIM905 - as above
)


def _is_builtin(kind: type) -> bool:
    return vars(builtins).get(kind.__name__) is kind


def _is_numpy(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "numpy"


def _is_method(kind: type, name: str) -> bool:
    if name.startswith("__") and name.endswith("__"):
        return False
    for base in kind.__mro__:
        if name in vars(base):
            return type(vars(base)[name]) is types.FunctionType
    return False


def _is_generated(kind: type, name: str) -> bool:
    """Whether the decorator wrote this method: it is then decided by the fields."""
    method = vars(kind).get(name)
    code = getattr(method, "__wrapped__", method)
    return getattr(getattr(code, "__code__", None), "co_filename", "") == "<string>"


def _has_attributes(value: Any) -> bool:
    """Whether a function carries attributes, such as a count of its calls."""
    return bool(getattr(value, "__dict__", {}).keys() - {"__wrapped__"})


def _is_async(value: Any) -> bool:
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    return code is not None and bool(code.co_flags & 0x80)


def _shown(kind: Any) -> Any:
    """An annotation: a builtin type, or the text that names it."""
    if isinstance(kind, type) and _is_builtin(kind):
        return ("type", kind.__name__)
    return ("text", kind if type(kind) is str else repr(kind))


def _signature(value: Any) -> Any:
    """Parameters of a function: name, kind, default, annotation."""
    inspect = importlib.import_module("inspect")
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    empty = inspect.Parameter.empty
    rows = []
    for p in found.parameters.values():
        default = () if p.default is empty else (_plain(p.default),)
        annotation = () if p.annotation is empty else (_shown(p.annotation),)
        rows.append((p.name, int(p.kind), default, annotation))
    returned = found.return_annotation
    return tuple(rows), () if returned is empty else (_shown(returned),)


def _plain(value: Any) -> Any:
    try:
        codec.dumps(value)
    except codec.CodecError:
        return repr(value)
    return value
