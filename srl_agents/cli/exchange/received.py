"""A repository as a folder: downloaded beside its place, checked, then given its name.

The work folder ``.NAME.pull`` stays after a kill, with the files that arrived whole; the next pull goes on
there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from srl_agents import file_lock
from srl_agents.cli.exchange.hub import Found, Hub
from srl_agents.cli.exchange.parcel import CARD, MARK, TAKEN, Kind, Listed, Listing, require_whole
from srl_agents.cli.exchange.trained import BASE, CONFIG, base_in
from srl_agents.models.pretrained import require_data
from srl_agents.own_folders import rename_durably
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import plain_json
from srl_agents.training.folder.layout import ORIGIN, RECIPE
from srl_agents.training.folder.model_cards import base_of
from srl_envs import foreign_code
from srl_envs.errors import ConfigError, SRLError

_LOCK = ".lock"
_CODE = ("auto_mapping", "megatron_config")
"""Keys of an adapter's configuration with which PEFT imports a module that they name; SRL writes none."""


def pulled(hub: Hub, parent: Path, revision: str | None) -> tuple[Path, list[str]]:
    """Fetch a repository into ``parent/NAME``.

    Args:
        hub: with the repository.
        parent: made if absent.
        revision: a commit, branch or tag; None is the newest commit.

    Returns:
        The folder, and what its new owner should read.

    Raises:
        ConfigError: the folder is in use, or the repository cannot be had or trusted to be whole.
        ForeignCodeError: a file names code, and the process refuses such code.
    """
    final = parent / hub.repository.partition("/")[2]
    found = hub.find(revision)
    origin = {"endpoint": hub.endpoint, "repository": hub.repository, "commit": found.commit}
    if os.path.lexists(final):
        if _origin(final) == origin:
            return final, ["it is here already, at this commit; nothing was fetched"]
        raise ConfigError(f"{final} exists. Give another folder for it with --out, or remove it.")
    work = final.with_name(f".{final.name}.pull")
    work.mkdir(parents=True, exist_ok=True)
    with _alone(work):
        listing = hub.listing(found, work)
        files = _wanted(listing, found, hub.repository)
        hub.fetch(found, files, work)
        require_whole(work, files, hub.repository)
        _remove_others(work, {*files, MARK})
        notes = _checked(work, found.kind, final)
        (work / ORIGIN).write_text(plain_json(origin, indent=1) + "\n", encoding="utf-8")
        (work / _LOCK).unlink()
        rename_durably(work, final)
    return final, notes


def _origin(folder: Path) -> object:
    try:
        return json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Inside, no other pull writes this work folder.

    Raises:
        ConfigError: another does.
    """
    with (work / _LOCK).open("w") as lock:
        try:
            file_lock.lock(lock, wait=False)
        except BlockingIOError:
            raise ConfigError(f"{work} is being written by another `srl pull`.") from None
        yield


def _wanted(listing: Listing, found: Found, repository: str) -> dict[str, Listed]:
    """Files to fetch, which the hub has in the sizes of the list.

    Raises:
        ConfigError: it lacks one, or has another; there is nothing to fetch.
    """
    files = {n: entry for n, entry in listing.files.items() if TAKEN[found.kind].fullmatch(n)}
    for name, entry in files.items():
        if found.sizes.get(name) != entry.bytes:
            has = "is missing" if name not in found.sizes else f"has {found.sizes[name]} bytes"
            raise ConfigError(
                f"{repository}: {name} {has}, and {MARK} lists {entry.bytes}: it was changed after `srl "
                "push`. Ask its owner to push again."
            )
    if not files:
        raise ConfigError(f"{repository} holds nothing that is taken. Open its page instead.")
    return files


def _remove_others(work: Path, names: set[str]) -> None:
    """Leave nothing that the list does not have: files of another commit, and the client's notes."""
    for path in sorted(work.rglob("*"), reverse=True):
        name = path.relative_to(work).as_posix()
        if path.is_dir() and not path.is_symlink():
            if not any(kept.startswith(f"{name}/") for kept in names):
                shutil.rmtree(path)
        elif name not in names and name != _LOCK:
            path.unlink(missing_ok=True)


def _checked(work: Path, kind: Kind, final: Path) -> list[str]:
    """Notes on what the files would lead to when they are used.

    Raises:
        ConfigError: an adapter names a module, or belongs to another base than the recipe's.
        ForeignCodeError: a file names code, and the process refuses such code.
    """
    if kind == "board":
        return [f"not verified yet: srl leaderboard verify {final / 'board'}"]
    recipe, notes = _recipe(work / RECIPE)
    for folder in sorted(path.parent for path in work.glob(f"*/*/{CARD}")):
        if (folder / CONFIG).is_file():
            _check_adapter(folder / CONFIG, recipe, f"{folder.parent.name}/{folder.name}")
        else:
            require_data(folder)
    return notes


def _recipe(path: Path) -> tuple[LeagueRecipe | None, list[str]]:
    """The recipe where it can be read without importing code, and a note where not.

    Raises:
        SRLError: it cannot be read, for example because it names code, and the process refuses such code.
    """
    strict = foreign_code.refused()
    try:
        with foreign_code.refusing():
            recipe = read_recipe(path)
    except SRLError as error:
        if strict:
            raise
        what, names_code, _ = str(error).partition(" runs code from outside SRL")
        if not names_code:
            return None, [f"the recipe cannot be read here: {error}"]
        advice = "Read that code before you train with it, or use --no-foreign-code"
        return None, [f"{what} is code from outside SRL. {advice}"]
    return (recipe if isinstance(recipe, LeagueRecipe) else None), []


def _check_adapter(path: Path, recipe: LeagueRecipe | None, place: str) -> None:
    try:
        config = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{place}/{CONFIG} is not a configuration: {error}.") from None
    if named := [key for key in _CODE if config.get(key)]:
        raise ConfigError(
            f"{place}/{CONFIG}: {named[0]} names a module that PEFT would import; SRL writes none. "
            "Nothing was kept under the final name."
        )
    if recipe is None:
        return
    base = base_of(base_in(recipe, f"{place}/").model)
    if config.get(BASE) != base:
        raise ConfigError(
            f"{place} is for the base {config.get(BASE)!r}, and its recipe trains {base!r}. Ask its owner "
            "which one is right."
        )
