"""A finished run as a repository of models: weights with their cards, results with intervals, the recipe."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

import srl_envs
from srl_agents import Run
from srl_agents.cli.exchange.parcel import CARD, SENT, Parcel, below, private_paths
from srl_agents.cli.league.status import plain
from srl_agents.league.standings import Gain
from srl_agents.metrics.sinks import METRICS
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.recipes.sections.base_models import Base
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import label_of, plain_json
from srl_agents.training.folder.layout import BEST, FOLDERS, RECIPE
from srl_agents.training.folder.model_cards import base_of
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import dump

RESULTS = "results.json"
CONFIG = "adapter_config.json"
BASE = "base_model_name_or_path"
_CARD = """\
---
library_name: {library}
{base}tags: [srl, {tag}]
---

# {title}

{count} trained by SRL to play {games}: {algorithm}, {updates} updates, seed {seed}.

## Did it learn?

{gains}

Points per game against the version that each learner started as, or the difference of returns in games of
one seat, with 95 % intervals clustered by seed. `{results}` has all ratings, as `srl league status --json`
prints them.

## Weights

{weights}

## Use

```
{install}
srl pull {repository}
srl play {game} {play}
```
{peft}
Everything here is data: safetensors, JSON, YAML and Markdown. `srl pull` compares each file with its hash in
`srl.json`.
"""
_PEFT = """
Without SRL:

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained("{source}")
model = PeftModel.from_pretrained(base, "{repository}", subfolder="{folder}")
```
"""

_SHIPPED = """
`{model}` comes with SRL and is on no hub. The card of each folder shows how plain PEFT loads its adapter.
"""


def run_parcel(folder: Path, repository: str, overrides: Sequence[str] = ()) -> Parcel:
    """The parcel of a run.

    Args:
        folder: of the run.
        repository: ``owner/name``, for the card.
        overrides: ``key=value`` over the recipe that is published, such as the hub id of a base that the
            run read from a folder.

    Raises:
        ConfigError: the run is not finished, weights belong to another base than its recipe names, or only
            this machine has the base.
        StoreError: the league's store cannot be read.
    """
    run = Run.open(folder)
    recipe = read_recipe(folder / RECIPE, overrides=tuple(overrides))
    assert isinstance(recipe, LeagueRecipe)
    names = _names(folder, recipe)
    text = yaml.safe_dump(dump(recipe), sort_keys=False).encode()
    files = below(folder, names)
    for name in names:
        if name.endswith(f"/{RECIPE}") or name == RECIPE:
            files[name] = text
        elif name.endswith(f"/{CONFIG}"):
            files[name] = _config(folder / name, base_in(run.recipe, name), base_in(recipe, name))
        elif name.endswith(f"/{CARD}") and overrides:
            files[name] = _renamed(folder / name, base_in(run.recipe, name), base_in(recipe, name))
    results = [plain(found) for found in run.standings()]
    files[RESULTS] = (plain_json(results, indent=1) + "\n").encode()
    folders = sorted({name.rpartition("/")[0] for name in names if name.count("/") == 2})
    bases = {each: base_in(recipe, f"{each}/") for each in folders}
    files[CARD] = _card(recipe, repository, bases, run.gains()).encode()
    return Parcel(kind="run", files=files, notes=tuple(private_paths(files)))


def _names(folder: Path, recipe: LeagueRecipe) -> list[str]:
    """Files of a run that others can use, of all learners."""
    present = [
        path.relative_to(folder).as_posix()
        for room in FOLDERS.values()
        for path in sorted((folder / room).rglob("*"))
        if path.is_file() or path.is_symlink()
    ]
    weights = [name for name in present if SENT["run"].fullmatch(name)]
    exported = {name.split("/")[1] for name in weights if name.endswith(".safetensors")}
    if missing := [learner for learner in recipe.learners if learner not in exported]:
        raise ConfigError(
            f"{folder} has no final weights of {', '.join(missing)}. Finish the run first: srl train {folder}"
        )
    top = [name for name in (RECIPE, METRICS) if (folder / name).is_file()]
    return [*top, *weights]


def base_in(recipe: LeagueRecipe, name: str) -> Base:
    """Base of the learner whose folder holds a file.

    Raises:
        ConfigError: the recipe has no such learner.
    """
    learner = name.split("/")[1].removesuffix(BEST)
    for base in recipe.bases:
        if learner in base.learners:
            return base
    raise ConfigError(f"{name}: {RECIPE} has no learner {learner}. Remove the folder.")


def _config(path: Path, own: Base, published: Base) -> bytes:
    """The adapter's configuration with the base that others load.

    Raises:
        ConfigError: the adapter is for another base than the recipe's, or only this machine has the base.
    """
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get(BASE) != base_of(own.model):
        raise ConfigError(
            f"{path} is for the base {config.get(BASE)!r}, and {RECIPE} trains {base_of(own.model)!r}: "
            "these are not the weights of this run."
        )
    if Path(published.model).expanduser().is_dir() or published.model.startswith(("/", "~", ".")):
        raise ConfigError(
            f"the base is the folder {published.model}, which others do not have. Name it as the hub does: "
            "--set model=OWNER/NAME, or models.NAME.model with several bases."
        )
    config[BASE] = base_of(published.model)
    return json.dumps(config, indent=2, sort_keys=True, allow_nan=False).encode()


def _renamed(path: Path, own: Base, published: Base) -> bytes:
    """A learner's card that names the published base."""
    return path.read_text(encoding="utf-8").replace(own.model, published.model).encode()


# --- the card --------------------------------------------------------------------------------


def _card(
    recipe: LeagueRecipe, repository: str, bases: Mapping[str, Base], gains: Sequence[Gain]
) -> str:
    whole = all(base.parameters == "full" for base in bases.values())
    public = sorted({source for base in bases.values() if (source := base_of(base.model))})
    games = [game for game in recipe.games if game.weight > 0]
    folder, base = next(iter(bases.items()))
    place = f"{repository.rpartition('/')[2]}/{folder}"
    played = place if base.parameters == "full" else f"{base.model}+{place}"
    seats = len(srl_envs.make(games[0].env_id, **games[0].options).possible_agents)
    what = "models" if whole else "LoRA adapters"
    return _CARD.format(
        library="transformers" if whole else "peft",
        base=f"base_model: [{', '.join(public)}]\n" if public else "",
        tag="full" if whole else "lora",
        title=recipe.name,
        count=f"{len(bases)} {what if len(bases) > 1 else what.removesuffix('s')},",
        games=", ".join(f"`{game.env_id}`" for game in games),
        algorithm=", ".join(sorted({base.training.algorithm for base in bases.values()})),
        updates=recipe.updates,
        seed=recipe.seed,
        gains=_gain_table(gains),
        results=RESULTS,
        weights=_weight_table(bases),
        install=install_command("train"),
        repository=repository,
        game=games[0].env_id,
        play=" ".join([played, *["random"] * (seats - 1), *_option_words(games[0].options)]),
        peft="" if base.parameters == "full" else _peft(base.model, repository, folder),
    )


def _option_words(options: Mapping[str, object]) -> list[str]:
    return [shlex.quote(f"--option={key}={value}") for key, value in options.items()]


def _peft(model: str, repository: str, folder: str) -> str:
    source = base_of(model)
    if source is None:
        return _SHIPPED.format(model=model)
    return _PEFT.format(source=source, repository=repository, folder=folder)


def _gain_table(gains: Sequence[Gain]) -> str:
    if not gains:
        return f"Not measured against the start: see `{RESULTS}`."
    rows = [
        f"| `{label_of(gain.agent)}` | {gain.game} | {gain.difference.estimate:+.3f} "
        f"[{max(gain.difference.low, -1.0):+.3f}, {min(gain.difference.high, 1.0):+.3f}] | "
        f"{gain.difference.clusters} | "
        f"{'better than its start' if gain.better else 'not shown'} |"
        for gain in gains
    ]
    head = ["| learner | game | difference | seeds | |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _weight_table(bases: Mapping[str, Base]) -> str:
    rows = [
        f"| [`{folder}`]({folder}/README.md) | `{base_of(base.model) or base.model}` | "
        + (f"rank {base.lora.rank} |" if base.parameters == "lora" else "all weights |")
        for folder, base in bases.items()
    ]
    return "\n".join(["| folder | base | |", "|---|---|---|", *rows])
