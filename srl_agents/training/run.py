"""Run a league recipe; crash and resume at any moment.

The loop holds no randomness of its own: matches come from the league by number, tokens from
(seed, match, seat, turn). Training again from a checkpoint therefore repeats what was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from srl_agents.coordination.processes import Processes
from srl_agents.metrics import ConsoleView, JSONLines, Sink, TensorBoard
from srl_agents.metrics.sinks import METRICS
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training import state
from srl_agents.training.adapter_export import AdapterExport
from srl_agents.training.evaluation import final_table
from srl_agents.training.parts import build
from srl_agents.training.phases import PHASES, Update
from srl_agents.training.step import require_equal_weights

_EXPORTED = {"lora": "adapter", "full": "model"}
"""What a run calls the folders that it leaves behind."""


class LeagueTraining:
    """One run in one folder.

    Args:
        recipe: what to do.
        folder: of the run; made if absent. A folder that holds a run of this recipe is continued.
        view: shows progress.
        processes: that share the work; this one alone if absent. All but the first get a folder of
            their own that holds what the first one's did.

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
    ) -> None:
        self._opened = ExitStack()
        try:
            self.parts = build(recipe, folder, view, processes or Processes(), self._opened)
            self.done = state.restore(self.parts)
            """Updates so far."""
            self.parts.versions.publish()
            require_equal_weights(self.parts)
        except BaseException:  # the store is free for whoever fixes the cause
            self.close()
            raise

    def run(self) -> None:
        """Train to the end, play the final round robin and export the learners.

        Raises:
            ModelError: a learner has collapsed, or its weights are broken.
            SandboxError: most matches of a phase could not be finished.
        """
        parts = self.parts
        parts.view.resume(self.done)
        sinks: list[Sink] = [
            JSONLines(parts.folder / METRICS, self.done),
            TensorBoard(parts.folder / "tensorboard", self.done),
            parts.view,
        ]
        try:
            while self.done < parts.recipe.updates:
                self._update([*sinks, *parts.trackers])
            final_table(parts)
            self._export()
        finally:
            for sink in sinks:
                sink.close()

    def close(self) -> None:
        """Give back environments and the store; end trackers."""
        self._opened.close()

    def _update(self, sinks: Sequence[Sink]) -> None:
        update = Update(number=self.done + 1, sinks=sinks)
        for phase in PHASES.values():
            phase(self.parts, update)
        self.done = update.number

    def _export(self) -> None:
        parts = self.parts
        live = {name: parts.league.live(name) for name in parts.learners}
        export = AdapterExport(
            parts.recipe, parts.folder, parts.base, parts.store, shown=parts.shown
        )
        for path in export.write(live):
            parts.view.say(f"{_EXPORTED[parts.recipe.parameters]}: {path}")
