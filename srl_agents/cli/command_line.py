"""The options of every command: dataclasses that tyro reads; a mistake takes one line."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import sys
import typing
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import tyro

from srl_envs.errors import ConfigError, nearest
from srl_envs.foreign_code import OPTION

T = TypeVar("T")
_HELP = ("-h", "--help")
_SET = "set"
"""The option with which a command changes settings of a recipe."""
_REMOVED = {
    "srl plan kv --mfu": "reading prompts reaches half of the peak. Leave it out",
    "srl plan kv --patience": "affinity follows the conductor's rule. Leave it out",
    "srl plan kv --capacity-tokens": "write --tiers tokens=N",
    "srl plan kv --tokens-per-block": "the trace shows it. Leave it out",
    "srl score --reply-field": "call the field `reply` or `completion` in the file",
    "srl league status --watch": "use `srl watch RUN`, or `watch srl league status RUN`",
    "srl watch --names": "the players' names are those of the episode. Leave it out",
    "srl redteam --all": "write `srl redteam all`",
    "srl redteam --board": "write `srl redteam board`",
    "srl leaderboard plan --seconds-per-reply": "2 s per reply are counted. Scale the hours yourself",
    "srl watch --every-s": "looks at a run are a second apart. Leave it out",
    "srl leaderboard opponent --weight": "change it in the file of --out",
    "srl train --allow-nothing-learned": "write --set survival.allow_nothing_learned=true",
}
"""Command and option of an earlier release -> what is done now."""
_EVERYWHERE = f"{OPTION}: refuse files that name code from outside SRL; any command takes it."
_RULE = re.compile(r"[─-]{3,}")
_PREFIX = re.compile(r"^Error parsing (?:\w*Options: )?")
_ASKED: ContextVar[list[type] | None] = ContextVar("asked", default=None)
_NUMBERS = (
    (re.compile(r"no type matching .*?(?=(?:invalid literal|could not convert).*)"), ""),
    (re.compile(r"invalid literal for int\(\) with base 10: ('.*')"), r"\1 is not a whole number"),
    (re.compile(r"could not convert string to float: ('.*')"), r"\1 is not a number"),
)
"""Python's message for a text that is not a number -> its meaning."""
_NARROW, _WIDE = 4, "4000"
"""Indent of an option's name in what tyro writes, and columns in which it breaks no line."""


def read_options(kind: type[T], *, command: str, description: str, argv: Sequence[str]) -> T:
    """The options of one command.

    Args:
        kind: a dataclass; the docstring below a field is its help.
        command: as it is typed, for example ``srl play``.
        description: shown by ``--help``; it ends with examples.
        argv: what stands behind the command.

    Raises:
        ConfigError: an option is unknown, missing or has an impossible value. One line.
        SystemExit: help was asked for and is printed.
    """
    asked = _ASKED.get()
    if asked is not None:
        asked.append(kind)
        raise SystemExit(0)
    written = io.StringIO()
    wanted = any(word in _HELP for word in argv)
    wide = contextlib.nullcontext() if wanted else _columns(_WIDE)
    text = f"{description}\n\n{_EVERYWHERE}"
    try:
        with contextlib.redirect_stderr(written), wide:
            return _parsed(kind, argv, command, text)
    except SystemExit as end:
        if not end.code:
            raise
        mistake = (
            _removed(command, argv)
            or _setting(kind, argv)
            or _wrong_value(kind, argv)
            or _mistake(written.getvalue())
        )
        raise ConfigError(f"{mistake} See `{command} --help`.") from None


def _parsed(kind: type[T], argv: Sequence[str], command: str, text: str) -> T:
    return tyro.cli(
        kind, prog=command, description=text, args=argv, config=(tyro.conf.FlagCreatePairsOff,)
    )


@contextlib.contextmanager
def asked_kinds() -> Iterator[list[type]]:
    """Collect the classes of options that commands ask for; each command ends when it asks."""
    kinds: list[type] = []
    token = _ASKED.set(kinds)
    try:
        yield kinds
    finally:
        _ASKED.reset(token)


def _removed(command: str, argv: Sequence[str]) -> str:
    """What to do instead of an option that was removed; empty where there is none."""
    for word in argv:
        option = word.partition("=")[0]
        if now := _REMOVED.get(f"{command} {option}"):
            return f"{option} was removed: {now}."
    return ""


def _setting(kind: Any, argv: Sequence[str]) -> str:
    """How to give a recipe's setting to a command that has ``--set``; empty for other mistakes."""
    options = [field.name for field in dataclasses.fields(kind)]
    if _SET not in options:
        return ""
    for place, word in enumerate(argv):
        name, equals, value = word.removeprefix("--").partition("=")
        plain = name.replace("-", "_")
        if word.startswith("--") and plain not in options and not nearest(plain, options):
            following = argv[place + 1] if place + 1 < len(argv) and not equals else value
            given = "VALUE" if following.startswith("--") else following or "VALUE"
            return f"no option --{name}. A recipe's setting is changed with --set {plain}={given}."
    return ""


def _wrong_value(kind: Any, argv: Sequence[str]) -> str:
    """What is wrong in what is given, before what is missing; empty where only something is missing."""
    needed = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is field.default_factory is dataclasses.MISSING
    ]
    hints = typing.get_type_hints(kind, include_extras=True)
    lenient = dataclasses.make_dataclass(
        kind.__name__,
        [(n, _or_none(hints[n]), dataclasses.field(default=None, kw_only=True)) for n in needed],
        bases=(kind,),
        frozen=True,
    )
    written = io.StringIO()
    with contextlib.redirect_stderr(written), _columns(_WIDE):
        try:
            _parsed(lenient, argv, "srl", "")
        except SystemExit:
            return _mistake(written.getvalue())
    return ""


def _or_none(hint: Any) -> Any:
    """A type that may be absent, with what is annotated to it."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint | None
    inside, *notes = typing.get_args(hint)
    return typing.Annotated[(inside | None, *notes)]


def _mistake(box: str) -> str:
    """The sentence in the box that tyro draws around a mistake."""
    said: list[list[str]] = [[]]
    for row in _rows(box):
        if _RULE.fullmatch(row.strip()):
            said.append([])
        else:
            said[-1].append(row)
    first, *others = said
    missing = [row.strip() for row in first[1:] if _indent(row) == _NARROW]
    if first and first[0].startswith("Missing from") and missing:
        return f"give {' and '.join(missing)}."
    text = _PREFIX.sub("", " ".join(" ".join(first or [box]).split()))
    for fault, meaning in _NUMBERS:
        text = fault.sub(meaning, text)
    hints = [row.split()[0] for part in others for row in part if _indent(row) == _NARROW]
    hint = f" Did you mean {hints[0]}?" if "Perhaps you meant:" in box and hints else ""
    return f"{text[:1].lower()}{text[1:].rstrip('.')}.{hint}"


def _rows(box: str) -> list[str]:
    """The lines inside the frame, without the title; where boxes are ASCII, the frame is spaces."""
    lines = box.splitlines()
    framed = [line.strip("│")[1:].rstrip() for line in lines if line.startswith("│")]
    return framed or [line[2:].rstrip() for line in lines[2:]]


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


@contextlib.contextmanager
def _columns(number: str) -> Iterator[None]:
    """Make `shutil.get_terminal_size` return this width."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = number
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], hint: str) -> None:
    """Print rows of cells: drawn for a terminal, with a hint below; else in columns that programs read."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*heads)
        for column in table.columns:
            column.overflow = "fold"
        table.columns[0].no_wrap = True
        for row in rows:
            table.add_row(*row)
        Console().print(table, highlight=False)
        print(hint)
        return
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        print("  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)).rstrip())
