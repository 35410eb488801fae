"""Weights that stay on the card between two processes: the kit of transports, and where memory goes."""

from __future__ import annotations

import multiprocessing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.models.digests import tensors_sha256, version_of
from srl_agents.records import WeightUpdate
from srl_agents.testing import check_transport
from srl_agents.transports.settings import CudaIPCSettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]
MAKE = partial(CudaIPCSettings().make_transport, whole_weights=False)


def reading(pipe: Connection, folder: Path) -> None:
    """Open what is named, and tell its hash and where it is, until the other end is gone."""
    transport = MAKE(folder)
    pipe.send("ready")
    while True:
        try:
            update: WeightUpdate = pipe.recv()
        except EOFError:
            return
        opened = transport.open(update)
        pipe.send((tensors_sha256(opened), {str(t.device) for t in opened.values()}))


@pytest.fixture
def reader(tmp_path: Path) -> Any:
    """Another process's end of a pipe, and the process."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    process = context.Process(target=reading, args=(theirs, tmp_path), daemon=True)
    process.start()
    theirs.close()
    assert ours.poll(120)
    assert ours.recv() == "ready"
    yield ours, process
    process.kill()
    process.join()


def weights(number: int) -> dict[str, torch.Tensor]:
    """64 MiB on the card, some of it bfloat16 and turned."""
    draw = torch.Generator("cuda").manual_seed(number)
    large = torch.rand(4096, 2048, device="cuda", generator=draw)
    return {"a": large, "b": large.bfloat16().T, "c": large[0] > 0.5}


def test_the_kit_of_transports_holds_it(tmp_path: Path) -> None:
    check_transport(MAKE, tmp_path, crosses_processes=True, start="forkserver")


def test_weights_of_the_card_arrive_on_the_card_and_their_memory_comes_back(
    tmp_path: Path, reader: Any
) -> None:
    """Exported while work is queued; more versions than torch has events, so these are given back."""
    pipe, _ = reader
    transport, tensors = MAKE(tmp_path), weights(0)
    before = torch.cuda.memory_allocated()
    for number in range(20):
        with torch.cuda.stream(torch.cuda.Stream()):
            tensors = {name: t.clone() for name, t in weights(number).items()}
            version = version_of("alice", number, tensors)
            update = transport.publish(version, tensors)
        for tensor in tensors.values():
            tensor.zero_()  # the trainer goes on
        pipe.send(update)
        assert pipe.poll(60)
        assert pipe.recv() == (tensors_sha256(weights(number)), {"cuda:0"})
        transport.release(version)
    small = {"a": torch.ones(8, device="cuda")}
    for number in range(1200):
        version = version_of("bob", number, small)
        transport.publish(version, small)
        transport.release(version)
    transport.close()
    del small
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + 2**20


def test_a_killed_reader_costs_the_publisher_no_memory(tmp_path: Path, reader: Any) -> None:
    pipe, process = reader
    transport, tensors = MAKE(tmp_path), weights(1)
    version = version_of("alice", 1, tensors)
    before = torch.cuda.memory_allocated()
    update = transport.publish(version, tensors)
    pipe.send(update)
    process.kill()
    process.join()
    transport.release(version)
    transport.close()
    assert torch.cuda.memory_allocated() <= before


@pytest.mark.filterwarnings("ignore:.*_set_allocator_settings")
def test_expandable_segments_are_refused_by_name(tmp_path: Path) -> None:
    from srl_envs.errors import ConfigError

    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    try:
        torch.cuda.empty_cache()
        with pytest.raises(ConfigError, match="expandable_segments:True"):
            MAKE(tmp_path)
    finally:
        torch.cuda.memory._set_allocator_settings("expandable_segments:False")
