"""Laws of comparison: the sides may be exchanged, one notation is final, each digit counts."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from srl_envs.rewards import AnswerMatcher, AnswerPolicy
from srl_envs.rewards.matcher.notation.unified import unify

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("answer_pairs.jsonl").read_text("utf-8").splitlines()
]
EXCHANGEABLE = ("fraction", "units", "money", "function", "name", "invisible", "plain TeX", "word")
"""Kinds in which neither side has a privilege; a list, for example, is read by its reference."""
MATCHER = AnswerMatcher(AnswerPolicy(rounded_digits=None))
"""Without rounded values, which count for an exact reference only."""
FORMS = (
    "{n}", "{n}.0", "+{n}", "\\boxed{{{n}}}", "${n}$", "{n}/1", "\\frac{{{n}}}{{1}}", "{{{n} \\over 1}}",
    "x = {n}", "{n} cm", "{n}%", "f({n})", "P(X={n})", "{n}x", "x_{{{n}}}", "({n}, 1)",
    "\\{{{n}, -1\\}}", "[-1, {n}]", "x^{{{n}}}", "\\sqrt{{{n}}}", "\\vec a + {n}", "{n}\\,{{\\rm cm}}",
)  # fmt: skip
POSITIVE = st.integers(1, 10**9)


@settings(max_examples=150)
@given(POSITIVE, POSITIVE, st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_the_sides_may_be_exchanged(n: int, k: int, form: str, other: str) -> None:
    for left, right in ((n, n), (n, k)):
        a, b = form.format(n=left), other.format(n=right)
        assert MATCHER.compare(a, answer=b).value == MATCHER.compare(b, answer=a).value, (a, b)


@pytest.mark.parametrize("kind", EXCHANGEABLE)
def test_the_sides_of_labelled_pairs_may_be_exchanged(kind: str) -> None:
    one_sided = [
        (row["gold"], row["cand"])
        for row in ROWS
        if row["kind"] == kind and not row.get("policy")
        for there in [MATCHER.compare(row["cand"], answer=row["gold"])]
        for back in [MATCHER.compare(row["gold"], answer=row["cand"])]
        if there.value != back.value and "unevaluated" not in (there.reason, back.reason)
    ]
    assert one_sided == []


def test_one_notation_is_final() -> None:
    texts = {row[side] for row in ROWS for side in ("gold", "cand")}
    assert [text for text in texts if unify(unify(text)) != unify(text)] == []


@settings(max_examples=300)
@given(POSITIVE, st.integers(0, 9), st.integers(1, 9), st.sampled_from(FORMS))
def test_one_changed_digit_is_another_answer(n: int, at: int, by: int, form: str) -> None:
    digits = list(str(n))
    at %= len(digits)
    digits[at] = str((int(digits[at]) + by) % 10)
    changed = int("".join(digits))
    answer, reply = form.format(n=n), form.format(n=changed)
    assert MATCHER.compare(reply, answer=answer).value == 0.0, (answer, reply)


@settings(max_examples=150)
@given(st.fractions(min_value=Fraction(1, 999), max_value=999, max_denominator=999), st.data())
def test_one_changed_digit_of_a_fraction_is_another_answer(
    value: Fraction, data: st.DataObject
) -> None:
    form = data.draw(st.sampled_from(("{a}/{b}", "\\frac{{{a}}}{{{b}}}", "{{{a}\\over{b}}}")))
    top = data.draw(st.integers(1, 9999))
    assume(top != value.numerator)
    answer = form.format(a=value.numerator, b=value.denominator)
    reply = form.format(a=top, b=value.denominator)
    assert MATCHER.compare(reply, answer=answer).value == 0.0
