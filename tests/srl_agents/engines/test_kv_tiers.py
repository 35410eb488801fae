"""Keys and values beyond the device: exact or a miss, within their limits, whatever happens to files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srl_agents.engines.embedded.places.kv_tiers import (
    BLOCK,
    KVTiers,
    TierLimits,
    block_names,
    pays,
)
from srl_agents.engines.embedded.prefix_tree import Node, PrefixTree
from srl_envs.errors import ConfigError

CPU = torch.device("cpu")
BYTES = 2 * 4 * BLOCK
"""Of a block of the tests: one layer, one head of width 1, float32."""


def values(tokens: tuple[int, ...]) -> torch.Tensor:
    """(1, 2, 1, S, 1): what a model computes of a token is a function of all before it."""
    sums = torch.tensor(tokens, dtype=torch.float64).cumsum(0).to(torch.float32)
    return torch.stack([sums, -sums])[None, :, None, :, None]


def block(number: int) -> torch.Tensor:
    return values(tuple(range(number, number + BLOCK)))


def tiers(folder: Path, host: int, disk: int) -> KVTiers:
    file_bytes = BYTES + 32
    wanted = TierLimits(host_bytes=host * BYTES, disk_bytes=disk * file_bytes, folder=folder)
    return KVTiers(wanted, BYTES // BLOCK)


def compute(node: Node, tokens: tuple[int, ...]) -> None:
    node.kv = values(tokens)[..., node.start : node.stop, :].clone()
    node.computed = len(node.tokens)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


PROMPTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 3),
        st.integers(1, 3 * BLOCK),
        st.sampled_from([0, 0, 20, 70]),
    ),
    max_size=14,
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(prompts=PROMPTS, host=st.integers(0, 4), disk=st.integers(0, 4), limit=st.integers(0, 90))
def test_what_comes_back_is_what_was_computed_and_every_limit_holds(
    tmp_path: Path, prompts: list[tuple[str, int, int, int]], host: int, disk: int, limit: int
) -> None:
    kept = tiers(tmp_path, host, disk)
    tree = PrefixTree(BYTES // BLOCK, limit * BYTES // BLOCK, tiers=kept, device=CPU)
    for number, (version, family, length, border) in enumerate(prompts):
        common = tuple(range(10 * family, 10 * family + length))
        tokens = (*common, 1000 + number % 3)
        tree.expect(version, tokens, base_tokens=border)
        end, cached = tree.enter(version, tokens, base_tokens=border)
        seen = 0
        for node in end.path():
            if node.kv is None:
                assert node.stop > cached
                compute(node, tokens)
            assert node.kv is not None
            assert torch.equal(node.kv, values(tokens)[..., node.start : node.stop, :])
            assert node.start == seen
            seen = node.stop
        assert seen == len(tokens)
        for node in end.path():
            node.rows -= 1
        tree.shrink()
        assert tree.bytes <= limit * BYTES // BLOCK
        assert kept.host_bytes <= host * BYTES
        assert kept.disk_bytes <= disk * BYTES
        assert sum(path.stat().st_size for path in files(tmp_path)) <= disk * (BYTES + 32)
    kept.close()
    assert not files(tmp_path)


def test_a_prompt_that_left_the_device_comes_back_from_memory_and_files(tmp_path: Path) -> None:
    kept = tiers(tmp_path, host=1, disk=8)
    tree = PrefixTree(BYTES // BLOCK, 0, tiers=kept, device=CPU)
    tokens = tuple(range(3 * BLOCK + 5))
    for found in (0, 3 * BLOCK):
        end, cached = tree.enter("a", tokens)
        assert cached == found
        for node in end.path():
            if node.kv is None:
                compute(node, tokens)
        tree.shrink()
    assert kept.take_fetched() == (BLOCK, 2 * BLOCK)
    assert tree.enter("b", tokens)[1] == 0  # another version's are others


@pytest.mark.parametrize("damage", ["gone", "cut", "changed", "swapped"])
def test_a_damaged_file_is_a_miss(tmp_path: Path, damage: str) -> None:
    kept = tiers(tmp_path, host=0, disk=4)
    kept.put(7, block(7))
    kept.put(8, block(8))
    first, second = files(tmp_path)
    if damage == "gone":
        first.unlink()
    elif damage == "cut":
        first.write_bytes(first.read_bytes()[:-5])
    elif damage == "changed":
        data = bytearray(first.read_bytes())
        data[-3] ^= 1
        first.write_bytes(data)
    else:
        first.write_bytes(second.read_bytes())
    assert kept.take([7], CPU) is None
    found = kept.take([8], CPU)
    assert found is not None
    assert torch.equal(found, block(8))
    kept.put(7, block(7))  # it may come again
    found = kept.take([7, 8, 9], CPU)
    assert found is not None
    assert torch.equal(found, torch.cat([block(7), block(8)], dim=-2))


def test_files_are_read_before_their_turn_within_the_memory_there_is(tmp_path: Path) -> None:
    kept = tiers(tmp_path, host=2, disk=8)
    for number in range(6):
        kept.put(number, block(number))
    kept.prefetch(range(6))
    assert kept.host_bytes <= 2 * BYTES
    for path in files(tmp_path):
        path.touch()
    for number in range(6):
        found = kept.take([number], CPU)
        assert found is not None
        assert torch.equal(found, block(number))


def test_a_full_disk_ends_writing_and_nothing_else(tmp_path: Path) -> None:
    kept = tiers(tmp_path, host=0, disk=4)
    kept.put(1, block(1))
    files(tmp_path)[0].parent.rename(tmp_path / "moved")  # every later write fails
    kept.put(2, block(2))
    assert kept.take([1], CPU) is None
    assert kept.take([2], CPU) is None


def test_the_threshold_is_what_a_return_saves_times_its_chance_against_writing() -> None:
    assert pays(fetch_s=1.0, compute_s=3.0, write_s=0.9, chance=0.5)
    assert not pays(fetch_s=1.0, compute_s=3.0, write_s=1.1, chance=0.5)
    assert not pays(fetch_s=3.0, compute_s=3.0, write_s=0.0)
    assert pays(fetch_s=None, compute_s=3.0, write_s=9.0)


def test_a_place_that_is_slower_than_computing_is_not_used(tmp_path: Path) -> None:
    now_s = 0.0

    def clock() -> float:
        nonlocal now_s
        now_s += 1.0
        return now_s

    kept = KVTiers(TierLimits(host_bytes=9 * BYTES, folder=tmp_path), BYTES // BLOCK, clock)
    kept.computed(1000, 1.0)  # a block takes 0.03 s, and each look at the clock a whole second
    kept.put(1, block(1))
    assert kept.take([1], CPU) is not None  # that it is slow has to be seen once
    assert kept.take([1], CPU) is None
    kept.put(2, block(2))
    assert kept.host_bytes == BYTES


def test_blocks_that_never_return_are_not_written_for_long(tmp_path: Path) -> None:
    now_s = 0.0

    def clock() -> float:
        nonlocal now_s
        now_s += 0.1
        return now_s

    kept = KVTiers(TierLimits(host_bytes=999 * BYTES, folder=tmp_path), BYTES // BLOCK, clock)
    kept.computed(BLOCK, 1.0)  # saves 0.9 s per return, and costs 0.1 s: one in nine must return
    kept.put(0, block(0))
    kept.take([0], CPU)
    for number in range(1, 200):
        kept.put(number, block(number))
    assert kept.chance_of_return < 1 / 9
    assert kept.host_bytes < 30 * BYTES


@pytest.mark.slow
def test_files_of_a_killed_process_are_removed_and_those_of_a_living_one_stay(
    tmp_path: Path,
) -> None:
    program = (
        "import sys, time, torch; from pathlib import Path\n"
        "from tests.srl_agents.engines.test_kv_tiers import block, tiers\n"
        "kept = tiers(Path(sys.argv[1]), 0, 50)\n"
        "for n in range(40): kept.put(n, block(n)); print(n, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        living = tiers(tmp_path, 0, 4)
        assert files(tmp_path)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        own = tiers(tmp_path, 0, 4)
        assert not files(tmp_path)
        assert own.take([0], CPU) is None
        living.close()
        own.close()


def test_names_tell_versions_and_what_the_base_reads_apart() -> None:
    tokens = tuple(range(4 * BLOCK))
    plain, other = (block_names(tokens, version, None, 0) for version in ("a", "b"))
    assert not set(plain) & set(other)
    a, b = (block_names(tokens, version, None, 2 * BLOCK + 1) for version in ("a", "b"))
    assert a[:2] == b[:2] == block_names(tokens, None, None, 0)[:2]
    assert not set(a[2:]) & set(b[2:])


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="host_bytes=-1"):
        TierLimits(host_bytes=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"disk_gib: .*file cannot be written"):
        tiers(tmp_path / "file", 0, 4)
