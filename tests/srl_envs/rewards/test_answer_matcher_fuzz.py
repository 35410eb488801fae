"""Nothing that a model can write raises, hangs, or stays in memory."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs.rewards import MATCH_REASONS, AnswerMatcher, AnswerPolicy
from srl_envs.rewards.matcher.extraction import EXTRACTORS
from srl_envs.rewards.matcher.notation.parser import parse
from srl_envs.rewards.matcher.notation.trees import Unreadable, show
from srl_envs.rewards.matcher.notation.unified import unify
from srl_envs.rewards.matcher.words.quantities import read_quantity
from srl_envs.rewards.matcher.words.spelled import read_number_word, read_ordinal, with_digits
from srl_envs.rewards.matcher.words.texts import read_choice, read_date, read_names
from srl_envs.rewards.matcher.words.units import read_unit

LENIENT = AnswerMatcher(
    AnswerPolicy(
        comma_decimal=True, percent_equals_number=True, unevaluated_ok=True, significant_figures=3
    ),
    extract=tuple(EXTRACTORS),
)
MATCHERS = (AnswerMatcher(), AnswerMatcher(extract=("boxes", "prose")), LENIENT)
PIECES = [
    "\\boxed{", "\\fbox{", "\\\\boxed{", "<answer>", "</answer>", "<action>", "</action>", "</think>",
    "####", "answer is", "Final answer:", "I hope it is correct", "$", "$$", "\\[", "\\]", "\\(", "\\)",
    "**", "`", "\n", " ", ". ", ",", ";", ":", " and ", " or ", "\\text{", "{", "}", "(", ")", "[", "]",
    "\\{", "\\}", "|", "\\frac", "\\sqrt[3]", "\\begin{pmatrix}", "\\begin{vmatrix}", "\\end{pmatrix}",
    "&", "\\\\", "^", "_", "+", "-", "*", "/", "=", "<", "\\le", "\\approx", "\\pm", "\\cup", "\\setminus",
    "\\mathbb{R}", "\\infty", "i", "x", "e", "\\pi", "n!", "\\binom", "\\sum_{k=1}^", "1", "12", "0.5",
    "1,234", "7e9", "...", "0.(3)", "%", "°", "\\circ", " cm", " m/s^2", " ft 6 in", "€", "¢", "USD ",
    "March 5, 2024", "2024-03-05", "3:30 PM", "1:2:3", " to ", "(A)", "B.", "seven", " million", "½", "²",
    "\\over", "\\choose", "\\root", "\\rm", "\\vec", "\\overline{", "\\angle ", "ABC", "f(", "P(A|B)", "'",
    "third", "3rd", "two ", "half", "\u2062", "٣", "７", "−", "\u200b", "\ud800", "\x00", "𝟕",
]  # fmt: skip
OFTEN = ("\\boxed{", "$", "\\(", "{", "°")  # their megabytes are read in every run
SOUP = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
ANYTHING = st.text(max_size=200) | SOUP


@settings(max_examples=120)
@given(SOUP, SOUP)
def test_any_reply_gets_a_known_verdict(reply: str, answer: str) -> None:
    for matcher in MATCHERS:
        score = matcher.score(reply=reply, answer=answer)
        assert score.reason in MATCH_REASONS
        assert (score.value == 1.0) == (score.reason == "match")
        explained = matcher.explain(reply=reply, answer=answer)
        assert explained.score == score


@settings(max_examples=300)
@given(ANYTHING)
def test_extractions_return_a_part_of_the_reply_or_none(reply: str) -> None:
    for name, extract in EXTRACTORS.items():
        found = extract(reply)
        if found is not None and name in ("boxed", "answer", "action"):
            assert found in reply


@settings(max_examples=300)
@given(ANYTHING)
def test_readers_never_raise(text: str) -> None:
    text = unify(text)
    readers = (read_number_word, read_ordinal, with_digits)
    for reader in (read_quantity, read_unit, read_date, read_choice, read_names, *readers):
        reader(text)
    try:
        tree = parse(text)
    except Unreadable:
        return
    assert isinstance(show(tree), str)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", [pytest.param(p, marks=() if p in OFTEN else pytest.mark.nightly) for p in PIECES]
)
def test_a_megabyte_of_anything_is_read(piece: str) -> None:
    reply = piece * (1_000_000 // len(piece))
    for matcher in MATCHERS:
        assert matcher.score(reply=reply, answer="5").value == 0.0
    assert MATCHERS[0].compare("5", answer=reply).value == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_answers_of_the_longest_size_are_read(piece: str) -> None:
    """Just below the limit of length, where all the work is still done."""
    text = piece * (1990 // len(piece))
    for answer in ("7", "x", "Paris", "5 cm", "\\{1,2\\}"):
        assert MATCHERS[0].compare(text, answer=answer).value == 0.0
        MATCHERS[0].compare(answer, answer=text)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("(", ")"), ("{", "}"), ("\\sqrt{", "}"), ("\\frac{1}{", "}"), ("|", "|"), ("2^{", "}")],
)
@pytest.mark.parametrize("depth", [10, 99, 101, 190])
def test_deep_nesting_ends(opening: str, closing: str, depth: int) -> None:
    text = opening * depth + "2" + closing * depth
    assert MATCHERS[0].compare(text, answer="3").value == 0.0
    assert MATCHERS[0].compare("3", answer=text).value == 0.0


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_answers() -> None:
    def work(start: int) -> None:
        for number in range(start, start + 100):
            for text in (
                f"x^2+{number}",
                f"{number} u{number}",
                f"\\sin({number}+y)",
                f"w{number} v",
            ):
                MATCHERS[0].compare(text, answer=f"{number} cm")
                MATCHERS[0].score(reply=f"\\boxed{{{text}}}", answer="y+1")

    for start in (0, 100, 200):
        work(start)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    work(10_000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 500_000
