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
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from ..exchange import codec
from ..exchange.channel import Channel, Gone
from ..exchange.heap import Heap, Shared
from . import replies, standins, suite, watch
from .receiving import Numbered, Receiver, Sender, Table
from .standins import Reasons

_MESSAGE_CHARS = 300


class ProgramError(Exception):
    """The program raised something that no test may take for an end: `SystemExit`, for example."""


class Refused(BaseException):
    """These tests cannot judge this program. Not an Exception: no test may swallow it."""


class Tester:
    """Talks to the candidate and holds the stand-ins; see `standins.Peer`.

    Args:
        read: descriptor of the program's replies.
        write: descriptor of our requests.
        attributes: of the program's objects that may be asked for.
        words: all names and attributes in the tests' text.
    """

    def __init__(
        self, read: int, write: int, attributes: frozenset[str], words: frozenset[str]
    ) -> None:
        self._wanted = tuple(sorted(words & _WANTED))
        self._heap = Heap(parity=0)
        self._table = Table(self)
        self._writer = Sender(self._heap, self._table)
        self._reader = Receiver(self._heap, self._table)
        self._channel = Channel(
            read, write, self._heap, self._writer, self._reader, self._renew, self._lose
        )
        self._attributes = attributes
        self._callbacks: list[Callable[..., Any]] = []
        self._callback_numbers: dict[int, int] = {}
        self._own_errors: list[BaseException] = []
        self._entitled: set[int] = set()
        self._exported: dict[str, Any] = {}
        self._one_at_a_time = threading.RLock()  # of the tests' threads
        self.asked = 0
        self.clock = 0
        self.answers: dict[Any, Any] = {}
        self.mixed_data = False
        self.fleeting: list[tuple[standins.State, Any]] = []
        self.failure = ""
        """Why the program has failed, even if the tests caught the exception."""
        self.refusal = ""
        """Why these tests cannot judge this program."""
        self.doubts = ""
        """Why a failure may not be the program's."""

    def load(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Stand-ins for these names, where the program has them; raises what loading it raised."""
        self._outcome(self._reply(0), "load")
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
        found = self.ask("export", names, self._wanted)
        with self._blamed():
            exports = replies.exports(found, names)
            self._entitle(self._heap.number_of(how.value) for how in exports.values())
            for name, how in exports.items():
                self._exported[name] = how.value
                if how.kind == "error":
                    self._exported[name] = self._table.errors.named(name, how.value)
        return {name: self._exported[name] for name in exports}

    # -- peer --------------------------------------------------------------------------------------

    def may_read(self, name: str) -> bool:
        """Whether the tests' text names this attribute: no library asks the program on its own."""
        return name in self._attributes

    def refuse(self, reason: str) -> NoReturn:
        """Give up for good, whatever the tests catch."""
        self.refusal = self.refusal or reason
        raise Refused(reason)

    def doubt(self, reason: str) -> None:
        """Note why a failure from now on may not be the program's."""
        self.doubts = self.doubts or reason

    def given(self, value: Any) -> bool:
        """Whether a container came from the program."""
        number = self._heap.number_of(value)
        return number is not None and self._heap[number].foreign

    def ask(self, operation: str, *args: Any) -> Any:
        """Have the program apply an operator."""
        with self._one_at_a_time:
            self.asked += 1
            number = self.asked
            self._send({"number": number, "operation": operation, "args": args})
            self._entitle(self._writer.named)
            reply = self._reply(number)
        value = self._outcome(reply, operation)
        if operation == "make":
            self._made(args[0], value, number)
        return value

    def act(self, operation: str, *args: Any) -> Any:
        """The same, where it may change something."""
        while self.fleeting:
            state, key = self.fleeting.pop()
            state.read.pop(key, None)
        try:
            return self.ask(operation, *args)
        finally:
            self.clock += 1

    @staticmethod
    def _made(kind: Any, value: Any, number: int) -> None:
        """Note that the tests made an object, now or when the program first gave it."""
        # Only the tests' spelling shows that they call a class: a program may claim so for any name.
        if standins.is_remote(value) and kind.__name__[:1].isupper():
            state = standins.state_of(value)
            if state.born >= number or state.before == standins.MADE:
                state.origin = standins.MADE

    def callback(self, number: int) -> Any:
        """The tests' function with this number."""
        if number >= len(self._callbacks):
            raise Gone("a malformed message: a function that was not passed")
        return self._callbacks[number]

    def callback_number(self, function: Any) -> int:
        """A number for one of the tests' functions."""
        number = self._callback_numbers.get(id(function))
        if number is None:
            number = self._callback_numbers[id(function)] = len(self._callbacks)
            self._callbacks.append(function)
        return number

    async def awaited(self, coroutine: int) -> Any:
        """Wait for a coroutine of the program's, beside the others that were started."""
        asyncio = importlib.import_module("asyncio")
        task = self.act("start", Numbered(coroutine))
        while True:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                with contextlib.suppress(Exception):
                    self.act("poll", task, True)
                raise
            if found := self.act("poll", task, False):
                return found[0]

    # -- containers --------------------------------------------------------------------------------

    def _entitle(self, numbers: Iterable[int | None]) -> None:
        """Let the program change these containers, and what is in them, under the tests' hands."""
        todo = [number for number in numbers if number is not None]
        while todo:
            number = todo.pop()
            if number in self._entitled or number not in self._heap:
                continue
            self._entitled.add(number)
            parts = map(self._heap.number_of, self._heap[number].state)
            todo += [part for part in parts if part is not None]

    def _renew(self, number: int, shared: Shared, content: Any) -> None:
        if shared.foreign and number not in self._entitled and shared.held():
            # What the program gave was read once; it is another container from now on.
            self._heap.replace(number, self._reader.another(shared.kind, content))
            self.doubt(Reasons.ALIAS)
        else:
            self._reader.refresh(shared, content)

    def _lose(self) -> None:
        self.doubt(Reasons.LARGE)

    # -- messages ----------------------------------------------------------------------------------

    def _send(self, message: dict[str, Any]) -> None:
        """Send; data that cannot be sent must not look like an error of the program's."""
        with self._blamed():
            try:
                self._channel.send(message)
            except codec.CodecError as error:
                self.refuse(f"{Reasons.ARGUMENT}: {error}")

    def _reply(self, number: int) -> replies.Reply:
        """The reply to a request; functions of the tests that the program calls run meanwhile."""
        with self._blamed():
            while "callback" in (message := self._channel.receive()):
                called = replies.callback(message, len(self._callbacks))
                del message
                self.clock += 1
                self._send(self._called_back(*called))
            return replies.reply(message, number, len(self._own_errors))

    def _outcome(self, reply: replies.Reply, operation: str) -> Any:
        if reply.printed:
            sys.stdout.write(reply.printed.decode("utf-8", "replace"))
        if reply.own is not None:
            raise self._own_errors[reply.own]
        if reply.raised is None:
            return reply.value
        with self._blamed():
            error = self._table.errors.error(reply.raised)
        if isinstance(error, (StopIteration, StopAsyncIteration)) and operation not in _ENDING:
            # As in a generator: it would end a map() or a loop of the tests before its checks.
            raise RuntimeError(f"the program raised {type(error).__name__}") from None
        raise error or ProgramError(f"{reply.raised.ancestors[0][0]}: {reply.raised.args}")

    def _called_back(
        self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Answer a program that calls a function the tests gave it."""
        try:
            value = self._callbacks[number](*args, **kwargs)
            return {"value": _run(value) if isinstance(value, types.CoroutineType) else value}
        except Exception as error:  # noqa: BLE001 - goes to the program, as in one process
            if isinstance(error, AssertionError):  # the program might swallow it
                self.failure = self.failure or _where(error)
            self._own_errors.append(error)
            return {"raise": (len(self._own_errors) - 1, _builtin_name(error), _plain_args(error))}

    def finish(self) -> None:
        """Ask once more, so that what the program sent unasked is noticed."""
        with contextlib.suppress(Gone):
            self.ask("export", (), self._wanted)

    @contextlib.contextmanager
    def _blamed(self) -> Iterator[None]:
        """Note a broken protocol, which no test can catch away."""
        try:
            yield
        except Gone as error:
            self.failure = self.failure or str(error)
            raise


_WANTED = frozenset(
    ["__doc__", "__annotations__", "signature", "getfullargspec", "stdout", "redirect_stdout"]
)
_ENDING = frozenset({"next", "send", "poll"})


def _run(coroutine: Any) -> Any:
    """Run a coroutine of the tests to its end, also while a loop of theirs is waiting."""
    asyncio = importlib.import_module("asyncio")
    outer = asyncio._get_running_loop()
    swap = getattr(
        asyncio.tasks, "_swap_current_task", None
    )  # since 3.12; since 3.14 one task a thread
    waiting = swap(outer, None) if outer and swap else None
    asyncio._set_running_loop(None)
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
        asyncio._set_running_loop(outer)
        if outer and swap:
            swap(outer, waiting)


def _builtin_name(error: BaseException) -> str:
    kinds = type(error).__mro__
    return next(str(k.__name__) for k in kinds if vars(builtins).get(k.__name__) is k)


def _plain_args(error: BaseException) -> tuple[Any, ...]:
    try:
        codec.dumps(error.args)
    except codec.CodecError:
        return (_text(error),)
    return error.args


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
    tester = Tester(read, write, plan.attributes, plan.words)
    if plan.sets_state:
        tester.doubt(standins.Reasons.STATE)
    try:
        provided = tester.load(plan.names)
    except Gone as error:
        return "gone", str(error)
    except Exception as error:  # noqa: BLE001 - whatever the program raised
        return "exception", f"{type(error).__name__}: {_text(error)}"
    sys.modules[suite.PROGRAM] = _Solution(tester)
    for name, module in plan.modules.items():
        namespace[name] = importlib.import_module(module)

    def failed(reason: str) -> None:
        tester.failure = tester.failure or reason

    checks, workers = watch.Checks(tester, tester.given, failed), watch.Workers(failed)
    checks.watch_numpy()
    namespace |= provided | {suite.CHECKED: checks}
    verdict = _run_tests(plan, namespace)
    if verdict[0] == "passed":
        workers.finish()
        tester.finish()
    return _judged(verdict, tester, checks)


def _judged(verdict: tuple[str, str], tester: Tester, checks: watch.Checks) -> tuple[str, str]:
    """The verdict, once what the tests cannot see is taken into account."""
    if tester.failure:
        return "gone" if verdict[0] == "gone" else "exception", tester.failure
    if tester.refusal:
        return "refused", tester.refusal
    if verdict[0] == "exception" and tester.doubts:
        return "refused", f"{tester.doubts} ({verdict[1]})"
    if verdict[0] == "passed" and not checks.count:
        return "exception", "no check of the tests ran"
    if verdict[0] == "passed" and checks.looked_at_nothing:
        return "refused", Reasons.EMPTY
    return verdict


def _run_tests(plan: suite.Suite, namespace: dict[str, Any]) -> tuple[str, str]:
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
