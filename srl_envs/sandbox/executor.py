"""Runs untrusted programs and judges them from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from srl_envs.errors import ConfigError, SandboxError, nearest
from srl_envs.sandbox.compare import same_text, same_value
from srl_envs.sandbox.inside import codec, wire
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.outcome import Outcome, Status
from srl_envs.sandbox.server_process import ServerGone, ServerProcess, memory_file

ISOLATION = ("strongest", "namespaces", "landlock", "seccomp", "none")
_UNANSWERED_S = 30.0  # beyond the wall limit: the server itself hangs
_PROGRAM_BYTES = 4 << 20
_MESSAGE_CHARS = 300
_WRITES = re.compile(
    r"\bopen\s*\((?!\s*0\s*[,)])|tempfile|mkdir|makedirs|mkstemp|touch|write_text|write_bytes"
    r"|sqlite3|shelve|dbm|devnull|FileIO|zipfile|tarfile|shutil|savetxt|np\.save"
)


@dataclass(slots=True)
class _Run:
    """One process to start, and what came back."""

    payload: bytes
    stdin: bytes | None
    scratch: bool
    number: int = 0
    descriptors: list[int] = field(default_factory=list)
    report: wire.Report | None = None
    stdout: bytes = b""
    result: bytes = b""
    fault: str = ""
    """Why we, not the program, failed; empty where it ran."""

    def close(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())


class CodeExecutor:
    """Runs programs of an untrusted author, each in a fresh process, and says what became of them.

    The verdict is computed in the calling process: expected values never enter the sandbox. Use one
    executor from one thread; calls from several threads wait for each other. Close it, or use it as
    a context manager; it also ends with the interpreter.

    Args:
        limits: what one run may use.
        isolation: ``"strongest"`` that the kernel grants, or one tier to insist on:
            ``"namespaces"``, ``"landlock"`` or ``"seccomp"``. See `docs/design/sandbox.md`.
        allow_unsafe: where no tier holds, run with resource limits alone instead of refusing.
        language: a key of `srl_envs.sandbox.languages.LANGUAGES`.
        packages: installed third-party packages that programs may import.

    Raises:
        ConfigError: an argument has an impossible value.
        SandboxError: this host grants no isolation, or the server does not start.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        isolation: str = "strongest",
        allow_unsafe: bool = False,
        language: str = "python",
        *,
        packages: Sequence[str] = ("numpy",),
    ) -> None:
        if isolation not in ISOLATION:
            hint = nearest(str(isolation), ISOLATION)
            raise ConfigError(f"isolation={isolation!r}: one of {', '.join(ISOLATION)}.{hint}")
        if language != "python":
            raise ConfigError(f"language={language!r}: only 'python'.")
        self.limits = limits if limits is not None else Limits()
        self.isolation = isolation
        self.allow_unsafe = allow_unsafe
        self._packages = tuple(packages)
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._numbers = 0
        self._in_flight = _in_flight(self.limits)
        self._holder: list[ServerProcess] = []
        self._finalizer = weakref.finalize(self, _close_all, self._holder)
        self._connect()

    @property
    def layers(self) -> tuple[str, ...]:
        """Isolation layers in force, outermost first."""
        return tuple(self._layers)

    def __enter__(self) -> CodeExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server. The executor starts another one when it is used again."""
        with self._exclusive():
            _close_all(self._holder)

    def run(
        self,
        program: str,
        calls: Sequence[Mapping[str, Any]],
        *,
        one_process: bool = False,
        check: Callable[[Any, Any], bool] = same_value,
    ) -> list[Outcome]:
        """Call functions that the program defines.

        Args:
            program: source text.
            calls: mappings with ``function`` (``"solve"``, or ``"Solution.solve"`` for a method),
                ``args``, optionally ``kwargs``, and optionally ``expected``, which stays here and
                decides `Outcome.passed`.
            one_process: all calls share one process, so that the program can carry state from one
                to the next; faster, and a crash costs the calls after it.
            check: compares the value with ``expected``, in this process.

        Returns:
            One outcome per call, in order.

        Raises:
            ConfigError: a call is malformed, or its arguments have no JSON form.
            SandboxError: the host takes the sandbox away entirely.
        """
        tasks = [_task(call) for call in calls]
        if refusal := _refusal(program):
            refused = self._outcome("refused", refusal)
            return [_judged(refused, call, lambda *_: False) for call in calls]
        groups = [tasks] if one_process and tasks else [[task] for task in tasks]
        scratch = bool(_WRITES.search(program))
        runs = [
            _Run(_payload(mode="call", program=program, calls=group), None, scratch)
            for group in groups
        ]
        self._execute(runs)
        outcomes = [
            outcome
            for run, group in zip(runs, groups, strict=True)
            for outcome in self._claims(run, len(group))
        ]
        return [
            _judged(outcome, call, lambda out, want: check(out.value, want))
            for outcome, call in zip(outcomes, calls, strict=True)
        ]

    def run_stdin(
        self, program: str, inputs: Sequence[str], *, expected: Sequence[str] | None = None
    ) -> list[Outcome]:
        """Run a program once per input, which it reads from standard input.

        Args:
            program: source text.
            inputs: what each run finds on standard input.
            expected: what each should print; compared here with `compare.same_text`.

        Returns:
            One outcome per input; the answer is in `Outcome.stdout`.
        """
        if expected is not None and len(expected) != len(inputs):
            raise ConfigError(f"{len(expected)} expected outputs for {len(inputs)} inputs.")
        if refusal := _refusal(program):
            passed = None if expected is None else False
            return [replace(self._outcome("refused", refusal), passed=passed)] * len(inputs)
        payload = _payload(mode="script", program=program)
        scratch = bool(_WRITES.search(program))
        data = [text.encode("utf-8", "surrogateescape") for text in inputs]
        runs = [_Run(payload, stdin, scratch) for stdin in data]
        self._execute(runs)
        outcomes = [self._script_outcome(run) for run in runs]
        if expected is None:
            return outcomes
        return [
            _judged(outcome, {"expected": want}, lambda out, text: same_text(out.stdout, text))
            for outcome, want in zip(outcomes, expected, strict=True)
        ]

    def run_asserts(self, program: str, tests: str) -> Outcome:
        """Run test code full of asserts against what the program defines.

        The tests run in a sandboxed process of their own, where the program's names are stand-ins:
        the program sees the calls, never the asserts, and cannot say that they held. An object of
        the program's never equals plain data; its ``__eq__`` counts between two such objects only.

        Args:
            program: source text.
            tests: source text; may use every name that the program defines, or import it from
                ``solution``. They hold when they run to their end.

        Returns:
            One outcome, ``ok`` and passed, or with the reason why not.
        """
        if not tests.strip():
            raise ConfigError("tests='': no asserts; every program would pass.")
        if refusal := _refusal(program):
            return replace(self._outcome("refused", refusal), passed=False)
        candidate = _Run(
            _payload(mode="candidate", program=program), None, bool(_WRITES.search(program))
        )
        tester = _Run(_payload(mode="tester", tests=tests), None, bool(_WRITES.search(tests)))
        with self._exclusive():
            for _ in range(2):
                self._attempt_pair(candidate, tester)
                if not (candidate.fault or tester.fault):
                    break
        return self._duet_outcome(candidate, tester)

    # -- running ---------------------------------------------------------------------------------

    def _exclusive(self) -> threading.RLock:
        """The lock; a new one in a forked process, where the old one's holder does not exist."""
        if self._owner != os.getpid():
            self._owner, self._lock = os.getpid(), threading.RLock()
        return self._lock

    def _connect(self) -> ServerProcess:
        """The server, started if there is none."""
        if self._holder and self._holder[0].closed:  # closed, or inherited over a fork
            self._holder.clear()
        if not self._holder:
            if sys.platform == "win32":
                raise SandboxError("no sandbox on Windows: run under Linux, or WSL 2.")
            if sys.platform != "linux" and not self.allow_unsafe:
                raise SandboxError(_NO_TIER.format(why=f"{sys.platform} has none of them"))
            tier = "namespaces" if self.isolation == "strongest" else self.isolation
            server = ServerProcess(tier, self._packages)
            self._holder.append(server)
            self._layers = tuple(server.greeting["layers"])
            self._tier = str(server.greeting["tier"])
            try:
                self._accept(server.greeting)
            except SandboxError:
                self.close()
                raise
        return self._holder[0]

    def _accept(self, greeting: Mapping[str, Any]) -> None:
        """Refuse a server whose isolation is less than what was asked for."""
        missing = "; ".join(f"{name}: {why}" for name, why in greeting["missing"].items())
        tier = greeting["tier"]
        if tier == "none" and not self.allow_unsafe:
            raise SandboxError(_NO_TIER.format(why=missing or "isolation='none' was asked for"))
        if self.limits.processes > 1 and tier != "namespaces":
            raise SandboxError(
                f"processes={self.limits.processes} needs namespaces, which this host does not "
                f"grant ({missing}); use processes=1."
            )
        if self.isolation not in ("strongest", tier):
            raise SandboxError(
                f"isolation={self.isolation!r} is not available here ({missing}); "
                f"isolation='strongest' would give {tier!r}."
            )

    def _execute(self, runs: Sequence[_Run]) -> None:
        """Run all; what fails through no fault of the program is tried a second time."""
        with self._exclusive():
            self._attempt(runs)
            again = [run for run in runs if run.fault]
            if again:
                self._attempt(again)

    def _attempt(self, runs: Sequence[_Run]) -> None:
        waiting = deque(runs)
        active: dict[int, _Run] = {}
        for run in runs:
            run.fault = ""
        try:
            while waiting or active:
                server = self._connect()
                while waiting and len(active) < self._in_flight:
                    run = waiting.popleft()
                    active[self._next_number(run)] = run
                    self._submit(server, run)
                for report in server.collect(self.limits.wall_s + _UNANSWERED_S):
                    finished = active.pop(report.run, None)
                    if finished is not None:
                        self._finish(finished, report)
        except (ServerGone, SandboxError, OSError) as error:
            for run in (*active.values(), *waiting):
                run.fault = f"{type(error).__name__}: {error}"
            self.close()
        finally:
            for run in runs:
                run.close()

    def _attempt_pair(self, candidate: _Run, tester: _Run) -> None:
        """Start both with pipes between them, and stop the candidate when the tests are over."""
        candidate.fault = tester.fault = ""
        asked: tuple[int, ...] = os.pipe()
        answered: tuple[int, ...] = os.pipe()
        try:
            server = self._connect()
            active = {self._next_number(run): run for run in (candidate, tester)}
            self._submit(server, candidate, stdin=asked[0], result=answered[1])
            self._submit(server, tester, stdin=answered[0], result=asked[1])
            for end in (*asked, *answered):
                os.close(end)  # so that each side notices when the other has ended
            asked = answered = ()
            while active:
                for report in server.collect(self.limits.wall_s + _UNANSWERED_S):
                    finished = active.pop(report.run, None)
                    if finished is not None:
                        self._finish(finished, report)
                    if finished is tester and active:
                        server.submit(wire.Request(wire.STOP, candidate.number))
        except (ServerGone, SandboxError, OSError) as error:
            candidate.fault = tester.fault = f"{type(error).__name__}: {error}"
            self.close()
        finally:
            for end in (*asked, *answered):
                os.close(end)
            candidate.close()
            tester.close()

    def _next_number(self, run: _Run) -> int:
        self._numbers = run.number = (self._numbers + 1) & 0xFFFFFFFF
        return run.number

    def _submit(
        self, server: ServerProcess, run: _Run, stdin: int | None = None, result: int | None = None
    ) -> None:
        limits = self.limits
        run.descriptors.append(memory_file(run.payload))
        if stdin is not None:
            run.descriptors.append(os.dup(stdin))
        elif run.stdin is None:
            run.descriptors.append(os.open(os.devnull, os.O_RDONLY))
        else:
            run.descriptors.append(memory_file(run.stdin))
        run.descriptors.append(memory_file())
        run.descriptors.append(memory_file() if result is None else os.dup(result))
        request = wire.Request(
            operation=wire.RUN,
            run=run.number,
            wall_s=limits.wall_s,
            cpu_s=limits.cpu_s,
            memory_bytes=limits.memory_mib << 20,
            file_bytes=(limits.output_kib << 10) + 1,
            processes=limits.processes,
            files=limits.files,
            flags=wire.SCRATCH if run.scratch or limits.processes > 1 else 0,
        )
        server.submit(request, run.descriptors)
        outputs = run.descriptors[2:] if result is None else run.descriptors[2:3]
        for descriptor in set(run.descriptors).difference(outputs):
            os.close(descriptor)
        run.descriptors[:] = outputs  # read at the end

    def _finish(self, run: _Run, report: wire.Report) -> None:
        run.report = report
        cap = (self.limits.output_kib << 10) + 1
        outputs = [_read(descriptor, cap) for descriptor in run.descriptors]
        run.stdout, run.result = outputs if len(outputs) == 2 else (outputs[0], b"")
        run.close()
        if report.reason == wire.NO_FORK:
            run.fault = f"no new process: {os.strerror(report.wait_status)}"
        elif not report.confined:
            run.fault = "the program's process could not be confined"
        elif report.reason == wire.BY_ITSELF and self._tier != "none" and _killed_by_host(report):
            run.fault = "the host killed the process, probably short of memory"

    # -- judging ---------------------------------------------------------------------------------

    def _outcome(self, status: Status, message: str = "", run: _Run | None = None) -> Outcome:
        faultless = status not in ("infrastructure", "refused")
        report = run.report if run else None
        return Outcome(
            status=status,
            message=message[:_MESSAGE_CHARS],
            stdout=run.stdout.decode("utf-8", "replace") if run and faultless else "",
            cpu_s=report.cpu_s if report else 0.0,
            peak_mib=report.peak_kib / 1024 if report else 0.0,
            isolation=self.layers,
        )

    def _stopped(self, run: _Run) -> Outcome | None:
        """The outcome of a run that did not end by itself; None for one that did."""
        if run.fault or run.report is None:
            return self._outcome("infrastructure", run.fault)
        report = run.report
        cap = self.limits.output_kib << 10
        if report.reason == wire.CPU:
            return self._outcome("timeout", f"more than {self.limits.cpu_s:g} s of cpu time", run)
        if report.reason == wire.WALL:
            return self._outcome("timeout", f"more than {self.limits.wall_s:g} s", run)
        if max(len(run.stdout), len(run.result)) > cap:
            run.stdout = run.stdout[:cap]
            return self._outcome("output_limit", f"more than {self.limits.output_kib} KiB", run)
        if os.WIFSIGNALED(report.wait_status):
            number = os.WTERMSIG(report.wait_status)
            status: Status = "timeout" if number in (signal.SIGXCPU, signal.SIGKILL) else "crashed"
            return self._outcome(status, _signal_name(number), run)
        return None

    def _duet_outcome(self, candidate: _Run, tester: _Run) -> Outcome:
        """The verdict is the tester's; a limit that the candidate hit explains it."""
        for run in (tester, candidate):
            if run.fault:
                return self._outcome("infrastructure", run.fault)
        if candidate.report is not None and candidate.report.reason != wire.STOPPED:
            stopped = self._stopped(candidate)
            if stopped is not None:
                return replace(stopped, passed=False)
        stopped = self._stopped(tester)
        if stopped is not None:
            return replace(stopped, stdout="", passed=False)
        try:
            report = json.loads(tester.stdout)
            verdict, message = report["verdict"], _text(report)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return replace(
                self._outcome("crashed", "the tests ended early", candidate), passed=False
            )
        if verdict == "tests":
            return self._outcome("refused", message)
        status: Status = "crashed" if verdict == "gone" else "exception"
        if verdict == "passed":
            status = "ok"
        if message.startswith("MemoryError"):
            status = "memory"
        outcome = self._outcome(status, message, candidate)
        assert tester.report is not None
        cpu_s = outcome.cpu_s + tester.report.cpu_s
        return replace(outcome, passed=verdict == "passed", cpu_s=cpu_s)

    def _script_outcome(self, run: _Run) -> Outcome:
        stopped = self._stopped(run)
        if stopped is not None:
            return stopped
        assert run.report is not None
        code = os.WEXITSTATUS(run.report.wait_status)
        if code == 0:
            return self._outcome("ok", "", run)
        frames = _frames(run.result, 1) or []
        if frames and frames[0].get("status") == "memory":
            return self._outcome("memory", "MemoryError", run)
        message = _text(frames[0]) if frames else ""
        return self._outcome("exception", message or f"exit code {code}", run)

    def _claims(self, run: _Run, count: int) -> list[Outcome]:
        """What the program says that its calls returned."""
        stopped = self._stopped(run)
        frames = [] if run.fault else _frames(run.result, count)
        if frames is None:
            return [stopped or self._outcome("crashed", "a malformed result", run)] * count
        if stopped is None and len(frames) < count:
            stopped = self._outcome("crashed", "it ended without a result", run)
            if len(frames) == 1 and "value" not in frames[0]:  # it failed before the first call
                return [self._claim(frames[0], run, 0)[0]] * count
        if stopped is not None and count == 1:
            return [stopped]
        outcomes, start = [], 0
        for frame in frames:
            outcome, start = self._claim(frame, run, start)
            outcomes.append(outcome)
        rest = [stopped] * (count - len(outcomes)) if stopped else []
        return outcomes + rest

    def _claim(self, frame: Mapping[str, Any], run: _Run, start: int) -> tuple[Outcome, int]:
        if frame.get("status") != "ok":
            status: Status = "memory" if frame.get("status") == "memory" else "exception"
            return self._outcome(status, _text(frame), run), start
        end = frame.get("end")
        end = end if type(end) is int and start <= end <= len(run.stdout) else len(run.stdout)
        outcome = self._outcome("ok", "", run)
        text = run.stdout[start:end].decode("utf-8", "replace")
        return replace(outcome, value=frame.get("value"), stdout=text), end


_NO_TIER = (
    "no isolation is available here ({why}), so programs could read and change this machine. "
    "Run on Linux 3.17 or later with seccomp, or pass allow_unsafe=True for programs you trust."
)


def _close_all(holder: list[ServerProcess]) -> None:
    while holder:
        with contextlib.suppress(OSError):
            holder.pop().close()


def _in_flight(limits: Limits) -> int:
    """Runs at once: a little more than the processors, and at most half of the memory."""
    by_cpu = (os.cpu_count() or 1) + 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(
        1, min(by_cpu, 16, int(memory // 2) // ((limits.memory_mib << 20) * limits.processes))
    )


def _task(call: Mapping[str, Any]) -> dict[str, Any]:
    unknown = set(call) - {"function", "args", "kwargs", "expected"}
    if unknown or not isinstance(call.get("function"), str):
        raise ConfigError(
            f"call {dict(call)!r:.120}: needs 'function', a string, and may have 'args', 'kwargs' "
            "and 'expected'."
        )
    kwargs = dict(call.get("kwargs", {}))
    return {"function": call["function"], "args": list(call.get("args", ())), "kwargs": kwargs}


def _payload(**task: Any) -> bytes:
    try:
        return codec.dumps(task)
    except codec.CodecError as error:
        raise ConfigError(f"the arguments of a call have no JSON form: {error}.") from None


def _refusal(program: str) -> str:
    if len(program) > _PROGRAM_BYTES:
        return f"a program of more than {_PROGRAM_BYTES >> 20} Mi characters"
    return ""


def _read(descriptor: int, cap: int) -> bytes:
    data = b""
    while len(data) < cap and (part := os.pread(descriptor, cap - len(data), len(data))):
        data += part
    return data


def _killed_by_host(report: wire.Report) -> bool:
    """Whether a SIGKILL came from outside: its own filter lets no program send itself one.

    The kernel's own limit of processor time ends in one too, but only after a while.
    """
    killed = os.WIFSIGNALED(report.wait_status) and os.WTERMSIG(report.wait_status) == 9
    return killed and report.cpu_s < 0.9


def _frames(result: bytes, at_most: int) -> list[dict[str, Any]] | None:
    """The frames of a result; None where any of them is malformed, or one too many."""
    if not result:
        return []
    lines = result.removesuffix(b"\n").split(b"\n")
    if len(lines) > at_most:
        return None
    try:
        frames = [codec.loads(line) for line in lines]
    except codec.CodecError:
        return None
    return frames if all(isinstance(frame, dict) for frame in frames) else None


def _text(frame: Mapping[str, Any]) -> str:
    """The message of a frame, which may hold anything under that name."""
    message = frame.get("message", "")
    return message if isinstance(message, str) else ""


def _judged(
    outcome: Outcome, call: Mapping[str, Any], right: Callable[[Outcome, Any], bool]
) -> Outcome:
    """The outcome with its verdict, where there is something to compare with."""
    if "expected" not in call or outcome.status == "infrastructure":
        return outcome
    passed = outcome.status == "ok" and right(outcome, call["expected"])
    return replace(outcome, passed=passed)


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
