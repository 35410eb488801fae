"""A file in which the runs of one experiment write down what they spent, under limits that they share.

Each run has one entry, which it overwrites after every update with all that it counts. So an update that is
taken again after a kill is counted once, and what a kill lost is not counted: a run that nothing disturbed
has no such work. The file is replaced as a whole while a lock beside it is held.

Runs that play at the same time each finish the update in which the limit is reached, so together they exceed
it by at most one update per run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srl_agents import file_lock
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

SCHEMA = 1
Counts = Mapping[str, float]
"""Amount by name of the limit; see `srl_agents.league.settings.LIMITS`."""


@dataclass(frozen=True, slots=True)
class SharedBudget:
    """Content of a file: the limits, and what each run has spent."""

    limits: Counts
    """Limits on the sum over all runs."""
    runs: Mapping[str, Counts] = field(default_factory=dict)
    """Folder of a run -> what it spent."""

    @property
    def spent(self) -> dict[str, float]:
        """Sum over the runs, by name of the limit."""
        return {name: sum(own.get(name, 0) for own in self.runs.values()) for name in self.limits}


class BudgetFile:
    """The file of one experiment.

    Args:
        path: of the file; made when the first run enters what it spent.
        limits: that this run's recipe names.
    """

    def __init__(self, path: Path, limits: Counts) -> None:
        self.path, self._limits = path, dict(limits)

    def read(self) -> SharedBudget:
        """What is spent so far.

        Raises:
            ConfigError: the file is something else, or was begun with other limits.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return SharedBudget(self._limits)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"stop.budget: {self.path} cannot be read: {error}") from error
        found = self._parsed(text)
        if dict(found.limits) != self._limits:
            raise ConfigError(
                f"stop.budget: {self.path} was begun with {in_words(found.limits)}, and this recipe has "
                f"{in_words(self._limits)}. Runs that share a budget have the same limits: correct them, or "
                "name another file."
            )
        return found

    def enter(self, run: str, spent: Counts) -> SharedBudget:
        """Write down all that a run spent so far; returns what the file holds then.

        Args:
            run: names the run in the file.
            spent: by name of the limit; others are left out.

        Raises:
            ConfigError: as `read`, or nothing can be written there.
        """
        try:
            with self._locked():
                found = self.read()
                own = {name: spent[name] for name in found.limits}
                entered = SharedBudget(found.limits, {**found.runs, run: own})
                self._write(entered)
        except OSError as error:
            raise ConfigError(f"stop.budget: {self.path} cannot be written: {error}") from error
        return entered

    def _parsed(self, text: str) -> SharedBudget:
        try:
            held: Any = json.loads(text)
            schema = held["schema"]
            limits = {str(name): float(value) for name, value in held["limits"].items()}
            runs = {
                str(run): {str(name): float(value) for name, value in own.items()}
                for run, own in held["runs"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"stop.budget: {self.path} is not a budget that runs share. Name another file."
            ) from error
        if schema != SCHEMA:
            raise ConfigError(
                f"stop.budget: {self.path} has schema {schema}, and this SRL reads {SCHEMA}."
            )
        return SharedBudget(limits, runs)

    def _write(self, budget: SharedBudget) -> None:
        """A kill leaves the old file or the new one, whole; who writes next takes the other's place."""
        work = self.path.with_name(f".{self.path.name}.new")
        held = {"schema": SCHEMA, "limits": budget.limits, "runs": budget.runs}
        with work.open("w", encoding="utf-8") as file:
            file.write(plain_json(held, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        work.replace(self.path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Inside, no other run replaces the file; the lock ends with its process."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(f"{self.path.name}.lock").open("w") as lock:
            file_lock.lock(lock)
            yield


def in_words(counts: Counts) -> str:
    """Such as ``tokens 2,000,000, cpu_s 60``."""
    return ", ".join(f"{name} {value:,.0f}" for name, value in counts.items())
