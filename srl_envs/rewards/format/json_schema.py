"""JSON Schema, Draft 2020-12, compiled once, in time linear in the value.

Only keywords whose check is linear are accepted, and every one of them is checked; an unknown one is
a mistake and fails at once. `jsonschema` does the work, save for patterns (RE2) and ``uniqueItems``
(its own is quadratic). References stay inside the schema and never lead back to themselves, so a
check visits at most ``size of the schema, references written out`` places per part of the value.
"""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError, nearest
from srl_envs.rewards.format.linear_regex import LinearRegex

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA_PLACES = 2_000
MAX_SCHEMA_DEPTH = 40
MAX_EXAMPLE_SIZE = 100  # items or letters; longer ones the schema gives itself, under `examples`
PARSED_SHARE, KEYS_SHARE = 0.2, 0.6
"""Partial credit: for a value that parses, and for all required keys with valid values."""

_ONE = ("additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
KEYWORDS = (
    *_ONE, *_LISTED, *_NAMED,
    "$schema", "$id", "$comment", "$defs", "$ref", "title", "description", "default", "examples",
    "deprecated", "readOnly", "writeOnly", "type", "enum", "const", "multipleOf", "maximum",
    "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern",
    "maxContains", "minContains", "maxItems", "minItems", "uniqueItems", "required",
    "maxProperties", "minProperties", "dependentRequired",
)  # fmt: skip
"""Every keyword that a schema may use."""


class JsonSchema:
    """A schema, ready to check values.

    Args:
        schema: as in Draft 2020-12, of the keywords in `KEYWORDS`; ``$ref`` to ``#/$defs/...`` only.
        place: names the setting that the schema comes from, for errors.

    Raises:
        ConfigError: `jsonschema` is missing, or the schema is invalid, recursive or too large.
    """

    def __init__(self, schema: Mapping[str, Any], *, place: str) -> None:
        library = _library(place)
        self.schema = copy.deepcopy(dict(schema))
        self._patterns: dict[str, LinearRegex] = {}
        self._places = 0
        self._survey(self.schema, place, ())
        try:
            library.Draft202012Validator.check_schema(self.schema)
        except library.SchemaError as error:
            path = "".join(f".{step}" for step in error.absolute_path)
            raise ConfigError(f"{place}{path}: {error.message}") from None
        self._validator = self._validator_class(library)(self.schema)

    def is_valid(self, value: Any) -> bool:
        """Whether a parsed value fits."""
        return bool(self._validator.is_valid(value))

    def credit(self, value: Any) -> float:
        """1 for a value that fits; else the share of required top-level keys that it gets right.

        `PARSED_SHARE` for being JSON, and `KEYS_SHARE` split evenly among the required keys: half
        of a key's part for its presence, half for a value that fits its own schema.
        """
        if self.is_valid(value):
            return 1.0
        required = self.schema.get("required", ())
        if not required or not isinstance(value, dict):
            return PARSED_SHARE
        properties = self.schema.get("properties", {})
        halves = 0
        for key in set(required) & value.keys():
            fits = self._validator.evolve(schema=properties.get(key, True)).is_valid(value[key])
            halves += 2 if fits else 1
        return PARSED_SHARE + KEYS_SHARE * halves / (2 * len(set(required)))

    def example(self) -> Any:
        """A value made from the schema: its first example, default or choice, else from its type.

        It need not be valid where keywords interact; the caller checks.
        """
        return _example(self.schema, self.schema)

    def _survey(self, schema: Any, place: str, path: tuple[str, ...]) -> None:
        """Refuse unknown keywords, remote and circular references and size; compile patterns."""
        self._places += 1
        if self._places > MAX_SCHEMA_PLACES or len(path) > MAX_SCHEMA_DEPTH:
            raise ConfigError(
                f"{place}: the schema is too large: at most {MAX_SCHEMA_PLACES} subschemas, at most "
                f"{MAX_SCHEMA_DEPTH} deep, references written out."
            )
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise ConfigError(f"{place}: a schema is a mapping or a truth value, not {schema!r}.")
        for keyword in schema:
            _check_keyword(keyword, schema[keyword], place, at_root=not path)
        for where, pattern in _patterns(schema):
            self._patterns[pattern] = LinearRegex(pattern, place=f"{place}.{where}")
        reference = schema.get("$ref")
        if reference is not None:
            if reference in path:
                raise ConfigError(
                    f"{place}.$ref={reference!r} leads back to itself: a recursive schema has no "
                    "bound on its work. Write out as many levels as you need."
                )
            self._survey(
                _resolve(self.schema, reference, place), f"{place}.$ref", (*path, reference)
            )
        for step, child in _children(schema):
            self._survey(child, f"{place}.{step}", (*path, step))

    def _validator_class(self, library: Any) -> Any:
        """Draft 2020-12 with linear checks in place of those that are not."""
        compiled, error = self._patterns, library.ValidationError

        def pattern(_: Any, expected: str, value: Any, __: Any) -> Iterator[Any]:
            if isinstance(value, str) and not compiled[expected].occurs(value):
                yield error("no match")

        def pattern_properties(validator: Any, named: Any, value: Any, _: Any) -> Iterator[Any]:
            if isinstance(value, dict):
                for expected, schema in named.items():
                    for key in filter(compiled[expected].occurs, value):
                        yield from validator.descend(value[key], schema)

        def additional_properties(
            validator: Any, extra: Any, value: Any, whole: Any
        ) -> Iterator[Any]:
            if isinstance(value, dict):
                known = whole.get("properties", {})
                named = [compiled[each] for each in whole.get("patternProperties", {})]
                for key in value:
                    if key not in known and not any(regex.occurs(key) for regex in named):
                        yield from validator.descend(value[key], extra)

        def unique_items(_: Any, wanted: bool, value: Any, __: Any) -> Iterator[Any]:
            if wanted and isinstance(value, list):
                distinct = {_canonical(item) for item in value}
                yield from (error("not unique"),) if len(distinct) < len(value) else ()

        return library.validators.extend(
            library.Draft202012Validator,
            {
                "pattern": pattern,
                "patternProperties": pattern_properties,
                "additionalProperties": additional_properties,
                "uniqueItems": unique_items,
            },
        )


def _library(place: str) -> Any:
    try:
        return importlib.import_module("jsonschema")
    except ImportError:
        raise ConfigError(
            f"{place}: JSON schemas need the package jsonschema. "
            f"Install it with `{install_command('rewards')}`."
        ) from None


def _check_keyword(keyword: Any, value: Any, place: str, *, at_root: bool) -> None:
    if keyword not in KEYWORDS or (keyword == "$id" and not at_root):
        raise ConfigError(
            f"{place}: keyword {keyword!r} is not supported.{nearest(str(keyword), KEYWORDS)} "
            f"Keywords: {', '.join(sorted(KEYWORDS))}."
        )
    if keyword == "$schema" and str(value).rstrip("#") != DIALECT:
        raise ConfigError(f"{place}.$schema={value!r}: only {DIALECT} is supported.")


def _patterns(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "pattern" in schema:
        yield "pattern", schema["pattern"]
    named = schema.get("patternProperties")
    for pattern in named if isinstance(named, dict) else ():
        yield "patternProperties", pattern


def _children(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The subschemas of a schema, each with its path from there."""
    for keyword in _ONE:
        if keyword in schema:
            yield keyword, schema[keyword]
    for keyword in _LISTED:
        listed = schema.get(keyword)
        for i, child in enumerate(listed if isinstance(listed, list) else ()):
            yield f"{keyword}[{i}]", child
    for keyword in (*_NAMED, "$defs"):
        named = schema.get(keyword)
        for name, child in named.items() if isinstance(named, dict) else ():
            yield f"{keyword}.{name}", child


def _resolve(root: dict[str, Any], reference: Any, place: str) -> Any:
    """The schema that ``#/$defs/name`` names."""
    definitions = root.get("$defs")
    names = definitions if isinstance(definitions, dict) else {}
    start, _, name = str(reference).rpartition("/")
    if start != "#/$defs" or name not in names:
        raise ConfigError(
            f"{place}.$ref={reference!r}: references must name an entry of the schema's own $defs, "
            f"as in '#/$defs/name'.{nearest(name, names)}"
        )
    return names[name]


def _canonical(value: Any) -> str:
    """Equal for equal JSON values, in JSON Schema's sense: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_whole_numbers(value), sort_keys=True)


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return value


def _example(schema: Any, root: dict[str, Any]) -> Any:
    if not isinstance(schema, dict):
        return "text"
    if "$ref" in schema:
        return _example(_resolve(root, schema["$ref"], "example"), root)
    for keyword, first in (
        ("examples", True),
        ("default", False),
        ("const", False),
        ("enum", True),
    ):
        if keyword in schema and (not first or schema[keyword]):
            return schema[keyword][0] if first else schema[keyword]
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in schema and "type" not in schema:
            return _example(schema[keyword][0], root)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _example_of_type(kind[0] if isinstance(kind, list) else kind, schema, root)


def _example_of_type(kind: str, schema: dict[str, Any], root: dict[str, Any]) -> Any:
    if kind == "object":
        properties = schema.get("properties", {})
        names = dict.fromkeys((*properties, *schema.get("required", ())))
        return {name: _example(properties.get(name, True), root) for name in names}
    if kind == "array":
        fixed = [_example(item, root) for item in schema.get("prefixItems", ())]
        missing = min(max(schema.get("minItems", 1) - len(fixed), 0), MAX_EXAMPLE_SIZE)
        return fixed + [_example(schema.get("items", True), root)] * missing
    if kind in ("integer", "number"):
        return _example_number(schema)
    if kind == "string":
        length = min(schema.get("minLength", 0), MAX_EXAMPLE_SIZE)
        return "text"[: schema.get("maxLength", 4)].ljust(length, "t")
    return True if kind == "boolean" else None


def _example_number(schema: dict[str, Any]) -> float:
    step = schema.get("multipleOf", 1)
    if "minimum" in schema or "exclusiveMinimum" in schema:
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + step)
        return least if least % step == 0 else (least // step + 1) * step  # type: ignore[no-any-return]
    most = schema.get("maximum", schema.get("exclusiveMaximum", step + step) - step)
    return min(step, most)  # type: ignore[no-any-return]
