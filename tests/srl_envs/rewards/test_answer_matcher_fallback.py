"""The fallback of the answer matcher: when it runs, and math-verify in the sandbox."""

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import pytest

from srl_envs.errors import ConfigError
from srl_envs.rewards import AnswerMatcher, Score, math_verify
from srl_envs.rewards.math_verify import MathVerify
from srl_envs.sandbox import Limits

SUM = "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}+\\begin{pmatrix}5&6\\\\7&8\\end{pmatrix}"
TOTAL = "\\begin{pmatrix}6&8\\\\10&12\\end{pmatrix}"


class Asked:
    """A fallback that records its questions and always gives the same answer."""

    def __init__(self, verdict: bool | None) -> None:
        self.verdict = verdict
        self.pairs: list[tuple[str, str]] = []

    def same(self, given: str, *, answer: str) -> bool | None:
        self.pairs.append((given, answer))
        return self.verdict


@pytest.mark.parametrize(
    ("verdict", "score"),
    [
        (True, Score(1.0, "match")),
        (False, Score(0.0, "mismatch")),
        (None, Score(0.0, "unreadable")),
    ],
)
def test_the_fallback_decides_what_cannot_be_read(verdict: bool | None, score: Score) -> None:
    fallback = Asked(verdict)
    matcher = AnswerMatcher(fallback=fallback)
    assert matcher.compare(SUM, answer=TOTAL) == score
    assert fallback.pairs == [(SUM, TOTAL)]
    rule = matcher.explain(reply=f"\\boxed{{{SUM}}}", answer=TOTAL).rule
    assert rule == ("math" if verdict is None else "fallback")


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("8", "7"),
        ("5 s", "5 cm"),
        ("A or B", "A"),
        ("7*8", "56"),
        ("London", "Paris"),
        ("7 is not the answer", "7"),
        ("3\\ldots", "3"),
        ("\\forall x>0, f(x) = 0", "f(x) = 0"),
        ("]] is the seventh bracket", "7"),
        ("7以上", "7"),
        ("не 7", "7"),
        ("7=7", "7"),
        ("9" * 3000, "5"),
        ("", "5"),
    ],
)
def test_the_fallback_is_not_asked_about_decisions_or_words(given: str, answer: str) -> None:
    fallback = Asked(True)
    assert AnswerMatcher(fallback=fallback).compare(given, answer=answer).value == 0.0
    assert fallback.pairs == []


def test_importing_rewards_stays_light() -> None:
    heavy = ("sympy", "mpmath", "math_verify", "torch", "srl_envs.rewards.math_verify")
    program = f"import sys, srl_envs.rewards; print([n for n in {heavy} if n in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_a_missing_math_verify_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_verify, "find_spec", lambda name: None if name == "sympy" else name)
    with pytest.raises(ConfigError, match=r'sympy: not installed. pip install "srl-envs\[math\]"'):
        MathVerify()


@pytest.fixture(scope="module")
def verifier() -> Iterator[MathVerify]:
    if importlib.util.find_spec("math_verify") is None:
        pytest.skip("math-verify is not installed")
    with MathVerify() as verifier:
        yield verifier


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "answer", "verdict"),
    [
        (SUM, TOTAL, True),
        (SUM, "\\begin{pmatrix}6&8\\\\10&13\\end{pmatrix}", False),
        ("\\int_0^1 x^2 dx", "1/3", True),
        ("", "7", None),
        ("\ud800", "7", False),
        ('"; import os; os._exit(0); "', "7", False),
    ],
)
def test_math_verify_answers(
    verifier: MathVerify, given: str, answer: str, verdict: bool | None
) -> None:
    assert verifier.same(given, answer=answer) is verdict


@pytest.mark.slow
def test_a_bomb_is_killed_and_the_next_comparison_runs() -> None:
    if importlib.util.find_spec("math_verify") is None:
        pytest.skip("math-verify is not installed")
    with MathVerify(Limits(cpu_s=4.0, wall_s=40.0, memory_mib=1024)) as verifier:
        assert verifier.same("9^{9^{9^{9^{9}}}}", answer="\\int_0^7 1 dx") is None
        assert verifier.same("\\int_0^7 1 dx", answer="7") is True


@pytest.mark.slow
def test_asyncio_tasks_may_share_one_matcher(verifier: MathVerify) -> None:
    matcher = AnswerMatcher(fallback=verifier)

    async def both() -> list[Score]:
        tasks = [asyncio.to_thread(matcher.compare, SUM, answer=TOTAL) for _ in range(2)]
        return list(await asyncio.gather(*tasks))

    assert asyncio.run(both()) == [Score(1.0, "match")] * 2
