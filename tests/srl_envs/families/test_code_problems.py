"""The twelve problem families: references, inputs, validators, and the programs of the bots."""

import copy
import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs.families.coding.problems import DIFFICULTIES, FAMILIES
from srl_envs.families.coding.problems.family import pick
from srl_envs.sandbox import CodeExecutor, same_value

NAMES = sorted(FAMILIES)
VARIANTS = [
    (name, parameters)
    for name in NAMES
    for difficulty in DIFFICULTIES
    for parameters in FAMILIES[name].variants(difficulty)
]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.integers(-3, 12)
    | st.floats()
    | st.text(max_size=8)
    | st.text(alphabet="()[]{}01+-*@.#xab ", max_size=12)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["n", "edges", "capacity", "items", "x"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)

# Worked out by hand: family, difficulty, what the statement must hold, input, answer.
BY_HAND: list[tuple[str, int, list[str], Any, Any]] = [
    ("interval_merge", 1, ["pairs sorted"], [[5, 8], [1, 3], [3, 4]], [[1, 4], [5, 8]]),
    ("interval_merge", 1, ["sum of b - a"], [[1, 5], [2, 3], [7, 9]], 6),
    ("interval_merge", 2, ["how many", "at most 2"], [[0, 1], [3, 4], [7, 8]], 2),
    ("run_length", 1, ["c followed by n", 'Put "-"'], "aaxb", "a2-x1-b1"),
    ("run_length", 5, ["every b", "than 3", 'Put "+"', "n followed by c"], "aabaaxb", "3a+a+x"),
    ("base_conversion", 1, ["base 4"], 27, "123"),
    ("base_conversion", 2, ["base 16"], -255, "-ff"),
    ("base_conversion", 3, ["in base 2 and", "in base 16, with"], "-1a", "-11010"),
    ("base_conversion", 5, ["base -2", "groups of 3"], 6, "11_010"),
    ("bracket_repair", 1, ["smallest number", "( )"], "))(()", 3),
    ("bracket_repair", 2, ["right before", "( )"], ")(", "()()"),
    ("bracket_repair", 2, ["very front", "( )"], ")(", "()()"),
    ("bracket_repair", 2, ["very front", "[ ]"], "[]]", "[[]]"),
    ("bracket_repair", 3, ["smallest number", "( ) [ ]"], "([)]", 2),
    ("bracket_repair", 5, ["one of () costs 4", "one of [] costs 1"], "([)]", 2),
    ("grid_paths", 1, ["top left", "marked #"], ["...", ".#.", "..."], 2),
    ("grid_paths", 1, ["top right", "marked x"], ["..", "x."], 0),
    ("grid_paths", 2, ["top left", "modulo 5", "marked #"], ["...", "...", "..."], 1),
    ("grid_paths", 3, ["top left", "modulo 100", "marked #"], ["...", "...", "..."], 13),
    ("grid_paths", 4, ["top left", "greatest", "marked x"], ["19", "21"], 11),
    ("grid_paths", 4, ["top left", "greatest", "marked x"], ["1x", "x1"], -1),
    ("grid_paths", 5, ["top left", "at most 1", "smallest", "marked #"], ["191", "911", "991"], 4),
    ("topological_order", 1, ["before b", "smallest"], {"n": 4, "edges": [[3, 0]]}, [1, 2, 3, 0]),
    ("topological_order", 1, ["after b", "largest"], {"n": 3, "edges": [[2, 0]]}, [1, 0, 2]),
    ("topological_order", 2, ["before b", "smallest"], {"n": 3, "edges": [[0, 1], [1, 0]]}, []),
    ("topological_order", 3, ["before b", "smallest"], {"n": 3, "edges": [[0, 1], [1, 0]]}, [2]),
    ("topological_order", 4, ["before b", "rounds"], {"n": 3, "edges": [[2, 1], [1, 0]]}, 3),
    ("topological_order", 4, ["before b", "one with the largest"], {"n": 4, "edges": []}, [0, 3, 1, 2]),
    ("knapsack", 1, ["total value"], {"capacity": 5, "items": [[3, 4], [2, 3], [5, 6]]}, 7),
    ("knapsack", 2, ["number of items"], {"capacity": 7, "items": [[3, 4], [5, 9]]}, 2),
    ("knapsack", 3, ["At most 2", "any number"], {"capacity": 9, "items": [[2, 3], [4, 5]]}, 10),
    ("knapsack", 4, ["exactly", "once", "total value"], {"capacity": 6, "items": [[4, 9]]}, -1),
    ("knapsack", 5, ["At most 2", "once"], {"capacity": 6, "items": [[4, 9], [2, 0], [6, 1]]}, 9),
    ("increasing_run", 1, ["greater than", "greatest number"], [3, 1, 2, 2, 5], 3),
    ("increasing_run", 2, ["at least", "greatest number"], [3, 1, 2, 2, 5], 4),
    ("increasing_run", 3, ["less than", "at most 2", "greatest number"], [9, 7, 1, 6], 3),
    ("increasing_run", 4, ["greater than", "greatest sum"], [-5, 4, 3, 6], 10),
    ("increasing_run", 4, ["greater than", "how many ways"], [1, 2, 2], 5),
    ("expression", 1, ["left to right", "joined by + *"], "2+3*4", 20),
    ("expression", 2, ["* is applied before", "joined by + - *"], "10-2*3-1", 3),
    ("expression", 3, ["* is applied after + and -"], "2*3+1-2*2", 8),
    ("expression", 4, ["* is applied before", "joined by - *"], "9-(4-2*(3-1))", 9),
    ("expression", 5, ["2*a + b", "* is applied before", "joined by + *"], "1+2@3*2", 15),
    ("calendar_arithmetic", 1, ["number of the day"], [2024, 3, 1], 61),
    ("calendar_arithmetic", 1, ["come after"], [1900, 2, 28], 306),
    ("calendar_arithmetic", 1, ["next day"], [2023, 12, 31], [2024, 1, 1]),
    ("calendar_arithmetic", 2, ["negative if"], [[2000, 3, 1], [2000, 2, 28]], -2),
    ("calendar_arithmetic", 2, ["day of the week"], [2000, 1, 1], 5),
    ("calendar_arithmetic", 3, ["so many days"], [[2023, 12, 31], 60], [2024, 2, 29]),
    ("calendar_arithmetic", 4, ["8 months of 30", "come after"], [303, 8, 1], 30),
    ("calendar_arithmetic", 5, ["8 months of 30", "so many days"], [[303, 8, 30], 2], [304, 1, 1]),
    ("bigram_counts", 1, ["an object"], "abab", {"ab": 2, "ba": 1}),
    ("bigram_counts", 1, ["highest count"], "baab", "aa"),
    ("bigram_counts", 2, ["how many different"], "Ab aB c", 1),
    ("bigram_counts", 4, ["lower case", "an object"], "A b  a B", {"a b": 2, "b a": 1}),
    ("bigram_counts", 5, ["words i and i+2", "highest count, the first"], "x a x b", "a b"),
    ("matrix_spiral", 1, ["top left"], [[1, 2, 3], [4, 5, 6]], [1, 2, 3, 6, 5, 4]),
    ("matrix_spiral", 2, ["top left", "counter"], [[1, 2], [3, 4]], [1, 3, 4, 2]),
    ("matrix_spiral", 2, ["bottom right", " clockwise"], [[1, 2], [3, 4]], [4, 3, 1, 2]),
    ("matrix_spiral", 3, ["top left", " clockwise", "1, 3, 5"], [[1, 2], [3, 4]], [1, 4]),
    ("matrix_spiral", 4, ["top left", " clockwise"], [[1, 2], [3, 4]], [3, 4, 2, 1]),
]  # fmt: skip


def load(source: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(compile(source, "<program of a bot>", "exec"), namespace)
    return namespace["solve"]


def answer(solve: Any, data: Any) -> Any:
    """What a program of ours returns, on its own copy of the input; its exceptions as text."""
    try:
        return solve(json.loads(json.dumps(data)))
    except Exception as error:  # noqa: BLE001 - whatever the program raises
        return f"raised {type(error).__name__}"


def inputs_of(name: str, parameters: Any, small: int = 24, large: int = 3) -> list[Any]:
    family = FAMILIES[name]
    rng = np.random.default_rng(5)
    drawn = [family.draw_input(rng, parameters, "small") for _ in range(small)]
    drawn += [family.draw_input(rng, parameters, "large") for _ in range(large)]
    return drawn + list(family.edge_inputs(parameters))


def titled(name: str) -> list[tuple[str, str]]:
    """(title, statement) of every variant of a family."""
    family = FAMILIES[name]
    return [
        (family.title(parameters), family.statement(parameters))
        for difficulty in DIFFICULTIES
        for parameters in family.variants(difficulty)
    ]


def test_there_are_twelve_families_with_their_own_titles() -> None:
    assert len(FAMILIES) == 12
    assert all(name == family.name for name, family in FAMILIES.items())
    titles = [{title for title, _ in titled(name)} for name in NAMES]
    assert len(set.union(*titles)) == sum(map(len, titles))


def test_titles_of_runs_say_what_the_reference_computes() -> None:
    """Of two numbers both are kept in one order: 2 of them, their sum 9, or 3 ways."""
    family, goals = FAMILIES["increasing_run"], {2: "Longest", 9: "Greatest", 3: "Number"}
    for difficulty in DIFFICULTIES:
        for parameters in family.variants(difficulty):
            rising, falling = (family.reference(parameters, x) for x in ([4, 5], [5, 4]))
            words = family.title(parameters).split()
            assert words[0] == goals[max(rising, falling)]
            assert ("rising" in words, "falling" in words) == (rising > falling, falling > rising)


@pytest.mark.parametrize("name", NAMES)
def test_variants_differ_in_what_they_say(name: str) -> None:
    family = FAMILIES[name]
    for difficulty in DIFFICULTIES:
        variants = family.variants(difficulty)
        assert len(variants) >= 3
        assert len({family.statement(parameters) for parameters in variants}) == len(variants)
    by_statement: dict[str, Any] = {}
    for difficulty in DIFFICULTIES:
        for parameters in family.variants(difficulty):
            statement = family.statement(parameters)
            assert by_statement.setdefault(statement, parameters) == parameters
            assert len(statement) <= 500
            assert statement.count("\nInput: ") == 1
            assert json.loads(json.dumps(parameters)) == parameters


@pytest.mark.parametrize(("name", "difficulty", "words", "data", "expected"), BY_HAND)
def test_references_agree_with_answers_worked_out_by_hand(
    name: str, difficulty: int, words: list[str], data: Any, expected: Any
) -> None:
    family = FAMILIES[name]
    matching = [
        parameters
        for parameters in family.variants(difficulty)
        if all(word in family.statement(parameters) for word in words)
    ]
    assert matching
    for parameters in matching[:1]:
        assert family.is_valid(parameters, data)
        assert family.reference(parameters, data) == expected


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_draws_the_same_problem(name: str) -> None:
    family = FAMILIES[name]

    def draws(seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        found = []
        for difficulty in DIFFICULTIES:
            parameters = pick(rng, family.variants(difficulty))
            found += [parameters, family.draw_input(rng, parameters, "small")]
        return found

    assert draws(3) == draws(3)
    assert draws(3) != draws(4)


@pytest.mark.parametrize("name", NAMES)
def test_drawn_inputs_are_valid_and_the_reference_answers_them(name: str) -> None:
    family = FAMILIES[name]
    rng = np.random.default_rng(11)
    for difficulty, _ in itertools.product(DIFFICULTIES, range(40)):
        parameters = pick(rng, family.variants(difficulty))
        for size in ("small", "small", "large"):
            data = family.draw_input(rng, parameters, size)
            before = copy.deepcopy(data)
            assert family.is_valid(parameters, data), (parameters, data)
            assert json.loads(json.dumps(data)) == data
            found = family.reference(parameters, data)
            assert found is not None
            assert json.loads(json.dumps(found)) == found
            assert data == before


@pytest.mark.parametrize("name", NAMES)
def test_large_inputs_are_larger(name: str) -> None:
    family = FAMILIES[name]
    rng = np.random.default_rng(2)
    lengths = {"small": 0, "large": 0}
    for difficulty in DIFFICULTIES:
        parameters = pick(rng, family.variants(difficulty))
        for _ in range(30):
            for size in ("small", "large"):
                text = json.dumps(family.draw_input(rng, parameters, size))
                lengths[size] += len(text)
                assert size == "large" or len(text) <= 160
    assert lengths["large"] > lengths["small"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_both_right_programs_agree_with_the_reference_and_every_bug_shows(name: str) -> None:
    family = FAMILIES[name]
    for parameters in [p for n, p in VARIANTS if n == name]:
        sources = family.sources(parameters)
        assert len(sources) >= 2 + 3, (parameters, list(sources))
        programs = {label: load(source) for label, source in sources.items()}
        shown = set()
        for data in inputs_of(name, parameters):
            expected = family.reference(parameters, data)
            for label, solve in programs.items():
                if not same_value(answer(solve, data), expected):
                    assert label not in ("reference", "other"), (label, parameters, data)
                    shown.add(label)
        assert shown == set(sources) - {"reference", "other"}, parameters


@pytest.mark.parametrize("name", NAMES)
def test_several_bugs_together_still_make_a_program(name: str) -> None:
    family = FAMILIES[name]
    for difficulty in DIFFICULTIES:
        parameters = family.variants(difficulty)[-1]
        for bugs in itertools.combinations(family.bugs_of(parameters), 3):
            load(family.source(parameters, bugs))


@pytest.mark.parametrize("name", NAMES)
def test_edge_inputs_are_valid_and_distinct(name: str) -> None:
    family = FAMILIES[name]
    for parameters in [p for n, p in VARIANTS if n == name]:
        edges = family.edge_inputs(parameters)
        assert len(edges) >= 4
        assert all(family.is_valid(parameters, data) for data in edges), parameters
        texts = [json.dumps(data, sort_keys=True) for data in edges]
        assert len(set(texts)) == len(texts), parameters


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


HOSTILE: list[Any] = [
    None, True, False, -1, 0.5, float("nan"), float("inf"), 10**4000, "", "\x00", "\ud800",
    "(" * 100_000, "1" * 100_000, "a" * 100_000, "9" * 60, "1+" * 30, nested(400),
    [[1, 2]] * 100_000, [0] * 100_000, ["." * 10] * 100_000, ["", ""], [[]], [[], []], [[0, True]],
    [[1.0, 2.0]], {"n": 10**9, "edges": []}, {"n": 3, "edges": [[0, 0]] * 10}, {"n": True, "edges": []},
    {"capacity": 10**9, "items": [[1, 1]]}, {"capacity": 9, "items": [[0, 5]]}, {}, [2023, 2, 29],
    [0, 0, 0], [10**9, 1, 1], [[2023, 1, 1], 10**12], [[2023, 1, 1], [2023, 13, 1]], ")(", "1++1",
    "()", "(1", "1)", "01", "--1", "-", "-0", "A", "１", "²",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_validators_refuse_hostile_values_without_an_exception(name: str) -> None:
    family = FAMILIES[name]
    for difficulty in DIFFICULTIES:
        for parameters in family.variants(difficulty):
            for value in HOSTILE:
                if family.is_valid(parameters, value):
                    family.reference(parameters, value)


REFUSED: list[tuple[str, int, Any]] = [
    ("interval_merge", 1, [[3, 1]]),
    ("interval_merge", 1, [[1, 100]]),
    ("interval_merge", 1, [[1, 2, 3]]),
    ("interval_merge", 1, [[0, 1]] * 51),
    ("run_length", 1, "abd"),
    ("run_length", 1, "a" * 151),
    ("run_length", 1, ["a", "b"]),
    ("base_conversion", 1, -1),
    ("base_conversion", 1, 10**9 + 1),
    ("base_conversion", 3, "007"),
    ("base_conversion", 3, "-0"),
    ("bracket_repair", 4, "(x)"),
    ("bracket_repair", 4, "(" * 41),
    ("grid_paths", 1, []),
    ("grid_paths", 1, [""]),
    ("grid_paths", 1, ["..", "."]),
    ("grid_paths", 1, ["." * 11]),
    ("topological_order", 1, {"n": 2, "edges": [[0, 1], [1, 0]]}),
    ("topological_order", 2, {"n": 2, "edges": [[0, 2]]}),
    ("topological_order", 2, {"n": 2, "edges": [[1, 1]]}),
    ("topological_order", 2, {"n": 21, "edges": []}),
    ("topological_order", 2, {"n": 2, "edges": [], "more": 1}),
    ("knapsack", 1, {"capacity": 5, "items": [[0, 1]]}),
    ("knapsack", 1, {"capacity": 61, "items": []}),
    ("knapsack", 1, {"capacity": 5, "items": [[1, 1]] * 13}),
    ("increasing_run", 1, [1, 2.5]),
    ("increasing_run", 1, [0] * 61),
    ("expression", 4, "1)+(2"),
    ("expression", 4, "1)*(2"),
    ("expression", 4, "(1"),
    ("expression", 4, "()"),
    ("expression", 1, "1++2"),
    ("expression", 1, "+1"),
    ("expression", 1, "1+"),
    ("expression", 1, "01"),
    ("expression", 1, "100"),
    ("expression", 1, ""),
    ("calendar_arithmetic", 1, [1900, 2, 29]),
    ("calendar_arithmetic", 1, [2401, 1, 1]),
    ("calendar_arithmetic", 1, [2024, 1, 0]),
    ("calendar_arithmetic", 5, [[304, 1, 1], 20001]),
    ("calendar_arithmetic", 4, [304, 1, 41]),
    ("bigram_counts", 1, "aB"),
    ("bigram_counts", 1, "a" * 121),
    ("bigram_counts", 2, "a\tb"),
    ("matrix_spiral", 1, []),
    ("matrix_spiral", 1, [[]]),
    ("matrix_spiral", 1, [[1, 2], [3]]),
    ("matrix_spiral", 1, [[0] * 9]),
]


@pytest.mark.parametrize(("name", "difficulty", "value"), REFUSED)
def test_validators_refuse_what_the_statement_excludes(
    name: str, difficulty: int, value: Any
) -> None:
    family = FAMILIES[name]
    for parameters in family.variants(difficulty):
        assert not family.is_valid(parameters, value)


@pytest.mark.parametrize("name", NAMES)
def test_truth_values_and_floats_are_no_integers(name: str) -> None:
    family = FAMILIES[name]
    rng = np.random.default_rng(6)
    for difficulty in DIFFICULTIES:
        parameters = pick(rng, family.variants(difficulty))
        data = family.draw_input(rng, parameters, "small")
        for change in (float, bool):
            changed = every_integer(data, change)
            if json.dumps(changed) != json.dumps(data):
                assert not family.is_valid(parameters, changed)


def every_integer(value: Any, change: Any) -> Any:
    if isinstance(value, list):
        return [every_integer(item, change) for item in value]
    if isinstance(value, dict):
        return {key: every_integer(item, change) for key, item in value.items()}
    return change(value) if isinstance(value, int) else value


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_what_a_validator_accepts_the_reference_answers(name: str, data: st.DataObject) -> None:
    """Any JSON value, and real inputs with one part replaced by anything."""
    family = FAMILIES[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    parameters = pick(rng, family.variants(data.draw(st.sampled_from(DIFFICULTIES))))
    value = family.draw_input(rng, parameters, "small")
    value = replaced(value, data.draw(JSON), data)
    if family.is_valid(parameters, value):
        json.dumps(family.reference(parameters, value))


def replaced(value: Any, new: Any, data: st.DataObject) -> Any:
    """``value`` with one of its parts, perhaps all of it, replaced."""
    if not value or not isinstance(value, (list, dict, str)) or data.draw(st.booleans()):
        return new
    if isinstance(value, str):
        at = data.draw(st.integers(0, len(value)))
        return value[:at] + (new if isinstance(new, str) else str(new)) + value[at + 1 :]
    key = data.draw(
        st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value)))
    )
    changed = copy.copy(value)
    changed[key] = replaced(value[key], new, data)
    return changed


def test_right_programs_give_the_reference_answers_in_the_sandbox() -> None:
    rng = np.random.default_rng(8)
    with CodeExecutor() as executor:
        for name in NAMES:
            family = FAMILIES[name]
            parameters = pick(rng, family.variants(int(rng.integers(1, 6))))
            inputs = inputs_of(name, parameters, small=2, large=1)[:3]
            calls = [{"function": "solve", "args": [data]} for data in inputs]
            for source in (family.source(parameters), family.other_source(parameters)):
                outcomes = executor.run(source, calls)
                for data, outcome in zip(inputs, outcomes, strict=True):
                    assert outcome.status == "ok", (name, parameters, outcome)
                    assert same_value(outcome.value, family.reference(parameters, data))
