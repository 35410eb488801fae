"""A stand-in for the executor where every program is ours."""

from collections.abc import Mapping, Sequence
from typing import Any

from srl_envs.sandbox import Budget, Outcome


class InProcess:
    """Stands for the executor where programs are ours; records what it was asked to run."""

    def __init__(self, status: str = "ok") -> None:
        self.status = status
        self.calls: list[Mapping[str, Any]] = []
        self.programs: list[str] = []
        self.budgets: list[Budget] = []
        self.closed = False

    def run_batch(
        self,
        submissions: Sequence[tuple[str, Sequence[Mapping[str, Any]]]],
        *,
        budgets: Sequence[Budget],
    ) -> list[list[Outcome]]:
        self.budgets += budgets
        for program, calls in submissions:
            self.calls += calls
            self.programs += [program] * len(calls)
        return [[self._outcome(program, call) for call in calls] for program, calls in submissions]

    def _outcome(self, program: str, call: Mapping[str, Any]) -> Outcome:
        if self.status != "ok":
            return Outcome(status=self.status)  # type: ignore[arg-type]
        namespace: dict[str, Any] = {}
        try:
            exec(program, namespace)
            return Outcome(status="ok", value=namespace["solve"](*call["args"]))
        except Exception as error:  # noqa: BLE001 - whatever the program raises
            return Outcome(status="exception", message=str(error))

    def run_asserts(self, program: str, tests: str, budget: Budget | None = None) -> Outcome:
        self.budgets += [budget] if budget and budget not in self.budgets else []
        self.programs.append(program)
        if self.status != "ok":
            return Outcome(status=self.status, passed=False)  # type: ignore[arg-type]
        namespace: dict[str, Any] = {}
        try:
            exec(program, namespace)
            exec(tests, namespace)
        except Exception as error:  # noqa: BLE001 - whatever the program raises
            message = f"{type(error).__name__}: {error}"
            return Outcome(status="exception", message=message, passed=False)
        return Outcome(status="ok", passed=True)

    def close(self) -> None:
        self.closed = True
