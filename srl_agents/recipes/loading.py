"""Recipe files: YAML to frozen dataclasses, with overrides from the command line."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml

from srl_envs.errors import ConfigError, nearest
from srl_envs.settings import build, describe

T = TypeVar("T")
SHIPPED = Path(__file__).parent


class _UniqueKeys(yaml.SafeLoader):
    """Plain values only, and no key twice: of two settings the reader could not tell which counts."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.YAMLError(f"key {twice[0]!r} stands twice{node.start_mark}")
        return super().construct_mapping(node, deep)


def find_recipe(name: str) -> Path:
    """A recipe file by path, or a shipped one by name.

    Raises:
        ConfigError: there is no such file; names the nearest shipped recipe.
    """
    return _find("recipe", name, SHIPPED)


def find_rubric(name: str) -> Path:
    """A rubric file by path, or a shipped one by name.

    Raises:
        ConfigError: there is no such file; names the nearest shipped rubric.
    """
    return _find("rubric", name, SHIPPED / "rubrics")


def _find(what: str, name: str, folder: Path) -> Path:
    path = Path(name)
    if path.is_file():
        return path
    shipped = {p.stem: p for p in sorted(folder.glob("*.yaml"))}
    if name in shipped:
        return shipped[name]
    raise ConfigError(
        f"no {what} {name!r}.{nearest(name, shipped)} "
        f"Give a YAML file, or one of: {', '.join(shipped)}."
    )


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        ConfigError: the file cannot be read or holds something else.
    """
    try:
        data = yaml.load(path.read_text(), Loader=_UniqueKeys)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected `key: value` lines, found {describe(data)}.")
    return data


def load(kind: type[T], path: Path, overrides: typing.Sequence[str] = ()) -> T:
    """Read a YAML file into the dataclass ``kind``.

    Args:
        kind: a dataclass; nested dataclasses are nested mappings.
        path: the file.
        overrides: ``dotted.key=value`` texts, values in YAML, applied over the file.

    Raises:
        ConfigError: the file does not parse, or a key, type or value is wrong.
    """
    data = read_yaml(path)
    for text in overrides:
        _override(data, text)
    return build(kind, data, path.name)


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
