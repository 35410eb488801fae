r"""Problems of the math duel from rows in the formats of GSM8K and of MATH.

``gsm8k``: ``question``, and ``answer`` after ``####``. ``math``: ``problem``, and ``answer`` in LaTeX, or
``solution`` with a last ``\boxed{...}``. The duel takes only numbers, so rows with
another answer are left out.

Sources: "Training Verifiers to Solve Math Word Problems", arXiv:2110.14168; "Measuring Mathematical Problem
Solving With the MATH Dataset", arXiv:2103.03874.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

from srl_envs.families.reasoning.math_problems import Problem
from srl_envs.reading.task_rows import Rejected, Row

MAX_QUESTION_CHARS = 2000
"""An episode shows one question whole, and the past ones cut."""
_MARK, _BOXED = "####", r"\boxed{"
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\{(-?\d+)\}\{(-?\d+)\}|\\[dt]?frac(\d)(\d)")
_MIXED = re.compile(r"\d\s*\\[dt]?frac")
"""``2\\frac{1}{2}``, which without LaTeX would read as twenty-one halves."""
_LATEX_NOISE = re.compile(r"\\[!,;]|\\left|\\right|\\?\$|\\%|\^\\circ|(?<=\d),(?=\d{3})|\s")


class WordProblem(NamedTuple):
    """One row."""

    id: str
    text: str
    """The question on one line."""
    reference: str
    """The final answer as it was written, without thousands separators, currency signs and LaTeX."""

    @property
    def problem(self) -> Problem:
        """As the duel asks it, with the answer reduced."""
        return Problem(self.text, str(Fraction(self.reference)))


def read_gsm8k(row: Row) -> WordProblem | Rejected:
    """The question and what stands after the last ``####`` of the answer.

    Raises:
        ConfigError: a field is missing or no text.
    """
    question, answer = row.text("question"), row.text("answer")
    if _MARK not in answer:
        return Rejected(row.where, row.where, f"the answer has no {_MARK} before its final number")
    final = answer.rpartition(_MARK)[2].strip()
    return _word_problem(row, question, final, final.replace(",", "").replace("$", "").strip())


def read_math(row: Row) -> WordProblem | Rejected:
    r"""The problem and its answer, or what the solution boxes last.

    Raises:
        ConfigError: a field is missing or no text.
    """
    problem = row.text("problem")
    final = row.text("answer") if "answer" in row.fields else _boxed(row.text("solution"))
    if not final:
        return Rejected(row.where, row.where, f"the solution has no {_BOXED}...}}")
    plain = final if _MIXED.search(final) else _LATEX_FRACTION.sub(_plain_fraction, final)
    written = _LATEX_NOISE.sub("", plain)
    return _word_problem(row, problem, final, written)


READERS: Mapping[str, Callable[[Row], WordProblem | Rejected]] = {
    "gsm8k": read_gsm8k,
    "math": read_math,
}
"""Format -> reader of its rows."""


def _word_problem(row: Row, question: str, final: str, written: str) -> WordProblem | Rejected:
    text = " ".join(question.split())
    if len(text) > MAX_QUESTION_CHARS:
        return Rejected(
            row.where,
            row.where,
            f"the question has {len(text)} characters, over {MAX_QUESTION_CHARS}",
        )
    try:
        Fraction(written)
    except (ValueError, ZeroDivisionError):
        return Rejected(row.where, row.where, f"the final answer {final[:40]!r} is not a number")
    return WordProblem(row.where, text, written)


def _plain_fraction(found: re.Match[str]) -> str:
    over, under = (found[1], found[2]) if found[1] else (found[3], found[4])
    return f"{over}/{under}"


def _boxed(solution: str) -> str:
    """What stands in the last box; empty where there is none, or it is not closed."""
    _, box, rest = solution.rpartition(_BOXED)
    if not box:
        return ""
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter == "{") - (letter == "}")
        if not depth:
            return rest[:place]
    return ""
