"""Recipe files: YAML to frozen dataclasses, with overrides from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from srl_agents.recipes.named_rows import give_files
from srl_agents.yaml_files import find_yaml, read_yaml
from srl_envs.errors import ConfigError, gather
from srl_envs.reading.settings import build

T = TypeVar("T")
SHIPPED = Path(__file__).parent
Override = str | tuple[str, Any]
"""``dotted.key=value`` with the value in YAML, or a dotted key and its value."""
Overrides = Mapping[str, Any] | Sequence[Override]


def find_recipe(name: str) -> Path:
    """A recipe file by path, or a shipped one by name.

    Raises:
        ConfigError: the file does not exist; the message names the nearest shipped recipe.
    """
    return find_yaml("recipe", name, SHIPPED)


def load(
    kind: type[T],
    path: Path,
    overrides: Overrides = (),
    *,
    rows: Path | None = None,
) -> T:
    """Read a YAML file into the dataclass ``kind``.

    Args:
        kind: a dataclass; nested dataclasses are nested mappings.
        path: the file.
        overrides: ``dotted.key=value`` texts with values in YAML, or values by dotted key; applied over the
            file in this order.
        rows: folder with the files of collections that it calls by name; see `give_files`.

    Raises:
        ConfigError: the file does not parse, or with every key, type and value that is wrong and every
            collection that has no file.
    """
    return read_values(kind, read_yaml(path), path.name, overrides, rows=rows)


def read_values(
    kind: type[T],
    data: dict[str, Any],
    place: str,
    overrides: Overrides = (),
    *,
    rows: Path | None = None,
) -> T:
    """Read plain values, such as YAML holds, into the dataclass ``kind``.

    Args:
        kind: a dataclass; nested dataclasses are nested mappings.
        data: the values by key; changed in place.
        place: stands before messages about them.
        overrides: see `load`.
        rows: see `load`.

    Raises:
        ConfigError: as `load` does.
    """
    found: list[T] = []
    gather(
        *(partial(_override, data, given) for given in as_pairs(overrides)),
        partial(give_files, data, rows),
        lambda: found.append(build(kind, data, place)),
    )
    return found[0]


def as_pairs(overrides: Overrides) -> list[Override]:
    """Overrides one by one: texts as they are, entries of a mapping as (key, value)."""
    return [*overrides.items()] if isinstance(overrides, Mapping) else [*overrides]


def _override(data: dict[str, Any], given: Override) -> None:
    if isinstance(given, str):
        place, (key, value) = f"--set {given!r}", _parsed(given)
    else:
        place, (key, value) = f"override {given[0]!r}", given
    *parents, last = key.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
        if not isinstance(data, dict):
            raise ConfigError(f"{place}: {parent!r} holds no keys.")
    data[last] = value


def _parsed(text: str) -> tuple[str, Any]:
    """Key and value of ``key=value``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(
            f"--set {text!r}: write key=value, for example --set training.learning_rate=1e-3."
        )
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise ConfigError(f"--set {text!r}: the value is not YAML.") from None
