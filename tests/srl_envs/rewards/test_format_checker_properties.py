"""Claims about the format checker that hold for every reply, however hostile."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.rewards import FORMAT_REASONS, FormatChecker
from srl_envs.rewards.blocks import scan_fences

SETTINGS = json.loads((Path(__file__).parent / "format_settings.json").read_text())
STRICT = {name: FormatChecker.from_config(spec) for name, spec in SETTINGS.items()}
PARTIAL = {
    name: FormatChecker.from_config({**spec, "partial": True}) for name, spec in SETTINGS.items()
}
EVERYTHING = FormatChecker.from_config(
    {
        "blocks": ["answer", "plan"], "think": "required", "boxed": True,
        "fence": "python", "forbidden": ["zebra"], "only_blocks": True, "max_words": 30,
        "json": {"<plan>": {"type": "array", "items": {"pattern": "^(a+)+$"}, "uniqueItems": True}},
        "patterns": {"<answer>": "(?s)(.*a)+"}, "max_json_chars": 10_000_000,
        "example": "<think>a</think><answer>a\n```python\nx\n```\n\\boxed{1}a</answer><plan>[]</plan>",
    }
)  # fmt: skip
NAMES = st.sampled_from(sorted(SETTINGS))
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<answer>", "</answer>", "<action>", "</action>", "<plan>",
         "</plan>", "7", " ", "\n", "\\boxed{", "}", "```python\n", "\n```\n", "~~~\n",
         '{"move": "left", "steps": 2}', "[1]", "1999-12-31", '"', "\\"]
    ),
    max_size=14,
).map("".join)  # fmt: skip
REPLIES = PIECES | ANY_TEXT


@given(REPLIES, NAMES)
def test_any_reply_gets_a_known_reason_and_a_value(reply: str, name: str) -> None:
    strict, partial = STRICT[name].check(reply), PARTIAL[name].check(reply)
    assert strict.reason == partial.reason
    assert strict.reason in FORMAT_REASONS
    assert strict.value in (0.0, 1.0)
    assert 0.0 <= strict.value <= partial.value <= 1.0
    assert (strict.value == 1.0) == (partial.value == 1.0) == (strict.reason == "ok")


@given(PIECES, NAMES)
def test_the_parts_of_an_accepted_reply_are_right(reply: str, name: str) -> None:
    report = STRICT[name].explain(reply)
    assert tuple(report.parts) == STRICT[name].spec.parts
    if report.score.value == 1.0:
        assert all(part.reason == "ok" and part.credit == 1.0 for part in report.parts.values())


@given(PIECES)
def test_an_accepted_reply_is_what_was_asked_for(reply: str) -> None:
    if STRICT["r1"].check(reply).value == 1.0:
        thought, _, rest = reply.strip().partition("</think>")
        assert thought.startswith("<think>")
        assert rest.strip().startswith("<answer>")
        assert rest.strip().endswith("</answer>")
        assert rest.count("answer>") == 2


@given(NAMES, REPLIES, st.integers(0, 200))
def test_junk_never_earns_more_than_the_correct_form(name: str, junk: str, at: int) -> None:
    correct = PARTIAL[name].example()
    assert PARTIAL[name].check(correct).value == 1.0
    assert PARTIAL[name].check(correct[:at] + junk + correct[at:]).value <= 1.0


@given(st.sampled_from(["r1", "prefilled", "report", "any_json"]), REPLIES)
def test_junk_after_a_closed_form_always_costs(name: str, junk: str) -> None:
    if junk.strip():
        assert PARTIAL[name].check(PARTIAL[name].example() + junk).value < 1.0


@given(PIECES, NAMES, st.integers(1, 3))
def test_saying_it_again_never_earns_more(reply: str, name: str, times: int) -> None:
    """Fails where a duplicate of a right part is paid as a further one."""
    if STRICT[name].spec.many_fences:
        return
    once, again = PARTIAL[name].explain(reply), PARTIAL[name].explain(reply + "\n" + reply * times)
    right = [part for part, verdict in once.parts.items() if verdict.reason == "ok"]
    tags = [part for part in right if part.startswith("<") and "<think>" not in reply]
    assert all(again.parts[tag].reason != "ok" for tag in tags if "</think>" not in reply)


@given(st.text("`~ ab\n", max_size=30), st.sampled_from("`~"))
def test_a_long_enough_fence_holds_any_body(body: str, mark: str) -> None:
    fences, unclosed = scan_fences(f"{mark * 31}py\n{body}\n{mark * 31}")
    assert [tuple(fence) for fence in fences] == [("py", body + "\n")]
    assert not unclosed


def lines_run(work: Callable[[], Any]) -> int:
    """Lines of Python executed in `srl_envs.rewards`, a measure that no busy machine changes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if "/srl_envs/rewards/" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


HOSTILE = [
    "</think>", "<answer>", "</answer>", "<answer></answer>", "<answer><plan>", "<think>",
    "\n</think>\n<answer>\n", "\\boxed{", "\\boxed{}", "}", "\\", "```python\n", "```python\nx\n```\n",
    "~~~\n", "`", "<", " ", "\n", "a", "<answer>a</answer><plan>[", '"', "{", "[[", "zebr",
]  # fmt: skip
STARTS = ["", "<think>a</think>", "<think>a</think><answer>aa</answer><plan>"]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("piece", HOSTILE)
def test_work_grows_with_the_reply_at_most(piece: str, start: str) -> None:
    small, large = (lines_run(partial(EVERYTHING.check, start + piece * n)) for n in (100, 400))
    assert large <= 4 * small + 50


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_long_reply_is_read_in_one_pass(piece: str, start: str) -> None:
    """Would run for many minutes if anything in C were quadratic."""
    reply = start + piece * (200_000 // len(piece))
    assert EVERYTHING.check(reply).value == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        "[" + ",".join(f'{{"a":{i}}}' for i in range(90_000)) + "]",
        "[" + ",".join(['"' + "a" * 90 + '!"'] * 10_000) + "]",
        '["' + "a" * 1_000_000 + '!"]',
        '["' + '\\"' * 500_000,
        "[" + "1" * 1_000_000 + "]",
        "[" + "[]," * 300_000,
        "{" + ",".join(f'"k{i}":1' for i in range(90_000)) + "}",
    ],
    ids=["objects", "texts", "text", "quotes", "digits", "arrays", "keys"],
)  # fmt: skip
def test_a_megabyte_of_json_is_judged_in_one_pass(value: str) -> None:
    reply = f"<think>a</think><answer>a</answer><plan>{value}</plan>"
    assert EVERYTHING.check(reply).value == 0.0
