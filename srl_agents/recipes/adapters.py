"""What a run leaves behind for others: one PEFT folder per learner, with a model card.

The folders load in plain PEFT and in vLLM; nothing of SRL is needed to use them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from srl_agents import checkpoints
from srl_agents.engines import catalog
from srl_agents.engines.base_model import BaseModel
from srl_agents.league.manager import FINAL
from srl_agents.league.pairs import Pairs, head_to_head
from srl_agents.league.store import LeagueStore
from srl_agents.policies.prompt_file import PROMPT, Examples, write_prompt
from srl_agents.recipes.folder import RECIPE
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs import spec as env_spec
from srl_envs.errors import ConfigError

ADAPTERS, BEST = "adapters", "-best"
"""Folder within a run's; and what follows a learner's name for its best, not its last, weights."""

_HUB = {"smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Where others find a base that has a short name here."""

_CARD = """\
---
library_name: peft
{base_line}tags: [srl, lora]
---

# {title}

A LoRA adapter on `{base}`, trained by SRL {srl} to play `{env}`{options}.

- algorithm {algorithm}, {updates} updates, rank {rank}, alpha {alpha:g}, seed {seed}
- {which}
- prompts: the observations of the environment as user messages of the base's chat template{prompt}

## Results

{results}

## Use

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained("{source}")
model = PeftModel.from_pretrained(base, "{folder}")
tokenizer = AutoTokenizer.from_pretrained("{source}")
```

or `vllm serve {source} --enable-lora --max-lora-rank {vllm_rank} --lora-modules {name}={folder}`.

The whole recipe is in `{recipe}` beside this file; the same recipe and seed make the same weights on
the same machine.
"""

_PROMPTED = f", after the system message and the turns in `{PROMPT}`"
_VLLM_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


class AdapterExport:
    """Writes the folders of one run.

    Args:
        recipe: of the run.
        folder: of the run.
        base: holds the learners' last weights.
        store: of the run.
        shown: learner -> examples in its prompts, which belong to its last weights.
    """

    def __init__(
        self,
        recipe: LeagueRecipe,
        folder: Path,
        base: BaseModel,
        store: LeagueStore,
        *,
        shown: Mapping[str, Examples],
    ) -> None:
        self._recipe, self._folder, self._base, self._store = recipe, folder, base, store
        self._shown = shown

    def write(self, live: Mapping[str, str]) -> list[Path]:
        """Write ``adapters/LEARNER``, and ``adapters/LEARNER-best`` where an earlier look was better.

        Args:
            live: learner -> its version in the final table.

        Returns:
            The folders.
        """
        found = checkpoints.best(self._folder / "checkpoints")
        best = checkpoints.load(found) if found is not None else None
        written = []
        for learner, version in live.items():
            which = f"the weights after the last update, version `{version}` of the run"
            results = _results(self._store, version, self._recipe)
            written.append(self._write(learner, learner, which, results))
            # earlier weights belong to earlier examples, which nobody kept
            alone = not self._shown.get(learner)
            if best is not None and best.step != self._recipe.updates and alone:
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
        final = self._folder / ADAPTERS / name
        work = final.with_name(f".tmp-{name}")
        for old in (work, final):
            shutil.rmtree(old, ignore_errors=True)
        self._base.save_adapter(learner, work)
        write_prompt(work, self._recipe.prompt.followed_by(self._shown.get(learner, ())))
        shutil.copy(self._folder / RECIPE, work / RECIPE)
        prompt = _PROMPTED if (work / PROMPT).is_file() else ""
        (work / "README.md").write_text(_card(self._recipe, name, which, results, prompt))
        checkpoints.rename_durably(work, final)
        return final


def _card(recipe: LeagueRecipe, name: str, which: str, results: str, prompt: str) -> str:
    hub = _HUB.get(recipe.model, recipe.model if "/" in recipe.model else "")
    local = recipe.model in catalog.names() or Path(recipe.model).expanduser().is_dir()
    source = hub or (str(catalog.resolve(recipe.model)) if local else recipe.model)
    return _CARD.format(
        base_line=f"base_model: {hub}\n" if hub else "",
        title=f"{name} of {recipe.name}",
        base=recipe.model,
        srl=metadata.version("srl"),
        env=recipe.env,
        options=f" with {recipe.env_options}" if recipe.env_options else "",
        algorithm=recipe.training.algorithm,
        updates=recipe.updates,
        rank=recipe.lora.rank,
        alpha=recipe.lora.alpha,
        seed=recipe.seed,
        which=which,
        prompt=prompt,
        results=results,
        source=source,
        folder=name,
        name=name,
        vllm_rank=next((r for r in _VLLM_RANKS if r >= recipe.lora.rank), _VLLM_RANKS[-1]),
        recipe=RECIPE,
    )


def _results(store: LeagueStore, version: str, recipe: LeagueRecipe) -> str:
    """Score differences per game in the final round robin, as a table."""
    known = env_spec(recipe.env)
    pairs = store.pairs(known.id, options=recipe.env_options, schedule=FINAL)
    rows = _against(pairs, version)
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
        rows.append(f"| `{other}` | {gap.estimate:+.2f} [{low:+.2f}, {high:+.2f}] |")
    return rows
