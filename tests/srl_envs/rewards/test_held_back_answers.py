"""The share of held-back answer pairs that the matcher agrees with."""

from srl_envs.rewards import AnswerMatcher
from tests.srl_envs.rewards.held_back_answers import PAIRS


def test_the_matcher_agrees_with_97_percent_of_the_held_back_pairs() -> None:
    matcher = AnswerMatcher()
    wrong = [
        (answer, given)
        for _, answer, given, equal in PAIRS
        if (matcher.compare(given, answer=answer).value == 1.0) != equal
    ]
    assert len(wrong) <= 0.03 * len(PAIRS), wrong
