"""Problems of the math duel from rows in GSM8K's format: ``question``, and ``answer`` after ``####``.

Source: "Training Verifiers to Solve Math Word Problems", arXiv:2110.14168.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from srl_envs.families.reasoning.math_problems import Problem
from srl_envs.task_rows import Rejected, Row

MAX_QUESTION_CHARS = 2000
"""An episode shows one question whole, and the past ones cut."""
_MARK = "####"


class WordProblem(NamedTuple):
    """One row."""

    id: str
    text: str
    """The question on one line."""
    reference: str
    """The final answer as it was written, without thousands separators and currency signs."""

    @property
    def problem(self) -> Problem:
        """As the duel asks it, with the answer reduced."""
        return Problem(self.text, str(Fraction(self.reference)))


def read_row(row: Row) -> WordProblem | Rejected:
    """The question and what stands after the last ``####`` of the answer.

    Raises:
        ConfigError: a field is missing or no text.
    """
    text = " ".join(row.text("question").split())
    final = row.text("answer").rpartition(_MARK)[2].strip()
    written = final.replace(",", "").replace("$", "").strip()
    name = row.where
    if _MARK not in row.fields["answer"]:
        return Rejected(row.where, name, f"the answer has no {_MARK} before its final number")
    if len(text) > MAX_QUESTION_CHARS:
        return Rejected(
            row.where, name, f"the question has {len(text)} characters, over {MAX_QUESTION_CHARS}"
        )
    try:
        Fraction(written)
    except (ValueError, ZeroDivisionError):
        return Rejected(row.where, name, f"the final answer {final[:40]!r} is no number")
    return WordProblem(name, text, written)
