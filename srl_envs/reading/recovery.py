"""Continue to read settings after a mistake, so that all mistakes are reported at once.

A setting that cannot be used is *set aside*: its default, or its `STAND_IN` where that one means that it is
absent, takes its place while the others are read and checked. A later mistake that mentions a setting that
was set aside may only follow from it, and is left out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from srl_envs.errors import ConfigError, SRLError

STAND_IN = "stand_in"
"""Key in the metadata of a dataclass's field: the value that replaces an unreadable one."""
UNREADABLE: Any = object()
"""Marks a value that cannot be used at all."""


class FaultySettings(ConfigError):
    """Every mistake of a section, with what can be used of it."""

    repaired: Any = UNREADABLE
    """The section with defaults instead of the values that were set aside."""
    aside: frozenset[str] = frozenset()
    """Dotted names, within the section, of what was set aside."""

    def within(self, key: str) -> list[str]:
        """The names of what was set aside, as the section around this one calls them."""
        return [f"{key}.{name}" for name in self.aside]

    def joined(self, check: Callable[[], object]) -> ConfigError:
        """This error with what a check of the repaired settings finds beyond it."""
        try:
            check()
        except SRLError as error:
            others = [fault for fault in error.faults if not may_follow(fault, self.aside)]
            return ConfigError(*self.faults, *others)
        return self


class Reading:
    """Mistakes of one section, as they are found."""

    def __init__(self) -> None:
        self._errors: list[SRLError] = []
        self._aside: set[str] = set()

    def add(self, error: SRLError, *aside: str) -> None:
        """Report a mistake; ``aside`` are the settings whose value it leaves unknown."""
        self._errors.append(error)
        self._aside.update(aside)

    def part(self, read: Callable[[], Any], key: str) -> Any:
        """The value of one key, repaired if possible, or `UNREADABLE`."""
        try:
            return read()
        except FaultySettings as error:
            self.add(error, *([key] if error.repaired is UNREADABLE else error.within(key)))
            return error.repaired
        except SRLError as error:
            self.add(error, key)
            return UNREADABLE

    def rest(self, read: Callable[[], Any]) -> Any:
        """The section itself, of which mistakes were added already; `UNREADABLE` if nothing can be used."""
        try:
            return read()
        except FaultySettings as error:
            self.add(error, *error.aside)
            return error.repaired
        except SRLError as error:
            self.add(error)
            return UNREADABLE

    def make(self, kind: Any, values: Mapping[str, Any], place: str) -> Any:
        """Call a dataclass until its own checks pass, with one more setting aside each time.

        Args:
            kind: the dataclass.
            values: its arguments by name.
            place: stands before every message.

        Returns:
            What was made, or `UNREADABLE`.
        """
        left: dict[str, Any] | None = dict(values)
        while left is not None and UNREADABLE not in left.values():
            try:
                return kind(**left)
            except SRLError as error:
                self._keep(error, place)
                left = self._set_aside(kind, left, error.faults)
        return UNREADABLE

    def finish(self, repaired: Any) -> None:
        """Raise what was found; ``repaired`` is the section without it.

        Raises:
            SRLError: the only mistake.
            FaultySettings: one of settings, or several.
        """
        faults = dict.fromkeys(fault for error in self._errors for fault in error.faults)
        if not faults:
            return
        if len(faults) == 1 and not isinstance(self._errors[0], ConfigError):
            raise self._errors[0]
        found = FaultySettings(*faults)
        found.repaired, found.aside = repaired, frozenset(self._aside)
        raise found from self._errors[0].__cause__

    def _keep(self, error: SRLError, place: str) -> None:
        """Report the mistakes that no earlier one explains."""
        own = [fault for fault in error.faults if not may_follow(fault, self._aside)]
        if own and not isinstance(error, ConfigError):
            self._errors.append(error)
        elif own:
            placed = (f if f.startswith(place) else f"{place}: {f}" for f in own)
            self._errors.append(ConfigError(*placed))

    def _set_aside(
        self, kind: Any, values: dict[str, Any], faults: Iterable[str]
    ) -> dict[str, Any] | None:
        """The values without those that the mistakes name first; None if they name none of them."""
        left = values
        for fault in faults:
            path = _named(left, fault)
            while path and (rest := _without(kind, left, path)) is UNREADABLE:
                path.pop()
            if path:
                left = rest
                self._aside.add(".".join(path))
        return None if left is values else left


def stand_in_of(field: dataclasses.Field[Any]) -> Any:
    """What takes the place of a field that is set aside; `UNREADABLE` if nothing can."""
    if STAND_IN in field.metadata:
        return field.metadata[STAND_IN]
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return UNREADABLE if field.default is dataclasses.MISSING else field.default


def may_follow(fault: str, aside: Iterable[str]) -> bool:
    """Whether a mistake mentions a setting that was set aside."""
    return any(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", fault) for name in aside)


def _named(values: Mapping[str, Any], fault: str) -> list[str]:
    """Path of the first setting that a message names before its first colon or equals sign."""
    head = re.split("[:=]", fault, maxsplit=1)[0]
    start = next((match for match in re.finditer(r"\w+", head) if match[0] in values), None)
    if start is None:
        return []
    path, value = [start[0]], values[start[0]]
    for word in re.findall(r"\w+", fault[start.end() :]):
        children = _children(value)
        if word not in children:
            break
        path.append(word)
        value = children[word]
    return path


def _children(value: Any) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {}


def _without(kind: Any, values: Mapping[str, Any], path: list[str]) -> Any:
    """Arguments of a dataclass, or a mapping, with a stand-in at a path; `UNREADABLE` if nothing changes."""
    key, *rest = path
    if not rest and kind is dict:
        return {name: own for name, own in values.items() if name != key}
    child = values[key]
    if rest:
        inner = dict if isinstance(child, dict) else type(child)
        found = _without(inner, _children(child), rest)
        if found is not UNREADABLE and inner is not dict:
            found = _made(inner, found)
    else:
        found = stand_in_of(next(field for field in dataclasses.fields(kind) if field.name == key))
    return UNREADABLE if found is UNREADABLE or found == child else {**values, key: found}


def _made(kind: Any, values: dict[str, Any]) -> Any:
    """The dataclass, or `UNREADABLE` where its own checks refuse what is left."""
    try:
        return kind(**values)
    except SRLError:
        return UNREADABLE
