"""Model cards: what stands beside exported weights for whoever finds them later."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from srl_agents.engines import catalog
from srl_agents.policies.prompt_file import PROMPT
from srl_agents.recipes.folder import RECIPE
from srl_agents.recipes.settings import LeagueRecipe

_HUB = {"smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Where others find a base that has a short name here."""

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
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained("{source}")
model = PeftModel.from_pretrained(base, "{name}")
tokenizer = AutoTokenizer.from_pretrained("{source}")
```

or `vllm serve {source} --enable-lora --max-lora-rank {vllm_rank} --lora-modules {name}={name}`."""

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


def model_card(recipe: LeagueRecipe, name: str, which: str, results: str, *, prompted: bool) -> str:
    """The card of a learner's weights, LoRA or whole, as the recipe says.

    Args:
        recipe: of the run.
        name: of the folder.
        which: which weights of the learner these are.
        results: a section in Markdown.
        prompted: a prompt lies beside the weights.
    """
    hub = _HUB.get(recipe.model, recipe.model if "/" in recipe.model else "")
    local = recipe.model in catalog.names() or Path(recipe.model).expanduser().is_dir()
    source = hub or (str(catalog.resolve(recipe.model)) if local else recipe.model)
    full, rank = recipe.parameters == "full", recipe.lora.rank
    use = _USE_MODEL if full else _USE_ADAPTER
    return _HEAD.format(
        library="transformers" if full else "peft",
        tag="full" if full else "lora",
        what="All weights of" if full else "A LoRA adapter on",
        size="all weights" if full else f"rank {rank}, alpha {recipe.lora.alpha:g}",
        base_line=f"base_model: {hub}\n" if hub else "",
        title=f"{name} of {recipe.name}",
        base=recipe.model,
        srl=metadata.version("srl"),
        env=recipe.env,
        options=f" with {recipe.env_options}" if recipe.env_options else "",
        algorithm=recipe.training.algorithm,
        updates=recipe.updates,
        seed=recipe.seed,
        which=which,
        prompt=_PROMPTED if prompted else "",
        results=results,
        use=use.format(
            source=source,
            name=name,
            env=recipe.env,
            vllm_rank=next((r for r in _VLLM_RANKS if r >= rank), _VLLM_RANKS[-1]),
        ),
        recipe=RECIPE,
    )
