"""The test's side of a test run: asserts run here, against stand-ins for what the program defines.

The program is in another process and sees single calls. What comes back is plain data, which the
tests compare with Python's own operators, or a `Remote`: an object that stays with the program.
Every message is the claim of an adversary: `replies` takes it apart, and one that breaks the protocol
fails the program for good, whatever the tests go on to catch.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import json
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from . import codec, replies, standins, suite
from .channel import Channel, Gone
from .standins import Remote

_MESSAGE_CHARS = 300


class ProgramError(Exception):
    """The program raised something that no test may take for an end: `SystemExit`, for example."""


class Tester:
    """Talks to the candidate and holds the stand-ins.

    Args:
        read: descriptor of the program's replies.
        write: descriptor of our requests.
        attributes: of the program's objects that may be asked for.
    """

    def __init__(self, read: int, write: int, attributes: frozenset[str]) -> None:
        self._channel = Channel(read, write, self._refer, self._resolve)
        self._attributes = attributes
        self._callbacks: list[Callable[..., Any]] = []
        self._functions: dict[int, int] = {}  # id of a stand-in, which `_exported` keeps -> number
        self._remotes: dict[int, Remote] = {}
        self._exported: dict[str, Any] = {}
        self._errors = replies.Errors()
        self._asked = 0
        self._one_at_a_time = threading.RLock()  # of the tests' threads
        self.failure = ""
        """Why the program has failed, whatever became of the exception that said so."""

    def load(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Stand-ins for these names, where the program has them; raises what loading it raised."""
        self._outcome(self._reply(0, ()), ())
        return self._export(names) if names else {}

    def export(self, name: str) -> Any:
        """The stand-in for one name.

        Raises:
            AttributeError: the program has none.
        """
        if name not in self._exported and not suite.is_dunder(name):
            self._export((name,))
        try:
            return self._exported[name]
        except KeyError:
            raise AttributeError(f"the program defines no {name!r}") from None

    def _export(self, names: tuple[str, ...]) -> dict[str, Any]:
        found = self._exchange({"operation": "export"}, list(names), {})
        with self._blamed():
            exports = replies.exports(found, names)
        self._exported |= {name: self._stand_in(name, *how) for name, how in exports.items()}
        return self._exported

    def _stand_in(self, name: str, kind: str, body: Any) -> Any:
        if kind == "value":
            return body
        if kind == "class":
            return standins.make_class(self, name, body)
        if kind == "error":
            with self._blamed():
                return self._errors.named(name, body)
        made = standins.function(self, name, body)
        self._functions[id(made)] = body
        return made

    def may_read(self, name: str) -> bool:
        """Whether the tests' text names this attribute: no library asks the program on its own."""
        return name in self._attributes

    def ask(self, operation: str, *args: Any) -> Any:
        """Have the program apply an operator."""
        return self._exchange({"operation": operation}, list(args), {})

    def call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have the program call one of its objects."""
        return self._exchange({"operation": "call", "object": number}, list(args), kwargs)

    def _exchange(self, message: dict[str, Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        with self._one_at_a_time:
            reply = self._reply(self._request(message, args, kwargs), args)
        try:
            return self._outcome(reply, args)
        except (StopIteration, StopAsyncIteration) as error:
            if message["operation"] == "next":
                raise
            # As in a generator: it would end a map() or a loop of the tests before its checks.
            raise RuntimeError(f"the program raised {type(error).__name__}") from None

    def _request(self, message: dict[str, Any], args: list[Any], kwargs: dict[str, Any]) -> int:
        """Send a request; its number."""
        self._asked += 1
        number = self._asked
        self._send(message | {"number": number, "args": args, "kwargs": kwargs})
        return number

    def _send(self, message: dict[str, Any]) -> None:
        """Send; data that cannot be sent must not look like an error of the program's."""
        with self._blamed():
            try:
                self._channel.send(message)
            except codec.CodecError as error:
                raise Gone(f"the tests pass what no program can be given: {error}") from None

    def _reply(self, number: int, args: Any) -> replies.Reply:
        """The reply to a request; functions of the tests that the program calls run meanwhile."""
        with self._blamed():
            while "callback" in (message := self._channel.receive()):
                called = replies.callback(message, len(self._callbacks))
                self._send(self._called_back(*called))
            return replies.reply(message, number, args)

    def _outcome(self, reply: replies.Reply, args: Any) -> Any:
        for place, value in reply.changed.items():
            _replace(args[place], value)
        if reply.mro is not None:
            with self._blamed():
                error = self._errors.error(reply.mro, reply.args)
            raise error or ProgramError(f"{reply.mro[0][0]}: {reply.args}")
        return reply.value if reply.same is None else args[reply.same]

    def _called_back(self, number: int, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Answer a program that calls a function the tests gave it."""
        try:
            return {"value": self._callbacks[number](*args, **kwargs)}
        except Exception as error:  # noqa: BLE001 - goes to the program, as in one process
            if isinstance(error, AssertionError):  # the program might swallow it
                self.failure = self.failure or _where(error)
            return {"raise": [type(error).__name__], "args": [_text(error)]}

    def finish(self) -> None:
        """Ask once more, so that what the program sent unasked is noticed."""
        with contextlib.suppress(Gone):
            self._export(())

    @contextlib.contextmanager
    def _blamed(self) -> Iterator[None]:
        """Note a broken protocol, which no test can catch away."""
        try:
            yield
        except Gone as error:
            self.failure = self.failure or str(error)
            raise

    def _refer(self, value: Any) -> dict[str, Any]:
        number = standins.number_of(value)
        if number is None and type(value) is types.FunctionType:
            number = self._functions.get(id(value))
        if number is not None:
            return {"object": number}
        if isinstance(value, slice):
            return {"slice": (value.start, value.stop, value.step)}
        if isinstance(value, type):
            name = value.__name__
            if vars(builtins).get(name) is value:
                return {"builtin": name}
        elif callable(value):
            self._callbacks.append(value)
            return {"callback": len(self._callbacks) - 1}
        raise codec.CodecError(f"{type(value).__name__} cannot be passed to the program")

    def _resolve(self, body: Any) -> Remote:
        number = replies.reference(body)
        return self._remotes.setdefault(number, Remote(self, number))


def _replace(target: Any, value: Any) -> None:
    """Give a mutable argument the content that the call left in it."""
    if type(target) is list:
        target[:] = value
    else:
        target.clear()
        target.update(value)


class _Solution(types.ModuleType):
    """The module ``solution``: each name is asked for when the tests import it."""

    def __init__(self, tester: Tester) -> None:
        super().__init__(suite.PROGRAM)
        self.__all__: list[str] = []  # a star brings nothing: names that the tests lack are there
        self.__getattr__ = tester.export  # type: ignore[method-assign]


def judge(tests: str, namespace: dict[str, Any]) -> NoReturn:
    """Run as the tester: replies come on descriptor 0, requests go to 3, the verdict to 1."""
    verdict_file, read, write = os.dup(1), os.dup(0), os.dup(3)
    for descriptor in (0, 1, 3):
        os.dup2(2, descriptor)  # standard error leads nowhere; what tests print is lost
    verdict, message = _verdict(tests, read, write, namespace)
    text = json.dumps({"verdict": verdict, "message": message[:_MESSAGE_CHARS]})
    os.pwrite(verdict_file, text.encode(), 0)
    os._exit(0)


def _verdict(tests: str, read: int, write: int, namespace: dict[str, Any]) -> tuple[str, str]:
    try:
        plan = suite.read(tests)
    except suite.Unusable as error:
        return "tests", str(error)
    tester = Tester(read, write, plan.attributes)
    try:
        provided = tester.load(plan.names)
    except Gone as error:
        return "gone", str(error)
    except Exception as error:  # noqa: BLE001 - whatever the program raised
        return "exception", f"{type(error).__name__}: {_text(error)}"
    sys.modules[suite.PROGRAM] = _Solution(tester)
    for name, module in plan.modules.items():
        namespace[name] = importlib.import_module(module)
    checks = _Checks()
    namespace |= provided | {suite.CHECKED: checks}
    verdict = _run(plan, namespace)
    if verdict[0] == "passed":
        tester.finish()
    if tester.failure:
        return "gone" if verdict[0] == "gone" else "exception", tester.failure
    if verdict[0] == "passed" and not checks.count:
        return "exception", "no check of the tests ran"
    return verdict


class _Checks:
    """Counts the checks that ran, see `suite.CHECKED`."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: Any) -> Any:
        """The value, counted."""
        self.count += 1
        return value


def _run(plan: suite.Suite, namespace: dict[str, Any]) -> tuple[str, str]:
    try:
        exec(plan.code, namespace)  # noqa: S102 - what the sandbox is for
        for name in plan.functions:
            namespace[name]()
        if not plan.runs_cases:
            _run_cases(namespace)
    except Gone as error:
        return "gone", str(error)
    except SystemExit as leaving:  # the tests' own: the program's became a ProgramError
        return ("passed", "") if leaving.code in (None, 0, False) else ("exception", "SystemExit")
    except BaseException as error:  # noqa: BLE001 - the tests may raise anything
        return "exception", _where(error)
    return "passed", ""


def _run_cases(namespace: dict[str, Any]) -> None:
    """Run the `unittest` classes that the file itself does not run."""
    unittest = sys.modules.get("unittest")
    if unittest is None:
        return
    result = unittest.TestResult()
    for value in list(namespace.values()):
        ours = isinstance(value, type) and value.__module__ == "__main__"
        if ours and issubclass(value, unittest.TestCase):
            unittest.defaultTestLoader.loadTestsFromTestCase(value).run(result)
    for _, text in result.errors + result.failures:
        raise AssertionError(text.strip().rpartition("\n")[2])
    if not result.wasSuccessful():
        raise AssertionError("a test passed that was expected to fail")


def _where(error: BaseException) -> str:
    lines = [
        f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == suite.FILE
    ]
    text = _text(error)
    place = f" (line {lines[-1]} of the tests)" if lines else ""
    return f"{type(error).__name__}{': ' if text else ''}{text[:200]}{place}"


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_MESSAGE_CHARS]
    except Exception:  # noqa: BLE001 - a message that holds a remote, or an integer without end
        return ""
