"""Records in a file that is only added to, as Arrow batches; one that was torn or damaged is left out.

A frame is a mark, the length and the checksum of what follows, and one Arrow record batch with a row per
value. Tuples of numbers, such as tokens and log-probabilities, are columns; the rest of a value is text.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import struct
import types
import typing
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Row = dict[str, Any]
"""What one value has: JSON, records and lists of records."""
Numbers = dict[type, list[tuple[Any, ...]]]
"""Tuples of numbers of one value, by their type; its text has their places."""
_MARK = b"\xf5SRL"
"""No text in UTF-8 has its first byte."""
_HEAD = struct.Struct("<4sII")
"""Mark, length, checksum."""
_DTYPES: dict[type, Any] = {int: np.int32, float: np.float64}
_JSON = json.JSONEncoder(separators=(",", ":"))


# --- records -------------------------------------------------------------------------------------


def read_record(kind: type[T], plain: Any) -> T:
    """A dataclass of `srl_agents.records` from what `dataclasses.asdict` and JSON made of it.

    Raises:
        TypeError: a field is missing or unknown.
        KeyError: likewise.
    """
    return typing.cast("T", _read(kind, plain, {}))


def _numbers(kind: Any) -> type | None:
    """int or float, for a tuple of any number of them."""
    items = typing.get_args(kind)
    found = typing.get_origin(kind) is tuple and items[-1] is Ellipsis and items[0] in _DTYPES
    return items[0] if found else None


@functools.cache
def _fields(kind: Any) -> list[tuple[str, type | None, bool, Any]]:
    """For each field its name, what it is numbers of, whether it has records, and its default."""
    hints = typing.get_type_hints(kind)
    found: list[tuple[str, type | None, bool, Any]] = []
    for own in dataclasses.fields(kind):
        default = own.default  # MISSING equals nothing
        if own.default_factory is not dataclasses.MISSING:
            default = own.default_factory()
        hint = hints[own.name]
        found.append((own.name, _numbers(hint), _reader(hint) is not None, default))
    return found


def _plain(value: Any, numbers: Numbers | None) -> Any:
    """JSON of a value, without fields that have their defaults.

    Args:
        value: a record, records, or JSON.
        numbers: takes the tuples of numbers; None leaves them in the text.
    """
    if isinstance(value, tuple | list):
        return [_plain(item, numbers) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    plain: dict[str, Any] = {}
    record: Any = type(value)
    for name, kind, nested, default in _fields(record):
        own = getattr(value, name)
        if own == default:
            continue
        if kind is not None and numbers is not None:
            plain[name] = len(numbers[kind])
            numbers[kind].append(own)
        else:
            plain[name] = _plain(own, numbers) if nested else own
    return plain


def _read(kind: Any, plain: Any, held: Numbers) -> Any:
    reader = _reader(kind)
    return plain if reader is None else reader(plain, held)


@functools.cache
def _reader(kind: Any) -> Callable[[Any, Numbers], Any] | None:
    """What makes a value of a type from JSON; None where JSON's value is the value."""
    origin, numbers = typing.get_origin(kind), _numbers(kind)
    if numbers is not None:
        return lambda plain, held: held[numbers][plain] if type(plain) is int else tuple(plain)
    if origin in (typing.Union, types.UnionType):
        rest = [k for k in typing.get_args(kind) if k is not type(None)]
        inner = _reader(rest[0]) if len(rest) == 1 else None
        return inner and (lambda plain, held: None if plain is None else inner(plain, held))
    if origin is tuple:
        items = typing.get_args(kind)
        if items[-1] is not Ellipsis:
            return lambda plain, held: tuple(
                _read(k, item, held) for k, item in zip(items, plain, strict=True)
            )
        return lambda plain, held: tuple(_read(items[0], item, held) for item in plain)
    if not dataclasses.is_dataclass(kind):
        return None
    hints = typing.get_type_hints(kind)
    readers = {name: reader for name, hint in hints.items() if (reader := _reader(hint))}

    def record(plain: Any, held: Numbers) -> Any:
        own = {k: readers[k](v, held) if k in readers else v for k, v in plain.items()}
        return typing.cast("Any", kind)(**own)

    return record


# --- frames --------------------------------------------------------------------------------------


@functools.cache
def _arrow() -> tuple[Any, Any, int]:
    """Arrow, the schema, and what checksums begin with: frames of another schema count as damaged."""
    import pyarrow as pa  # noqa: PLC0415 - readers of transcripts do without it

    schema = pa.schema(
        {
            "text": pa.binary(),
            "whole": pa.list_(pa.list_(pa.int32())),
            "real": pa.list_(pa.list_(pa.float64())),
        }
    )
    return pa, schema, zlib.crc32(str(schema).encode())


class Framed:
    """One value that was read: JSON, whose records `record` makes."""

    def __init__(self, plain: Row, held: Numbers) -> None:
        self.plain, self._held = plain, held

    def record(self, kind: type[T], plain: Any) -> T:
        """A dataclass from a part of this value's JSON.

        Raises:
            TypeError: a field is missing or unknown.
        """
        return typing.cast("T", _read(kind, plain, self._held))


class AddedFrames:
    """Reads a growing file of frames that `add_frame` wrote, from where it stopped before.

    Args:
        path: need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def more(self) -> list[Framed]:
        """What was added since the last call; damaged frames and an unfinished last one are left out."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        values, read = read_frames(added)
        self._offset += read
        return values


def read_frames(added: bytes) -> tuple[list[Framed], int]:
    """The values of the frames that are whole, and the bytes up to the end of the last of them."""
    values: list[Framed] = []
    read = at = 0
    while (at := added.find(_MARK, at)) >= 0:
        content = _checked(added, at)
        if content is None:
            at += 1
        else:
            values += _unpacked(content)
            read = at = at + _HEAD.size + len(content)
    return values, read


def frame_of(rows: Sequence[Row]) -> bytes:
    """Values as one frame."""
    try:
        content = _packed(rows, columns=True)
    except OverflowError:  # a number that no column has bits for
        content = _packed(rows, columns=False)
    return _HEAD.pack(_MARK, len(content), _checksum(content)) + content


def add_frame(path: Path, rows: Sequence[Row], before: bytes = b"") -> None:
    """Add values by one write, behind whatever a killed process left unfinished.

    A kill of the process loses nothing that was added. What a crash of the machine loses is played
    again, so nothing waits for the disk.

    Args:
        path: of the file.
        rows: the values.
        before: whole frames that are added with them, in front.
    """
    with path.open("ab", buffering=0) as file:
        file.write(before + frame_of(rows))


def _checksum(content: bytes) -> int:
    return zlib.crc32(content, _arrow()[2])


def _checked(added: bytes, at: int) -> bytes | None:
    """Content of the frame whose mark is there; None where it is not whole, or not what was written."""
    start = at + _HEAD.size
    if start > len(added):
        return None
    _, length, checksum = _HEAD.unpack_from(added, at)
    content = added[start : start + length]
    whole = len(content) == length and _checksum(content) == checksum
    return content if whole else None


def _packed(rows: Sequence[Row], *, columns: bool) -> bytes:
    pa, schema, _ = _arrow()
    texts, numbers = [], []
    for row in rows:
        own: Numbers = {kind: [] for kind in _DTYPES}
        text = _JSON.encode(
            {key: _plain(value, own if columns else None) for key, value in row.items()}
        )
        texts.append(text.encode())
        numbers.append(own)
    nested = [_nested([own[kind] for own in numbers], dtype) for kind, dtype in _DTYPES.items()]
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.binary()), *nested], schema=schema)
    content: bytes = batch.serialize().to_pybytes()
    return content


def _nested(rows: list[list[tuple[Any, ...]]], dtype: Any) -> Any:
    """An Arrow array of lists of lists."""
    pa = _arrow()[0]
    tuples = list(chain.from_iterable(rows))
    flat = np.fromiter(chain.from_iterable(tuples), dtype, sum(map(len, tuples)))
    inner = pa.ListArray.from_arrays(_offsets(tuples), pa.array(flat))
    return pa.ListArray.from_arrays(_offsets(rows), inner)


def _offsets(items: Sequence[Sequence[Any]]) -> Any:
    pa = _arrow()[0]
    return pa.array([0, *accumulate(map(len, items))], pa.int32())


def _unpacked(content: bytes) -> list[Framed]:
    pa, schema, _ = _arrow()
    batch = pa.ipc.read_record_batch(pa.py_buffer(content), schema)
    held = [_tuples(batch.column(place)) for place in (1, 2)]
    return [
        Framed(json.loads(text.as_py()), dict(zip(_DTYPES, own, strict=True)))
        for text, *own in zip(batch.column(0), *held, strict=True)
    ]


def _tuples(column: Any) -> list[list[tuple[Any, ...]]]:
    """For each row its tuples."""
    inner = column.values
    numbers, ends = inner.values.to_numpy().tolist(), inner.offsets.to_numpy().tolist()
    tuples = [tuple(numbers[a:b]) for a, b in pairwise(ends)]
    rows = column.offsets.to_numpy().tolist()
    return [tuples[a:b] for a, b in pairwise(rows)]
