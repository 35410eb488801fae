"""What a run spends, in tokens and in seconds of processors, and whether that is enough."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srl_agents.coordination.processes import Processes
from srl_agents.league.settings import LIMITS, StopSettings
from srl_agents.training.folder.budget_file import BudgetFile, SharedBudget, in_words
from srl_envs.errors import ConfigError

_PARENT, _OWN, _ENDED = 1, slice(11, 13), slice(13, 15)
"""Fields of /proc/PID/stat behind the name, the last four in ticks. Source: proc(5)."""


class ProcessorClock:
    """Seconds of processors that the run took on this machine, from checkpoint to checkpoint.

    Args:
        processes: that share the work; their seconds are added. None: the run has one.
    """

    def __init__(self, processes: Processes | None) -> None:
        self.seconds = 0.0
        self._processes, self._since_s = processes, processor_seconds()

    def advance(self) -> None:
        """Count what passed since the last call."""
        now_s = processor_seconds()
        passed_s = max(now_s - self._since_s, 0.0)
        self.seconds += (
            passed_s if self._processes is None else sum(self._processes.gather(passed_s))
        )
        self._since_s = now_s

    def state(self) -> dict[str, Any]:
        """Processor seconds so far, for a checkpoint."""
        return {"cpu_s": self.seconds}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue the count of a checkpoint."""
        self.seconds = state["cpu_s"]


class Spending:
    """Counts what a run spends, together with other runs where they share a budget.

    Args:
        settings: the recipe's limits; None: no limits, amounts are only counted.
        folder: of the run.
        processes: that share the work; their seconds are added. None: the run has one.
    """

    def __init__(
        self, settings: StopSettings | None, folder: Path, processes: Processes | None
    ) -> None:
        self.limits = _limits(settings)
        self.tokens = 0
        """Tokens that models wrote in the matches and branches of updates."""
        self.trained_tokens = 0
        """Reply tokens of rows that learners stepped on, once per pass."""
        self.clock = ProcessorClock(processes)
        self._file = budget_file(settings)
        self._run, self._processes = str(folder.absolute()), processes
        self._together = SharedBudget(self.limits) if self._file is None else self._file.read()

    def state(self) -> dict[str, Any]:
        """The tokens, for a checkpoint; `clock` has a state of its own, as it never repeats itself."""
        return {"tokens": self.tokens, "trained_tokens": self.trained_tokens}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue the counts of a checkpoint."""
        self.tokens, self.trained_tokens = state["tokens"], state["trained_tokens"]

    @property
    def spent(self) -> dict[str, float]:
        """What this run spent, by name of the limit."""
        return {
            "tokens": float(self.tokens),
            "trained_tokens": float(self.trained_tokens),
            "cpu_s": self.clock.seconds,
        }

    def count(self, tokens: int, trained_tokens: int) -> dict[str, float]:
        """Count one update, in every process the same; returns metrics of the run.

        Args:
            tokens: written in its matches and branches.
            trained_tokens: stepped on.

        Raises:
            ConfigError: the shared file cannot be read or written.
        """
        self.clock.advance()
        self.tokens += tokens
        self.trained_tokens += trained_tokens
        if self._file is not None:
            self._together = self._entered(self._file)
        return {f"spent/{name}": value for name, value in self.spent.items()}

    def _entered(self, file: BudgetFile) -> SharedBudget:
        """The shared budget with what this run spent; the first process writes it down."""
        processes = self._processes
        if processes is None:
            return file.enter(self._run, self.spent)
        entered = file.enter(self._run, self.spent) if processes.first else None
        return next(found for found in processes.gather(entered) if found)

    @property
    def reached(self) -> str:
        """The first limit that is reached, in words; empty where none is."""
        spent = self.spent if self._file is None else self._together.spent
        return _reached(self.limits, spent)

    def __str__(self) -> str:
        return in_words(self.spent)


def require_budget(settings: StopSettings | None, folder: Path) -> None:
    """Refuse to begin a run whose shared budget is spent; one that has begun may end.

    Raises:
        ConfigError: it is spent, the file cannot be used, or it has an entry of a run whose folder is gone.
    """
    file = budget_file(settings)
    if file is None:
        return
    found, run = file.read(), str(folder.absolute())
    if run in found.runs and not folder.exists():
        raise ConfigError(
            f"stop.budget: {file.path} holds what a run in {folder} spent, and that folder is gone: a new "
            "run there would replace its entry. Use another folder (--out)."
        )
    if run not in found.runs and (limit := _reached(found.limits, found.spent)):
        runs = "one run" if len(found.runs) == 1 else f"{len(found.runs)} runs"
        raise ConfigError(
            f"stop.budget: {file.path} is spent: {limit}, by {runs}. Raise the limit in it "
            "and in every recipe that shares it, or name another file."
        )


def budget_file(settings: StopSettings | None) -> BudgetFile | None:
    """The file that a recipe shares with others, if it does."""
    if settings is None or not settings.budget:
        return None
    return BudgetFile(Path(settings.budget), _limits(settings))


def _limits(settings: StopSettings | None) -> dict[str, float]:
    named = {name: getattr(settings, name, None) for name in LIMITS}
    return {name: float(value) for name, value in named.items() if value is not None}


def _reached(limits: Mapping[str, float], spent: Mapping[str, float]) -> str:
    return next(
        (
            f"{name} {spent[name]:,.0f} of {limit:,.0f}"
            for name, limit in limits.items()
            if spent[name] >= limit
        ),
        "",
    )


def processor_seconds() -> float:
    """Seconds of processors that this process, its living descendants and all that they waited for took.

    Without /proc, living descendants are not counted.
    """
    found: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        ticks = sum(map(int, (*fields[_OWN], *fields[_ENDED])))
        found[int(path.parent.name)] = int(fields[_PARENT]), ticks / os.sysconf("SC_CLK_TCK")
    own = os.getpid()
    if own not in found:
        return sum(os.times()[:4])
    family = {own}
    while more := {pid for pid, (parent, _) in found.items() if parent in family} - family:
        family |= more
    return sum(found[pid][1] for pid in family)
