"""YAML files of users: plain values; a repeated key is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from srl_envs.errors import ConfigError, file_fault, nearest
from srl_envs.reading.settings import describe


class _UniqueKeys(yaml.SafeLoader):
    """Plain values only; a repeated key is refused, because the reader could not see which value counts."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.YAMLError(f"key {twice[0]!r} stands twice{node.start_mark}")
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        ConfigError: the file cannot be read or holds something else.
    """
    try:
        data = yaml.load(path.read_text(), Loader=_UniqueKeys)
    except OSError as error:
        raise ConfigError(f"cannot read {file_fault(error, path)}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected `key: value` lines, found {describe(data)}.")
    return data


def find_yaml(what: str, name: str, shipped: Path) -> Path:
    """A file by path, or one of a folder that comes with SRL by name.

    Args:
        what: one such file in words, for example ``recipe``.
        name: what the user wrote.
        shipped: the folder.

    Raises:
        ConfigError: the file does not exist; the message names the nearest shipped one.
    """
    path = Path(name)
    if path.is_file():
        return path
    known = {p.stem: p for p in sorted(shipped.glob("*.yaml"))}
    if name in known:
        return known[name]
    why = ": it is a folder" if path.is_dir() else ""
    raise ConfigError(
        f"no {what} {name!r}{why}.{nearest(name, known)} "
        f"Give a YAML file, or one of: {', '.join(known)}."
    )
