import pytest

from srl_envs.rewards import AnswerMatcher, Score


def test_a_boxed_fraction_equals_its_decimal() -> None:
    reply = "so the answer is \\boxed{1/2}"
    assert AnswerMatcher().score(reply=reply, answer="0.5") == Score(1.0, "match")


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("1,234", "1234"),
        ("-0", "0"),
        (".5", "1/2"),
        ("１７", "17"),
        ("1 1/2", "3/2"),
        ("1e3", "1000"),
    ],
)
def test_ways_of_writing_one_number(given: str, answer: str) -> None:
    assert AnswerMatcher().compare(given, answer=answer).reason == "match"


def test_the_last_box_counts() -> None:
    reply = "\\boxed{7} or rather \\boxed{8}"
    assert AnswerMatcher().score(reply=reply, answer="7") == Score(0.0, "mismatch")


def test_a_draft_is_not_an_answer() -> None:
    assert (
        AnswerMatcher().score(reply="<think>\\boxed{7}</think>", answer="7").reason == "no_answer"
    )
