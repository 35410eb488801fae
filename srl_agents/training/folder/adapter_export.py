"""What a run leaves behind for others: one folder per learner, with a model card.

LoRA adapters load in plain PEFT and in vLLM, whole weights in transformers and in vLLM; nothing of SRL is
needed to use them, unless the base is a model that comes with SRL.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from srl_agents import checkpoints
from srl_agents.agents.prompt_file import PROMPT, Examples, write_prompt
from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.ratings.pairs import Pairs, head_to_head
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import label_of
from srl_agents.training.bases import LoadedBase
from srl_agents.training.folder.layout import BEST, CHECKPOINTS, FOLDERS, RECIPE
from srl_agents.training.folder.model_cards import base_of, model_card
from srl_envs.errors import ConfigError

_CONFIG = "adapter_config.json"


class AdapterExport:
    """Writes the folders of one run.

    Args:
        recipe: of the run.
        folder: of the run.
        base: holds its learners' last weights.
        store: of the run.
        shown: learner -> examples in its prompts, which belong to its last weights.
    """

    def __init__(
        self,
        recipe: LeagueRecipe,
        folder: Path,
        base: LoadedBase,
        store: LeagueStore,
        *,
        shown: Mapping[str, Examples],
    ) -> None:
        self._recipe, self._folder, self._store = recipe, folder, store
        self._base, self._settings = base.model, base.settings
        self._shown = shown

    def write(self, live: Mapping[str, str]) -> list[Path]:
        """Write ``LEARNER`` below `FOLDERS`, and ``LEARNER-best`` where an earlier look was better.

        Args:
            live: learner -> its version in the final table.

        Returns:
            The folders.
        """
        found = checkpoints.best(self._folder / CHECKPOINTS)
        best = checkpoints.load(found) if found is not None else None
        written = []
        for learner, version in live.items():
            which = f"the weights after the last update, version `{version}` of the run"
            results = _results(self._store, version, self._recipe)
            written.append(self._write(learner, learner, which, results))
            # earlier weights need the examples of their time, which are not kept
            unprompted = not self._shown.get(learner)
            if best is not None and best.step != self._recipe.updates and unprompted:
                written.append(self._write_best(learner, best))
        return written

    def _write_best(self, learner: str, best: checkpoints.Checkpoint) -> Path:
        which = (
            f"the weights after update {best.step}, which scored best in the looks on eval seeds"
        )
        results = (
            f"Not in the final table: [the last weights](../{learner}/README.md) are. The mean score "
            f"of all learners in the look was {best.score:.3f} points per game."
        )
        last = self._base.adapter_tensors(learner)
        self._base.set_adapter_tensors(learner, best.tensors[f"{learner}.adapter"])
        try:
            return self._write(learner, f"{learner}{BEST}", which, results)
        finally:
            self._base.set_adapter_tensors(learner, last)

    def _write(self, learner: str, name: str, which: str, results: str) -> Path:
        final = self._folder / FOLDERS[self._base.parameters] / name
        work = final.with_name(f".tmp-{name}")
        for old in (work, final):
            shutil.rmtree(old, ignore_errors=True)
        try:
            self._fill(work, learner, name, which, results)
            checkpoints.rename_durably(work, final)
        except BaseException:  # a full disk gets its space back
            shutil.rmtree(work, ignore_errors=True)
            raise
        return final

    def _fill(self, work: Path, learner: str, name: str, which: str, results: str) -> None:
        """Write the files of one learner."""
        self._base.save_adapter(learner, work)
        if self._base.parameters == "lora":
            _name_base(work / _CONFIG, base_of(self._settings.model))
        write_prompt(work, self._settings.prompt.followed_by(self._shown.get(learner, ())))
        shutil.copy(self._folder / RECIPE, work / RECIPE)
        prompted = (work / PROMPT).is_file()
        card = model_card(self._recipe, self._settings, name, which, results, prompted=prompted)
        (work / "README.md").write_text(card)


def _name_base(path: Path, base: str | None) -> None:
    """Write the base into PEFT's configuration, for a reader who loads only this folder."""
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = base
    path.write_text(json.dumps(config, indent=2, sort_keys=True))


def _results(store: LeagueStore, version: str, recipe: LeagueRecipe) -> str:
    """Score differences per game in the final round robin, as a table."""
    games, rows = recipe.games, []
    for game in games:
        pairs = store.pairs(game.env_id, options=game.options, schedule=FINAL)
        named = f"{game.name}, " if len(games) > 1 else ""
        rows += [f"| {named}{row}" for row in _against(pairs, version)]
    if not rows:
        return "No finished matches of the final round robin."
    head = (
        "Final round robin on eval seeds, mirrored pairs: points minus the opponent's, per game (in "
        "[-1, 1], above 0 is better), with 95 % intervals.\n\n| opponent | difference |\n|---|---|\n"
    )
    return head + "\n".join(rows)


def _against(pairs: Pairs, version: str) -> Sequence[str]:
    rows = []
    for other in pairs.agents:
        if other == version:
            continue
        try:
            gap = head_to_head(pairs, version, other)
        except ConfigError:  # the two never met
            continue
        low, high = max(gap.low, -1.0), min(gap.high, 1.0)
        rows.append(f"`{label_of(other)}` | {gap.estimate:+.2f} [{low:+.2f}, {high:+.2f}] |")
    return rows
