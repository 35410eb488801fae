"""Runs untrusted programs and judges them from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from srl_envs.errors import ConfigError, SandboxError, nearest
from srl_envs.sandbox.compare import same_text, same_value
from srl_envs.sandbox.dispatch import Dispatcher
from srl_envs.sandbox.explain import named_limit
from srl_envs.sandbox.inside import wire
from srl_envs.sandbox.inside.exchange import codec
from srl_envs.sandbox.inside.languages import LANGUAGES
from srl_envs.sandbox.jobs import Budget, Run
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.outcome import Outcome, Status
from srl_envs.sandbox.separation import kept_apart
from srl_envs.sandbox.writing import seems_to_write

ISOLATION = ("strongest", "namespaces", "landlock", "seccomp", "none")
_PROGRAM_BYTES = 4 << 20
_MESSAGE_CHARS = 300
_FULL = 0.8  # of the limit of memory, resident, when an interpreter gives up


class CodeExecutor:
    """Runs programs of an untrusted author, each in a fresh process, and returns their outcomes.

    The verdict is computed in the calling process: expected values never enter the sandbox. Threads
    may share one executor; what they ask for runs side by side, as many processes at once as there
    are processors. From asyncio, use the methods that end in ``_async``. Close it, or use it as a
    context manager; it also ends with the interpreter.

    Args:
        limits: what one run may use.
        isolation: ``"strongest"`` that the kernel grants, or one tier to insist on:
            ``"namespaces"``, ``"landlock"`` or ``"seccomp"``. See `docs/design/sandbox.md`.
        allow_unsafe: where no tier holds, run with only resource limits instead of refusing.
        language: of the programs: ``"python"``, or ``"javascript"`` where `node` is installed.
        packages: installed third-party packages that programs may import; Python only.
        preload: modules of these packages that are imported before any program starts: programs
            find them at once, and every program's start costs more, with their size.

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
        preload: Sequence[str] = (),
    ) -> None:
        if isolation not in ISOLATION:
            hint = nearest(str(isolation), ISOLATION)
            raise ConfigError(f"isolation={isolation!r}: one of {', '.join(ISOLATION)}.{hint}")
        if language not in LANGUAGES:
            hint = nearest(str(language), LANGUAGES)
            raise ConfigError(f"language={language!r}: one of {', '.join(LANGUAGES)}.{hint}")
        for name in preload:
            if name.partition(".")[0] not in packages:
                raise ConfigError(
                    f"preload={name!r}: its package is not among packages={packages}."
                )
        self.language = language
        self.limits = limits if limits is not None else Limits()
        self.isolation = isolation
        self.allow_unsafe = allow_unsafe
        self._packages = (tuple(packages), tuple(preload))
        self._dispatcher = Dispatcher(
            self.limits, isolation, allow_unsafe, self._packages, language
        )
        if LANGUAGES[language].command:
            self._try_interpreter()

    @property
    def layers(self) -> tuple[str, ...]:
        """Isolation layers in force, outermost first."""
        return self._dispatcher.layers

    @property
    def missing(self) -> dict[str, str]:
        """Layer that this host refused -> why."""
        return self._dispatcher.missing

    @property
    def kept_apart(self) -> tuple[str, ...]:
        """What the tier in force keeps apart, as named in `srl_envs.sandbox.PROPERTIES`."""
        return kept_apart(self._dispatcher.tier, self.limits.processes)

    def __enter__(self) -> CodeExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server. The executor starts another one when it is used again."""
        self._dispatcher.close()

    def __reduce__(self) -> tuple[Callable[..., CodeExecutor], tuple[object, ...]]:
        """A copy, also one that went through pickle, has the same settings and its own server."""
        settings = (self.limits, self.isolation, self.allow_unsafe, self.language)
        return _with_packages, (settings, *self._packages)

    def _try_interpreter(self) -> None:
        """Refuse at once where another interpreter than ours does not start in the sandbox."""
        (outcome,) = self.run_stdin("", [""])
        if outcome.status != "ok":
            self.close()
            name = LANGUAGES[self.language].command[0]
            raise SandboxError(
                f"{name} does not run an empty program within {self.limits!r}: {outcome!r}. "
                "Give it more memory, or check that it starts outside the sandbox."
            )

    def run(
        self,
        program: str,
        calls: Sequence[Mapping[str, Any]],
        *,
        one_process: bool = False,
        check: Callable[[Any, Any], bool] = same_value,
        budget: Budget | None = None,
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
            budget: wall time for all calls together; what it leaves no time for is not run and
                has the status ``timeout``. None: each call has the limit of a run.

        Returns:
            One outcome per call, in order.

        Raises:
            ConfigError: a call is malformed, or its arguments have no JSON form.
            SandboxError: the host takes the sandbox away entirely.
        """
        work = [(program, calls)]
        return self.run_batch(work, one_process=one_process, check=check, budgets=[budget])[0]

    def run_batch(
        self,
        submissions: Sequence[tuple[str, Sequence[Mapping[str, Any]]]],
        *,
        one_process: bool = False,
        check: Callable[[Any, Any], bool] = same_value,
        budgets: Sequence[Budget | None] | None = None,
    ) -> list[list[Outcome]]:
        """Like `run`, for several programs at once, which take turns.

        Args:
            submissions: (program, calls) each.
            one_process: each program has one process for all of its calls.
            check: compares a value with ``expected``.
            budgets: per submission, wall time for all its calls.

        Returns:
            Per submission, one outcome per call.

        Raises:
            ConfigError: a call is malformed, or its arguments have no JSON form.
            SandboxError: the host takes the sandbox away entirely.
        """
        if budgets is None:
            budgets = [None] * len(submissions)
        plans = [
            self._plan(program, calls, one_process, budget)
            for (program, calls), budget in zip(submissions, budgets, strict=True)
        ]
        turns = zip_longest(*plans)
        self._dispatcher.execute([planned[0] for turn in turns for planned in turn if planned])
        return [
            self._judge(program, calls, plan, check)
            for (program, calls), plan in zip(submissions, plans, strict=True)
        ]

    def _plan(
        self,
        program: str,
        calls: Sequence[Mapping[str, Any]],
        one_process: bool,
        budget: Budget | None,
    ) -> list[tuple[Run, int]]:
        """The processes to start, and how many calls each has; none for a program that is refused."""
        tasks = [_task(call) for call in calls]
        if _refusal(program):
            return []
        groups = [tasks] if one_process and tasks else [[task] for task in tasks]
        shared = seems_to_write(program), budget
        return [
            (Run(_payload(mode="call", program=program, calls=group), None, *shared), len(group))
            for group in groups
        ]

    def _judge(
        self,
        program: str,
        calls: Sequence[Mapping[str, Any]],
        plan: Sequence[tuple[Run, int]],
        check: Callable[[Any, Any], bool],
    ) -> list[Outcome]:
        if refusal := _refusal(program):
            refused = self._outcome("refused", refusal)
            return [_judged(refused, call, lambda *_: False) for call in calls]
        outcomes = [outcome for run, count in plan for outcome in self._claims(run, count)]
        return [
            _judged(outcome, call, lambda out, want: check(out.value, want))
            for outcome, call in zip(outcomes, calls, strict=True)
        ]

    async def run_async(
        self, program: str, calls: Sequence[Mapping[str, Any]], **options: Any
    ) -> list[Outcome]:
        """`run` off the event loop; ``options`` are its keyword arguments."""
        return await asyncio.to_thread(self.run, program, calls, **options)

    async def run_batch_async(
        self, submissions: Sequence[tuple[str, Sequence[Mapping[str, Any]]]], **options: Any
    ) -> list[list[Outcome]]:
        """`run_batch` off the event loop; ``options`` are its keyword arguments."""
        return await asyncio.to_thread(self.run_batch, submissions, **options)

    async def run_stdin_async(
        self, program: str, inputs: Sequence[str], *, expected: Sequence[str] | None = None
    ) -> list[Outcome]:
        """`run_stdin` off the event loop."""
        return await asyncio.to_thread(self.run_stdin, program, inputs, expected=expected)

    async def run_asserts_async(self, program: str, tests: str) -> Outcome:
        """`run_asserts` off the event loop."""
        return await asyncio.to_thread(self.run_asserts, program, tests)

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

        Raises:
            ConfigError: there is not one expected output for each input.
        """
        if expected is not None and len(expected) != len(inputs):
            raise ConfigError(f"{len(expected)} expected outputs for {len(inputs)} inputs.")
        if refusal := _refusal(program):
            passed = None if expected is None else False
            return [replace(self._outcome("refused", refusal), passed=passed)] * len(inputs)
        payload = _payload(mode="script", program=program)
        writes = seems_to_write(program)
        data = [text.encode("utf-8", "surrogateescape") for text in inputs]
        runs = [Run(payload, stdin, writes) for stdin in data]
        self._dispatcher.execute(runs)
        outcomes = [self._script_outcome(run) for run in runs]
        if expected is None:
            return outcomes
        return [
            _judged(outcome, {"expected": want}, lambda out, text: same_text(out.stdout, text))
            for outcome, want in zip(outcomes, expected, strict=True)
        ]

    def run_asserts(self, program: str, tests: str, *, budget: Budget | None = None) -> Outcome:
        """Run test code full of asserts against what the program defines.

        The tests run in a sandboxed process of their own, where the program's names are stand-ins:
        the program sees the calls, never the asserts, and cannot say that they held. An object of
        the program's never equals plain data; its ``__eq__`` counts between two such objects only.

        Names mean Python's builtins and what the tests define and import. The program contributes
        the global names that are left, or only those that the tests import from ``solution``.

        Args:
            program: source text.
            tests: source text: asserts, `unittest` classes, functions ``test_...`` without
                parameters. They hold when they run to their end and at least one check ran. See
                `docs/guides/rewards.md` for what is supported.
            budget: wall time; None: the limit of a run.

        Returns:
            One outcome, ``ok`` and passed, or with the reason why not; ``refused`` with ``passed``
            None where the tests could judge no program.

        Raises:
            ConfigError: the tests are empty, or the language has no assert tests.
        """
        if not LANGUAGES[self.language].asserts:
            raise ConfigError(f"assert tests in {self.language} are not supported; use run().")
        if not tests.strip():
            raise ConfigError("tests='': no asserts; every program would pass.")
        if refusal := _refusal(program):
            return replace(self._outcome("refused", refusal), passed=False)
        candidate = Run(
            _payload(mode="candidate", program=program), None, seems_to_write(program), budget
        )
        tester = Run(_payload(mode="tester", tests=tests), None, seems_to_write(tests), budget)
        self._dispatcher.execute_pair(candidate, tester)
        return self._duet_outcome(candidate, tester)

    def _outcome(self, status: Status, message: str = "", run: Run | None = None) -> Outcome:
        faultless = status not in ("infrastructure", "refused")
        report = run.report if run else None
        return Outcome(
            status=status,
            message=message[:_MESSAGE_CHARS].encode("utf-8", "replace").decode(),
            stdout=run.stdout.decode("utf-8", "replace") if run and faultless else "",
            cpu_s=report.cpu_s if report else 0.0,
            peak_mib=report.peak_kib / 1024 if report else 0.0,
            isolation=self.layers,
        )

    def _stopped(self, run: Run) -> Outcome | None:
        """The outcome of a run that did not end by itself; None for one that did."""
        if run.doing is not None:
            return self._outcome(*run.doing, run)
        if run.fault or run.report is None:
            return self._outcome("infrastructure", run.fault)
        report = run.report
        cap = self.limits.output_kib << 10
        if max(len(run.stdout), len(run.result)) > cap:
            run.stdout = run.stdout[:cap]
            return self._outcome("output_limit", f"more than {self.limits.output_kib} KiB", run)
        if report.reason == wire.CPU:
            return self._outcome("timeout", f"more than {self.limits.cpu_s:g} s of cpu time", run)
        if report.reason == wire.WALL:
            return self._outcome("timeout", _out_of_time(run), run)
        if os.WIFSIGNALED(report.wait_status):
            number = os.WTERMSIG(report.wait_status)
            if self._used_up_memory(number, report.peak_kib):
                return self._outcome("memory", f"more than {self.limits.memory_mib} MiB", run)
            status: Status = "timeout" if number in (signal.SIGXCPU, signal.SIGKILL) else "crashed"
            return self._outcome(status, _signal_name(number), run)
        return None

    def _used_up_memory(self, number: int, peak_kib: int) -> bool:
        """Whether the interpreter ended itself because its memory was full."""
        language = LANGUAGES[self.language]
        full = peak_kib / 1024 > _FULL * self.limits.memory_mib
        return full and number in language.memory_signals

    def _duet_outcome(self, candidate: Run, tester: Run) -> Outcome:
        """The verdict is the tester's; a limit that the candidate hit explains it."""
        verdict, message = self._verdict(tester)
        if (
            verdict == "tests" and not tester.fault
        ):  # the program may have been stopped at any point
            return self._outcome("refused", message)
        for run in (tester, candidate):
            if run.fault:
                return self._outcome("infrastructure", run.fault)
        if candidate.report is None or candidate.report.reason != wire.STOPPED:
            stopped = self._stopped(candidate)
            if stopped is not None:
                return replace(stopped, passed=False)
        stopped = self._stopped(tester)
        if stopped is not None:
            return replace(stopped, stdout="", passed=False)
        if not verdict:
            return replace(
                self._outcome("crashed", "the tests ended early", candidate), passed=False
            )
        if verdict == "refused":
            return replace(self._outcome("refused", message), passed=False)
        status: Status = "crashed" if verdict == "gone" else "exception"
        if verdict == "passed":
            status = "ok"
        if message.startswith("MemoryError"):
            status = "memory"
        outcome = self._outcome(status, message, candidate)
        assert tester.report is not None
        cpu_s = outcome.cpu_s + tester.report.cpu_s
        return replace(outcome, passed=verdict == "passed", cpu_s=cpu_s)

    def _verdict(self, tester: Run) -> tuple[str, str]:
        """Verdict and message that a tester wrote; empty if it ended before."""
        try:
            report = json.loads(tester.stdout)
            return str(report["verdict"]), self._text(report)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return "", ""

    def _script_outcome(self, run: Run) -> Outcome:
        stopped = self._stopped(run)
        if stopped is not None:
            return stopped
        assert run.report is not None
        code = os.WEXITSTATUS(run.report.wait_status)
        if code == 0:
            return self._outcome("ok", "", run)
        frames = _frames(run.result, 1) or []
        if frames and frames[0].get("status") == "memory":
            return self._outcome("memory", self._text(frames[0]), run)
        message = self._text(frames[0]) if frames else ""
        return self._outcome("exception", message or f"exit code {code}", run)

    def _claims(self, run: Run, count: int) -> list[Outcome]:
        """What its calls returned, as the program reports it."""
        stopped = self._stopped(run)
        frames = [] if run.fault or run.doing else _frames(run.result, count)
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

    def _text(self, frame: Mapping[str, Any]) -> str:
        """The message of a frame, which may hold anything under that name."""
        message = frame.get("message", "")
        if not isinstance(message, str):
            return ""
        return named_limit(message, self.limits, self._dispatcher.tier)

    def _claim(self, frame: Mapping[str, Any], run: Run, start: int) -> tuple[Outcome, int]:
        if frame.get("status") != "ok":
            status: Status = "memory" if frame.get("status") == "memory" else "exception"
            return self._outcome(status, self._text(frame), run), start
        end = frame.get("end")
        end = end if type(end) is int and start <= end <= len(run.stdout) else len(run.stdout)
        outcome = self._outcome("ok", "", run)
        text = run.stdout[start:end].decode("utf-8", "replace")
        return replace(outcome, value=frame.get("value"), stdout=text), end


def _with_packages(
    settings: tuple[Any, ...], packages: Sequence[str], preload: Sequence[str]
) -> CodeExecutor:
    """Keyword arguments for `CodeExecutor.__reduce__`, which can pass none."""
    return CodeExecutor(*settings, packages=packages, preload=preload)


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


def _out_of_time(run: Run) -> str:
    if run.budget is not None:
        return f"more than {run.wall_s:.2g} s of wall time, of {run.budget.total_s:g} s in all"
    return f"more than {run.wall_s:g} s of wall time"


def _refusal(program: str) -> str:
    if len(program) > _PROGRAM_BYTES:
        return f"a program of more than {_PROGRAM_BYTES >> 20} Mi characters"
    return ""


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
