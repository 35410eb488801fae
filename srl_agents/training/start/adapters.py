"""Learners that begin as existing adapters: checked early, read once, kept with the run.

The run's folder gets its own copies. A run that is continued reads those, so what begins after them (the
reference ``start``, exploiters that start again) begins from the same weights when the originals are gone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from srl_agents.agents.grammar import ModelName
from srl_agents.agents.prompt_file import read_prompt
from srl_agents.agents.resolver import adapter_layers, adapter_shape, check_adapter
from srl_agents.models.sources.catalog import local_folder
from srl_agents.recipes.plan_description import architecture_of
from srl_agents.recipes.sections.base_models import Base
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.model_cards import base_of
from srl_envs.errors import ConfigError, gather

if TYPE_CHECKING:  # torch comes with it
    from srl_agents.metrics import ConsoleView
    from srl_agents.training.bases import LoadedBase

INIT_ADAPTER = "init_adapter"
"""Within a run's folder: one folder per learner that began as an adapter."""
_CONFIG = "adapter_config.json"


def check_init_adapters(recipe: LeagueRecipe, folder: Path) -> None:
    """Refuse adapters that learners cannot begin as, by only their files; nothing is loaded.

    Args:
        recipe: of the run.
        folder: of the run; where it holds copies, the originals are not looked at.

    Raises:
        ConfigError: an adapter is of another base, shape or kind; the text names the setting to change.
        UnknownPolicyError: a folder holds no adapter.
    """
    if (folder / INIT_ADAPTER).is_dir():
        return
    gather(
        *(
            partial(_check, base, path)
            for base in recipe.bases
            for path in dict.fromkeys(base.first_adapters.values())
        )
    )


def load_init_adapters(bases: Sequence[LoadedBase], folder: Path, view: ConsoleView) -> None:
    """Add the adapters of learners that begin as one to their bases.

    Args:
        bases: get the adapters; without ``init_adapter`` nothing happens.
        folder: of the run; ``init_adapter`` in it holds copies.
        view: shows which learner begins as which adapter.

    Raises:
        CheckpointError: a copy, or a snapshot of another run, is damaged.
        ConfigError: an adapter has factors on other layers than learners' adapters.
        ModelError: an adapter does not fit the base.
    """
    from srl_agents import checkpoints  # noqa: PLC0415 - torch comes with it

    final = folder / INIT_ADAPTER
    given = [(base, name) for base in bases for name in base.settings.first_adapters]
    if not given:
        return
    if final.is_dir():
        for base, name in given:
            checkpoints.check_frozen(final / name, "Begin the run again in another folder.")
            base.model.load_adapter(name, final / name)
        return
    work = folder / f"{INIT_ADAPTER}.tmp"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for base, name in given:
        source = Path(base.settings.first_adapters[name]).expanduser()
        checkpoints.check_frozen(source, "Give another folder as init_adapter.")
        base.model.load_adapter(name, source)
        own = {key.rpartition(".lora_")[0] for key in base.model.trainable_parameters(name)}
        if own != set(adapter_layers(source)):
            raise ConfigError(_other_layers(source, base.settings))
        base.model.save_adapter(name, work / f"{name}.tmp")
        checkpoints.keep_frozen(work / f"{name}.tmp", work / name)
        view.say(f"{name} begins as the adapter in {source}")
        if read_prompt(source) != base.settings.prompt:
            view.say(f"{source} was made with another prompt than this recipe's")
    checkpoints.rename_durably(work, final)


def _check(base: Base, path: str) -> None:
    folder, lora = Path(path).expanduser(), base.lora
    adapter_shape(folder)  # raises where a file is missing
    config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    _check_base(folder, str(config.get("base_model_name_or_path") or ""), base.model)
    rank, alpha = check_adapter(ModelName(model=base.model, adapter=path))
    if (rank, alpha) != (lora.rank, lora.alpha):
        raise ConfigError(
            f"init_adapter: {folder} has rank {rank} and alpha {alpha:g}, and lora has {lora.rank} and "
            f"{lora.alpha:g}. Set lora.rank={rank} and lora.alpha={alpha:g}."
        )
    acts = "reply" if config.get("alora_invocation_tokens") else "start"
    if acts != lora.activation:
        raise ConfigError(
            f"init_adapter: {folder} was made with lora.activation={acts!r}, and the recipe has "
            f"{lora.activation!r}. Set lora.activation={acts!r}."
        )
    _check_layers(folder, base)


def _check_base(folder: Path, named: str, model: str) -> None:
    """Compare hub ids without their owners, as mirrors have other owners; folders are not compared."""
    own = base_of(model) or ""
    if any(name.count("/") != 1 or local_folder(name) is not None for name in (named, own)):
        return
    if named.rpartition("/")[2].lower() != own.rpartition("/")[2].lower():
        raise ConfigError(
            f"init_adapter: {folder} was made on {named}, and model is {model}. Set model={named}; if both "
            f"are the same weights, correct base_model_name_or_path in {folder / _CONFIG}."
        )


def _check_layers(folder: Path, base: Base) -> None:
    """Compare the names of layers; where they are unknown before loading, this is done after it."""
    lora, layers = base.lora, adapter_layers(folder)
    targets: Sequence[str]
    if lora.target_modules == "all-linear":
        try:
            targets = tuple(architecture_of(base.model).linear())
        except ConfigError:
            return
    else:
        targets = lora.target_modules
    left_out = [
        layer for layer in layers if any(f".{x}." in f".{layer}." for x in lora.exclude_modules)
    ]
    strange = [layer for layer in layers if not any(f".{layer}".endswith(f".{t}") for t in targets)]
    bare = [t for t in targets if not any(f".{layer}".endswith(f".{t}") for layer in layers)]
    if left_out or strange or (bare and not lora.exclude_modules):
        raise ConfigError(_other_layers(folder, base))


def _other_layers(folder: Path, base: Base) -> str:
    names = sorted({layer.rpartition(".")[2] for layer in adapter_layers(folder)})
    excluded = [*base.lora.exclude_modules]
    but = f" without {excluded}" if excluded else ""
    return (
        f"init_adapter: {folder} has factors on other layers than lora.target_modules="
        f"{base.lora.target_modules!r}{but}. Set lora.target_modules=[{', '.join(names)}], and "
        "lora.exclude_modules as it was made."
    )
