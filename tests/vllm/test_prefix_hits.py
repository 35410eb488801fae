"""The simulator's hits beside those that a real vLLM server counts; `make vllm` runs this."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.caching.vllm_hits import measured
from srl_agents.engines.vllm.options import PYTHON

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not os.environ.get(PYTHON), reason=f"{PYTHON} names no interpreter"),
]


def test_a_replay_of_recorded_requests_has_the_servers_hits_within_a_tenth(tmp_path: Path) -> None:
    found = measured(
        "smollm2-135m", "public_goods-v0", blocks=32, states=1, attempts=3, folder=tmp_path
    )
    assert found["hits"] > 0
    assert found["possible_hits"] > found["simulated_hits"]  # the limit matters
    assert 0.9 <= found["ratio"] <= 1.1
    # by its own events it stored what was replayed, and never had more than there was room for
    assert found["batches_missed"] == 0
    (stored,), (removed,) = found["blocks_stored"], found["blocks_removed"]
    assert 0 <= stored - removed <= 32
    assert removed > 0


def test_two_servers_keep_nearly_all_hits_that_one_without_limit_would_have(tmp_path: Path) -> None:
    found = measured(
        "smollm2-135m",
        "connect_four-v0",
        blocks=600,
        states=2,
        attempts=4,
        folder=tmp_path,
        servers=2,
    )
    assert all(found["queries_by_server"])
    assert found["batches_missed"] == 0
    assert found["share_of_possible"] >= 0.97
