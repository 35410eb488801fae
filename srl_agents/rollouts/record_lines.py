"""Records as lines of a file that is only added to; a line that was torn or damaged is left out."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import types
import typing
import zlib
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_DIGITS = 8
"""Hex digits of a line's checksum."""


def read_record(kind: type[T], plain: Any) -> T:
    """A dataclass of `srl_agents.records` from what `dataclasses.asdict` and JSON made of it.

    Raises:
        TypeError: a field is missing or unknown.
        KeyError: likewise.
    """
    return typing.cast("T", _read(kind, plain))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _read(kind: Any, plain: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        rest = [k for k in typing.get_args(kind) if k is not type(None)]
        return None if plain is None else _read(rest[0], plain) if len(rest) == 1 else plain
    if origin is tuple:
        items = typing.get_args(kind)
        if items[-1] is not Ellipsis:
            return tuple(_read(k, item) for k, item in zip(items, plain, strict=True))
        if typing.get_origin(items[0]) is None and not dataclasses.is_dataclass(items[0]):
            return tuple(plain)
        return tuple(_read(items[0], item) for item in plain)
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast("type", kind))
        return typing.cast("Any", kind)(**{k: _read(hints[k], value) for k, value in plain.items()})
    return plain


class AddedLines:
    """Reads a growing file of lines that `add_line` wrote, from where it stopped before.

    Args:
        path: need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def more(self) -> list[dict[str, Any]]:
        """What was added since the last call; damaged lines and an unfinished last one are left out."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        whole = added.rfind(b"\n") + 1
        self._offset += whole
        lines = added[:whole].split(b"\n")
        return [value for line in lines if (value := _checked(line)) is not None]


def add_line(path: Path, value: dict[str, Any]) -> None:
    """Add one line by one write, behind whatever a killed process left unfinished.

    A kill of the process loses nothing that was added. What a crash of the machine loses is played
    again, so nothing waits for the disk.
    """
    content = json.dumps(value, separators=(",", ":")).encode()
    line = b"%08x %s\n" % (zlib.crc32(content), content)
    with path.open("ab+", buffering=0) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = b"\n" + line
        file.write(line)


def _checked(line: bytes) -> dict[str, Any] | None:
    """The value of a line; None where it is not what was written."""
    content = line[_DIGITS + 1 :]
    if not content or line[: _DIGITS + 1] != b"%08x " % zlib.crc32(content):
        return None
    value = json.loads(content)
    return value if isinstance(value, dict) else None
