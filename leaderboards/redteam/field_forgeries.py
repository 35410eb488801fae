"""One forged bundle per field and kind of fault, made from the schema.

Which values are wrong is decided here, by the kind of a field, and not by asking the field's own check:
a schema that lets too much through is found.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboards.contents.fields import (
    Instant,
    Integer,
    Kind,
    ListOf,
    MapOf,
    Nullable,
    Number,
    Object,
    OneOf,
    Row,
    Text,
    Variant,
)
from leaderboards.contents.schemas import (
    MANIFEST_FILE,
    MATCH_LINE,
    RATINGS_FILES,
    TOKENS_LINE,
    TRANSCRIPT_LINE,
)
from leaderboards.redteam.forger import Forger, Raw, Stage, encode

Path_ = tuple[str | int, ...]
"""Keys and places from the top of a document to a value."""
_HUGE = 10**40
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Forgery:
    """A way to make a false bundle of an honest one."""

    name: str
    make: Callable[[Forger], Path]


def field_forgeries(forger: Forger) -> Iterator[Forgery]:
    """All of them for a bundle like this one, which is only looked at."""
    record = len(forger.matches) - 1
    ratings = RATINGS_FILES[forger.bundle.protocol.rating.measure]
    documents: list[tuple[str, Path_, Kind]] = [
        ("manifest", ("manifest",), MANIFEST_FILE),
        ("ratings", ("ratings",), ratings),
        ("match", ("matches", record), MATCH_LINE),
        ("transcript", ("transcripts", record), TRANSCRIPT_LINE),
    ]
    if forger.tokens:
        place = max(k for k, line in enumerate(forger.tokens) if line)
        documents.append(("tokens", ("tokens", place), TOKENS_LINE))
    for title, top, kind in documents:
        for path, inner in _places(kind, _at(forger, top), top):
            name = ".".join(map(str, (title, *path[len(top) :])))
            for label, value in _wrong(inner, _at(forger, path)):
                yield Forgery(f"{name}: {label}", _changing(path, value))
        for path in _keys(kind, _at(forger, top), top):
            name = ".".join(map(str, (title, *path[len(top) :])))
            yield Forgery(f"{name}: missing", _changing(path, _MISSING))
            yield Forgery(f"{name}: given twice", _doubling(path))


def _places(kind: Kind, value: Any, path: Path_) -> Iterator[tuple[Path_, Kind]]:
    """Every place below a value with what it may hold; of lists the last entry."""
    yield path, kind
    if isinstance(kind, Nullable):
        kind = kind.kind
    if isinstance(kind, Variant) and value is not None:
        kind = _chosen(kind, value)
    if value is None:
        return
    if isinstance(kind, Object):
        for name, item in value.items():
            yield from _places(kind.fields[name], item, (*path, name))
    elif isinstance(kind, MapOf) and value:
        name = max(value)
        yield from _places(kind.value, value[name], (*path, name))
    elif isinstance(kind, Row):
        for place, inner in enumerate(kind.kinds):
            yield from _places(inner, value[place], (*path, place))
    elif isinstance(kind, ListOf) and value:
        yield from _places(kind.kind, value[-1], (*path, len(value) - 1))


def _keys(kind: Kind, value: Any, path: Path_) -> Iterator[Path_]:
    """Places of all required keys."""
    for place, found in _places(kind, value, path):
        honest = value
        for step in place[len(path) :]:
            honest = honest[step]
        inner = _chosen(found, honest) if isinstance(found, Variant) else found
        if isinstance(inner, Object):
            yield from ((*place, name) for name in sorted(inner.required))


def _chosen(kind: Variant, value: Any) -> Object:
    """The variant that an honest value matches."""
    return next(inner for key, inner in kind.by_key.items() if key in value)


def _wrong(kind: Kind, honest: Any) -> Iterator[tuple[str, Any]]:
    """Values that a field of this kind must not hold, each with what is wrong."""
    if isinstance(kind, Nullable):
        if honest is None and not isinstance(kind.kind, Number):
            return  # nothing to start from; another bundle has a value here
        yield from (found for found in _wrong(kind.kind, honest) if found[1] is not None)
        return
    if not (isinstance(kind, OneOf) and None in kind.values):
        yield "null", None
    if isinstance(kind, Variant):
        other = next(key for key in kind.by_key if key not in honest)
        yield "two kinds of agent at once", {**honest, other: "tiny"}
        yield from _wrong(_chosen(kind, honest), honest)
    if isinstance(kind, Object):
        yield "an unknown key", {**honest, "role": "anchor"}
        yield "a list for an object", [honest]
    elif isinstance(kind, MapOf):
        yield "a list for an object", [honest]
        yield "a key of control characters", {**honest, "\x1b[2J": next(iter(honest.values()), "")}
        yield "an empty key", {**honest, "": next(iter(honest.values()), "")}
    elif isinstance(kind, (ListOf, Row)):
        yield "an object for a list", {}
        yield "text for a list", "[]"
        yield "one entry that is null", [*honest, None]
        if isinstance(kind, Row) or kind.least:
            yield "empty", []
    else:
        yield from _wrong_scalars(kind, honest)


def _wrong_scalars(kind: Kind, honest: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(kind, Integer):
        yield from _wrong_integers(kind, honest)
    elif isinstance(kind, Number):
        yield from _wrong_numbers()
    elif isinstance(kind, Text):
        yield from _wrong_texts(kind, honest)
    elif isinstance(kind, Instant):
        yield from _wrong_instants(honest)
    elif isinstance(kind, OneOf):
        yield from _wrong_choices(honest)


def _wrong_integers(kind: Integer, honest: int) -> Iterator[tuple[str, Any]]:
    yield "true for a number", True
    yield "false for a number", False
    yield "a number with a point", float(honest)
    yield "text for a number", str(honest)
    yield "a number of 41 digits", _HUGE
    yield "a number of 5000 digits", Raw("1" + "0" * 4999)
    yield "NaN", math.nan
    yield "infinity", Raw("1e999")
    yield "a list", [honest]
    if kind.least >= 0:
        yield "negative", -1


def _wrong_numbers() -> Iterator[tuple[str, Any]]:
    yield "true for a number", True
    yield "a number without its point", 1
    yield "text for a number", "0.5"
    yield "NaN", math.nan
    yield "infinity", math.inf
    yield "minus infinity", -math.inf
    yield "too large for a float", Raw("1e999")
    yield "1e300", 1e300
    yield "minus zero", -0.0
    yield "an integer of 41 digits", _HUGE


def _wrong_texts(kind: Text, honest: str) -> Iterator[tuple[str, Any]]:
    yield "true for text", True
    yield "a number for text", 7
    yield "a list for text", [honest]
    yield "half of a surrogate pair", honest[:-1] + "\ud800"
    yield "too long", (honest or "x") * (1 + kind.most // max(1, len(honest)))
    if kind.least:
        yield "empty", ""
    if not kind.free:
        yield "a line break", honest[:-1] + "\n"
        yield "a zero byte", honest[:-1] + "\x00"
        yield "an escape sequence", honest[:-1] + "\x1b"
        yield "a bidirectional override", honest[:-1] + "\u202e"
        yield "a space of no width", honest[:-1] + "\u200b"
    if kind.cell:
        yield "a formula", '=HYPERLINK("https://x")'
        yield "another formula", "@SUM(1)"
    if kind.pattern is not None and honest:
        yield "another alphabet", honest[:-1] + "\u0430"
        yield "a space behind it", honest + " "
    if kind.form.endswith("hexadecimal digits"):
        yield "capitals", honest[:-1] + "F"
        yield "one digit less", honest[:-1]
        yield "one digit more", honest + "0"


def _wrong_instants(honest: str) -> Iterator[tuple[str, Any]]:
    yield "a number for a time", 1_800_000_000
    yield "the year 1970", "1970" + honest[4:]
    yield "the 30th of February", f"{honest[:5]}02-30{honest[10:]}"
    yield "another zone", honest[:-6] + "+01:00"
    yield "a time without a zone", honest[:-6]
    yield "an escape sequence", honest[:-1] + "\x1b"
    yield "a mark of HTML", f"<b>{honest}</b>"


def _wrong_choices(honest: Any) -> Iterator[tuple[str, Any]]:
    yield "another word", "other"
    yield "a list", [honest]
    yield "an object", {}
    if isinstance(honest, bool):
        yield "a number for true or false", int(honest)
    elif isinstance(honest, int):
        yield "true for a number", True
        yield "a number with a point", float(honest)
        yield "the next number", honest + 1
    elif isinstance(honest, str):
        yield "true for text", True


def _changing(path: Path_, value: Any) -> Callable[[Forger], Path]:
    def make(forger: Forger) -> Path:
        return forger.forge(lambda f: _put(f, path, value), _stage(path, value))

    return make


def _doubling(path: Path_) -> Callable[[Forger], Path]:
    """The object that holds the key gives it twice, the second time with the honest value."""
    *parents, name = path
    top = parents == ["manifest"]
    stage = _stage(path if top and name == "root" else tuple(parents), Raw(""))

    def change(forger: Forger) -> None:
        holder = _at(forger, tuple(parents))
        key, honest = json.dumps(name), encode(holder[name]).decode()
        if top:
            forger.manifest[str(name)] = Raw(f"null,{key}:{honest}")
        else:
            rest = encode({k: v for k, v in holder.items() if k != name}).decode()[1:-1]
            twice = f"{key}:null,{key}:{honest}"
            _put(forger, tuple(parents), Raw("{" + ",".join(filter(None, [twice, rest])) + "}"))

    def make(forger: Forger) -> Path:
        return forger.forge(change, Stage.FILES if top and stage is not Stage.ROOT else stage)

    return make


def _stage(path: Path_, value: Any) -> Stage:
    """When the value is put in: as early as what is computed later can still be computed."""
    whole = isinstance(value, dict)
    if path[0] == "matches" and (path[2:3] == ("chain",) or (len(path) == 2 and not whole)):
        return Stage.CHAIN
    if path[0] != "manifest":
        return Stage.CONTENT
    match path[1:]:
        case ():
            return Stage.FILES if whole else Stage.ROOT
        case ("root", *_):
            return Stage.ROOT
        case ("files", *_):
            return Stage.FILES
        case ("claim",):
            return Stage.CONTENT if whole else Stage.FILES
        case ("claim", "records" | "ratings_sha256", *_):
            return Stage.CHAIN
        case _:
            return Stage.CONTENT


def _at(forger: Forger, path: Path_) -> Any:
    value: Any = forger
    for step in path:
        value = getattr(forger, str(step)) if value is forger else value[step]
    return value


def _put(forger: Forger, path: Path_, value: Any) -> None:
    if len(path) == 1:
        setattr(forger, str(path[0]), value)
        return
    holder = _at(forger, path[:-1])
    if value is _MISSING:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
