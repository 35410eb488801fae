"""The folder of a run: which recipe it belongs to. Light: a wrong folder is refused before torch loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from srl_agents.engines.endpoint.reply_journal import REPLIES
from srl_agents.engines.endpoint.sent_requests import SENT
from srl_agents.recipes.loading import load
from srl_agents.recipes.recipe_kinds import Recipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightVersion, label_of
from srl_agents.training.folder.changes import EFFECTS, LOOKS, Change, within
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import dump

RECIPE, CHECKPOINTS, SNAPSHOTS = "recipe.yaml", "checkpoints", "snapshots"
STORE, VERSIONS, BUFFER = "league.db", "versions", "generation"
WORKERS = "workers.json"
"""File with the states of a cluster's workers."""
REPLIES_AHEAD = "replies_ahead.jsonl"
"""Replies of endpoints in matches that the generation process plays; `REPLIES` has those of the others."""
SHARED_BASE = "shared_base.safetensors"
"""The base's weights, while two processes map them."""
FOLDERS: Mapping[str, str] = {"lora": "adapters", "full": "models"}
"""Exported weights within a run's folder, by what learns."""
BEST = "-best"
"""Follows a learner's name for its best, not its last, weights."""
ORIGIN = "origin.json"
"""File of a folder that `srl pull` fetched: from where it came, and which commit."""
_UNFINISHED = f"{RECIPE}.tmp"
_BEFORE = (_UNFINISHED, REPLIES, SENT)
"""Files that may exist before the recipe does."""
_MOST_NAMED = 5
"""Keys that a refusal names."""
_KEPT = "share_prefixes"
"""Setting that a run keeps where the recipe leaves it to SRL: another value rounds differently."""
R = TypeVar("R")
_FREE_OF_POPULATIONS = ("matches", "workers", "batch")


def check_folder(recipe: Recipe, folder: Path) -> None:
    """Refuse a folder that holds something else than a run that this recipe may continue.

    Raises:
        ConfigError: it holds another run, one that was pulled, or no run but other files.
    """
    path = folder / RECIPE
    if (folder / ORIGIN).is_file():
        raise ConfigError(
            f"{folder} was pulled from a hub, without checkpoints: a run cannot go on there. Train its "
            f"recipe from the start, with --out FOLDER for another folder: srl train {path}"
        )
    if path.is_file():
        _check_recipe(recipe, path)
    elif folder.exists() and (
        not folder.is_dir() or any(found.name not in _BEFORE for found in folder.iterdir())
    ):
        raise ConfigError(
            f"{folder} is not empty and holds no run; choose another folder with --out."
        )


def write_recipe(recipe: Recipe, folder: Path) -> None:
    """Mark a folder as a run of this recipe; a kill leaves the old file or the new one, whole."""
    temporary = folder / _UNFINISHED
    temporary.write_text(yaml.safe_dump(dump(recipe), sort_keys=False))
    temporary.replace(folder / RECIPE)


def changes_of(recipe: Recipe, folder: Path) -> list[Change]:
    """Settings that differ from those of the run in a folder; empty where the folder holds no run.

    Raises:
        ConfigError: the recipe there cannot be read as one of this kind.
    """
    path = folder / RECIPE
    if not path.is_file():
        return []
    try:
        known = load(type(recipe), path)  # settings that are newer than the file have defaults
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is of another recipe, which this one cannot continue: {error} Choose another folder "
            "with --out."
        ) from None
    there, here = dict(_flat(dump(known))), dict(_flat(dump(_kept(recipe, known))))
    return [
        Change(key=key, there=there.get(key), here=here.get(key))
        for key in {**there, **here}
        if there.get(key) != here.get(key)
    ]


def as_begun(recipe: R, folder: Path) -> R:
    """The recipe, with what it leaves to SRL as the run in a folder has it.

    Runs of versions in which ``share_prefixes`` was false by default go on with false.
    """
    path = folder / RECIPE
    if not path.is_file():
        return recipe
    try:
        known = load(type(recipe), path)
    except (ConfigError, UnicodeDecodeError):
        return recipe  # refused by `check_folder`
    return _kept(recipe, known)


def _kept(here: R, there: Any) -> R:
    """Settings, or a mapping of settings, with `_KEPT` of others of their kind where it is ``auto``."""
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        kept = {key: _kept(own, there.get(key)) for key, own in here.items()}
        return here if kept == here else kept  # type: ignore[return-value]
    if not is_dataclass(here) or isinstance(here, type) or type(here) is not type(there):
        return here
    changed = {}
    for entry in fields(here):
        if not entry.init:
            continue
        own, other = getattr(here, entry.name), getattr(there, entry.name)
        if entry.name == _KEPT:
            new = other if own == "auto" else own
        else:
            new = _kept(own, other) if is_dataclass(own) or isinstance(own, Mapping) else own
        if new is not own and new != own:
            changed[entry.name] = new
    return replace(here, **changed) if changed else here


def snapshots_in(folder: Path) -> list[str]:
    """Ids of the versions that a run froze."""
    return sorted(
        path.name
        for path in (folder / SNAPSHOTS).glob("*@*-*")
        if path.is_dir()
        and not path.is_symlink()
        and not path.name.endswith(".tmp")
        and not path.name.startswith(".")
    )


def link_label(folder: Path, version: WeightVersion) -> None:
    """Let people write a snapshot's folder with its label, ``snapshots/alice@30``, where it is unique.

    Args:
        folder: of the run.
        version: that was frozen.
    """
    link = folder / SNAPSHOTS / version.label
    if link.is_dir() and not link.is_symlink():
        return  # a copy of the run that followed its links; the whole ids are right there
    link.unlink(missing_ok=True)
    alike = [name for name in snapshots_in(folder) if label_of(name) == version.label]
    if alike == [str(version)]:
        with suppress(OSError):  # a file system without links: the whole id does
            link.symlink_to(str(version), target_is_directory=True)


def _check_recipe(recipe: Recipe, path: Path) -> None:
    """Refuse settings that would make another run of what is there."""
    free = _free_keys(recipe)
    changed = [
        change
        for change in changes_of(recipe, path.parent)
        if not any(within(change.key, kept) for kept in free)
    ]
    if changed:
        differences = [f"{one.key}: {one.there!r} there, {one.here!r} here" for one in changed]
        more = (
            f" and {len(differences) - _MOST_NAMED} more" if len(differences) > _MOST_NAMED else ""
        )
        raise ConfigError(
            f"{path.parent} holds a run with other settings: {'; '.join(differences[:_MOST_NAMED])}{more}. "
            "Set them back to continue it, or choose another folder with --out."
        )


def _free_keys(recipe: Recipe) -> tuple[str, ...]:
    """Settings whose change still continues the same run."""
    if not isinstance(recipe, LeagueRecipe):
        return _FREE_OF_POPULATIONS
    looks = LOOKS if recipe.opponents.prior == "even" else ()
    return (*EFFECTS, *looks)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and plain values of nested settings; an empty section is a value."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
