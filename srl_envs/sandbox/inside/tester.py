"""The test's side of a test run: asserts run here, against stand-ins for what the program defines.

The program is in another process and sees single calls. What comes back is plain data, which the
tests compare with Python's own operators, or a `Remote`: an object that stays with the program.
A remote never equals plain data and has no order with it, so no ``__eq__`` or ``__lt__`` of the
program decides a comparison with an expected value.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from . import codec
from .channel import Channel, Gone

_MESSAGE_CHARS = 300
_FILE = "tests.py"


class ProgramError(Exception):
    """The program raised something that is no Exception, or of a kind that the tests lack."""


class Tester:
    """Talks to the candidate and holds the stand-ins."""

    def __init__(self, read: int, write: int) -> None:
        self._channel = Channel(read, write, self._refer, self._resolve)
        self._callbacks: list[Callable[..., Any]] = []
        self._remotes: dict[int, Remote] = {}
        self._exceptions: dict[str, type[Exception]] = {}

    def names(self) -> dict[str, Any]:
        """Stand-ins for what the program defines; raises what loading it raised."""
        message = self._channel.receive()
        self._raise(message)
        try:
            return {name: self._stand_in(name, how) for name, how in message["names"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise Gone(f"a malformed message: {error}") from None

    def _stand_in(self, name: str, how: dict[str, Any]) -> Any:
        if "module" in how:
            return sys.modules.get(how["module"])
        if "bases" in how:
            return self._exception(name, how["bases"])
        if "class" in how:
            return _class(self, name, how["class"])
        if "function" in how:
            return _function(self, name, how["function"])
        return how["value"]

    def _exception(self, name: str, bases: list[str]) -> type[Exception]:
        known = (getattr(builtins, base, None) for base in bases)
        base = next((b for b in known if isinstance(b, type) and issubclass(b, Exception)), None)
        self._exceptions[name] = type(name, (base or Exception,), {})
        return self._exceptions[name]

    def ask(self, operation: str, *args: Any) -> Any:
        """Have the program apply an operator."""
        return self._exchange({"operation": operation}, list(args), {})

    def call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have the program call one of its objects."""
        return self._exchange({"operation": "call", "object": number}, list(args), kwargs)

    def _exchange(self, message: dict[str, Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        self._channel.send(message | {"args": args, "kwargs": kwargs})
        while "callback" in (reply := self._channel.receive()):
            self._channel.send(self._called_back(reply))
        try:
            for place, value in reply["changed"].items():
                _replace(args[place], value)
            self._raise(reply)
            return args[reply["same"]] if "same" in reply else reply["value"]
        except (KeyError, IndexError, AttributeError) as error:
            if "raise" in reply:
                raise
            raise Gone(f"a malformed message: {error}") from None

    def _called_back(self, reply: dict[str, Any]) -> dict[str, Any]:
        """Answer a program that calls a function the tests gave it."""
        try:
            function = self._callbacks[reply["callback"]]
            return {"value": function(*reply["args"], **reply["kwargs"])}
        except Exception as error:  # noqa: BLE001 - goes to the program, as in one process
            return {"raise": [type(error).__name__], "args": [str(error)]}

    def _raise(self, reply: dict[str, Any]) -> None:
        if "raise" not in reply:
            return
        for name in reply["raise"]:
            kind = self._exceptions.get(name) or getattr(builtins, str(name), None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                try:
                    error = kind(*reply["args"])
                except TypeError:  # one that needs other arguments
                    error = ProgramError(f"{name}: {reply['args']}")
                raise error
        raise ProgramError(f"{reply['raise'][0]}: {reply['args']}")

    def _refer(self, value: Any) -> dict[str, Any]:
        number = _number_of(value)
        if number is not None:
            return {"object": number}
        if callable(value) and not isinstance(value, type):
            self._callbacks.append(value)
            return {"callback": len(self._callbacks) - 1}
        raise codec.CodecError(f"{type(value).__name__} cannot be passed to the program")

    def _resolve(self, body: Any) -> Remote:
        number = body["object"]
        if type(number) is not int:
            raise codec.CodecError("a malformed reference")
        return self._remotes.setdefault(number, Remote(self, number))


def _replace(target: Any, value: Any) -> None:
    """Give a mutable argument the content that the call left in it."""
    if type(target) is list and type(value) is list:
        target[:] = value
    elif type(target) in (dict, set) and type(value) is type(target):
        target.clear()
        target.update(value)


def _number_of(value: Any) -> int | None:
    """The program's number for a stand-in; None for anything else."""
    number: int | None = None
    if type(value) is Remote:
        number = object.__getattribute__(value, "_number")
    elif type(value) is _ClassMeta:
        number = value._number
    elif callable(value):
        number = getattr(value, "_remote_number", None)
    return number


def _function(tester: Tester, name: str, number: int) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return tester.call(number, args, kwargs)

    stand_in.__name__ = stand_in.__qualname__ = str(name)
    stand_in._remote_number = number  # type: ignore[attr-defined]
    return stand_in


class _ClassMeta(type):
    """Type of the stand-ins for the program's classes."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls._tester.call(cls._number, args, kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        if type(instance) is not Remote:
            return False
        return cls._tester.ask("isinstance", instance, cls) is True

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return cls._tester.ask("getattr", cls, name)

    def __getitem__(cls, key: Any) -> Any:
        return cls._tester.ask("getitem", cls, key)

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls._tester.ask("list", cls))


def _class(tester: Tester, name: str, number: int) -> type:
    return _ClassMeta(str(name), (), {"_tester": tester, "_number": number})


class Remote:
    """An object of the program's that has no JSON form."""

    __slots__ = ("_mixed", "_number", "_tester")

    def __init__(self, tester: Tester, number: int) -> None:
        object.__setattr__(self, "_tester", tester)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_mixed", False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _ask("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        _ask("delattr", self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object, where it lives."""
        return _tester_of(self).call(_number_of(self) or 0, args, kwargs)

    def __eq__(self, other: object) -> bool:
        return type(other) is Remote and (self is other or _ask("eq", self, other) is True)

    def __ne__(self, other: object) -> bool:
        return type(other) is not Remote or _ask("ne", self, other) is True

    def __hash__(self) -> int:
        return int(_ask("hash", self))

    def __iter__(self) -> Iterator[Any]:
        iterator = _ask("iter", self)
        if type(iterator) is not Remote:
            return iter(iterator)
        return _items(iterator)

    def __next__(self) -> Any:
        return _ask("next", self)

    def __enter__(self) -> Any:
        return _ask("getattr", self, "__enter__")()

    def __exit__(self, *_: object) -> None:
        _ask("getattr", self, "__exit__")(None, None, None)

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask("setitem", self, key, value)

    def __delitem__(self, key: Any) -> None:
        _ask("delitem", self, key)


def _items(iterator: Any) -> Iterator[Any]:
    while True:
        try:
            item = _ask("next", iterator)
        except StopIteration:
            return
        yield item


def _tester_of(remote: Remote) -> Tester:
    return object.__getattribute__(remote, "_tester")  # type: ignore[no-any-return]


def _ask(operation: str, remote: Remote, *args: Any) -> Any:
    return _tester_of(remote).ask(operation, remote, *args)


def _question(operation: str, kinds: type | tuple[type, ...]) -> Callable[[Remote], Any]:
    """An operator on the object alone, whose answer has a known type.

    Refused for the result of arithmetic with plain data: ``abs(f(x) - 1.5) < 1e-6`` would otherwise
    be decided by the program's own ``__sub__`` and ``__abs__``.
    """

    def method(self: Remote) -> Any:
        if object.__getattribute__(self, "_mixed"):
            raise TypeError(f"{operation} of an object that was computed with the tests' data")
        value = _ask(operation, self)
        if not isinstance(value, kinds) and type(value) is not Remote:
            raise TypeError(f"{operation} returned {type(value).__name__}")
        return value

    return method


def _arithmetic(operation: str, *, swapped: bool = False) -> Callable[[Remote, Any], Any]:
    """A binary operator; with plain data on one side its result must stay an object."""

    def method(self: Remote, other: Any) -> Any:
        tester = _tester_of(self)
        value = tester.ask(operation, other, self) if swapped else _ask(operation, self, other)
        if type(other) is not Remote:
            if type(value) is not Remote:
                raise TypeError(f"{operation} of an object and plain data gave plain data")
            object.__setattr__(value, "_mixed", True)
        return value

    return method


def _order(operation: str) -> Callable[[Remote, Any], Any]:
    def method(self: Remote, other: Any) -> Any:
        return _ask(operation, self, other) is True if type(other) is Remote else NotImplemented

    return method


def _plain(operation: str) -> Callable[..., Any]:
    return lambda self, *args: _ask(operation, self, *args)


_NUMBER = (int, float, complex)
_BINARY = """
add sub mul truediv floordiv mod pow matmul and or xor lshift rshift
""".split()  # noqa: SIM905 - a word list reads better than many quotes
for _name, _kinds in {"str": str, "repr": str, "len": int, "int": int, "float": float}.items():
    setattr(Remote, f"__{_name}__", _question(_name, _kinds))
for _name in ("abs", "neg", "pos", "invert", "index", "round"):
    setattr(Remote, f"__{_name}__", _question(_name, _NUMBER))
Remote.__bool__ = _question("bool", bool)  # type: ignore[attr-defined]
for _name in _BINARY:
    _operator = _name + "_" if _name in ("and", "or") else _name
    setattr(Remote, f"__{_name}__", _arithmetic(_operator))
    setattr(Remote, f"__r{_name}__", _arithmetic(_operator, swapped=True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Remote, f"__{_name}__", _order(_name))
for _name in ("getitem", "contains", "reversed"):
    setattr(Remote, f"__{_name}__", _plain(_name))


def judge(tests: str, namespace: dict[str, Any]) -> NoReturn:
    """Run as the tester: replies come on descriptor 0, requests go to 3, the verdict to 1."""
    verdict_file, tester = os.dup(1), Tester(os.dup(0), os.dup(3))
    for descriptor in (0, 1, 3):
        os.dup2(2, descriptor)  # standard error leads nowhere; what tests print is lost
    verdict, message = _verdict(tests, tester, namespace)
    text = json.dumps({"verdict": verdict, "message": message[:_MESSAGE_CHARS]})
    os.pwrite(verdict_file, text.encode(), 0)
    os._exit(0)


def _verdict(tests: str, tester: Tester, namespace: dict[str, Any]) -> tuple[str, str]:
    try:
        code = compile(tests, _FILE, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return "tests", f"the tests do not compile: {error}"
    try:
        namespace.update(tester.names())
    except Gone as error:
        return "gone", str(error)
    except Exception as error:  # noqa: BLE001 - whatever the program raised
        return "exception", f"{type(error).__name__}: {error}"
    try:
        exec(code, namespace)  # noqa: S102 - what the sandbox is for
    except Gone as error:
        return "gone", str(error)
    except SystemExit as leaving:  # the tests' own: the program's became a ProgramError
        return ("passed", "") if leaving.code in (None, 0, False) else ("exception", "SystemExit")
    except BaseException as error:  # noqa: BLE001 - the tests may raise anything
        return "exception", _where(error)
    return "passed", ""


def _where(error: BaseException) -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == _FILE]
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a message that holds a remote
        text = ""
    place = f" (line {lines[-1]} of the tests)" if lines else ""
    return f"{type(error).__name__}{': ' if text else ''}{text[:200]}{place}"
