"""Traces are read as they were written, and errors name the broken line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.caching.simulation.traces import (
    Request,
    Trace,
    read_trace,
    unlimited_hits,
    with_sessions,
    write_trace,
)
from srl_envs.errors import ConfigError

GOOD: dict[str, Any] = {"timestamp": 5, "input_length": 3, "output_length": 1, "hash_ids": [7, 8]}


def lines(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text(
        "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    )
    return path


requests = st.builds(
    Request,
    arrival_s=st.integers(0, 10**6).map(lambda ms: ms / 1000),
    prompt_tokens=st.integers(1, 40),
    reply_tokens=st.integers(0, 9),
    blocks=st.just(()),
    session=st.none() | st.text(max_size=3),
    ends=st.booleans(),
).map(
    lambda r: Request(
        r.arrival_s, r.prompt_tokens, r.reply_tokens, tuple(range(-(-r.prompt_tokens // 4))),
        r.session, r.ends,
    )
)  # fmt: skip


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_a_written_trace_is_read_back_equal(name: str, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("traces")

    @given(st.lists(requests, min_size=1, max_size=5))
    def check(rows: list[Request]) -> None:
        rows.sort(key=lambda r: r.arrival_s)
        write_trace(folder / name, rows)
        assert read_trace(folder / name, 4) == Trace(tuple(rows), 4)

    check()


def test_equal_requests_give_equal_compressed_bytes(tmp_path: Path) -> None:
    row = Request(0.5, 3, 1, (7,))
    write_trace(tmp_path / "a.jsonl.gz", [row])
    write_trace(tmp_path / "b.jsonl.gz", [row])

    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"timestamp": -1}, "timestamp=-1"),
        ({"timestamp": True}, "timestamp=True"),
        ({"timestamp": float("nan")}, "timestamp=nan"),
        ({"input_length": 0}, "input_length=0"),
        ({"input_length": 3.0}, "input_length=3.0"),
        ({"output_length": "2"}, "output_length='2'"),
        ({"output_length": 10**400}, "output_length=1000"),
        ({"hash_ids": [8, 7]}, "8 follows another block"),
        ({"input_length": 5}, "hash_ids has 2 blocks"),
        ({"hash_ids": [7, 7]}, "repeats"),
        ({"hash_ids": [7, "8"]}, "hash_ids: expected a list"),
        ({"session": 3}, "session=3"),
        ({"ends": 1}, "ends=1"),
        ({"extra": 1}, "has unknown extra"),
        ({"timestamp": 4}, "before the line above"),
    ],
)
def test_a_bad_field_is_named_with_its_line(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = lines(tmp_path, GOOD, {**GOOD, **change})

    with pytest.raises(ConfigError, match="line 2") as caught:
        read_trace(path, 2)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "line", ["{", "[1]", '{"timestamp": 1}', "[" * 100_000, f'{{"timestamp": {"9" * 5000}}}']
)
def test_a_line_that_is_no_request_is_named(line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 1"):
        read_trace(lines(tmp_path, line), 2)


def test_what_is_no_trace_is_refused_in_one_line(tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(json.dumps(GOOD).encode())[:-9])
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")

    for path in (cut, binary, lines(tmp_path), tmp_path / "none.jsonl", tmp_path / "trace.csv"):
        with pytest.raises(ConfigError) as caught:
            read_trace(path, 2)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("prompts", "size"),
    [
        ([(40, 3), (33, 3), (7, 1)], 16),
        ([(1200, 3), (1024, 2)], 512),
        ([(100, 3), (97, 3)], 34),
        ([(145, 4), (144, 3)], 48),
        ([(7, 1), (600, 1)], 1024),
        ([(7, 1), (12, 1)], 512),
        ([(1, 1), (2, 2)], 1),
    ],
)
def test_a_trace_shows_the_size_of_its_blocks(
    prompts: list[tuple[int, int]], size: int, tmp_path: Path
) -> None:
    rows = [Request(0, tokens, 1, tuple(range(blocks))) for tokens, blocks in prompts]
    write_trace(tmp_path / "t.jsonl", rows)
    assert read_trace(tmp_path / "t.jsonl") == Trace(tuple(rows), size)


def test_blocks_of_two_sizes_and_prompts_without_blocks_are_refused(tmp_path: Path) -> None:
    rows = [Request(0, 32, 1, (0, 1)), Request(0, 64, 1, (0, 1))]
    write_trace(tmp_path / "t.jsonl", rows)
    with pytest.raises(ConfigError, match=r"line 2.* a block has 16 to 31 tokens"):
        read_trace(tmp_path / "t.jsonl")
    write_trace(tmp_path / "t.jsonl", [Request(0, 3, 1, ())])
    with pytest.raises(ConfigError, match="hash_ids has 0 blocks"):
        read_trace(tmp_path / "t.jsonl")


def test_unlimited_hits_are_blocks_seen_before() -> None:
    rows = [Request(0, 3, 0, blocks) for blocks in ((1, 2, 3), (1, 2, 4), (1, 2, 3))]

    assert unlimited_hits(rows) == 0 + 2 + 3


def test_a_request_that_extends_another_is_of_its_session_and_a_shared_start_is_not() -> None:
    chains = [(0, 1, 2), (0, 5, 6), (0, 1, 2, 3), (0, 5, 6, 7)]
    trace = with_sessions(Trace(tuple(Request(0, 1, 0, chain) for chain in chains)))

    a, b, a_again, b_again = (request.session for request in trace.requests)
    assert (a, b) == (a_again, b_again)
    assert a != b
    assert [request.ends for request in trace.requests] == [False, False, True, True]
