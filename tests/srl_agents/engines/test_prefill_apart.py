"""Prompts read in one process and replies written in another: same tokens, and nothing wrong is ever read."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.embedded.places.kv_files import BlockFiles, KVForm
from srl_agents.engines.embedded.places.kv_tiers import BLOCK, TierLimits
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.records import WeightVersion
from srl_envs.errors import ConfigError
from tests.srl_agents.engines.test_transformers_engine import disturb

SAMPLING = SamplingSettings(max_new_tokens=6)
RULES = "You are playing a game. Reply with one move: rock, paper or scissors. "


def tiny(seed: int = 0) -> tuple[BaseModel, WeightVersion]:
    """The shipped model with one frozen adapter, the same in every process."""
    base = BaseModel.load("tiny", device="cpu", dtype="float32", lora_rank=4)
    base.add_adapter("alice", seed)
    disturb(base, "alice", seed)
    return base, base.freeze_adapter("alice")


def engine(base: BaseModel, folder: Path | None, *, disk_bytes: int = 2**30) -> TransformersEngine:
    """One that keeps nothing itself, so that all it has of earlier prompts is in the folder."""
    tiers = None
    if folder is not None:
        tiers = TierLimits(disk_bytes=disk_bytes, shared=folder, weigh=False)
    return TransformersEngine(base, SAMPLING, cache_bytes=0, tiers=tiers)


def requests(version: WeightVersion) -> list[GenerationRequest]:
    return [
        GenerationRequest(observation=RULES * 4 + f"Round {i}.", version=who, key=(1, i))
        for i in range(4)
        for who in (version, None)
    ]


def replies(played: TransformersEngine, asked: list[GenerationRequest]) -> list[Generation]:
    async def one_after_the_other() -> list[Generation]:
        found = [await played.generate(request) for request in asked]
        await played.close()
        return found

    return asyncio.run(one_after_the_other())


def prefill_all(folder: str, rest_s: str) -> None:
    """What the other process runs: read every prompt, with a rest after each."""
    base, version = tiny()
    reader = engine(base, Path(folder))

    async def read() -> None:
        for request in requests(version):
            print(await reader.prefill(request), flush=True)
            await asyncio.sleep(float(rest_s))
        await reader.close()

    asyncio.run(read())


def prefilling(folder: Path, rest_s: float) -> subprocess.Popen[str]:
    program = (
        "import sys; from tests.srl_agents.engines.test_prefill_apart import prefill_all as p; "
        "p(*sys.argv[1:])"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder), str(rest_s)],
        stdout=subprocess.PIPE,
        text=True,
    )


def blocks(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if "." not in path.name)


@pytest.fixture(scope="module")
def model() -> tuple[BaseModel, WeightVersion]:
    return tiny()


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A new folder in files, and one in the memory that processes share."""
    if request.param == "disk":
        yield tmp_path / "kv"
        return
    place = Path("/dev/shm") / f"srl-test-kv-{os.getpid()}"
    yield place
    for path in place.iterdir():
        path.unlink()
    place.rmdir()


@pytest.mark.slow
def test_another_process_reads_the_prompts_and_the_tokens_are_the_same(
    model: tuple[BaseModel, WeightVersion], folder: Path
) -> None:
    base, version = model
    asked = requests(version)
    expected = replies(engine(base, None), asked)
    with prefilling(folder, 0) as child:
        assert child.wait(120) == 0
    assert blocks(folder)
    apart = replies(engine(base, folder), asked)
    for one, other in zip(expected, apart, strict=True):
        assert one.token_ids == other.token_ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert one.cached_tokens == 0
        whole = (len(other.prompt_ids) - 1) // BLOCK * BLOCK
        assert other.cached_tokens == whole  # all but the last, partial block


@pytest.mark.slow
def test_what_a_killed_process_did_not_hand_over_is_computed_here(
    model: tuple[BaseModel, WeightVersion], tmp_path: Path
) -> None:
    base, version = model
    asked, folder = requests(version), tmp_path / "kv"
    expected = replies(engine(base, None), asked)
    with prefilling(folder, 30) as child:
        assert child.stdout is not None
        child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
    first = blocks(folder)
    assert first
    first[0].write_bytes(first[0].read_bytes()[:-7])  # as a power cut leaves it
    torn = f"{'0' * 16}.{'0' * 12}-1-1.new"
    (folder / torn).write_bytes(b"srl-kv-1")
    after = replies(engine(base, folder), asked)
    assert [one.token_ids for one in after] == [one.token_ids for one in expected]
    assert (
        replies(engine(base, folder), asked)[0].cached_tokens >= BLOCK
    )  # and is there from now on


def test_blocks_outlive_the_engine_within_their_limit(
    model: tuple[BaseModel, WeightVersion], tmp_path: Path
) -> None:
    base, version = model
    asked, folder = requests(version), tmp_path / "kv"
    expected = replies(engine(base, None), asked)
    replies(engine(base, folder), asked)
    again = replies(engine(base, folder), asked)
    assert again[0].cached_tokens >= BLOCK
    size = blocks(folder)[0].stat().st_size
    few = replies(engine(base, folder, disk_bytes=3 * size), asked)
    assert 0 < len(blocks(folder)) <= 3
    for found in (again, few):
        assert [one.token_ids for one in found] == [one.token_ids for one in expected]


def test_another_version_shares_no_block(
    model: tuple[BaseModel, WeightVersion], tmp_path: Path
) -> None:
    base, version = model
    replies(engine(base, tmp_path / "kv"), requests(version)[:1])
    base.add_adapter("carol", 3)
    disturb(base, "carol", 3)
    other = base.freeze_adapter("carol")
    found = replies(engine(base, tmp_path / "kv"), requests(other)[:1])
    assert found[0].cached_tokens == 0


def test_another_base_is_refused_by_name(
    model: tuple[BaseModel, WeightVersion], tmp_path: Path
) -> None:
    base, version = model
    replies(engine(base, tmp_path / "kv"), requests(version)[:1])
    other, _ = tiny()
    with torch.no_grad():
        next(p for p in other.model.parameters() if p.ndim == 1).add_(0.5)
    with pytest.raises(ConfigError, match=r"holds keys and values of base .*this engine has base"):
        engine(other, tmp_path / "kv")
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "letter").write_text("")
    with pytest.raises(ConfigError, match="holds other files"):
        engine(base, tmp_path / "papers")
    with pytest.raises(ConfigError, match="disk_bytes=0"):
        TierLimits(shared=tmp_path)


def test_a_file_of_another_base_is_a_miss_wherever_it_comes_from(tmp_path: Path) -> None:
    one, other = (
        BlockFiles.shared(tmp_path / base, KVForm(base=base, shape=(1, 8), dtype=torch.int8), 8)
        for base in ("a", "b")
    )
    path = one.write(5, b"12345678")
    assert one.read(path, 5) == b"12345678"
    assert one.read(path, 6) is None
    moved = other.path(5)
    moved.write_bytes(path.read_bytes())
    assert other.read(moved, 5) is None
    began = time.time_ns()
    other.write(7, b"87654321")
    assert [name for name, _ in other.found()] == [5, 7]
    assert moved.stat().st_mtime_ns <= began
