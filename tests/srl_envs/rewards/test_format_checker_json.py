"""What the format checker's JSON and patterns accept, refuse and cost."""

import json
import math
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.errors import ConfigError
from srl_envs.rewards.format.json_schema import DIALECT, JsonSchema
from srl_envs.rewards.format.linear_regex import LinearRegex
from srl_envs.rewards.strict_json import JsonFaultError, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
JSON_PIECES = st.lists(st.sampled_from([*'{}[]",:\\ \n01.-eE', "null", "NaN", '"a":'])).map("".join)


def read(text: str, max_chars: int = 1000, max_depth: int = 5) -> Any:
    return parse_json(text, max_chars=max_chars, max_depth=max_depth)


def fault(text: str, **caps: int) -> str:
    with pytest.raises(JsonFaultError) as caught:
        read(text, **caps)
    return caught.value.reason


@given(VALUES)
def test_what_is_json_is_read(value: Any) -> None:
    assert read(json.dumps(value), max_chars=10**6, max_depth=20) == value


@given(JSON_PIECES | st.text(st.characters(exclude_categories=())))
def test_what_is_read_is_what_the_standard_library_reads(text: str) -> None:
    try:
        value = read(text)
    except JsonFaultError:
        return
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "json_missing"),
        ("[1", "json_invalid"),
        ("\ufeff1", "json_invalid"),
        ("\x0c1", "json_invalid"),
        ('"a\nb"', "json_invalid"),
        ("01", "json_trailing"),
        ('{"a": "\ud800"}', "json_invalid"),
        ('"\\udc00"', "json_invalid"),
        ("[1] ]", "json_trailing"),
        ('{"a": {"b": 1, "b": 1}}', "json_duplicate_key"),
        ("[NaN]", "json_number"),
        ("-Infinity", "json_number"),
        ("1e400", "json_number"),
        ("9" * 301, "json_number"),
        ("[" * 6, "json_too_deep"),
        ("[[[[[[]]]]]]", "json_too_deep"),
        ("[" * 100_000, "json_too_long"),
    ],
)
def test_what_the_standard_library_lets_pass_is_refused(text: str, reason: str) -> None:
    assert fault(text) == reason


def test_caps_are_exact() -> None:
    assert read("[[[[[0]]]]]") == [[[[[0]]]]]
    assert read(" [1] ", max_chars=3) == [1]
    assert fault("[12]", max_chars=3) == "json_too_long"
    assert read('["[[[[[[\\"[[["]') == ['[[[[[["[[[']
    assert fault("[]", max_depth=0) == "json_too_deep"
    assert read("9" * 300) == int("9" * 300)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "array", "uniqueItems": True, "minItems": 1},
    {"additionalProperties": False, "properties": {"a": {}, "": {"type": "string"}}},
    {"additionalProperties": {"type": "integer"}, "properties": {"a": {}}},
    {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "number", "minimum": 0}]},
    {"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}},
    {"not": {"type": "null"}, "if": {"type": "array"}, "then": {"contains": {"const": 1}}},
    {"patternProperties": {"^a": {"type": "null"}}, "additionalProperties": False},
]


@given(st.sampled_from(SCHEMAS), VALUES)
def test_a_schema_means_what_it_means_to_jsonschema(schema: dict[str, Any], value: Any) -> None:
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert JsonSchema(schema, place="schema").is_valid(value) == expected


@given(st.sampled_from(SCHEMAS), VALUES)
def test_only_a_valid_value_earns_all(schema: dict[str, Any], value: Any) -> None:
    made = JsonSchema(schema, place="schema")
    credit = made.credit(value)
    assert (credit == 1.0) == made.is_valid(value)
    assert 0.2 <= credit <= 0.8 + 1e-9 or credit == 1.0


@pytest.mark.parametrize(
    ("values", "unique"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([0, False], True),
        ([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], False),
        ([[1], [True]], True),
        ([1e300, 10**299], True),
        (["1", 1], True),
    ],
)
def test_items_are_equal_as_json_values(values: list[Any], unique: bool) -> None:
    assert JsonSchema({"uniqueItems": True}, place="schema").is_valid(values) == unique


def test_items_that_cannot_be_sorted_are_compared_in_one_pass() -> None:
    """jsonschema's own check compares all pairs of these: 20,000 would take minutes."""
    values = [{"a": i} if i % 2 else [i] for i in range(20_000)]
    assert JsonSchema({"uniqueItems": True}, place="schema").is_valid(values)


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 10_000, "a" * 10_000 + "!"),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, {"a" * 999: 1}, {"a" * 10_000 + "!": 1}),
        ({"patternProperties": {"^(a+)+$": False}}, {"a" * 10_000 + "!": 1}, {"a" * 999: 1}),
        (
            {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
            {"a" * 999: 1},
            {"a" * 10_000 + "!": 1},
        ),
    ],
)
def test_patterns_of_a_schema_run_in_linear_time(
    schema: dict[str, Any], right: Any, wrong: Any
) -> None:
    """Would never end under Python's own engine."""
    made = JsonSchema(schema, place="schema")
    assert made.is_valid(right)
    assert not made.is_valid(wrong)


REFUSED: list[tuple[Any, str]] = [
    ({"requird": ["a"]}, "Did you mean 'required'"),
    ({"properties": {"a": {"typ": "string"}}}, "Did you mean 'type'"),
    ({"items": {"$id": "x"}}, "'$id' is not supported"),
    ({"format": "date"}, "'format' is not supported"),
    ({"unevaluatedProperties": False}, "not supported"),
    ({"type": "strng"}, "strng"),
    ({"properties": []}, "properties"),
    ({"items": [{}]}, "mapping or a truth value"),
    ({"$schema": "http://json-schema.org/draft-07/schema#"}, "2020-12"),
    ({"$ref": "#"}, "$defs"),
    ({"$ref": "https://example.org/schema"}, "$defs"),
    ({"$defs": {"node": {}}, "$ref": "#/$defs/nod"}, "Did you mean 'node'"),
    ({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, "back to itself"),
    ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "back to itself"),
    ({"pattern": "(a)\\1"}, "Backreferences"),
    ({"pattern": "(?=a)"}, "look-around"),
    ({"patternProperties": {"(": {}}}, "RE2 refuses"),
    ({"pattern": 3}, "characters"),
    ({"allOf": [{}] * 2001}, "too large"),
]


@pytest.mark.parametrize(("schema", "message"), REFUSED)
def test_schemas_without_a_bound_or_a_meaning_are_refused(schema: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        JsonSchema(schema, place="json['reply']")
    assert message in str(caught.value)
    assert "json['reply']" in str(caught.value)


def test_references_written_out_count() -> None:
    """Twelve definitions that each use the next one twice: 4,095 places in 12 lines."""
    doubling: dict[str, Any] = {
        f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(11)
    }
    schema = {"$defs": {**doubling, "d11": {}}, "$ref": "#/$defs/d0"}
    with pytest.raises(ConfigError, match="too large"):
        JsonSchema(schema, place="schema")


def test_the_dialect_may_be_named() -> None:
    made = JsonSchema(
        {"$schema": DIALECT, "$id": "https://example.org/x", "const": 1}, place="schema"
    )
    assert made.is_valid(1.0)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["integer", "null"], "minimum": 3, "multipleOf": 2},
        {"type": "number", "exclusiveMinimum": 3},
        {"type": "number", "maximum": -2},
        {"type": "string", "minLength": 9},
        {"type": "string", "maxLength": 1},
        {"type": "array", "prefixItems": [{"const": 1}], "items": {"type": "null"}, "minItems": 3},
        {"enum": ["b", "a"]},
        {"pattern": "^x$", "examples": ["x"]},
        {"$defs": {"n": {"type": "boolean"}}, "properties": {"a": {"$ref": "#/$defs/n"}}},
        {"oneOf": [{"type": "object", "required": ["k"]}, {"type": "null"}]},
    ],
)
def test_an_example_is_made_from_a_schema(schema: dict[str, Any]) -> None:
    made = JsonSchema(schema, place="schema")
    assert made.is_valid(made.example())


SAFE_PATTERNS = ["a*b", "(ab|a)+", "[ab]{2,4}", "a?b?c?", "^a.b$", "(a|b)*abb", "\\d+"]


@given(st.sampled_from(SAFE_PATTERNS), st.text("abc1\n", max_size=8))
def test_a_pattern_means_what_it_means_to_python(pattern: str, text: str) -> None:
    made = LinearRegex(pattern, place="patterns")
    assert made.matches(text) == (re.fullmatch(pattern, text) is not None)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_searched(text: str) -> None:
    made = LinearRegex(".*a", place="patterns")
    assert made.occurs(text) in (True, False)
    assert made.matches("\ud800a") is False


def test_a_pattern_is_bounded() -> None:
    with pytest.raises(ConfigError, match="2000 characters"):
        LinearRegex("a" * 2001, place="patterns")
    with pytest.raises(ConfigError, match="RE2 refuses"):
        LinearRegex("((a{100}){100}){100}", place="patterns")
    with pytest.raises(ConfigError, match="Unicode"):
        LinearRegex("\ud800", place="patterns")


def test_numbers_stay_finite_under_every_keyword() -> None:
    made = JsonSchema({"multipleOf": 1e-300, "maximum": 1e300}, place="schema")
    for text in ("9" * 300, "1e308", "-0.0", "5e-324"):
        assert made.is_valid(read(text)) in (True, False)
    assert math.isfinite(read("1e308"))
