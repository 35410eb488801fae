"""One registry for everything that a recipe names: built-in, installed, or ``module:Name``.

A *family* is what can stand in one place of a recipe, for example all algorithms; each of its members is
a *kind*. Names are strings until a recipe asks for one, so listing imports nothing.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Generic, TypeVar, cast

from srl_envs.errors import ConfigError, nearest
from srl_envs.foreign_code import is_own, load_entry_point, require_known
from srl_envs.reading.recovery import Reading
from srl_envs.reading.settings import build, describe, hint_for, removed_settings

K = TypeVar("K")

_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, kw_only=True, eq=False)
class Kinds(Generic[K]):
    """One family: where its kinds are, and what each of them must be."""

    what: str
    """One kind in words, for example ``algorithm``."""
    group: str
    """Entry points of this group in installed packages add kinds by name."""
    built_in: Mapping[str, str]
    """Name -> ``package.module:Name``."""
    fault: Callable[[Any], str]
    """What is wrong with something that calls itself a kind of this family; empty if nothing is."""

    def names(self) -> list[str]:
        """Every name that a recipe may give; imports none of the kinds."""
        return sorted({*self.built_in, *(entry.name for entry in self._installed())})

    def find(self, name: str) -> K:
        """The kind of a name, or of ``package.module:Name``.

        Raises:
            ConfigError: there is none, it cannot be imported, or it is not of this family.
            ForeignCodeError: it is not SRL's own, and the process refuses such code.
        """
        target = name if _TARGET.fullmatch(name) else self._target(name)
        require_known(f"{self.what} {name!r}", target, self.built_in.values())
        try:
            found = load_entry_point(target)
        except Exception as error:  # foreign code: its fault is reported with its place
            advice = "Install the package that holds it, or set PYTHONPATH to its folder."
            raise ConfigError(
                f"{self.what} {name!r}: {target} cannot be imported, {type(error).__name__}: {error}. "
                f"{'' if is_own(target) else advice}".rstrip()
            ) from error
        if fault := self.fault(found):
            raise ConfigError(f"{self.what} {name!r}: {target} {fault}")
        return cast("K", found)

    def _target(self, name: str) -> str:
        if name in self.built_in:
            return self.built_in[name]
        targets = sorted({_target_of(e) for e in self._installed() if e.name == name})
        if len(targets) > 1:
            raise ConfigError(
                f"{self.what} {name!r}: installed packages have {' and '.join(targets)} under this "
                "name. Write the one that you want as package.module:Name."
            )
        if not targets:
            known = self.names()
            raise ConfigError(
                f"no {self.what} {name!r}.{nearest(name, known)} Use one of {', '.join(known)}, or "
                "package.module:Name."
            )
        return targets[0]

    def _installed(self) -> metadata.EntryPoints:
        return metadata.entry_points(group=self.group)


@dataclass(frozen=True, kw_only=True)
class KindSettings:
    """What a section selects its kind by. Without slots, so that settings may derive from it."""

    kind: str
    """Name of an engine, a transport, a coordination or a curriculum, or the ``package.module:Class`` of one
    of your own."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Section(Generic[K]):
    """A recipe's section whose keys depend on the kind that it names.

    It annotates the field: ``training: Annotated[UpdateSettings, Section(...)]``. The kinds are
    dataclasses with a field of the name ``key``. A plain text names a kind with its defaults.
    """

    kinds: Kinds[type[K]]
    key: str
    """Key of the section that names the kind, for example ``algorithm``."""
    default: str
    """The kind of a section without the key."""

    def convert(self, value: Any, place: str) -> K:
        """The settings that a section's plain values are.

        Raises:
            ConfigError: the kind is not found, or a key or value is wrong.
        """
        if isinstance(value, str):
            value = {self.key: value}
        if not isinstance(value, dict):
            raise ConfigError(
                f"{place}: expected the name of one, or `key: value` lines, found {describe(value)}."
            )
        name = value.get(self.key, self.default)
        if not isinstance(name, str):
            raise ConfigError(f"{place}: {self.key}: expected text, found {describe(name)}.")
        try:
            kind = self.kinds.find(name)
        except ConfigError as error:
            raise ConfigError(f"{place}: {self.key}: {error}") from error.__cause__
        reading = Reading()
        reads = [field.name for field in dataclasses.fields(cast("Any", kind))]
        known = {*reads, *removed_settings(kind)}
        for key in value:
            if key not in known:
                hint = hint_for(str(key), kind) or f" It reads: {', '.join(reads)}."
                fault = f"{place}: {self.key} {name!r} does not read {key!r}.{hint}"
                reading.add(ConfigError(fault))
        own = {key: given for key, given in value.items() if key in known}
        made = reading.rest(lambda: build(kind, {self.key: name, **own}, place))
        reading.finish(made)
        return cast("K", made)


def settings_of(base: type, key: str) -> Callable[[Any], str]:
    """A `Kinds.fault` for kinds that are settings: frozen dataclasses that derive from ``base``.

    Args:
        base: has the methods that a kind must have.
        key: field that holds the kind's name.
    """
    derives = class_of(base)

    def fault(found: Any) -> str:
        if wrong := derives(found):
            return wrong
        if "__dataclass_params__" not in vars(found) or not found.__dataclass_params__.frozen:
            return "is not a frozen dataclass: put @dataclass(frozen=True, kw_only=True) above it."
        if key not in {f.name for f in dataclasses.fields(found)}:
            return (
                f"has no field {key!r}, in which a recipe keeps the kind's name: add `{key}: str`."
            )
        return ""

    return fault


def class_of(base: type) -> Callable[[Any], str]:
    """A `Kinds.fault` for kinds that are classes.

    Args:
        base: what they derive from; its abstract methods are those that a kind must have.
    """
    where = f"{base.__module__}:{base.__qualname__}"

    def fault(found: Any) -> str:
        if not (isinstance(found, type) and issubclass(found, base)):
            return f"is {_describe(found)}, and no class that derives from {where}."
        kind: Any = found
        if inspect.isabstract(kind):
            missing = ", ".join(sorted(kind.__abstractmethods__))
            return f"lacks {missing}: write what {where} requires."
        return ""

    return fault


def function_of(signature: str) -> Callable[[Any], str]:
    """A `Kinds.fault` for kinds that are functions.

    Args:
        signature: what they take and return, for messages.
    """

    def fault(found: Any) -> str:
        return "" if callable(found) else f"is {_describe(found)}, and no function {signature}."

    return fault


def _describe(found: Any) -> str:
    return f"class {found.__name__}" if isinstance(found, type) else type(found).__name__


def _target_of(entry: metadata.EntryPoint) -> str:
    return f"{entry.module}:{entry.attr}"
