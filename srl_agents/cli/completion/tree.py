"""All commands with their options as one argparse parser, which is what shtab reads; it parses nothing."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import shtab

import srl_envs
from srl_agents.cli.command_line import asked_kinds
from srl_agents.recipes.loading import SHIPPED
from srl_envs import foreign_code

GROUP = "srl.commands"
_POSITIONAL = "Positional"
_LISTS: dict[str, Callable[[], Sequence[str]]] = {
    "env": srl_envs.list_envs,
    "envs": srl_envs.list_envs,
    "recipe": lambda: sorted(path.stem for path in SHIPPED.glob("*.yaml")),
}
"""Arguments whose words are known."""


def parser() -> argparse.ArgumentParser:
    """``srl`` with every installed command, and the parts of those that have parts."""
    root = argparse.ArgumentParser(prog="srl")
    commands = root.add_subparsers()
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda one: one.name):
        if not foreign_code.may_import(entry.value):
            continue
        run = entry.load()
        home = sys.modules[run.__module__]
        text = (home.__doc__ or "").partition("\n")[0].partition("`: ")[2]
        # shtab hides what has no help
        own = commands.add_parser(entry.name, help=text or entry.name)
        parts = getattr(home, "SUBCOMMANDS", ())
        if parts:
            below = own.add_subparsers()
            for part in parts:
                text = parts[part] if isinstance(parts, dict) else part
                _add(below.add_parser(part, help=text), options_of(run, [part]))
        else:
            _add(own, options_of(run, []))
    return root


def options_of(run: Any, words: Sequence[str]) -> type | None:
    """The class of a command's options; None for a command that reads its words itself."""
    silent = contextlib.redirect_stdout(io.StringIO())
    with asked_kinds() as kinds, silent, contextlib.suppress(SystemExit):
        run([*words, "--help"])
    return kinds[0] if kinds else None


def _add(own: argparse.ArgumentParser, kind: type | None) -> None:
    if kind is None:
        return
    types = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        known = {"choices": list(words)} if (words := _words(field.name, types[field.name])) else {}
        if _is_positional(types[field.name]):
            made = own.add_argument(field.name, nargs="*", **known)  # type: ignore[arg-type]
        elif types[field.name] is bool:
            no = "no-" if field.default is True else ""
            made = own.add_argument(f"--{no}{_dashed(field.name)}", action="store_true")
        else:
            made = own.add_argument(f"--{_dashed(field.name)}", **known)  # type: ignore[arg-type]
        if Path in _parts(types[field.name]):
            made.complete = shtab.FILE  # type: ignore[attr-defined]


def _words(name: str, kind: Any) -> Sequence[str]:
    """What may stand there, where that is known."""
    literal = [one for one in _parts(kind) if typing.get_origin(one) is typing.Literal]
    if literal:
        return [str(value) for one in literal for value in typing.get_args(one)]
    return _LISTS[name]() if name in _LISTS else ()


def _parts(kind: Any) -> Iterator[Any]:
    """A type and the types that it is made of."""
    yield kind
    if typing.get_origin(kind) is not typing.Literal:
        for part in typing.get_args(kind):
            yield from _parts(part)


def _is_positional(kind: Any) -> bool:
    return _POSITIONAL in repr(kind)


def _dashed(name: str) -> str:
    return name.replace("_", "-")
