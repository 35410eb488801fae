"""Model cards: the page beside exported weights, for their later users."""

from __future__ import annotations

from pathlib import Path

import srl_envs
from srl_agents.agents.prompt_file import PROMPT
from srl_agents.models.sources import catalog
from srl_agents.recipes.sections.base_models import Base
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.layout import RECIPE
from srl_envs.distribution import install_command

_HUB = {"smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Where others find a base that has a short name here; the others come with SRL and are on no hub."""

_HEAD = """\
---
library_name: {library}
{base_line}tags: [srl, {tag}]
---

# {title}

{what} `{base}`, trained by SRL {srl} to play `{env}`{options}.

- algorithm {algorithm}, {updates} updates, {size}, seed {seed}
- {which}
- prompts: the observations of the environment as user messages of the base's chat template{prompt}

## Results

{results}

## Use

{use}

The whole recipe is in `{recipe}` beside this file; the same recipe and seed make the same weights on
the same machine.
"""

_USE_ADAPTER = """\
```python
from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer

model = AutoPeftModelForCausalLM.from_pretrained("{name}")
tokenizer = AutoTokenizer.from_pretrained("{source}")
```

or `vllm serve {source} --enable-lora --max-lora-rank {vllm_rank} --lora-modules {name}={name}`."""

_USE_ADAPTER_OF_SHIPPED = """\
`{base}` comes with SRL and is on no hub, so `adapter_config.json` names no base: give it yourself, as the
folder of the shipped model (`{install}`).

```python
from peft import PeftModel
from srl_agents.models.sources.catalog import resolve
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained(resolve("{base}"))
model = PeftModel.from_pretrained(base, "{name}")
tokenizer = AutoTokenizer.from_pretrained(resolve("{base}"))
```

or `vllm serve` with that folder and
`--enable-lora --max-lora-rank {vllm_rank} --lora-modules {name}={name}`."""

_USE_MODEL = """\
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{name}")
tokenizer = AutoTokenizer.from_pretrained("{name}")
```

or `vllm serve {name}`, or `srl play {env} {name} human`. As `model:` of a recipe, the next run begins
from it."""

_PROMPTED = f", after the system message and the turns in `{PROMPT}`"
_VLLM_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


def base_of(model: str) -> str | None:
    """Hub id or folder from which others load a base; None for one that comes with SRL.

    Args:
        model: as a recipe names it.
    """
    if model in catalog.names():
        return _HUB.get(model)
    return str(Path(model).expanduser()) if _is_folder(model) else model


def _is_folder(model: str) -> bool:
    return model not in catalog.names() and Path(model).expanduser().is_dir()


def model_card(
    recipe: LeagueRecipe, base: Base, name: str, which: str, results: str, *, prompted: bool
) -> str:
    """The card of a learner's weights, LoRA or whole by the recipe.

    Args:
        recipe: of the run.
        base: whose learner it is.
        name: of the folder.
        which: which weights of the learner these are.
        results: a section in Markdown.
        prompted: a prompt lies beside the weights.
    """
    source = base_of(base.model)
    trained = [game for game in recipe.games if game.weight > 0]
    options = [game.options for game in trained]
    full, rank = base.parameters == "full", base.lora.rank
    adapter = _USE_ADAPTER if source else _USE_ADAPTER_OF_SHIPPED
    return _HEAD.format(
        library="transformers" if full else "peft",
        tag="full" if full else "lora",
        what="All weights of" if full else "A LoRA adapter on",
        size="all weights" if full else f"rank {rank}, alpha {base.lora.alpha:g}",
        base_line=f"base_model: {source}\n" if source and not _is_folder(base.model) else "",
        title=f"{name} of {recipe.name}",
        base=base.model,
        srl=srl_envs.__version__,
        env=", ".join(game.env_id for game in trained),
        options=f" with {options[0]}" if len(options) == 1 and options[0] else "",
        algorithm=base.training.algorithm,
        updates=recipe.updates,
        seed=recipe.seed,
        which=which,
        prompt=_PROMPTED if prompted else "",
        results=results,
        use=(_USE_MODEL if full else adapter).format(
            base=base.model,
            source=source,
            name=name,
            env=trained[0].env_id,
            install=install_command("train"),
            vllm_rank=next((r for r in _VLLM_RANKS if r >= rank), _VLLM_RANKS[-1]),
        ),
        recipe=RECIPE,
    )
