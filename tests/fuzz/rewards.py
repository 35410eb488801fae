"""Coverage-guided fuzzing of what reads untrusted text: ``python -m tests.fuzz.rewards TARGET``.

Needs ``pip install atheris``. Options of libFuzzer follow the target, for example
``python -m tests.fuzz.rewards match -max_total_time=3600 -timeout=5 -rss_limit_mb=1024 CORPUS``.
An exception, an input that takes longer than the timeout, or memory beyond the limit ends the run
and leaves the input in a file. ``all`` draws the target from the input's first byte.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import atheris

with atheris.instrument_imports(include=["srl_envs"]):
    from srl_envs.errors import IllegalMoveError
    from srl_envs.messages import clean_message, quoted, split_body
    from srl_envs.rewards import AnswerMatcher, AnswerPolicy, FormatChecker, FormatSpec
    from srl_envs.rewards.matcher.extraction import EXTRACTORS
    from srl_envs.rewards.strict_json import JsonFaultError, parse_json
    from srl_envs.sandbox import same_items, same_value
    from srl_envs.sandbox.executor import _frames
    from srl_envs.sandbox.inside import wire
    from srl_envs.sandbox.inside.exchange import codec
    from srl_envs.turns.grammar import parse_reply

MATCHERS = (
    AnswerMatcher(),
    AnswerMatcher(AnswerPolicy(comma_decimal=True, unevaluated_ok=True, order_matters=True)),
    AnswerMatcher(AnswerPolicy(significant_figures=3), extract=tuple(EXTRACTORS)),
)
CHECKERS = (
    FormatChecker(FormatSpec(blocks=("answer",), think="required", only_blocks=True), partial=True),
    FormatChecker(FormatSpec(fence="python", min_words=2, max_words=50, forbidden=("as an AI",))),
    FormatChecker(FormatSpec(boxed=True, think_prefilled=True), partial=True),
)


def extract(data: Any) -> None:
    """No extractor raises, and each finds a part of the reply's own text."""
    reply = text_of(data)
    for extractor in EXTRACTORS.values():
        found = extractor(reply)
        assert found is None or isinstance(found, str)


def match(data: Any) -> None:
    """A score is 0 or 1 with a reason, and the same at the second time."""
    matcher = MATCHERS[data.ConsumeIntInRange(0, len(MATCHERS) - 1)]
    answer = data.ConsumeUnicodeNoSurrogates(80)
    given = text_of(data)
    score = matcher.compare(given, answer=answer)
    assert score.value in (0.0, 1.0)
    assert matcher.compare(given, answer=answer) == score
    matcher.explain(reply=f"\\boxed{{{given}}}", answer=answer)


def check(data: Any) -> None:
    """A score lies in [0, 1], and 1 only without a fault."""
    checker = CHECKERS[data.ConsumeIntInRange(0, len(CHECKERS) - 1)]
    score = checker.check(text_of(data))
    assert 0.0 <= score.value <= 1.0
    assert (score.value == 1.0) == (score.reason == "ok")


def frames(data: Any) -> None:
    """Whatever a program writes as its result is read as frames or refused."""
    result = data.ConsumeBytes(data.remaining_bytes())
    for frame in _frames(result, 5) or []:
        value = frame.get("value")
        same_value(value, 7)
        same_value(value, [1.0, {"a": {2}}])
        same_items(value, [1, 2])
    try:
        decoded = codec.loads(result)
    except codec.CodecError:
        return
    again = codec.loads(codec.dumps(decoded))
    assert codec.dumps(again) == codec.dumps(decoded)
    wire.Report.unpack(result.ljust(wire.REPORT_BYTES, b"\0")[: wire.REPORT_BYTES])


def json(data: Any) -> None:
    """Strict JSON is read or refused by name."""
    try:
        parse_json(text_of(data), max_chars=10_000, max_depth=50)
    except JsonFaultError:
        return


def reply(data: Any) -> None:
    """Replies and messages: a body or a problem, and quotes that do not leak."""
    text = text_of(data)
    body, problem = parse_reply(text, 200)
    assert (body is None) != (problem is None)
    message = clean_message(text, 100)
    assert len(message) <= 100
    assert "\n" not in message
    assert "<" not in quoted(message)
    try:
        split_body(text, 100, example="say: hello\noffer 1 2")
    except IllegalMoveError:
        return


def text_of(data: Any) -> str:
    """The rest of the input as text, lone surrogates included now and then."""
    if data.ConsumeBool():
        return str(data.ConsumeUnicode(data.remaining_bytes()))
    return data.ConsumeBytes(data.remaining_bytes()).decode("utf-8", "replace")


TARGETS: dict[str, Callable[[Any], None]] = {
    "extract": extract, "match": match, "check": check, "frames": frames, "json": json, "reply": reply,
}  # fmt: skip


def main() -> None:
    """Fuzz one target, or all of them."""
    if len(sys.argv) < 2 or sys.argv[1] not in (*TARGETS, "all"):
        sys.exit(
            f"usage: python -m tests.fuzz.rewards {{{','.join(TARGETS)},all}} [libFuzzer options]"
        )
    name = sys.argv.pop(1)
    every = list(TARGETS.values())

    def one(raw: bytes) -> None:
        data = atheris.FuzzedDataProvider(raw)
        target = TARGETS.get(name) or every[data.ConsumeIntInRange(0, len(every) - 1)]
        target(data)

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
