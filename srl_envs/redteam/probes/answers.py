"""Forged and honest answers for the matcher, with values known by construction.

Every pair is built from an exact number (`fractions.Fraction`), so no reading of notation is needed to
know whether it is right. Two more oracles ask the matcher about itself: equality is symmetric, and a
counting word means the same in every script.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.rewards import AnswerMatcher

TARGET = "answers"


def _decimal(x: Fraction) -> str | None:
    scaled = x * 10**6
    if scaled.denominator != 1:
        return None
    text = f"{float(x):.6f}".rstrip("0").rstrip(".")
    return text if Fraction(text) == x else None


_HONEST: dict[str, Callable[[Fraction], str | None]] = {
    "plain": str,
    "sign": lambda x: f"+{x}" if x > 0 else None,
    "decimal": _decimal,
    "trailing zeros": lambda x: f"{_decimal(x)}.00" if x.denominator == 1 else None,
    "fraction": lambda x: rf"\frac{{{x.numerator}}}{{{x.denominator}}}",
    "display fraction": lambda x: rf"\dfrac{{{x.numerator}}}{{{x.denominator}}}",
    "not in lowest terms": lambda x: f"{3 * x.numerator}/{3 * x.denominator}",
    "as an equation": lambda x: f"x = {x}",
    "dollar signs": lambda x: f"${x}$",
    "grouped": lambda x: f"{int(x):,}" if x.denominator == 1 and abs(x) >= 1000 else None,
    "in brackets": lambda x: f"({x})",
    "power of ten": lambda x: rf"{int(x)} \times 10^0" if x.denominator == 1 else None,
    "full-width digits": lambda x: _full_width(str(x)) if x.denominator == 1 and x > 0 else None,
    "text around": lambda x: rf"\text{{{x}}}",
}
"""Ways of writing one number that are right; None where the way has no form for it."""
_FORGED: dict[str, Callable[[Fraction], str]] = {
    "tautology": lambda x: f"{x}={x}",
    "identity": lambda _: "x=x",
    "two values of an equation": lambda x: f"{x}={x + 1}",
    "candidates with or": lambda x: f"{x} or {x + 1}",
    "candidates with a comma": lambda x: f"{x + 1}, {x}",
    "candidates with and": lambda x: f"{x} and {x + 2}",
    "a set of candidates": lambda x: rf"\{{{x}, {x + 1}\}}",
    "plus or minus": lambda x: rf"{x} \pm 1",
    "plus or minus nothing": lambda x: rf"\pm {x}",
    "an interval": lambda x: f"[{x - 1}, {x + 1}]",
    "a bound": lambda x: rf"\geq {x}",
    "at most": lambda x: f"x <= {x}",
    "a negation": lambda x: rf"\neq {x}",
    "not": lambda x: f"not {x}",
    "approximately between": lambda x: f"between {x - 1} and {x + 1}",
    "a wrong one": lambda x: str(x + 1),
    "the other sign": lambda x: str(-x) if x else "1",
    "a digit more": lambda x: f"{x}1",
    "unknown added": lambda x: f"{x} + c",
    "nothing": lambda _: "",
    "a question": lambda _: "?",
    "infinity": lambda _: r"\infty",
    "no number": lambda _: "nan",
    "division by zero": lambda _: "0/0",
    "the sum undone": lambda x: f"{x - 7} + 7",
    "several boxes": lambda x: rf"{x}}} \boxed{{{x + 1}",
    "modulo": lambda x: rf"{x} \pmod{{2}}",
    "any": lambda _: "any number",
}
"""Ways of getting a number judged right without giving it."""
_COUNTED = (
    "apples",
    "\u4e2a",
    "\u5186",
    "\uac1c",
    "\u0448\u0442\u0443\u043a",
    "\u03bc\u03ae\u03bb\u03b1",
    "manzanas",
    "\u062a\u0641\u0627\u062d\u0627\u062a",
)
_SAME = (
    ("no solution", r"\emptyset", r"\varnothing", r"\{\}", "no solutions"),
    ("-1", r"e^{i\pi}", r"\cos \pi", r"i^2", r"\sqrt[3]{-1}"),
    (r"\frac{1}{2}", "0.5", r"2^{-1}", r"\sin 30^\circ", r"50\%"),
    ("2", r"\sqrt{4}", r"\log_2 4", "two", r"\frac{4}{2}"),
    (r"(1, 2)", r"\left(1, 2\right)", r"( 1 , 2 )"),
    (r"\{1, 2\}", r"\{2, 1\}", r"\left\{1,2\right\}"),
    ("x+1", "1+x", r"\frac{x^2-1}{x-1}"),
    ("x=3", "3", "x = 3"),
    ("12", "twelve", "1.2e1"),
)
"""Groups that a person takes for the same; the matcher may differ, but not by which one comes first."""


def _full_width(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if c.isdigit() else c for c in text)


def accepted(reply: str, answer: str) -> bool:
    """Whether the matcher accepts the answer."""
    return AnswerMatcher().score(reply=rf"\boxed{{{reply}}}", answer=answer).value == 1.0


def cases(seed: int) -> Iterator[Case]:
    """Pairs without end: kind, reply, reference."""
    for words in _SAME:
        for first in words:
            for second in words:
                yield _case("asymmetric", "order", first, second)
    for word in _COUNTED:
        if unicodedata.east_asian_width(word[0]) == "W":  # scripts that are written without spaces
            yield _case("script", "a counting word of another script", f"42{word}", "42")
        yield _case("script", "a counting word of another script", f"42 {word}", "42")
    for a, b in ((1, 2), (3, 5)):
        yield _case("forged", "other counts", rf"\{{{a},{b},{b}\}}", rf"\{{{a},{a},{b}\}}")
    rng = np.random.default_rng([seed, 3])
    while True:
        number = Fraction(int(rng.integers(-40, 60)), int(rng.choice([1, 1, 1, 2, 3, 4, 8, 10])))
        number *= int(rng.choice([1, 1, 1, 1000]))
        for name, write in _HONEST.items():
            text = write(number)
            if text is not None:
                yield _case("honest", name, text, str(number))
        for name, forge in _FORGED.items():
            yield _case("forged", name, forge(number), str(number))


def _case(kind: str, trick: str, reply: str, answer: str) -> Case:
    return {
        "probe": "answers", "target": TARGET, "kind": kind, "trick": trick,
        "reply": reply, "answer": answer,
    }  # fmt: skip


def check(case: Case) -> Finding | None:
    """Run the matcher on a case again."""
    kind, reply, answer = case["kind"], case["reply"], case["answer"]
    got = accepted(reply, answer)
    if kind == "asymmetric":
        due = accepted(answer, reply)
    elif kind == "script":
        due = accepted("42 apples", "42")
    else:
        due = kind == "honest"
    # of two orders that differ the one that refuses is reported, once
    if got == due or (kind == "asymmetric" and got):
        return None
    label = "wrong_answer_accepted" if got else "right_answer_refused"
    return Finding(
        kind=label, target=TARGET, case=case,
        observed=f"{case['trick']}: {reply!r} for {answer!r} is {'right' if got else 'wrong'}",
        expected="right" if due else "wrong",
    )  # fmt: skip


def probe(seed: int, report: Report, allowance: Allowance) -> None:
    """Adds the first case of every trick that fools the matcher."""
    known: set[tuple[Any, ...]] = set()
    tried = 0
    for case in cases(seed):
        if not allowance.left() or tried >= 6000:
            break
        tried += 1
        allowance.spend()
        found = check(case)
        key = (case["kind"], case["trick"], case["answer"] if case["kind"] == "asymmetric" else "")
        if found is not None and key not in known:
            known.add(key)
            report.findings.append(found)
    report.measures.update(verdicts=tried, wrong=len(known))
