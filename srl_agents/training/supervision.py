"""Train a recipe to its end through what goes wrong: attempts, roll-backs, and a stop that loses nothing."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from srl_agents import checkpoints
from srl_agents.coordination.processes import Processes
from srl_agents.interrupts import limit
from srl_agents.metrics import ConsoleView
from srl_agents.recipes.sections.fault_policy import CLOSE_DEADLINE_S, ROLL_BACK_RATE
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.standard_streams import OUTPUT
from srl_agents.training.callbacks import Listeners
from srl_agents.training.faults.survival import RolledBack, in_words, write_event
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.faults.watchdog import end_process
from srl_agents.training.folder.layout import CHECKPOINTS
from srl_agents.training.loop.run import LeagueTraining
from srl_agents.training.outcome import Outcome
from srl_envs.errors import (
    CallbackError,
    DeadlineError,
    FaultError,
    MemoryLimitError,
    SandboxError,
    SRLError,
    add_advice,
    file_fault,
)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_TEXTS = ("No space left", "quota exceeded", "File too large")
"""Words in errors of safetensors, which have no number."""
_UPDATE = "update"
"""The phase in which memory that runs out is the trainer's."""


def train(
    recipe: LeagueRecipe,
    folder: Path,
    view: ConsoleView,
    processes: Processes | None = None,
    *,
    trace_one: bool = False,
    cluster: str = "",
    begun: Callable[[LeagueTraining], object] = lambda training: None,
    listeners: Listeners | None = None,
) -> Outcome:
    """Begin or continue a run, and bring it to its end.

    Args:
        recipe: what to do.
        folder: of the run.
        view: shows progress.
        processes: that share the work.
        trace_one: write a profiler's trace of one update.
        cluster: address of the Ray cluster that plays the matches; empty: this machine does.
        begun: called with each attempt when it begins.
        listeners: callbacks and sinks of the caller.

    Raises:
        CallbackError: a callback or a sink raised; the text names it, and what is kept.
        FaultError: a fault stopped the run; the text names it, its cause, a remedy and what is kept.
        KeyboardInterrupt: Ctrl-C or SIGTERM ended it; its text names what is kept.
        SRLError: as `LeagueTraining` and its `run` do.
    """
    while True:
        training = LeagueTraining(
            recipe,
            folder,
            view,
            processes,
            trace_one=trace_one,
            cluster=cluster,
            listeners=listeners,
        )
        begun(training)
        last_line = ""
        try:
            return training.run()
        except KeyboardInterrupt:
            last_line = interrupted(training)
            raise KeyboardInterrupt(last_line) from None
        except CallbackError as error:
            last_line = _keep_after(training, error, f"after update {training.done}.")
            raise
        except Exception as error:
            finding = finding_of(error, training.phase, folder)
            if finding is None:
                last_line = _keep_after(training, error)
                raise
            if not _roll_back(training, finding):
                last_line = _stop(training, finding)
                raise FaultError(
                    last_line, fault=finding.fault, learner=finding.learner, since=finding.since
                ) from error
        finally:
            _close(training, last_line)


def _keep_after(training: LeagueTraining, error: Exception, when: str = "") -> str:
    """Keep the last finished update of an attempt that an error ends; returns what to say.

    Args:
        training: the attempt.
        error: its text gets what is kept, if the error is the user's to mend.
        when: it was raised, in words, where its text does not say so.
    """
    kept = f"{when} {training.keep_last(before=training.done + 1)}".lstrip()
    if isinstance(error, SRLError):
        add_advice(error, kept)
    return str(error)


def interrupted(training: LeagueTraining) -> str:
    """Keep the last finished update of an attempt that a signal ends; returns what to say."""
    update = training.done + 1
    last = training.parts.recipe.updates
    where = f"update {update} of {last}" if update <= last else "the final round robin"
    if not training.parts.processes.first:  # its folder goes with it
        return f"interrupted in {where}. The first process prints what is kept."
    return f"interrupted in {where}. {training.keep_last(before=update)}"


def finding_of(error: Exception, phase: str, folder: Path) -> Finding | None:
    """The fault that an error is; None if it is another mistake.

    Args:
        error: that ended an attempt.
        phase: of the update in which it was raised.
        folder: of the run.
    """
    if isinstance(error, FaultError):
        return Finding(
            fault=error.fault, message=str(error), learner=error.learner, since=error.since
        )
    fault = None
    if isinstance(error, MemoryLimitError | MemoryError):
        fault = "out_of_memory" if phase == _UPDATE else "play_out_of_memory"
    elif isinstance(error, DeadlineError):
        fault = "engine_hung"
    elif isinstance(error, SandboxError):
        fault = "matches_lost"
    elif _is_full(error):
        free = shutil.disk_usage(folder).free
        words = file_fault(error, folder) if isinstance(error, OSError) else str(error)
        message = f"{words.rstrip('.')}; {free} bytes are free in {folder}"
        return Finding(fault="disk_full", message=message)
    message = f"{type(error).__name__} in phase {phase!r}" if not str(error) else str(error)
    return None if fault is None else Finding(fault=fault, message=message)


def _is_full(error: BaseException | None) -> bool:
    if isinstance(error, OSError) and error.errno in _FULL:
        return bool(error.filename != OUTPUT)
    if isinstance(error, sqlite3.Error):
        return error.sqlite_errorcode in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
    if isinstance(error, SafetensorError):
        return any(text in str(error) for text in _FULL_TEXTS)
    return error is not None and _is_full(error.__cause__)


def _roll_back(training: LeagueTraining, finding: Finding) -> bool:
    """Be where the next attempt begins before the fault, with a lower rate; False to stop instead."""
    recipe, folder, view = training.parts.recipe, training.parts.folder, training.parts.view
    limits, before = recipe.survival, RolledBack.read(folder)
    if limits.policy(finding.fault) != "roll_back" or before.times >= limits.most_roll_backs:
        return False
    since = finding.since or training.done + 1
    training.keep_last(before=since)
    checkpoints.set_aside(folder / CHECKPOINTS, since)
    now = RolledBack(times=before.times + 1, rate=before.rate * ROLL_BACK_RATE)
    now.write(folder)
    write_event(folder, training.done + 1, finding, "roll_back")
    found = checkpoints.latest(folder / CHECKPOINTS)
    where = "the beginning" if found is None else f"update {checkpoints.step_of(found)}"
    view.say(
        f"update {training.done + 1}: {in_words(finding)} Rolling back to {where}, with {now.rate:.3g} "
        f"of the recipe's learning rate ({now.times} of {limits.most_roll_backs} roll-backs)."
    )
    return True


def _stop(training: LeagueTraining, finding: Finding) -> str:
    """Keep what is whole; returns what to say."""
    folder = training.parts.folder
    since = finding.since or training.done + 1
    kept = training.keep_last(before=since)
    try:
        checkpoints.set_aside(folder / CHECKPOINTS, since)
        write_event(folder, training.done + 1, finding, "stop")
    except OSError:  # a full disk is reported below, and cannot be written down
        pass
    return (
        f"stopped in update {training.done + 1} by {in_words(finding)} {kept} Nothing was exported."
    )


def _close(training: LeagueTraining, last_line: str) -> None:
    """Give everything back, or end the process if something does not come back."""
    folder = training.parts.folder

    def expired(doing: str) -> None:
        words = last_line or f"phase_hung: {doing} took longer than {CLOSE_DEADLINE_S:g} s"
        end_process(folder, lambda: words, training.parts.view.say_last)

    with limit("closing", CLOSE_DEADLINE_S, expired):
        training.close()
