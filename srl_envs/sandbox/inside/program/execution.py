"""Runs one program in its confined process and writes down what it claims to have computed."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import os
import random
import site
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from ..checking import suite, tester
from ..exchange import codec
from . import candidate, messages, source, stacks, stream_paths

RESULT = 3
"""Descriptor of the result, a memory file that the trusted side reads afterwards."""
_MESSAGE_CHARS = 300
REHEARSALS = 20
"""The interpreter adapts code that ran more often than about ten times."""
_MEMORY = codec.dumps({"status": "memory", "message": "MemoryError"}) + b"\n"  # made in good time


def run(payload: bytes) -> None:
    """Run the task that the trusted side wrote; ends the process."""
    gc.enable()
    messages.send_without_call()  # not before the fork: the server passes descriptors itself
    os._exit(_perform(payload))


def _perform(payload: bytes) -> int:
    task = codec.loads(payload)
    return _MODES[task["mode"]](task)


def rehearse() -> None:
    """What every program would do first, done once by the server: open the standard streams, and
    let the interpreter adapt its bytecode. A child that did it would pay with copies of pages.
    """
    sys.argv = [source.FILE]
    sys.orig_argv = ["python", source.FILE]
    sys.stdin = _text(0, "r", "surrogateescape")
    sys.stdout = _text(1, "w", "surrogateescape")
    sys.stderr = _text(2, "w", "backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    site.setquit()
    stacks.fit()
    stream_paths.lead_to_descriptors()
    call = {"function": "solve", "args": [[1, 2.5], {"a": (1, None)}], "kwargs": {}}
    task = {"mode": "call", "program": "def solve(a, b): return [a, b, 'x']", "calls": [call]}
    for _ in range(REHEARSALS):
        _perform(codec.dumps(task))  # its result goes where descriptor 3 leads: nowhere yet
        suite.read("assert solve(3, 4) == 7")
    del sys.modules["solution"]
    random.seed(0)  # the same program has the same outcome  # noqa: TID251 - its own process


def _text(descriptor: int, mode: str, errors: str) -> Any:
    """A standard stream, with the attributes that programs expect of one."""
    return open(descriptor, mode, encoding="utf-8", errors=errors, closefd=False)


def new_module(name: str) -> dict[str, Any]:
    """The namespace of a fresh module that is registered under `name`."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    module.__dict__["__builtins__"] = builtins
    return module.__dict__


def _script(task: dict[str, Any]) -> int:
    """A program that reads standard input and prints; returns its exit code."""
    code = 0
    try:
        _define(task["program"], new_module("__main__"))
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except BaseException as error:  # noqa: BLE001 - foreign code
        report(failure(error))
        code = 1
    _wind_down()
    return code


def _define(program: str, namespace: dict[str, Any]) -> None:
    namespace["__file__"] = source.FILE
    exec(source.compiled(program), namespace)  # noqa: S102 - this is what the sandbox is for


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    return leaving.code & 0xFF if isinstance(leaving.code, int) else 1


def _wind_down() -> None:
    """What an interpreter does at its end: wait for threads, run exit handlers, flush."""
    shutdown = getattr(threading, "_shutdown", lambda: None)
    streams = (sys.stdout, sys.__stdout__)
    for step in (shutdown, atexit._run_exitfuncs, *(stream.flush for stream in streams if stream)):
        with contextlib.suppress(BaseException):  # replaced or closed by the program
            step()


def _call(task: dict[str, Any]) -> int:
    """One or more calls of a function that the program defines."""
    try:
        namespace = new_module("solution")
        _define(task["program"], namespace)
    except BaseException as error:  # noqa: BLE001 - foreign code
        report(failure(error))
        return 1
    for call in task["calls"]:
        report(_claim(namespace, call))
    return 0


def _claim(namespace: dict[str, Any], call: dict[str, Any]) -> bytes:
    try:
        value = find(namespace, call["function"])(*call["args"], **call["kwargs"])
        encoded = codec.dumps(value)
        sys.stdout.flush()
        end = str(os.lseek(1, 0, os.SEEK_CUR)).encode()
        return b'{"dict":[["status","ok"],["end",' + end + b'],["value",' + encoded + b"]]}\n"
    except BaseException as error:  # noqa: BLE001 - foreign code
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        return failure(error)


def find(namespace: dict[str, Any], path: str) -> Callable[..., Any]:
    """``solve``, or ``Solution.solve`` on a new instance of the class."""
    name, _, method = path.partition(".")
    if name not in namespace:
        raise NameError(f"the program defines no {name!r}")
    found = namespace[name]
    return getattr(found(), method) if method else found  # type: ignore[no-any-return]


def failure(error: BaseException) -> bytes:
    """A frame for what went wrong."""
    if isinstance(error, MemoryError):
        return _MEMORY
    name = type(error).__name__
    try:
        text = f"{name}: {error}" if str(error) else name
    except BaseException:  # noqa: BLE001 - a hostile __str__
        text = name
    return codec.dumps({"status": "exception", "message": text[:_MESSAGE_CHARS]}) + b"\n"


def report(frame: bytes) -> None:
    """Append a frame to the result."""
    with contextlib.suppress(OSError):  # full: the trusted side sees that by its size
        while frame:
            frame = frame[os.write(RESULT, frame) :]


def _candidate(task: dict[str, Any]) -> int:
    candidate.serve(task["program"], new_module("solution"))
    return 0


def _tester(task: dict[str, Any]) -> int:
    tester.judge(task["tests"], new_module("__main__"))


_MODES: dict[str, Callable[[dict[str, Any]], int]] = {
    "script": _script,
    "call": _call,
    "candidate": _candidate,
    "tester": _tester,
}
