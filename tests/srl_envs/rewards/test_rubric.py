"""Rubrics: weights, moot parts, faults of ours, caching, threads, coroutines, configuration."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.errors import ConfigError
from srl_envs.rewards import FormatChecker, FormatSpec, Rubric, Score, summary
from srl_envs.rewards.rubric.scorers import (
    AnswerScorer,
    CodeScorer,
    CodeSettings,
    FormatScorer,
    settled,
)
from srl_envs.rewards.rubric.weighing import MOOT, Part
from srl_envs.sandbox import CodeExecutor, Outcome

MATHS = {
    "parts": {
        "form": {"kind": "format", "weight": 0.25, "settings": {"blocks": ["answer"]}},
        "answer": {"kind": "answer", "requires": ["form"], "settings": {"extract": ["answer"]}},
    }
}


class Counting:
    """Scores 1 for replies that hold the row's word, and counts how often it is asked."""

    fields: tuple[str, ...] = ("word",)

    def __init__(self, *, slow: bool = False, fails: bool = False) -> None:
        self.slow, self.fails = slow, fails
        self.asked = 0
        self.threads: set[int] = set()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Counting:
        return cls(**config)

    def to_config(self) -> dict[str, Any]:
        return {"slow": self.slow}

    def score(self, reply: str, row: Mapping[str, Any]) -> Score | None:
        self.asked += 1
        self.threads.add(threading.get_ident())
        return None if self.fails else Score(float(row["word"] in reply), "found")


def test_the_reward_is_the_weighted_sum_of_named_parts() -> None:
    rubric = Rubric.from_config(MATHS)
    right = rubric.score("<answer>1/2</answer>", {"answer": "0.5"})
    assert (right.reward, right.components["form"]) == (1.25, Score(1.0, "ok"))
    assert rubric("<answer>1/3</answer>", answer="0.5") == 0.25


def test_a_moot_part_does_not_run() -> None:
    scorer = Counting()
    form = Part(scorer=FormatScorer(FormatChecker(FormatSpec(blocks=("answer",)))))
    rubric = Rubric({"form": form, "word": Part(scorer=scorer, requires=("form",), weight=2.0)})
    result = rubric.score("cat", {"word": "cat"})
    assert (result.reward, result.components["word"], scorer.asked) == (0.0, MOOT, 0)


def test_a_fault_of_ours_is_no_reward_and_is_tried_again() -> None:
    scorer = Counting(fails=True)
    rubric = Rubric(
        {"word": Part(scorer=scorer), "after": Part(scorer=Counting(), requires=("word",))}
    )
    for asked in (1, 2):
        result = rubric.score("cat", {"word": "cat"})
        assert (result.reward, result.components) == (None, {"word": None, "after": None})
        assert scorer.asked == asked


def test_equal_content_is_judged_once() -> None:
    scorer = Counting(slow=True)
    rubric = Rubric({"word": Part(scorer=scorer)})
    rows = [{"word": "cat", "unread": i} for i in range(50)]
    results = rubric.score_many(["a cat"] * 50, rows)
    assert [result.reward for result in results] == [1.0] * 50
    assert scorer.asked == 1
    assert rubric.score("a cat", {"word": "dog"}).reward == 0.0
    assert scorer.asked == 2


def test_content_without_a_plain_form_is_judged_every_time() -> None:
    scorer = Counting()
    rubric = Rubric({"word": Part(scorer=scorer)})
    for _ in range(2):
        with pytest.raises(TypeError):
            rubric.score("cat", {"word": object()})
    assert scorer.asked == 2


def test_the_cache_forgets_the_oldest() -> None:
    scorer = Counting()
    rubric = Rubric({"word": Part(scorer=scorer)}, cache_size=2)
    for reply in ("a", "b", "c", "a"):
        rubric.score(reply, {"word": "a"})
    assert scorer.asked == 4
    rubric.score("c", {"word": "a"})
    assert scorer.asked == 4


def test_slow_scorers_leave_the_calling_thread_and_fast_ones_stay() -> None:
    async def score(rubric: Rubric) -> list[float | None]:
        found = await asyncio.gather(
            *(rubric.score_async(f"cat {i}", {"word": "cat"}) for i in range(5))
        )
        return [result.reward for result in found]

    slow, fast = Counting(slow=True), Counting()
    rubric = Rubric({"fast": Part(scorer=fast), "slow": Part(scorer=slow, requires=("fast",))})
    assert asyncio.run(score(rubric)) == [2.0] * 5
    assert fast.threads == {threading.get_ident()}
    assert threading.get_ident() not in slow.threads


def test_many_are_scored_in_order_and_reported() -> None:
    done: list[int] = []
    rubric = Rubric({"word": Part(scorer=Counting(slow=True), weight=-1.0)})
    replies = [f"{'cat' if i % 3 else 'dog'} {i}" for i in range(30)]
    results = rubric.score_many(replies, [{"word": "cat"}] * 30, report=done.append)
    assert [result.reward for result in results] == [-1.0 if i % 3 else 0.0 for i in range(30)]
    assert done == list(range(1, 31))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(-10, 10), min_size=1),
    st.text(alphabet="abcdef ", max_size=8),
)
def test_each_part_adds_its_weight(weights: dict[str, float], reply: str) -> None:
    class Has(Counting):
        fields = ()

        def __init__(self, word: str) -> None:
            super().__init__()
            self.word = word

        def score(self, reply: str, row: Mapping[str, Any]) -> Score:
            return Score(float(self.word in reply), "x")

    rubric = Rubric({w: Part(scorer=Has(w), weight=weight) for w, weight in weights.items()})
    expected = sum(weight for word, weight in weights.items() if word in reply)
    assert rubric.score(reply).reward == pytest.approx(expected)


# --- configuration ------------------------------------------------------------------------------


def test_a_configuration_survives_json() -> None:
    settings = {"tests": "calls", "partial": True, "limits": {"cpu_s": 1.0}}
    config = {"parts": {**MATHS["parts"], "code": {"kind": "code", "settings": settings}}}
    once = Rubric.from_config(config).to_config()
    again = Rubric.from_config(json.loads(json.dumps(once))).to_config()
    assert once == again
    assert once["parts"]["code"]["settings"]["limits"]["cpu_s"] == 1.0
    assert once["parts"]["answer"]["requires"] == ["form"]


def test_a_scorer_of_a_third_party_is_named_by_its_class() -> None:
    kind = f"{__name__}:Counting"
    config = {"parts": {"word": {"kind": kind, "settings": {"slow": True}}}}
    rubric = Rubric.from_config(config)
    assert rubric("a cat", word="cat") == 1.0
    assert rubric.to_config()["parts"]["word"]["kind"] == kind


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"part": {}}, r"unknown key 'part'. Did you mean 'parts'"),
        ({"parts": {}}, r"at least one part"),
        ({"parts": {"a": {"kind": "anser"}}}, r"no scorer 'anser'. Did you mean 'answer'"),
        (
            {"parts": {"a": {"kind": "answer", "wait": 1}}},
            r"unknown key 'wait'. Did you mean 'weight'",
        ),
        ({"parts": {"a": {"kind": "answer", "settings": {"colum": "x"}}}}, r"'column'"),
        (
            {"parts": {"a": {"kind": "answer", "settings": {"extract": ["box"]}}}},
            r"no extraction 'box'",
        ),
        ({"parts": {"a": {"kind": "format", "settings": {"block": ["x"]}}}}, r"'blocks'"),
        ({"parts": {"a": {"kind": "answer", "requires": ["b"]}}}, r"requires 'b'"),
        ({"parts": {"a": {"kind": "answer", "weight": "x"}}}, r"expected a number"),
        ({"parts": {"a": {"kind": "no.such:Thing"}}}, r"cannot be loaded"),
        ({"parts": {"a": {"kind": "code", "settings": {"language": "javascript"}}}}, r"asserts"),
    ],
)
def test_mistakes_in_a_configuration_are_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Rubric.from_config(config)


def test_a_row_without_a_field_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no field 'answer'.* Did you mean 'answers'"):
        Rubric.from_config(MATHS).score("x", {"answers": "1"})
    with pytest.raises(ConfigError, match="1 rows for 2 replies"):
        Rubric.from_config(MATHS).score_many(["x", "y"], [{"answer": "1"}])


# --- programs -----------------------------------------------------------------------------------


def fenced(program: str, language: str = "python") -> str:
    return f"<think>```python\nno\n```</think>Here:\n```{language}\n{program}\n```\nDone."


CALLS = [{"function": "f", "args": [n], "expected": n + 1} for n in (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "strict", "partial"),
    [
        ("def f(x): return x + 1", Score(1.0, "passed"), Score(1.0, "passed")),
        ("def f(x): return 2", Score(0.0, "failed"), Score(0.5, "partly")),
        ("def f(x): raise ValueError", Score(0.0, "exception"), Score(0.0, "exception")),
        ("def f(x):", Score(0.0, "exception"), Score(0.0, "exception")),
    ],
)
def test_programs_are_called(program: str, strict: Score, partial: Score) -> None:
    for share, expected in ((False, strict), (True, partial)):
        scorer = CodeScorer(CodeSettings(tests="calls", partial=share))
        assert scorer.score(fenced(program), {"calls": CALLS}) == expected


def test_programs_meet_asserts_and_standard_input() -> None:
    asserts = CodeScorer(CodeSettings(prefix="prompt"))
    row = {"prompt": "import math", "tests": "assert root(9) == 3"}
    assert asserts.fields == ("tests", "prompt")
    assert asserts.score(fenced("def root(x): return math.isqrt(x)"), row) == Score(1.0, "passed")
    assert asserts.score("no program", row) == Score(0.0, "no_code")
    stdin = CodeScorer(CodeSettings(tests="stdin"))
    files = {"inputs": ["2", "5"], "outputs": ["4", "10"]}
    assert stdin.score(fenced("print(2 * int(input()))", ""), files) == Score(1.0, "passed")


def test_a_program_cannot_replace_what_the_prefix_gives_the_tests() -> None:
    prompt = (
        "import math\n\ndef poly(xs, x):\n    return sum(c * x**i for i, c in enumerate(xs))\n\n"
        'def find_zero(xs):\n    """A zero of poly."""\n'
    )
    tests = "def check(c):\n    assert math.fabs(poly([2, 1], c([2, 1]))) < 1e-6\ncheck(find_zero)"
    scorer = CodeScorer(CodeSettings(prefix="prompt"))
    row = {"prompt": prompt, "tests": tests}
    right = "def find_zero(xs): return -xs[0] / xs[1]"
    cheat = (
        "class math:\n  fabs = lambda x: 0\ndef poly(xs, x): return 0\ndef find_zero(xs): return 0"
    )
    assert scorer.score(fenced(right), row) == Score(1.0, "passed")
    assert scorer.score(fenced(cheat), row) == Score(0.0, "exception")
    assert settled("def f(x:") == ""
    assert settled("def f(x):\n    import math\n    'What it does.'\n") == ""


def test_a_call_without_an_expected_value_is_the_callers_mistake() -> None:
    with pytest.raises(ConfigError, match="has no 'expected'"):
        CodeScorer(CodeSettings(tests="calls")).score(
            fenced("x = 1"), {"calls": [{"function": "f"}]}
        )


def test_a_broken_sandbox_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Outcome(status="infrastructure", message="gone")
    monkeypatch.setattr(CodeExecutor, "run_asserts", lambda *_: broken)
    rubric = Rubric({"code": Part(scorer=CodeScorer())})
    scores = rubric.score_many([fenced("x = 1"), "no program"], [{"tests": "assert x"}] * 2)
    assert [score.reward for score in scores] == [None, 0.0]
    found = summary(scores)
    assert (found["rows"], found["judged"], found["reward"]) == (2, 1, 0.0)
    assert found["parts"]["code"]["reasons"] == {"not judged": 1, "no_code": 1}


def test_answers_of_a_named_column() -> None:
    scorer = AnswerScorer.from_config({"column": "gold", "policy": {"significant_figures": 3}})
    assert scorer.fields == ("gold",)
    assert scorer.score("\\boxed{0.333}", {"gold": "1/3"}).value == 1.0
