"""Pure scorers: a value and a fixed reason for every reply. They read no clock, file or network."""

from srl_envs.rewards.format.checker import FORMAT_REASONS, FormatChecker, FormatSpec
from srl_envs.rewards.matcher.answers import MATCH_REASONS, AnswerMatcher, Explanation
from srl_envs.rewards.matcher.policy import AnswerPolicy
from srl_envs.rewards.rubric.weighing import Rubric, RubricScore, summary
from srl_envs.rewards.score import Score

__all__ = [
    "FORMAT_REASONS",
    "MATCH_REASONS",
    "AnswerMatcher",
    "AnswerPolicy",
    "Explanation",
    "FormatChecker",
    "FormatSpec",
    "Rubric",
    "RubricScore",
    "Score",
    "summary",
]
