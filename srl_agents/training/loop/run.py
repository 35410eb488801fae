"""Run a league recipe; crash and resume at any moment.

The loop holds no randomness of its own: matches come from the league by number, tokens from
(seed, match, seat, turn). Training again from a checkpoint therefore repeats what was lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from safetensors import SafetensorError
from torch.profiler import ProfilerActivity, profile, record_function

from srl_agents import checkpoints
from srl_agents.coordination.processes import Processes
from srl_agents.interrupts import finished_first, limit
from srl_agents.metrics import ConsoleView, JSONLines, Sink, TensorBoard
from srl_agents.metrics.looks import best_and_last
from srl_agents.metrics.sinks import METRICS, TENSORBOARD, read_lines
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.bases import devices_of
from srl_agents.training.callbacks import Listeners
from srl_agents.training.faults.survival import in_words, write_event
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.faults.watchdog import end_process
from srl_agents.training.folder.adapter_export import AdapterExport
from srl_agents.training.folder.layout import CHECKPOINTS
from srl_agents.training.loop import side_files
from srl_agents.training.loop.evaluation import Evaluation
from srl_agents.training.loop.phases import PHASES, Phase, Update
from srl_agents.training.loop.stages import Parts, build
from srl_agents.training.loop.state import Gathered, RunState
from srl_agents.training.loop.step import Steps
from srl_agents.training.loop.transfer_file import write_transfer
from srl_agents.training.outcome import Outcome

PROFILE = "profile"
"""Folder in a run's: traces of updates."""
_AFTER_REPORT = ("snapshot", "checkpoint")
"""Phases whose time is in the record of the next update."""
_STEPS, _CLOSING = "update", "report"
"""Phases: the first that changes weights, and the first of those that end an update in a moment."""
_EXPORTED = {"lora": "adapter", "full": "model"}
"""Names of the exported folders, by the kind of weights."""


class LeagueTraining:
    """One attempt at a run in one folder.

    Args:
        recipe: what to do.
        folder: of the run; made if absent. A folder that holds a run of this recipe is continued.
        view: shows progress.
        processes: that share the work; only this one if absent. All but the first get a folder of
            their own that holds what the first one's did.
        trace_one: trace one update, the second of this attempt or the run's last.
        cluster: address of the Ray cluster that plays the matches; empty: this machine does.
        listeners: callbacks and sinks of the caller.

    Raises:
        ConfigError: the folder holds a run of another recipe, or a tracker does not begin.
        StoreError: another process is writing to the folder, or its matches are lost.
        CheckpointError: what the run wrote is damaged.
        ModelError: the model cannot be loaded, or the processes have different weights.
    """

    def __init__(
        self,
        recipe: LeagueRecipe,
        folder: Path,
        view: ConsoleView,
        processes: Processes | None = None,
        *,
        trace_one: bool = False,
        cluster: str = "",
        listeners: Listeners | None = None,
    ) -> None:
        self._opened = ExitStack()
        self._listeners = listeners or Listeners()
        try:
            self.parts = build(
                recipe, folder, view, processes or Processes(), self._opened, cluster=cluster
            )
            self._state = RunState.of(self.parts)
            self.done = self._state.restore()
            """Updates so far."""
            self.phase = "starting"
            """What is done now: a name of `PHASES`, or another word."""
            self._late: dict[str, float] = {}
            """Seconds of phases that came too late for a record."""
            self._profile, self._warm = trace_one, False
            self._held: Gathered | None = None
            """The last finished update, where no checkpoint holds it; without tensors where they are too
            large for a copy."""
            self._stepping = False
            """Whether weights may differ from those of the last finished update."""
            self._copies = _copies_of(self.parts)
            self.phases = {name: phase.of(self.parts) for name, phase in PHASES.items()}
            """Of an update, in their order."""
            self.parts.versions.publish()
            Steps.of(self.parts).require_equal_weights()
        except BaseException:  # the store is free for a run after the cause is fixed
            self.close()
            raise

    def run(self) -> Outcome:
        """Train to the end, play the final round robin and export the learners.

        Learners that a fault spoiled in the last update are not exported. Where no learner took a step,
        none is exported, unless the recipe allows it.

        Raises:
            FaultError: something went wrong, and is not to be lived with.
            DeadlineError: an engine gave no reply in time.
            MemoryLimitError: memory ran out, and smaller passes did not help.
            SandboxError: most matches of a phase could not be finished.
            CallbackError: a callback or a sink of the caller raised.
        """
        parts = self.parts
        parts.view.resume(self.done)
        self._listeners.begin(parts.folder, self.done, parts.recipe.updates)
        sinks: list[Sink] = [
            JSONLines(parts.folder / METRICS),
            TensorBoard(parts.folder / TENSORBOARD),
            parts.view,
        ]
        listening = [self._listeners] if self._listeners else []
        try:
            while not self._ended:
                with self._traced():
                    self._update([*sinks, *parts.trackers, *listening])
                if reason := self._stopped():
                    return self._stop(reason)
            if self.done < parts.recipe.updates:
                parts.view.say(f"update {self.done} is the last: {parts.spending.reached}")
            self.phase = "final"
            with self._limited("the final round robin"):
                Evaluation.of(parts).final_table()
            side_files.keep_ended(parts.folder, self.done)
            write_transfer(
                parts.recipe.games, parts.store, parts.league, parts.learners, parts.folder
            )
            return self._end()
        finally:
            for sink in sinks:
                sink.close()

    def take_update(self) -> None:
        """Take the next update and nothing after it: no round robin, no export."""
        self._update([self.parts.view])

    def close(self) -> None:
        """Give back environments and the store; end trackers."""
        self._opened.close()

    @contextmanager
    def _traced(self) -> Iterator[None]:
        """Trace the inside, if it is the update that was asked for: the first one warms up."""
        number, parts = self.done + 1, self.parts
        warm, self._warm = self._warm, True
        if not self._profile or not (warm or number == parts.recipe.updates):
            yield
            return
        self._profile = False
        kinds = [ProfilerActivity.CPU]
        if any(device.type == "cuda" for device in devices_of(parts.bases)):
            kinds.append(ProfilerActivity.CUDA)
        with profile(activities=kinds) as trace:
            yield
        path = parts.folder / PROFILE / f"update-{number}.json"
        path.parent.mkdir(exist_ok=True)
        trace.export_chrome_trace(str(path))
        parts.view.say(f"trace of update {number}, for https://ui.perfetto.dev: {path}")

    def _update(self, sinks: Sequence[Sink]) -> None:
        number = self.done + 1
        update = Update(
            number=number,
            sinks=sinks,
            seconds=self._late,
            last=number == self.parts.recipe.updates,
        )
        self.phase = "starting"
        self.parts.survival.begin(update.number)
        self.parts.memory.update = update.number
        lost_by_steps = self._held is not None and not self._held.tensors
        whole_from = _STEPS if lost_by_steps else _CLOSING
        with ExitStack() as finishing:
            for name, phase in self.phases.items():
                if name == whole_from:
                    finishing.enter_context(finished_first(self._say_finishing))
                self._stepping |= name == _STEPS
                self._do(name, phase, update)
            self._late = {name: update.seconds[name] for name in _AFTER_REPORT}
            self.done = update.number
            self._hold(checkpointed=update.checkpointed)

    def _do(self, name: str, phase: Phase, update: Update) -> None:
        """Run one phase of an update within its time limit, and measure it."""
        self.phase = name
        started = time.monotonic()
        with (
            self._limited(f"phase {name!r} of update {update.number}"),
            self.parts.memory.phase(name),
            record_function(name),
        ):
            phase(update)
        update.seconds[name] = time.monotonic() - started

    def _say_finishing(self) -> None:
        self.parts.view.say(
            f"interrupted: update {self.done + 1} is finished first; the next signal ends at once"
        )

    def _hold(self, *, checkpointed: bool) -> None:
        """Remember the update that is over, if no checkpoint holds it.

        Without its score: an undisturbed run has no such checkpoint, and so does not take it for its best.
        """
        self._held, self._stepping = None, False
        if checkpointed:
            return
        if self._copies == "none":
            gathered = self._state.gather(self.done, None)
            self._held = replace(gathered, tensors={}).copied()
            return
        with self.parts.memory.phase("hold"):
            gathered = self._state.gather(self.done, None)
            self._held = gathered.copied(self.parts.folder if self._copies == "file" else None)

    def _last(self) -> Gathered | None:
        """The last finished update, if no checkpoint holds it and no step has changed what it left."""
        held = self._held
        if held is None or held.tensors:
            return held
        if self._stepping:
            return None
        with self.parts.memory.phase("hold", traced=False):  # the run that nothing ended has none
            return replace(held, tensors=self._state.gather(held.done, None).tensors)

    def keep_last(self, *, before: int) -> str:
        """Make the last whole update a checkpoint, if it is none yet.

        Args:
            before: first update that must not be kept.

        Returns:
            What the next attempt can begin from, in words.
        """
        folder, held = self.parts.folder, self._last()
        newest = checkpoints.newest_step(folder / CHECKPOINTS)
        if held is not None and newest < held.done < before:
            try:
                return f"Emergency checkpoint of update {held.done}: {held.write(self.parts.recipe, folder)}."
            except (OSError, SafetensorError) as error:
                failure = f"No emergency checkpoint could be written ({error}). "
        else:
            failure = ""
        steps = [step for step in checkpoints.steps(folder / CHECKPOINTS) if step < before]
        kept = f"The last good checkpoint is of update {steps[-1]}." if steps else ""
        return f"{failure}{kept or 'There is no checkpoint yet.'}"

    def _limited(self, doing: str) -> AbstractContextManager[None]:
        """Inside, what takes too long ends the process."""
        return limit(doing, self.parts.recipe.survival.phase_deadline_s, self._hung)

    def _hung(self, doing: str) -> None:
        folder, number = self.parts.folder, self.done + 1
        seconds = self.parts.recipe.survival.phase_deadline_s
        finding = Finding(fault="phase_hung", message=f"{doing} took more than {seconds:g} s")

        def last_words() -> str:
            write_event(folder, number, finding, "stop")
            return (
                f"stopped in update {number} by {in_words(finding)} {self.keep_last(before=number)}"
            )

        end_process(folder, last_words, self.parts.view.say_last)

    def _stopped(self) -> str:
        """Call the caller's callbacks and sinks; returns why the run ends before its last update, if so."""
        if not self._listeners:
            return ""
        self._listeners.finished(self.parts.folder)
        reason = self._listeners.stopped
        if self.parts.processes.size > 1:
            reason = self.parts.processes.gather(reason)[0]
        return "" if self._ended else reason

    def _stop(self, reason: str) -> Outcome:
        """Keep the update that is over, and end without round robin and export."""
        kept = self.keep_last(before=self.done + 1)
        self.parts.view.say(f"stopped after update {self.done} by a callback: {reason}. {kept}")
        return Outcome(learned=self._learned, reasons=self.parts.idle.reasons, stopped=reason)

    @property
    def _ended(self) -> bool:
        """Whether no update is left to take, or a limit of what the run may spend is reached."""
        parts = self.parts
        return self.done >= parts.recipe.updates or bool(self.done and parts.spending.reached)

    @property
    def _learned(self) -> bool:
        return any(learner.version for learner in self.parts.learners.values())

    def _end(self) -> Outcome:
        parts = self.parts
        for line in best_and_last(read_lines(parts.folder / METRICS)):
            parts.view.say(line)
        parts.view.say(f"spent by update {self.done}: {parts.spending}")
        learned = self._learned
        if learned or parts.recipe.survival.allow_nothing_learned:
            self._export()
        return Outcome(learned=learned, reasons=parts.idle.reasons)

    def _export(self) -> None:
        parts = self.parts
        spoiled = parts.survival.spoiled
        for name, fault in spoiled.items():
            parts.view.say(f"{name} is not exported: {fault} in the last update.")
        live = {name: parts.league.live(name) for name in parts.learners if name not in spoiled}
        for base in parts.bases:
            export = AdapterExport(parts.recipe, parts.folder, base, parts.store, shown=parts.shown)
            own = {name: live[name] for name in base.settings.learners if name in live}
            for path in export.write(own):
                parts.view.say(f"{_EXPORTED[base.settings.parameters]}: {path}")


def _copies_of(parts: Parts) -> Literal["none", "file", "memory"]:
    """Where a copy of the tensors of the last finished update is kept: nowhere, where they are too large."""
    recipe = parts.recipe
    small = all(base.parameters == "lora" for base in recipe.bases)
    if not small:
        return "none"
    on_host = all(device.type == "cpu" for device in devices_of(parts.bases))
    return "file" if recipe.memory.budget_gib is not None and on_host else "memory"
