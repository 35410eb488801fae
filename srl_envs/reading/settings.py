"""Plain values to frozen dataclasses and back: unknown keys and wrong types fail at once.

Every message names the place, what stood there, and the nearest valid key.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, Protocol, TypeVar, Union, runtime_checkable

from srl_envs.errors import ConfigError, nearest
from srl_envs.reading.recovery import UNREADABLE, Reading, stand_in_of

T = TypeVar("T")

OTHER_NAMES = "other_names"
"""A dataclass may have a class variable of this name: a key that users write, or ``key: value``, -> the
setting that they mean."""
REMOVED = "removed"
"""A dataclass may have a class variable of this name, a `Removed`: settings of an earlier release."""
Removed = Mapping[str, tuple[Any, str]]
"""Name of a setting -> the value that is in force now, and what to set instead. Files of that release name
every setting, so one with this value is left out; another value is refused."""


@runtime_checkable
class Converter(Protocol):
    """In ``Annotated[kind, converter]``: reads the field's plain value by itself."""

    def convert(self, value: Any, place: str) -> Any:
        """The field's value.

        Raises:
            ConfigError: the plain value is wrong; the message starts with ``place``.
        """


def with_defaults(**values: Any) -> Callable[[type[T]], type[T]]:
    """Give inherited settings of a class another default; stands below ``@dataclass``."""

    def changed(kind: type[T]) -> type[T]:
        hints = inherited_hints(kind)
        for name, value in values.items():
            kind.__annotations__[name] = hints[name]
            setattr(kind, name, value)
        return kind

    return changed


def absent_unless_given(*names: str) -> Callable[[type[T]], type[T]]:
    """Let inherited settings of a class be absent (None), which is their default there; stands below
    ``@dataclass``."""

    def changed(kind: type[T]) -> type[T]:
        hints = inherited_hints(kind)
        for name in names:
            kind.__annotations__[name] = hints[name] | None
            setattr(kind, name, None)
        return kind

    return changed


def inherited_hints(kind: type) -> dict[str, Any]:
    """Types of what a class inherits; its own names need not be resolvable yet."""
    return {
        name: hint
        for base in kind.__mro__[:0:-1]
        for name, hint in typing.get_type_hints(base, include_extras=True).items()
    }


def build(kind: type[T], data: Any, place: str) -> T:
    """Make ``kind`` from plain values; ``place`` starts every message.

    Raises:
        ConfigError: with every mistake that the values show.
        SRLError: the only mistake, as the dataclass raised it.
    """
    return typing.cast("T", _convert(data, kind, place))


def dump(value: Any) -> dict[str, Any]:
    """A dataclass as plain values that `build` reads back."""
    plain = _plain(dataclasses.asdict(value))
    return typing.cast("dict[str, Any]", plain)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _convert(value: Any, kind: Any, place: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        _refuse_not_finite(value, place)
        return value
    if origin is Annotated:
        inner, *notes = typing.get_args(kind)
        converters = [note for note in notes if isinstance(note, Converter)]
        return converters[0].convert(value, place) if converters else _convert(value, inner, place)
    if dataclasses.is_dataclass(kind):
        return _dataclass(value, kind, place)
    if origin in (Union, types.UnionType):
        return _union(value, typing.get_args(kind), place)
    if origin is Literal:
        return _literal(value, typing.get_args(kind), place)
    if origin is tuple:
        return _tuple(value, typing.get_args(kind), place)
    if origin is dict:
        return _dict(value, typing.get_args(kind)[1], place)
    return _scalar(value, kind, place)


def _tuple(value: Any, kinds: tuple[Any, ...], place: str) -> tuple[Any, ...]:
    item, *others = kinds
    if not isinstance(value, (list, tuple)):
        single = f" Write [{value}]." if isinstance(value, (str, int, float)) else ""
        raise ConfigError(f"{place}: expected a list, found {describe(value)}.{single}")
    if others != [...] and len(value) != 1 + len(others):
        raise ConfigError(f"{place}: expected a list of {1 + len(others)}, found {len(value)}.")
    reading = Reading()
    found = [
        reading.part(partial(_convert, own, item, f"{place}[{number}]"), f"[{number}]")
        for number, own in enumerate(value)
    ]
    reading.finish(UNREADABLE if UNREADABLE in found else tuple(found))
    return tuple(found)


def _dict(value: Any, item: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: expected `key: value` lines, found {describe(value)}.")
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(f"{place}: the key {key} is not a text: write '{key}', in quotes.")
    reading = Reading()
    found = {
        key: reading.part(partial(_convert, own, item, f"{place}.{key}"), key)
        for key, own in value.items()
    }
    reading.finish(UNREADABLE if UNREADABLE in found.values() else found)
    return found


def _dataclass(value: Any, kind: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: expected `key: value` lines, found {describe(value)}.")
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    removed = {name: how for name, how in removed_settings(kind).items() if name not in fields}
    reading = Reading()
    arguments: dict[str, Any] = {}
    for key, own in value.items():
        if key in removed:
            reading.part(partial(_refuse_removed, own, *removed[key], f"{place}: {key}"), key)
            continue
        if key not in fields:
            close = difflib.get_close_matches(str(key), fields, n=1)
            reading.add(ConfigError(f"{place}: {unknown_key(key, kind)}"), *close)
            continue
        found = reading.part(partial(_field, own, hints[key], kind, key, place), key)
        arguments[key] = stand_in_of(fields[key]) if found is UNREADABLE else found
    for name, field in fields.items():
        if name not in value and not _has_default(field):
            error = ConfigError(f"{place}: {name!r} is missing; it has no default.")
            reading.add(error, name)
            arguments[name] = stand_in_of(field)
    made = reading.make(kind, arguments, place)
    reading.finish(made)
    return made


def removed_settings(kind: Any) -> Removed:
    """What a dataclass and those that it derives from have under `REMOVED`."""
    return {
        key: found
        for base in kind.__mro__[::-1]
        for key, found in vars(base).get(REMOVED, {}).items()
    }


def _refuse_removed(value: Any, now: Any, instead: str, place: str) -> None:
    if value != now:
        raise ConfigError(
            f"{place}={value!r}: this setting was removed, {json.dumps(now)} is in force. Leave it out, or "
            f"{instead}."
        )


def _field(value: Any, hint: Any, kind: Any, key: str, place: str) -> Any:
    """The value of one field; a value that the dataclass lists under `OTHER_NAMES` is answered by it."""
    try:
        return _convert(value, hint, f"{place}: {key}")
    except ConfigError as error:
        other = getattr(kind, OTHER_NAMES, {}).get(f"{key}: {value}")
        if other is None:
            raise
        raise ConfigError(f"{error} Did you mean {other!r}?") from None


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )


def unknown_key(key: Any, kind: Any) -> str:
    """What to say of a key that settings of this dataclass do not have: the one that is meant, or all."""
    listed = f" Keys: {', '.join(_names(kind))}."
    return f"unknown key {key!r}.{hint_for(str(key), kind) or listed}"


def hint_for(key: str, kind: Any) -> str:
    """`` Did you mean ...?`` for another name of a setting, a section's, or one spelled alike; else empty."""
    fields = dataclasses.fields(kind)
    other = getattr(kind, OTHER_NAMES, {}).get(key)
    if other is not None:
        return f" Did you mean {other!r}?"
    sections = {
        f.name: f.default_factory for f in fields if dataclasses.is_dataclass(f.default_factory)
    }
    within = [name for name, section in sections.items() if key in _names(section)]
    if len(within) == 1:
        return f" Did you mean '{within[0]}.{key}'?"
    return nearest(key, _names(kind))


def _names(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _union(value: Any, kinds: tuple[Any, ...], place: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    rest = [kind for kind in kinds if kind is not type(None)]
    if len(rest) == 1:
        return _convert(value, rest[0], place)
    tags = _tags(tuple(rest))
    if tags is not None and isinstance(value, dict):
        name, by_tag = tags
        tag = value.get(name, next(iter(by_tag)))
        return _convert(value, by_tag[_literal(tag, tuple(by_tag), f"{place}: {name}")], place)
    for kind in rest:
        try:
            return _convert(value, kind, place)
        except ConfigError:
            continue
    names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in rest)
    raise ConfigError(f"{place}: expected {names}, found {describe(value)}.")


@functools.cache
def _tags(kinds: tuple[Any, ...]) -> tuple[str, dict[Any, Any]] | None:
    """The `Literal` field that distinguishes these dataclasses, and the dataclass of each value.

    Without the field a value is read as the first of them.
    """
    if not all(dataclasses.is_dataclass(kind) for kind in kinds):
        return None
    hints = [typing.get_type_hints(kind) for kind in kinds]
    for name in hints[0]:
        literals = [typing.get_args(hint.get(name)) for hint in hints]
        own = [typing.get_origin(hint.get(name)) is Literal for hint in hints]
        if all(own) and all(len(values) == 1 for values in literals):
            return name, {values[0]: kind for values, kind in zip(literals, kinds, strict=True)}
    return None


def _literal(value: Any, allowed: tuple[Any, ...], place: str) -> Any:
    if value not in allowed:
        hint = nearest(value, map(str, allowed)) if isinstance(value, str) else ""
        raise ConfigError(f"{place}: {value!r} is not one of {', '.join(map(str, allowed))}.{hint}")
    return value


def _refuse_not_finite(value: Any, place: str) -> None:
    """Refuse NaN and infinities, also in options whose type is not declared here."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{place}: {value} is not a finite number.")
    if isinstance(value, dict):
        for key, own in value.items():
            _refuse_not_finite(own, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, own in enumerate(value):
            _refuse_not_finite(own, f"{place}[{number}]")


def _scalar(value: Any, kind: type, place: str) -> Any:
    if kind is float and isinstance(value, str):
        # YAML 1.1 reads 1e-3 (no dot) as text
        with contextlib.suppress(ValueError):
            value = float(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{place}: {value} is not a finite number.")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(
            f"{place}: expected {_NAMES.get(kind, kind.__name__)}, found {describe(value)}."
        )
    return value


_NAMES: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
}


def refuse_unread(settings: Any, *names: str, because: str) -> None:
    """Refuse settings that nothing would read; at their defaults they say nothing.

    Args:
        settings: a dataclass.
        names: of its fields.
        because: completes "name=value: ".

    Raises:
        ConfigError: one of them was set.
    """
    for field in dataclasses.fields(settings):
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        value = getattr(settings, field.name)
        if field.name in names and value != default:
            raise ConfigError(f"{field.name}={value!r}: {because}; leave it out.")


def describe(value: Any) -> str:
    """What kind of plain value this is, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "`key: value` lines"
    if isinstance(value, list):
        return "a list"
    name = _NAMES.get(type(value), type(value).__name__)
    return f"{name} ({str(value)[:40]!r})" if isinstance(value, str) else f"{name} ({value})"
