"""Pure scorers: a value and a fixed reason for every reply. They read no clock, file or network."""

from srl_envs.rewards.matcher import AnswerMatcher
from srl_envs.rewards.score import Score

__all__ = ["AnswerMatcher", "Score"]
