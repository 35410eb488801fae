"""Answer matcher: is the answer in a reply the reference answer?

Extraction finds the text, comparison judges it. The kind of the reference decides the rule: a
number is compared exactly, a choice by its letter, words as words, everything else by its parsed
form. Nothing is executed, nothing takes longer than its limits allow, and no signal is used, so
it is safe in threads and in asyncio.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from srl_envs.errors import ConfigError, nearest
from srl_envs.rewards.matcher.claims import is_calculation
from srl_envs.rewards.matcher.extraction import EXTRACTORS, MARKED, last_boxed
from srl_envs.rewards.matcher.notation.number import read_number
from srl_envs.rewards.matcher.notation.parser import parse
from srl_envs.rewards.matcher.notation.trees import Unreadable, show
from srl_envs.rewards.matcher.notation.unified import MAX_ANSWER_CHARS, unify
from srl_envs.rewards.matcher.numbers.evaluation import same_value
from srl_envs.rewards.matcher.policy import AnswerPolicy
from srl_envs.rewards.matcher.structures import as_quotients, same_answer, scaled, tells_ratio
from srl_envs.rewards.matcher.words import counters
from srl_envs.rewards.matcher.words import texts as wording
from srl_envs.rewards.matcher.words.quantities import (
    Quantity,
    is_group,
    read_clock,
    read_quantity,
    same_dimension,
)
from srl_envs.rewards.matcher.words.spelled import read_number_word, read_ordinal, with_digits
from srl_envs.rewards.score import Score

MATCH_REASONS = (
    "match", "mismatch", "no_answer", "too_long", "unreadable", "unreadable_reference",
    "undecided", "wrong_unit", "hedged", "unevaluated",
)  # fmt: skip
"""Every label that a score of the matcher can carry."""

UNDECIDED = ("unreadable", "unreadable_reference", "undecided")
"""The labels after which a fallback is asked."""

_MATCH, _MISMATCH = Score(1.0, "match"), Score(0.0, "mismatch")
_WRONG_UNIT = Score(0.0, "wrong_unit")
_ONE = Fraction(1)
_DECIMAL_COMMA = re.compile(r"(?<![0-9,.])(0|[0-9]+(?!,[0-9]{3}(?![0-9]))),([0-9]+)(?![0-9,])")
_LEADING = re.compile(
    r"^(?:(?:(?:so |thus )?(?:the )?(?:final |correct )?answer(?: is|:| =))?\s*"
    r"(?:=|\\therefore)?)\s*",
    re.IGNORECASE,
)
_ALL_REALS = re.compile(r"(?:the set of )?(?:all |the )?real(?: number)?s", re.IGNORECASE)
_POWERS_OF_TEN = re.compile(r"([0-9])\s+(hundred|thousand|million|billion|trillion)\b")
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_RATIO_IN_WORDS = re.compile(r"^([0-9.]+) to ([0-9.]+)$")
_TIMES_TEN = re.compile(r"(?<=[0-9.])\s?[xX]\s?(?=10\s?\^)")
_SPACE = re.compile(r"\s+(?![0-9])|(?<![0-9])\s+")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?: [0-9]{3})+(?:\.[0-9]+)?")
_DROPPED = (
    "...", "\\forall", "\\exists", "\\neg", "\\phantom", "\\not", "\\lnot", "\\sim", "\\cong", "\\approxeq",
    "\\doteq", "?", "∼", "≃", "≅", "≒", "≁", "≉", "¬",
)  # fmt: skip
_WORD = re.compile(r"\\(?:begin|end)\{[a-z]*\}|(?<![\\A-Za-z])([A-Za-z]{3,})")
_NAME_IN_MATHS = re.compile(
    r"[A-Za-z]{0,2}|and|or|sin|cos|tan|cot|sec|csc|log|exp|sqrt|max|min|mod|gcd|lcm"
)


class Fallback(Protocol):
    """Judges what the matcher cannot read; see `math_verify.MathVerify`."""

    def same(self, given: str, *, answer: str) -> bool | None:
        """Whether the two are the same; None where this cannot tell either."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict with the readings behind it."""

    score: Score
    rule: str
    """The kind of the reference: ``number``, ``choice``, ``text``, ``quantity``, ``math``, ...;
    ``fallback`` where the fallback decided."""
    answer: str
    """The reference as it was read; ``unreadable: ...`` where it could not be."""
    given: str
    """The extracted answer as it was read; empty where there was none."""


class AnswerMatcher:
    r"""Scores a reply against a reference answer.

    ``AnswerMatcher().score(reply="so \\boxed{1/2}", answer="0.5")`` is ``Score(1.0, "match")``.

    Args:
        policy: what counts as the same where opinions differ.
        extract: names out of `extraction.EXTRACTORS`, tried in this order.
        fallback: asked where mathematics is left undecided (`UNDECIDED`); by default none.

    Raises:
        ConfigError: ``extract`` has a name that is unknown.
    """

    def __init__(
        self,
        policy: AnswerPolicy | None = None,
        *,
        extract: Sequence[str] = MARKED,
        fallback: Fallback | None = None,
    ) -> None:
        for name in extract:
            if name not in EXTRACTORS:
                raise ConfigError(
                    f"no extraction {name!r}.{nearest(name, EXTRACTORS)} "
                    f"Known: {', '.join(EXTRACTORS)}."
                )
        self.policy = policy or AnswerPolicy()
        self.fallback = fallback
        self._extractors = [EXTRACTORS[name] for name in extract]
        self._rules = (
            ("nothing", self._nothing),
            ("number", self._number),
            ("choice", self._choice),
            ("time", self._time),
            ("ordinal", self._ordinal),
            ("text", self._text),
            ("quantity", self._quantity),
        )

    def score(self, *, reply: str, answer: str) -> Score:
        """Extract the final answer from ``reply`` and compare it with ``answer``."""
        given = self.extract(reply)
        return Score(0.0, "no_answer") if given is None else self.compare(given, answer=answer)

    def explain(self, *, reply: str, answer: str) -> Explanation:
        """Like `score`, with the rule that decided and both sides as they were read."""
        given = self.extract(reply)
        if given is None:
            return Explanation(Score(0.0, "no_answer"), "none", self._reading(answer, "none"), "")
        score, rule = self._compare(given, answer)
        return Explanation(score, rule, self._reading(answer, rule), self._reading(given, rule))

    def extract(self, reply: str) -> str | None:
        """The answer's text, found by the first extraction that finds one."""
        for extractor in self._extractors:
            found = extractor(reply)
            if found is not None:
                return found
        return None

    def compare(self, given: str, *, answer: str) -> Score:
        """Compare an extracted answer with the reference answer."""
        return self._compare(given, answer)[0]

    def _compare(self, given: str, answer: str) -> tuple[Score, str]:
        score, rule = self._decide(given, answer)
        if self.fallback and score.reason in UNDECIDED and _mathematical(given, answer):
            same = self.fallback.same(given, answer=answer)
            if same is not None:
                return _verdict(same), "fallback"
        return score, rule

    def _decide(self, given: str, answer: str) -> tuple[Score, str]:
        if len(given) > MAX_ANSWER_CHARS:
            return Score(0.0, "too_long"), "none"
        if len(answer) > MAX_ANSWER_CHARS:
            return Score(0.0, "unreadable_reference"), "none"
        number, target = read_number(given), read_number(answer)
        if number is not None and target is not None:
            if number == target:
                return _MATCH, "number"
            if not self.policy.tolerant and "." not in given:
                return _MISMATCH, "number"
        given, answer = _tidy(given), _tidy(answer)
        if not given:
            return Score(0.0, "no_answer"), "none"
        if not answer:
            return Score(0.0, "unreadable_reference"), "none"
        if given == answer:
            return _MATCH, "same text"
        given, answer = _without_labels(given, answer)
        if ":" in answer:
            given = _RATIO_IN_WORDS.sub(r"\1:\2", given)
        verdict = self._by_kind(given, answer)
        if self.policy.comma_decimal and verdict[0] != _MATCH:
            dotted = tuple(map(_with_decimal_point, (given, answer)))
            return self._by_kind(*dotted) if dotted != (given, answer) else verdict
        return verdict

    def _by_kind(self, given: str, answer: str) -> tuple[Score, str]:
        exact, rounded = _approximation(answer)
        rough = bool(rounded and not exact)
        answer = exact or rounded
        exact, rounded = _approximation(given)
        if rounded and not exact and not rough and not self._may_be_rough(rounded):
            return Score(0.0, "hedged"), "approximation"
        if exact and (exact == rounded or (rounded and _far_apart(exact, rounded))):
            return _MISMATCH, "same sides"
        if exact and rounded:
            score, rule = self._by_kind(exact, answer)
            if score == _MATCH or not _rounds(exact, rounded):
                return score, rule
        given = rounded or exact
        for rule, judge in self._rules:
            verdict = judge(given, answer)
            if verdict is not None:
                return verdict, rule
        return self._math(given, answer), "math"

    def _may_be_rough(self, value: str) -> bool:
        """Whether a sign of approximation may stand before a value; ``~B`` denies it."""
        is_value = any(map(str.isdigit, value)) or self._as_number(value) is not None
        return self.policy.approximation_sign_ok and (is_value or "\\pi" in value)

    def _reading(self, text: str, rule: str) -> str:
        """A text as the rule read it."""
        if len(text) > MAX_ANSWER_CHARS:
            return f"unreadable: {len(text)} characters"
        text = _tidy(text)
        if rule == "choice":
            return wording.read_choice(text) or f"unreadable: {text}"
        if rule == "nothing":
            return "\\emptyset"
        if rule == "text":
            return wording.plain_text(text, keep_articles=not self.policy.ignore_articles)
        if rule == "time":
            return str(wording.read_date(text) or read_clock(text))
        number = self._as_number(text)
        if number is not None:
            return str(number)
        quantity = read_quantity(text, glued=True) if rule == "quantity" else None
        unit = f" * {quantity.factor} [{quantity.dimension}]" if quantity else ""
        try:
            return show(parse(quantity.number if quantity else text)) + unit
        except Unreadable as reason:
            return f"unreadable: {reason}"

    # --- one rule per kind of reference; None hands on to the next ---

    def _as_number(self, text: str) -> Fraction | None:
        value = read_number(text.replace(" ", "") if _GROUPED.fullmatch(text) else text)
        if value is None and self.policy.words_as_numbers:
            value = read_number_word(text)
        return value

    def _nothing(self, given: str, answer: str) -> Score | None:
        both = wording.says_nothing(answer) and wording.says_nothing(given)
        return _MATCH if both and self.policy.no_solution_is_empty_set else None

    def _number(self, given: str, answer: str) -> Score | None:
        target, number = self._as_number(answer), self._as_number(given)
        if target is None:
            return None
        return _MATCH if number == target else None

    def _choice(self, given: str, answer: str) -> Score | None:
        if not wording.is_choice(answer):
            return None
        letter = wording.read_choice(given)
        if letter is None and wording.names_several_options(given):
            return Score(0.0, "hedged")
        return _verdict(letter == wording.read_choice(answer))

    def _time(self, given: str, answer: str) -> Score | None:
        for reader in (wording.read_date, read_clock):
            wanted = reader(answer)
            found = None if wanted is None else reader(given)
            if found is not None:
                return _verdict(wanted == found)
        return None

    def _ordinal(self, given: str, answer: str) -> Score | None:
        wanted = read_ordinal(answer)
        found = None if wanted is None else read_ordinal(given)
        return None if found is None else _verdict(wanted == found)

    def _text(self, given: str, answer: str) -> Score | None:
        if not wording.is_text(answer) or self._as_number(answer) is not None:
            return None
        keep = not self.policy.ignore_articles
        wanted = wording.plain_text(answer, keep_articles=keep)
        if wording.plain_text(given, keep_articles=keep) == wanted:
            return _MATCH
        return _verdict(self._same_names(given, answer))

    def _same_names(self, given: str, answer: str) -> bool:
        """Whether two enumerations in words, ``red and blue``, name the same."""
        keep = not self.policy.ignore_articles
        wanted, joint = wording.read_names(answer, keep_articles=keep)
        found, other_joint = wording.read_names(given, keep_articles=keep)
        if len(wanted) < 2 or (joint and other_joint and joint != other_joint):
            return False
        return wanted == found if self.policy.order_matters else sorted(wanted) == sorted(found)

    def _quantity(self, given: str, answer: str) -> Score | None:
        wanted, found = read_quantity(answer), read_quantity(given)
        if wanted is None and found is None:
            return None
        wanted = wanted or read_quantity(answer, glued=True)
        found = found or read_quantity(given, glued=True)
        if wanted and found:
            score = self._quantities(wanted, found)
        else:
            score = self._one_unit(
                wanted or Quantity(answer, "", Fraction(1)),
                found or Quantity(given, "", Fraction(1)),
            )
        if wanted and found:
            return None if score.reason in UNDECIDED else score
        if score == _MATCH or "\\circ" in answer + given:
            return score
        whole = self._math(given, answer)  # ``3 t`` may be a product
        return whole if whole == _MATCH or score.reason in UNDECIDED else score

    def _quantities(self, wanted: Quantity, found: Quantity) -> Score:
        if not same_dimension(wanted, found):
            return _WRONG_UNIT
        if wanted.factor != found.factor and not self.policy.convert_units:
            return _WRONG_UNIT
        return self._math(found.number, wanted.number, found.factor, wanted.factor)

    def _one_unit(self, wanted: Quantity, found: Quantity) -> Score:
        """A percentage is its value; any other unit may be left out, if the policy allows."""
        if "ratio" in (wanted.dimension, found.dimension):
            score = self._math(found.number, wanted.number, found.factor, wanted.factor)
            if score == _MATCH or not self.policy.percent_equals_number:
                return score
        elif not self.policy.unit_missing_ok:
            return _WRONG_UNIT
        if is_group(found) and not self.policy.group_words_ok:
            return _WRONG_UNIT
        return self._math(found.number, wanted.number)

    def _math(
        self,
        given: str,
        answer: str,
        given_factor: Fraction = _ONE,
        answer_factor: Fraction = _ONE,
    ) -> Score:
        try:
            wanted = parse(answer)
            reference = scaled(as_quotients(wanted), answer_factor)
        except Unreadable:
            same = _squeezed(given) == _squeezed(answer)
            return _MATCH if same else Score(0.0, "unreadable_reference")
        try:
            found = parse(given)
        except Unreadable:
            return Score(0.0, "unreadable")
        except RecursionError:  # where the caller's stack is deep
            return Score(0.0, "undecided")
        if not self.policy.ratio_equals_number and tells_ratio(found) and not tells_ratio(wanted):
            return _MISMATCH
        found = as_quotients(found)
        try:
            if not same_answer(reference, scaled(found, given_factor), self.policy):
                return _MISMATCH
            restated = read_number(answer) is not None and is_calculation(found, self.policy)
            return (
                Score(0.0, "unevaluated") if restated and not self.policy.unevaluated_ok else _MATCH
            )
        except (Unreadable, RecursionError):
            return Score(0.0, "undecided")


def _verdict(same: bool) -> Score:
    return _MATCH if same else _MISMATCH


def _squeezed(text: str) -> str:
    """``text`` without spaces, except those between digits, which ``1 23`` has and ``123`` has not."""
    return _SPACE.sub("", text)


def _tidy(text: str) -> str:
    """One notation, without box, leading sign of approximation or words for powers of ten."""
    if "\\boxed" in text or "\\fbox" in text:
        text = last_boxed(text) or text
    text = _LEADING.sub("", unify(text))
    if _ALL_REALS.fullmatch(text):
        return "\\mathbb{R}"
    text = with_digits(_TIMES_TEN.sub("*", text))
    text = _POWERS_OF_TEN.sub(lambda found: f"{found[1]}*10^{{{_SCALES[found[2]]}}}", text).strip()
    if not text.isascii():
        text = _without_counter(counters.with_powers(text))
    if text[:1] == "]" or text[-1:] == "[":  # open ends of intervals, in French notation
        text = ("(" + text[1:] if text[0] == "]" else text).removesuffix("[") + ")" * (
            text[-1] == "["
        )
    return text


def _without_counter(text: str) -> str:
    """``42个`` as ``42``: a counting word by itself does not name what is counted."""
    found = counters.split_counted(text)
    return found[0].strip() if found and found[1] == ("", "") else text


def _without_labels(given: str, answer: str) -> tuple[str, str]:
    """Both without a label in words, ``total area = 12``, unless they are labelled differently."""
    (name, value), (wanted, reference) = wording.word_label(given), wording.word_label(answer)
    if name and wanted and name != wanted:
        return given, answer
    return value, reference


def _approximation(text: str) -> tuple[str, str]:
    """What stands before and after a sign of approximation; a mere name before it is dropped.

    The first is empty where only the sign stands beside a value.
    """
    exact, sign, rounded = (part.strip() for part in text.partition("\\approx"))
    name = exact.removesuffix("=").strip()
    named = not name or (len(name) == 1 and name.isalpha())
    return ("", rounded or exact) if sign and (named or not rounded) else (exact, rounded)


def _rounds(exact: str, rounded: str) -> bool:
    """Whether ``exact`` rounds to the decimal that is said to be near it."""
    try:
        sides = [as_quotients(parse(side)) for side in (exact, rounded)]
        return same_value(sides[0], sides[1], rounded_digits=1)
    except (Unreadable, RecursionError):
        return False


def _far_apart(exact: str, rounded: str) -> bool:
    """Whether a number is a unit in the last digit, or more, from what is said to be near it."""
    value, near = read_number(exact), read_number(rounded)
    digits = rounded.lstrip("+-").strip()
    if value is None or near is None or not digits.replace(".", "", 1).isdecimal():
        return False
    whole, _, part = digits.partition(".")
    zeros = 0 if part else len(whole) - len(whole.rstrip("0"))
    return abs(value - near) >= Fraction(10) ** (zeros - len(part))


def _mathematical(*texts: str) -> bool:
    """Whether texts hold no words, in which a fallback would find any number to be the answer.

    Nor signs that it would drop.
    """
    unified = [unify(text) for text in texts]
    words = (word for text in unified for word in _WORD.findall(text))
    dropped = any(sign in text for text in unified for sign in _DROPPED)
    foreign = any(char.isalpha() and not char.isascii() for text in unified for char in text)
    return not dropped and not foreign and all(map(_NAME_IN_MATHS.fullmatch, words))


def _with_decimal_point(text: str) -> str:
    """``2,74 €`` as ``2.74 €``; thousands, and whatever stands in brackets, keep their commas."""
    return text if set(text) & set("([{") else _DECIMAL_COMMA.sub(r"\1.\2", text)
