"""Claims of an answer: tautologies, counted things, no solution, repeats, polar forms, hedges.

Each row of the table is a reference, answers that say the same, and answers that do not.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.rewards import AnswerMatcher, AnswerPolicy
from srl_envs.rewards.matcher.words.hedges import _BLURS, _DENIALS

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("answer_claims.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['topic']} {row['answer']}")
def test_claims(row: dict[str, Any]) -> None:
    matcher, answer = AnswerMatcher(), row["answer"]
    accepted = {
        text
        for text in [answer, *row["same"], *row["other"]]
        if matcher.compare(text, answer=answer).value == 1.0
    }
    assert {answer, *row["same"]} - accepted == set()
    assert accepted & set(row["other"]) == set()


def test_the_table_is_large() -> None:
    assert sum(len(row["same"]) + len(row["other"]) for row in ROWS) > 400


@pytest.mark.parametrize(
    ("flag", "answer", "given", "by_default"),
    [
        ("repeats_count", "\\{1,2,2\\}", "\\{1,1,2\\}", False),
        ("repeats_count", "\\{1,2,2\\}", "\\{1,2\\}", False),
        ("polar_form_ok", "-1", "e^{i\\pi}", True),
        ("polar_form_ok", "-1", "\\cos\\pi+i\\sin\\pi", True),
        ("no_solution_is_empty_set", "\\emptyset", "no solution", True),
        ("no_solution_is_empty_set", "no solution", "\\emptyset", True),
        ("no_solution_is_empty_set", "none", "no solution", True),
        ("ratio_equals_number", "0.75", "3:4", False),
        ("ratio_equals_number", "6", "x = 6:1", False),
        ("ratio_equals_number", "50%", "1:2", False),
        ("ratio_equals_number", "0.75, 0.5", "3:4, 1:2", False),
        ("group_words_ok", "42", "42 pairs", False),
        ("group_words_ok", "42", "42 red twins", False),
        ("group_words_ok", "42", "42双鞋", False),
        ("group_words_ok", "42", "42 ζευγάρια", False),
        ("approximation_sign_ok", "42", "≈42", True),
        ("approximation_sign_ok", "42", "~42", True),
        ("approximation_sign_ok", "42", "x = ~42", True),
        ("approximation_sign_ok", "42", "total = ~42", True),
        ("approximation_sign_ok", "42", "42 ≈", True),
        ("approximation_sign_ok", "42", "\\boxed{\\approx 42}", True),
        ("approximation_sign_ok", "42", "$~42", True),
        ("approximation_sign_ok", "x=42", "x \\approx 42", True),
        ("approximation_sign_ok", "42 cm", "≈42 cm", True),
    ],
)
def test_an_arguable_claim_has_a_flag(flag: str, answer: str, given: str, by_default: bool) -> None:
    turned = AnswerPolicy(**{flag: not getattr(AnswerPolicy(), flag)})
    assert (AnswerMatcher().compare(given, answer=answer).value == 1.0) is by_default
    assert (AnswerMatcher(turned).compare(given, answer=answer).value == 1.0) is not by_default


NUMBERS = st.one_of(st.integers(-99, 99).map(str), st.decimals(-9, 9, places=2).map(str))


@given(
    NUMBERS,
    st.lists(st.sampled_from(["{}", "({})", "{}.0", "+{}", "\\{{{}\\}}"]), min_size=2, max_size=4),
)
def test_a_number_equal_to_itself_is_no_answer(number: str, ways: list[str]) -> None:
    sides = [way.format(number) for way in ways if not ("." in number and way == "{}.0")]
    if len(sides) > 1 and "+-" not in "".join(sides):
        matcher = AnswerMatcher()
        assert matcher.compare("=".join(sides), answer=number).value == 0.0
        assert matcher.compare("x=" + "=".join(sides), answer=number).value == 0.0
        assert matcher.compare(f"x={sides[0]}", answer=number).value == 1.0


@given(
    st.integers(0, 10**6),
    st.sampled_from("个個개명人本つ"),
    st.sampled_from(["", " ", "\\text{ }"]),
)
def test_a_counting_word_changes_no_number(number: int, counter: str, gap: str) -> None:
    matcher = AnswerMatcher()
    assert matcher.compare(f"{number}{gap}{counter}", answer=str(number)).value == 1.0
    assert matcher.compare(str(number), answer=f"{number}{gap}{counter}").value == 1.0
    assert matcher.compare(f"{number + 1}{gap}{counter}", answer=str(number)).value == 0.0


@given(
    st.sampled_from([0, 1, 2, 12, 100]) | st.integers(0, 10**6),
    st.sampled_from(sorted(_DENIALS | _BLURS)),
    st.sampled_from([
        "{w} {n}", "{w}{n}", "{n} {w}", "{n}{w}", "({w} {n})", "{n} ({w})", "{n}, {w}", "{w}: {n}",
        "\\text{{{w} }}{n}", "{n}\\text{{ {w}}}", "x = {w} {n}", "{n} apples {w}", "{n} {w} apples",
    ]),
)  # fmt: skip
def test_a_value_that_is_blurred_or_denied_never_counts(number: int, word: str, way: str) -> None:
    given_text, answer = way.format(w=word, n=number), str(number)
    matcher = AnswerMatcher()
    assert matcher.compare(given_text, answer=answer).value == 0.0
    assert matcher.score(reply=f"The answer is {given_text}", answer=answer).value == 0.0
    if word in _DENIALS:
        assert matcher.compare(f"{word} = {number}", answer=answer).value == 0.0
        assert matcher.compare(f"{word} sum = {number}", answer=answer).value == 0.0
