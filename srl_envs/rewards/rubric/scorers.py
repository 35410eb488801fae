"""Scorers of a rubric: each judges one aspect of a reply, given the fields of a data row."""

from __future__ import annotations

import ast
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build, dump
from srl_envs.rewards.blocks import scan_fences
from srl_envs.rewards.format.checker import FormatChecker
from srl_envs.rewards.matcher.answers import AnswerMatcher
from srl_envs.rewards.matcher.extraction import EXTRACTORS, MARKED, visible
from srl_envs.rewards.matcher.policy import AnswerPolicy
from srl_envs.rewards.score import Score
from srl_envs.sandbox import CodeExecutor, Limits, Outcome


class Scorer(Protocol):
    """Interface of a scorer in a rubric."""

    @property
    def slow(self) -> bool:
        """Whether it is worth a thread of its own."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields of a row that it cannot do without."""

    def score(self, reply: str, row: Mapping[str, Any]) -> Score | None:
        """The verdict; None where the fault is ours."""

    def to_config(self) -> dict[str, Any]:
        """Plain values that ``from_config`` of the class reads back."""


class FormatScorer:
    """The form of the reply, by `FormatChecker`. Settings: those of the checker."""

    slow = False
    fields: tuple[str, ...] = ()

    def __init__(self, checker: FormatChecker) -> None:
        self.checker = checker

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> FormatScorer:
        """From the settings of `FormatChecker.from_config`."""
        return cls(FormatChecker.from_config(config))

    def to_config(self) -> dict[str, Any]:
        """Settings of the checker."""
        return self.checker.to_config()

    def score(self, reply: str, row: Mapping[str, Any]) -> Score:
        """The checker's verdict; no field of the row is read."""
        return self.checker.check(reply)

    def instructions(self) -> str:
        """The text that asks a model for this form."""
        return self.checker.instructions()


@dataclass(frozen=True, kw_only=True)
class AnswerSettings:
    """Settings of an `AnswerScorer`."""

    column: str = "answer"
    """Field of the row with the reference answer."""
    extract: tuple[str, ...] = MARKED
    """Extractors that look for the answer, in this order."""
    policy: AnswerPolicy = field(default_factory=AnswerPolicy)
    """What counts as equal."""

    def __post_init__(self) -> None:
        if not self.extract:
            raise ConfigError(f"extract is empty; name some of {', '.join(EXTRACTORS)}.")


class AnswerScorer:
    """Whether the final answer is right, by `AnswerMatcher`. Settings: `AnswerSettings`."""

    slow = False

    def __init__(self, settings: AnswerSettings | None = None) -> None:
        self.settings = settings or AnswerSettings()
        self.fields = (self.settings.column,)
        self._matcher = AnswerMatcher(self.settings.policy, extract=self.settings.extract)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> AnswerScorer:
        """From the fields of `AnswerSettings`."""
        return cls(build(AnswerSettings, dict(config), "answer"))

    def to_config(self) -> dict[str, Any]:
        """The fields of `AnswerSettings`."""
        return dump(self.settings)

    def score(self, reply: str, row: Mapping[str, Any]) -> Score:
        """The matcher's verdict on the reply against the row's reference."""
        return self._matcher.score(reply=reply, answer=str(row[self.settings.column]))


@dataclass(frozen=True, kw_only=True)
class CodeSettings:
    """Settings of a `CodeScorer`."""

    tests: Literal["asserts", "calls", "stdin"] = "asserts"
    """``asserts``: the row's ``tests`` is test code. ``calls``: its ``calls`` is a list of
    ``{"function", "args", "expected"}``. ``stdin``: its ``inputs`` and ``outputs`` are lists of
    texts."""
    prefix: str = ""
    """Field of the row with text to put before the program, such as HumanEval's ``prompt``; empty
    for none. What it imports and defines in full stands before assert tests, too: a program that
    defines the same name again changes nothing for them."""
    language: Literal["python", "javascript"] = "python"
    """Language of the programs."""
    partial: bool = False
    """Pay the share of tests that hold; assert tests are one test."""
    limits: Limits = field(default_factory=Limits)
    """Limits of one program."""

    def __post_init__(self) -> None:
        if self.tests == "asserts" and self.language != "python":
            raise ConfigError(f"tests='asserts': not in {self.language}; use 'calls' or 'stdin'.")


CODE_REASONS = (
    "passed", "failed", "exception", "timeout", "memory", "output_limit", "crashed", "refused",
    "no_code", "partly",
)  # fmt: skip
"""Every label that a score of `CodeScorer` can carry; where tests fail, that of the first."""

_FIELDS = {"asserts": ("tests",), "calls": ("calls",), "stdin": ("inputs", "outputs")}
_FENCES = {"python": ("python", "py", "python3", ""), "javascript": ("javascript", "js", "")}


class CodeScorer:
    """Whether the reply's program passes the row's tests, in the sandbox. Settings: `CodeSettings`.

    The program is the last complete code fence of the language, after the thoughts. The sandbox is
    started when it is first needed and ends with the scorer.
    """

    slow = True

    def __init__(self, settings: CodeSettings | None = None) -> None:
        self.settings = settings or CodeSettings()
        prefix = (self.settings.prefix,) if self.settings.prefix else ()
        self.fields = (*_FIELDS[self.settings.tests], *prefix)
        self._lock = threading.Lock()
        self._executor: CodeExecutor | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> CodeScorer:
        """From the fields of `CodeSettings`."""
        return cls(build(CodeSettings, dict(config), "code"))

    def to_config(self) -> dict[str, Any]:
        """The fields of `CodeSettings`."""
        return dump(self.settings)

    def score(self, reply: str, row: Mapping[str, Any]) -> Score | None:
        """1 where all tests hold; with ``partial`` the share; None where the sandbox failed."""
        program = last_fence(reply, self.settings.language)
        if program is None:
            return Score(0.0, "no_code")
        if self.settings.prefix:
            program = f"{row[self.settings.prefix]}\n{program}"
        outcomes = self._run(program, row)
        if any(outcome.passed is None for outcome in outcomes):
            return None
        return self._verdict(outcomes)

    def _run(self, program: str, row: Mapping[str, Any]) -> list[Outcome]:
        executor = self._started()
        tests = self.settings.tests
        if tests == "asserts":
            given = settled(row[self.settings.prefix]) if self.settings.prefix else ""
            return [executor.run_asserts(program, f"{given}{row['tests']}")]
        if tests == "stdin":
            return executor.run_stdin(program, row["inputs"], expected=row["outputs"])
        for call in row["calls"]:
            if "expected" not in call:
                raise ConfigError(f"call {call!r:.120} has no 'expected'; it could not be judged.")
        return executor.run(program, row["calls"])

    def _verdict(self, outcomes: list[Outcome]) -> Score:
        held = sum(bool(outcome.passed) for outcome in outcomes)
        if held == len(outcomes):
            return Score(1.0, "passed")
        if held and self.settings.partial:
            return Score(held / len(outcomes), "partly")
        first = next(outcome for outcome in outcomes if not outcome.passed)
        return Score(0.0, "failed" if first.status == "ok" else first.status)

    def _started(self) -> CodeExecutor:
        with self._lock:
            if self._executor is None:
                settings = self.settings
                executor = CodeExecutor(settings.limits, language=settings.language)
                weakref.finalize(self, executor.close)
                self._executor = executor
            return self._executor


@lru_cache(maxsize=1024)
def settled(prefix: str) -> str:
    """The imports and complete definitions of a text that goes before a program.

    Left out is what the program completes: a function of nothing but texts and imports, or a text that
    is not Python by itself.
    """
    try:
        body = ast.parse(prefix).body
    except (SyntaxError, ValueError, RecursionError):
        return ""
    return "".join(f"{ast.unparse(node)}\n" for node in body if not _is_stub(node))


def _is_stub(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and all(
        isinstance(part, ast.Pass | ast.Import | ast.ImportFrom)
        or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        for part in node.body
    )


def last_fence(reply: str, language: str) -> str | None:
    """The last complete code fence of a language, or without one, after the thoughts."""
    fences, _ = scan_fences(visible(reply))
    bodies = [fence.body for fence in fences if fence.language.lower() in _FENCES[language]]
    return bodies[-1] if bodies else None


SCORERS: dict[str, Any] = {"format": FormatScorer, "answer": AnswerScorer, "code": CodeScorer}
"""Kind -> class with ``from_config``; a rubric also takes ``package.module:Class``."""
