"""The codec holds against bytes that no honest program writes."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.sandbox import CodeExecutor, same_value
from srl_envs.sandbox.inside import wire
from srl_envs.sandbox.inside.exchange import codec
from srl_envs.sandbox.jobs import Run
from tests.srl_envs.sandbox.plain_data import PLAIN

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "tuple",
                    "set",
                    "dict",
                    "int",
                    "float",
                    "bytes",
                    "complex",
                    "fraction",
                    "decimal",
                    "ref",
                ]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_what_goes_in_comes_out(value: Any) -> None:
    back = codec.loads(codec.dumps(value))
    assert back == value
    assert repr(type(back)) == repr(type(value))


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(codec.CodecError):
        codec.loads(data)


@given(TREES)
def test_any_json_decodes_or_is_refused(tree: Any) -> None:
    with contextlib.suppress(codec.CodecError):
        codec.loads(json.dumps(tree).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[", b"NaN", b"[1] [2]", b"{}", b'{"tuple":[1],"set":[2]}', b'{"tuple":[1],"tuple":[2]}',
        b"[" * 100_000, b"[" * 150 + b"]" * 150, b'{"int":"zz"}', b'{"set":[[1]]}', b'{"set":[1,1',
        b'{"dict":[[1,2],[1,3]]}', b'{"dict":[[1]]}', b'{"dict":[[[1],2]]}', b'{"object":1}',
        b'{"fraction":["0x1","0x0"]}', b'{"decimal":"x"}', b'{"decimal":"sNaN"}', b'{"complex":[]}',
        b'{"ref":1}', b'{"float":"0"}', b'{"float":"NAN"}',
        b"9" * 5000, b'"\xff"', b'{"bytes":"0"}', b'{"int":7}',
    ],
    ids=lambda data: repr(data[:24]),
)  # fmt: skip
def test_malformed_text_is_refused(data: bytes) -> None:
    with pytest.raises(codec.CodecError):
        codec.loads(data)


def test_keys_made_to_collide_are_refused() -> None:
    """60,000 of them would cost the trusted process minutes."""
    prime = (1 << 61) - 1
    data = json.dumps({"set": [{"int": hex(k * prime)} for k in range(1000)]}).encode()
    with pytest.raises(codec.CodecError, match="hash"):
        codec.loads(data)


def test_unknown_objects_are_named() -> None:
    with pytest.raises(codec.CodecError, match="no JSON value"):
        codec.dumps([object()])


@given(
    st.lists(st.binary(max_size=40) | TREES.map(lambda tree: json.dumps(tree).encode()), max_size=3)
)
def test_no_result_makes_the_trusted_side_raise(executor: CodeExecutor, lines: list[bytes]) -> None:
    _judge_result(executor, b"\n".join(lines))


@given(TREES, TREES, TREES)
def test_no_frame_makes_the_trusted_side_raise(
    executor: CodeExecutor, status: Any, message: Any, end: Any
) -> None:
    for name, known in (("status", "ok"), ("status", status)):
        pairs = [[name, known], ["message", message], ["end", end], ["value", message]]
        _judge_result(executor, json.dumps({"dict": pairs}).encode())


def _judge_result(executor: CodeExecutor, result: bytes) -> None:
    """What the executor makes of a result that a program forged, in each of the three modes."""
    report = wire.Report(1, 0, wire.BY_ITSELF, 1, 0.0, 0)
    forged = Run(b"", None, False, report=report, stdout=b"out", result=result)
    tester = Run(b"", None, False, report=report, stdout=result)
    outcomes = [*executor._claims(forged, 2), executor._script_outcome(forged)]
    outcomes.append(executor._duet_outcome(forged, tester))
    for outcome in outcomes:
        assert len(repr(outcome)) < 1500
        assert outcome.status != "infrastructure"
        same_value(outcome.value, {"a": [1, {2.5}, ()]})


def test_a_flood_of_frames_is_not_even_decoded(executor: CodeExecutor) -> None:
    report = wire.Report(1, 0, wire.BY_ITSELF, 1, 0.0, 0)
    forged = Run(b"", None, False, report=report, result=b"[\n" * 100_000)
    assert executor._claims(forged, 1)[0].message == "a malformed result"
