"""Answer matcher: is the answer in a reply the reference answer?"""

from __future__ import annotations

from srl_envs.rewards.extraction import last_boxed, tagged, visible
from srl_envs.rewards.number import MAX_NUMBER_CHARS, plain_characters, read_number
from srl_envs.rewards.score import Score


class AnswerMatcher:
    r"""Scores a reply against a reference answer; exact, without tolerance.

    ``AnswerMatcher().score(reply="so \\boxed{1/2}", answer="0.5")`` is ``Score(1.0, "match")``.
    """

    def score(self, *, reply: str, answer: str) -> Score:
        """Extract the final answer from ``reply`` and compare it with ``answer``."""
        given = self.extract(reply)
        return Score(0.0, "no_answer") if given is None else self.compare(given, answer=answer)

    def extract(self, reply: str) -> str | None:
        """The last box, else the last ``<answer>``, else the last ``<action>``, else all of it."""
        for found in (last_boxed(reply), tagged(reply, "answer"), tagged(reply, "action")):
            if found is not None:
                return found
        return visible(reply).strip() or None

    def compare(self, given: str, *, answer: str) -> Score:
        """Compare an extracted answer with the reference answer."""
        if not given.strip():
            return Score(0.0, "no_answer")
        if len(given) > MAX_NUMBER_CHARS:
            return Score(0.0, "too_long")
        left, right = read_number(given), read_number(answer)
        if left is not None and right is not None:
            same = left == right
        else:
            same = plain_characters(given).split() == plain_characters(answer).split()
        return Score(1.0, "match") if same else Score(0.0, "mismatch")
