"""All commands with their options as one argparse parser, which is what shtab reads; it parses nothing."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import io
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import shtab
import tyro

import srl_envs
from srl_agents.agents.grammar import HUMAN
from srl_agents.caching.simulation import hardware
from srl_agents.cli.command_line import asked_kinds
from srl_agents.cli.documentation.topics import MODULES, topics
from srl_agents.memory.devices import DEVICES
from srl_agents.recipes.loading import SHIPPED
from srl_envs import foreign_code
from srl_envs.errors import ConfigError

GROUP = "srl.commands"
_POSITIONAL = "Positional"
_WHAT = "WHAT"
"""A word that is the name of no part of a command."""


def _recipes() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def _players() -> list[str]:
    bots = {name for env in srl_envs.list_envs() for name in srl_envs.spec(env).bots}
    return sorted({*bots, HUMAN})


def _topics() -> list[str]:
    """Pages with and without their rooms, public modules, and their names."""
    pages: list[str] = []
    with contextlib.suppress(ConfigError):  # a package that was built without pages
        pages += [word for topic in topics() for word in (topic, topic.rpartition("/")[2])]
    public = [
        f"{module}.{name}"
        for module in MODULES
        for name in getattr(importlib.import_module(module), "__all__", ())
    ]
    return sorted({*pages, *MODULES, *public})


_LISTS: dict[str, Callable[[], Sequence[str]]] = {
    "env": srl_envs.list_envs,
    "envs": srl_envs.list_envs,
    "recipe": _recipes,
    "policies": _players,
    "device": lambda: [*DEVICES, "cpu"],
    "KVOptions.device": lambda: [*hardware.DEVICES],
    "topic": _topics,
}
"""Arguments whose words are known; those of one class of options come before those of all."""


@dataclasses.dataclass(frozen=True)
class _DocsOptions:
    """Of `srl docs`, which reads its words itself."""

    topic: tyro.conf.Positional[str] = ""
    """Page, module or name."""


_OWN_WORDS = {"docs": _DocsOptions}
"""Command -> options, where the command asks for none."""


def parser() -> argparse.ArgumentParser:
    """``srl`` with every installed command, and the parts of those that have parts."""
    root = argparse.ArgumentParser(prog="srl")
    commands = root.add_subparsers()
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda one: one.name):
        if not foreign_code.may_import(entry.value):
            continue
        try:
            run = foreign_code.load_installed(entry)
        except ConfigError as error:
            warnings.warn(str(error), stacklevel=2)
            continue
        home = sys.modules[run.__module__]
        text = (home.__doc__ or "").partition("\n")[0].partition("`: ")[2]
        # shtab hides what has no help
        own = commands.add_parser(entry.name, help=text or entry.name)
        parts = getattr(home, "SUBCOMMANDS", ())
        if parts:
            kind = options_of(run, [_WHAT])
            below = own.add_subparsers()
            for part in parts:
                text = parts[part] if isinstance(parts, dict) else part
                _add(below.add_parser(part, help=text), options_of(run, [part]))
            if kind is not None:  # any other word is a recipe, or its file
                _add(own, kind, positional=False)
                for recipe in _recipes():
                    _add(below.add_parser(recipe, help="a recipe"), kind, positional=False)
        else:
            _add(own, options_of(run, []) or _OWN_WORDS.get(entry.name))
    return root


def options_of(run: Any, words: Sequence[str]) -> type | None:
    """The class of a command's options; None for a command that reads its words itself or refuses them."""
    silent = contextlib.redirect_stdout(io.StringIO())
    with asked_kinds() as kinds, silent, contextlib.suppress(SystemExit, ConfigError):
        run([*words, "--help"])
    return kinds[0] if kinds else None


def _add(own: argparse.ArgumentParser, kind: type | None, *, positional: bool = True) -> None:
    if kind is None:
        return
    types = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        words = _words(field.name, types[field.name], kind)
        known = {"choices": list(words)} if words else {}
        if _is_positional(types[field.name]):
            if not positional:
                continue
            several = any(typing.get_origin(one) is tuple for one in _parts(types[field.name]))
            made = own.add_argument(field.name, nargs="*" if several else None, **known)  # type: ignore[arg-type]
        elif types[field.name] is bool:
            no = "no-" if field.default is True else ""
            made = own.add_argument(f"--{no}{_dashed(field.name)}", action="store_true")
        else:
            made = own.add_argument(f"--{_dashed(field.name)}", **known)  # type: ignore[arg-type]
        if Path in _parts(types[field.name]):
            made.complete = shtab.FILE  # type: ignore[attr-defined]


def _words(name: str, kind: Any, options: type) -> Sequence[str]:
    """What may stand there, where that is known."""
    literal = [one for one in _parts(kind) if typing.get_origin(one) is typing.Literal]
    if literal:
        return [str(value) for one in literal for value in typing.get_args(one)]
    known = _LISTS.get(f"{options.__name__}.{name}") or _LISTS.get(name)
    return known() if known else ()


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
