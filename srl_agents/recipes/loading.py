"""Recipe files: YAML to frozen dataclasses, with overrides from the command line."""

from __future__ import annotations

import typing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from srl_agents.recipes.named_rows import give_files
from srl_agents.yaml_files import find_yaml, read_yaml
from srl_envs.errors import ConfigError, gather
from srl_envs.settings import build

T = TypeVar("T")
SHIPPED = Path(__file__).parent


def find_recipe(name: str) -> Path:
    """A recipe file by path, or a shipped one by name.

    Raises:
        ConfigError: there is no such file; names the nearest shipped recipe.
    """
    return find_yaml("recipe", name, SHIPPED)


def load(
    kind: type[T],
    path: Path,
    overrides: typing.Sequence[str] = (),
    *,
    rows: Path | None = None,
) -> T:
    """Read a YAML file into the dataclass ``kind``.

    Args:
        kind: a dataclass; nested dataclasses are nested mappings.
        path: the file.
        overrides: ``dotted.key=value`` texts, values in YAML, applied over the file.
        rows: folder with the files of collections that it calls by name; see `give_files`.

    Raises:
        ConfigError: the file does not parse, or with every key, type and value that is wrong and every
            collection that has no file.
    """
    data = read_yaml(path)
    found: list[T] = []
    gather(
        *(partial(_override, data, text) for text in overrides),
        partial(give_files, data, rows),
        lambda: found.append(build(kind, data, path.name)),
    )
    return found[0]


def _override(data: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(
            f"--set {text!r}: write key=value, for example --set training.learning_rate=1e-3."
        )
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError:
        raise ConfigError(f"--set {text!r}: the value is not YAML.") from None
    *parents, last = key.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {text!r}: {parent!r} holds no keys.")
    data[last] = parsed
