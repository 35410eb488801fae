"""Rows of public task collections: read, split into train and eval, and reported where unusable.

A collection is a JSONL file, plain or gzipped, or a repository that the ``datasets`` package loads.
An option names it as ``FORMAT:PATH``; the format's adapter, in a family, interprets the fields.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from srl_envs.core import Split
from srl_envs.errors import ConfigError, nearest
from srl_envs.foreign_code import refuse

EVAL_ONE_IN = 5
"""One text in so many is kept for the eval split."""
_SAID = re.compile(r"\w+")
_WARNED = 5
"""Rows that a warning names; the report holds all."""
_WITHOUT_SCRIPTS = 4
"""Version of `datasets` from which on it runs no script of a repository. Source: its release notes."""


class UnusableTaskWarning(UserWarning):
    """Some rows of a collection are left out; the text names them."""


class Row(NamedTuple):
    """One row as it was written."""

    where: str
    """``FILE line 3``, or ``REPOSITORY split test row 3``; both count from 1."""
    fields: Mapping[str, Any]

    def text(self, name: str) -> str:
        """A field that must be text and not empty.

        Raises:
            ConfigError: it is missing, or something else.
        """
        value = self._field(name)
        if not isinstance(value, str) or not value.strip():
            self.refuse(f"field {name!r} must be text that is not empty")
        return value

    def texts(self, name: str, *, optional: bool = False) -> tuple[str, ...]:
        """A field that must be a list of texts; an optional one may be missing or null.

        Raises:
            ConfigError: it is missing, or something else.
        """
        if optional and self.fields.get(name) is None:
            return ()
        value = self._field(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(f"field {name!r} must be a list of texts")
        return tuple(value)

    def refuse(self, problem: str) -> NoReturn:
        """Raise `ConfigError` for a row that is not of its format."""
        raise ConfigError(f"{self.where}: {problem}. Mend the row, or take it out.")

    def _field(self, name: str) -> Any:
        if name not in self.fields:
            has = ", ".join(sorted(self.fields)) or "none"
            self.refuse(f"missing field {name!r} (the row has: {has})")
        return self.fields[name]


class Rejected(NamedTuple):
    """A row that is well formed but cannot be played."""

    where: str
    id: str
    """Where the format has no ids, the same as ``where``."""
    reason: str

    def __str__(self) -> str:
        named = self.where if self.id == self.where else f"{self.where}, {self.id}"
        return f"{named}: {self.reason}"


class PlayableTask(Protocol):
    """What this module must know of a task; each format has a type of its own."""

    @property
    def id(self) -> str:
        """Unique within its collection."""

    @property
    def text(self) -> str:
        """What is asked; rows that ask the same are always in the same split."""


T = TypeVar("T", bound=PlayableTask)


@dataclass(frozen=True, slots=True)
class TaskReport(Generic[T]):
    """A collection after every reference answer went through our own checker."""

    source: str
    """``FORMAT:PATH`` as it was given."""
    tasks: tuple[T, ...]
    """Those whose reference scored 1, in the order of the rows."""
    rejected: tuple[Rejected, ...]
    splits: Mapping[Split, tuple[T, ...]] = field(default_factory=dict)
    """`tasks` divided by `split_tasks`."""

    def warn(self, stacklevel: int = 2) -> None:
        """Name what was left out, if anything was, in an `UnusableTaskWarning`."""
        if not self.rejected:
            return
        rows = len(self.tasks) + len(self.rejected)
        shown = "\n".join(f"  {row}" for row in self.rejected[:_WARNED])
        more = len(self.rejected) - _WARNED
        rest = f"\n  and {more} more" if more > 0 else ""
        warnings.warn(
            f"{self.source}: {len(self.rejected)} of {rows} rows cannot be played and are left out:\n"
            f"{shown}{rest}\n`python -m srl_envs.check_tasks {self.source}` lists them all.",
            UnusableTaskWarning,
            stacklevel=stacklevel + 1,
        )

    def require(self, count: int, what: str) -> None:
        """Refuse a collection with fewer than ``count`` tasks in either split.

        Raises:
            ConfigError: names the numbers; ``what`` is their purpose.
        """
        sizes = {name: len(tasks) for name, tasks in self.splits.items()}
        if min(sizes.values()) < count:
            raise ConfigError(
                f"{self.source}: {sizes['train']} rows to train and {sizes['eval']} to eval can be "
                f"played; {what} needs {count} in each."
            )


def read_source(option: object, known: Iterable[str]) -> tuple[str, str]:
    """``FORMAT:PATH`` as (format, path).

    Raises:
        ConfigError: the text does not have this form, or the format is not among ``known``.
    """
    names = tuple(known)
    shape = " or ".join(f'"{name}:PATH"' for name in names)
    if not isinstance(option, str):
        raise ConfigError(f"tasks={option!r}: give {shape}.")
    name, colon, path = option.partition(":")
    if name not in names:
        raise ConfigError(f"tasks={option!r}: no such format.{nearest(name, names)} Give {shape}.")
    if not colon or not path.strip():
        raise ConfigError(
            f"tasks={option!r}: the path is missing; give {name}:PATH, a JSONL file (plain or .gz) "
            "or the id of a datasets repository."
        )
    return name, path


def check_collection(
    source: str, path: str, read: Callable[[Row], T | Rejected], judge: Callable[[T], str]
) -> TaskReport[T]:
    """Read a collection and put every reference through the checker.

    Args:
        source: how the collection is called in messages.
        path: of a file, or the id of a repository; see `read_rows`.
        read: what a row means; refuses a row that is not of the format with `ConfigError`.
        judge: "" where the reference of a task scores 1, else the reason why it does not.

    Raises:
        ConfigError: a row is broken, an id stands twice, or fewer than two different tasks are left.
    """
    tasks: list[T] = []
    rejected: list[Rejected] = []
    seen: dict[str, str] = {}
    read_in: list[tuple[str, T | Rejected]] = []
    for row in read_rows(path):
        found = read(row)
        if found.id in seen:
            row.refuse(f"the id {found.id!r} stands at {seen[found.id]} already")
        seen[found.id] = row.where
        read_in.append((row.where, found))
    # report a broken row before running any reference, which takes longer
    for where, found in read_in:
        if isinstance(found, Rejected):
            rejected.append(found)
        elif reason := judge(found):
            rejected.append(Rejected(where, found.id, reason))
        else:
            tasks.append(found)
    return TaskReport(source, tuple(tasks), tuple(rejected), split_tasks(tasks))


def split_tasks(tasks: Sequence[T]) -> dict[Split, tuple[T, ...]]:
    """Divide by what is asked, not by position: the same row is always on the same side.

    About one text in `EVAL_ONE_IN` is for eval, and each split has one at least where there are two
    different texts.
    """
    digests = [_digest(task.text) for task in tasks]
    distinct = sorted(set(digests))
    held_back = {digest for digest in distinct if _is_for_eval(digest)}
    if distinct and not held_back:
        held_back = {distinct[0]}
    elif len(held_back) == len(distinct) > 1:
        held_back.remove(distinct[-1])
    sides: dict[Split, list[T]] = {"train": [], "eval": []}
    for task, digest in zip(tasks, digests, strict=True):
        sides["eval" if digest in held_back else "train"].append(task)
    return {name: tuple(side) for name, side in sides.items()}


def is_held_out(text: str) -> bool:
    """Whether `split_tasks` keeps what asks this for eval, wherever it leaves both splits a row."""
    return _is_for_eval(_digest(text))


def _is_for_eval(digest: str) -> bool:
    return int(digest, 16) % EVAL_ONE_IN == 0


def _digest(text: str) -> str:
    """The same for texts that differ only in case, white space and punctuation between words."""
    said = " ".join(_SAID.findall(text.casefold()))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint(path: str) -> str:
    """Changes when a file's content does; a repository is taken to stay as it is."""
    if not Path(path).is_file():
        return path
    return f"{Path(path).resolve()} {hashlib.sha256(Path(path).read_bytes()).hexdigest()}"


def read_rows(path: str) -> Iterator[Row]:
    """The rows of a JSONL file, plain or gzipped, or of a repository of ``datasets``.

    Args:
        path: of a file; else ``owner/name`` or ``owner/name/configuration`` of a repository, all of
            whose splits are read.

    Raises:
        ConfigError: the file is missing or has no rows, or a line is not a JSON object.
    """
    rows = list(_file_rows(Path(path)) if Path(path).is_file() else _repository_rows(path))
    if not rows:
        raise ConfigError(f"{path}: the file has no rows.")
    return iter(rows)


def _file_rows(path: Path) -> Iterator[Row]:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read as text, plain or gzipped ({error}); is it a JSONL file?"
        ) from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _parsed(f"{path.name} line {number}", line)


def _parsed(where: str, line: str) -> Row:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: no JSON ({error}). Each line must be one object.") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: {type(value).__name__}, not an object with fields.")
    return Row(where, value)


def _repository_rows(path: str) -> Iterator[Row]:
    parts = path.split("/")
    if Path(path).suffix in (".jsonl", ".gz", ".json") or len(parts) not in (2, 3) or "" in parts:
        raise ConfigError(
            f"{path}: the file does not exist, and this is not a repository id (owner/name or "
            "owner/name/configuration)."
        )
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise ConfigError(
            f"{path}: the file does not exist. To load a repository of that id, install the "
            "`datasets` package; else name a JSONL file."
        ) from None
    if int(datasets.__version__.partition(".")[0]) < _WITHOUT_SCRIPTS:
        refuse(
            f"{path}: `datasets` {datasets.__version__}", "Update `datasets`, or name a JSONL file."
        )
    try:
        splits = datasets.load_dataset("/".join(parts[:2]), *parts[2:])
    except Exception as error:  # noqa: BLE001 - foreign code, which raises what its network raises
        raise ConfigError(
            f"{path}: `datasets` cannot load it ({type(error).__name__}: {str(error)[:300]})."
        ) from None
    for name in sorted(splits):
        for number, fields in enumerate(splits[name], 1):
            yield Row(f"{path} split {name} row {number}", dict(fields))
