"""Lent memory: the protocol on pages of the host, and the checks of CUDA that need no GPU."""

from __future__ import annotations

import ast
import contextlib
import gc
import inspect
import json
import multiprocessing
import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.models.digests import version_of
from srl_agents.recipes.checks.sections import check_installed
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightUpdate
from srl_agents.testing import check_transport
from srl_agents.transports.answering import request_of
from srl_agents.transports.lending import SOCKET, LendingTransport
from srl_agents.transports.lent_memory import (
    Cards,
    CudaMemory,
    HostPages,
    Offer,
    device_number,
    require_cuda_ipc,
)
from srl_agents.transports.settings import TRANSPORT, CudaIPCSettings, gpu_fault
from srl_agents.transports.updates import headers_of
from srl_envs.errors import ConfigError, ModelError

TENSORS = {"a": torch.arange(4.0), "b": torch.ones(2, 2, dtype=torch.bfloat16)}
VERSION = version_of("alice", 3, TENSORS)
CHECKS = Path(__file__).parents[3] / "docs/reference/gpu_checks.md"
CUDA = Offer(
    memory="cuda", size=128, device="u", handle=b"\x03c" + bytes(64), event=bytes(64), waits=True
)


def lending(folder: Path) -> LendingTransport:
    return LendingTransport(folder, HostPages(), patience_s=3.0)


@contextmanager
def publishing(folder: Path) -> Iterator[tuple[LendingTransport, WeightUpdate]]:
    transport = lending(folder)
    try:
        yield transport, transport.publish(VERSION, TENSORS)
    finally:
        transport.close()


@contextmanager
def speaking(transport: LendingTransport, message: bytes) -> Iterator[socket.socket]:
    """A reader that sends this message."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(5)
        link.connect(str(transport.folder / SOCKET))
        link.sendall(message)
        yield link


def files_given(reader: socket.socket) -> int:
    """How many came with the answer."""
    _, files, _, _ = socket.recv_fds(reader, 1000, 4)
    for file in files:
        os.close(file)
    return len(files)


def framed(message: object) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def ask(version: str) -> bytes:
    update = WeightUpdate(
        version=VERSION, previous=None, shown=(), tensors=headers_of(TENSORS), handle=""
    )
    return framed(request_of(update) | {"version": version})


@pytest.mark.slow
def test_the_control_part_keeps_the_contract_on_pages_of_the_host(tmp_path: Path) -> None:
    check_transport(lending, tmp_path, crosses_processes=True)


@pytest.mark.parametrize("ends", ["acknowledges", "is killed", "is silent"])
def test_memory_stays_until_its_reader_has_ended(ends: str, tmp_path: Path) -> None:
    transport = LendingTransport(tmp_path, HostPages(), patience_s=2 if ends == "is silent" else 9)
    transport.publish(VERSION, TENSORS)
    memory = weakref.ref(transport._held[str(VERSION)].kept.flat)
    with speaking(transport, ask(str(VERSION))) as reader:
        assert files_given(reader) == 1
        transport.release(VERSION)
        gc.collect()
        assert memory() is not None
        if ends == "acknowledges":
            reader.sendall(ask("has it"))
        elif ends == "is killed":
            reader.close()
        until_s = time.monotonic() + 30
        while memory() is not None and time.monotonic() < until_s:
            time.sleep(0.01)
        assert memory() is None
    transport.close()
    assert not transport.folder.exists()


def test_a_publisher_that_closes_waits_for_readers_that_have_begun(tmp_path: Path) -> None:
    with publishing(tmp_path) as (transport, _):
        closing = threading.Thread(target=transport.close)
        with speaking(transport, ask(str(VERSION))) as reader:
            assert files_given(reader) == 1
            closing.start()
            closing.join(0.2)
            assert closing.is_alive()
        closing.join(3)
        assert not closing.is_alive()


@pytest.mark.parametrize(
    "message",
    [b"", b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\3nan", ask("eve@1-0000000000000000")],
)
def test_a_peer_that_sends_nonsense_gets_no_memory_and_disturbs_no_reader(
    message: bytes, tmp_path: Path
) -> None:
    with publishing(tmp_path) as (transport, _):
        with speaking(transport, message) as reader:
            reader.shutdown(socket.SHUT_WR)
            assert files_given(reader) == 0
        with speaking(transport, ask(str(VERSION))) as reader:
            assert files_given(reader) == 1


def test_memory_that_is_not_the_version_is_refused(tmp_path: Path) -> None:
    """As where a publisher that gave a slow reader up has used the memory again."""
    with publishing(tmp_path) as (transport, update):
        transport._held[str(VERSION)].kept.flat[0] += 1
        ours, theirs = multiprocessing.get_context("fork").Pipe()

        def read() -> None:
            try:
                lending(tmp_path).open(update)
            except ModelError as error:
                theirs.send(str(error))

        process = multiprocessing.get_context("fork").Process(target=read)
        process.start()
        assert ours.poll(30)
        assert "as copied: the tensors have digest" in ours.recv()
        process.join()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"\xff\xff\xff\xff", "a message of 4294967295 bytes"),
        (framed([]), "not an object"),
        (b"\0\0\x3e\x80" + 16_000 * b"[", "nested too deeply"),
        (framed({"answer": "comes"}), "the offer has the fields answer"),
        (framed(replace(CUDA, size=64).plain()), "64 bytes are offered, and the update has 128"),
        (framed(CUDA.plain()), "of cuda memory with 0 files"),
        (framed(replace(CUDA, memory="host").plain()), "of host memory with 0 files"),
        (b"\0\0", "did not arrive .* timed out"),
    ],
)
def test_a_publisher_that_talks_nonsense_is_refused(
    answer: bytes, message: str, tmp_path: Path
) -> None:
    with publishing(tmp_path) as (_, update):
        pass
    transport = LendingTransport(tmp_path, HostPages(), patience_s=0.5)
    transport.folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(transport.folder / SOCKET))
        ours, theirs = multiprocessing.get_context("fork").Pipe()

        def work() -> None:
            listener.listen()
            theirs.send("listens")
            link, _ = listener.accept()
            link.sendall(answer)
            theirs.recv()

        process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
        process.start()
        assert ours.poll(30)
        try:
            with pytest.raises(ModelError, match=message):
                transport.open(update)
        finally:
            process.kill()
            process.join()
            (transport.folder / SOCKET).unlink()
            transport.folder.rmdir()


def test_another_user_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports the other side's user; the publisher sees another user's id."""
    with publishing(tmp_path) as (transport, _):
        with monkeypatch.context() as patch:
            user = os.getuid() + 1
            patch.setattr(os, "getuid", lambda: user)
            with (
                contextlib.suppress(ConnectionError),  # it went without having read
                speaking(transport, ask(str(VERSION))) as reader,
            ):
                assert files_given(reader) == 0
        with speaking(transport, ask(str(VERSION))) as reader:
            assert files_given(reader) == 1


def test_the_last_publisher_of_a_folder_answers(tmp_path: Path) -> None:
    with publishing(tmp_path) as (first, _), publishing(tmp_path) as (second, _):
        there = (first.folder / SOCKET).stat().st_ino
        second.publish(VERSION, TENSORS)
        assert (first.folder / SOCKET).stat().st_ino == there
        first.publish(VERSION, TENSORS)
        assert (first.folder / SOCKET).stat().st_ino != there


def test_what_a_reader_cannot_have_is_said_at_once(tmp_path: Path) -> None:
    with publishing(tmp_path) as (transport, update):
        with pytest.raises(ModelError, match="this process published it"):
            lending(tmp_path).open(update)
        with pytest.raises(ModelError, match=r"is not where .* is lent"):
            lending(tmp_path / "other").open(update)
        transport.folder.chmod(0o777)
        with pytest.raises(ModelError, match="open to other users"):
            lending(tmp_path).open(update)
    with pytest.raises(ModelError, match="is not there, or no folder of this user"):
        lending(tmp_path).open(update)


def test_nothing_is_published_into_a_folder_that_others_can_write(tmp_path: Path) -> None:
    transport = lending(tmp_path)
    transport.folder.mkdir()
    transport.folder.chmod(0o777)
    with pytest.raises(ModelError, match="open to other users"):
        transport.publish(VERSION, TENSORS)
    for path in transport.folder.iterdir():
        path.unlink()
    transport.folder.rmdir()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "128"}, "size is str"),
        ({"size": True}, "size is bool"),
        ({"size": 0}, "0 bytes"),
        ({"start": -1}, "from byte -1"),
        ({"handle": "zz"}, "non-hexadecimal"),
        ({"handle": None}, "handle is NoneType"),
        ({"more": 1}, "has the fields"),
    ],
)
def test_an_offer_has_fixed_fields_of_fixed_types(change: dict[str, Any], message: str) -> None:
    plain = json.loads(json.dumps(CUDA.plain()))
    assert Offer.read(plain) == CUDA
    with pytest.raises(ValueError, match=message):
        Offer.read(plain | change)


@pytest.mark.parametrize(
    "offer",
    [
        replace(CUDA, memory="host"),
        replace(CUDA, handle=b"\x03e" + bytes(64)),
        replace(CUDA, handle=b"\x03c" + bytes(65)),
        replace(CUDA, event=b""),
    ],
)
def test_handles_that_are_none_never_reach_torch(offer: Offer) -> None:
    with pytest.raises(ValueError, match="the offer"):
        CudaMemory().opened(offer, ())


def test_a_file_of_another_length_is_not_mapped() -> None:
    memory = HostPages()
    lent = memory.lend(memory.take(128, {}))
    with pytest.raises(ValueError, match="holds 128 bytes and should hold 4096"):
        memory.opened(replace(lent.offer, size=4096), lent.files)
    with pytest.raises(ValueError, match="with 0 files"):
        memory.opened(lent.offer, ())


def test_a_gpu_is_found_by_its_name_whatever_its_number_is() -> None:
    assert device_number("b", ["b", "a"]) == 0
    with pytest.raises(ValueError, match=r"does not see GPU c.*it sees b, a. Set CUDA_VISIBLE_DEV"):
        device_number("c", ["b", "a"])


@pytest.mark.parametrize(
    ("cards", "message"),
    [
        (Cards(found=False), "finds no CUDA device"),
        (Cards(found=True, rocm=True), "ROCm"),
        (Cards(found=True, allocator="cudaMallocAsync"), "'cudaMallocAsync' has no handles"),
        (Cards(found=True, names=("NVIDIA A100 MIG 1g.5gb",)), r"part of a GPU \(MIG\)"),
    ],
)
def test_a_process_whose_gpu_lends_nothing_is_refused(cards: Cards, message: str) -> None:
    with pytest.raises(ConfigError, match=f"{message}.*Use 'host_memory' or 'files'"):
        require_cuda_ipc(cards)


@pytest.mark.parametrize(
    ("device", "environment", "message"),
    [
        ("cpu", {}, "device='cpu'"),
        ("cuda", {"CUDA_VISIBLE_DEVICES": ""}, "hides every GPU"),
        ("cuda", {"PYTORCH_ALLOC_CONF": "x:1,expandable_segments: True"}, "PYTORCH_ALLOC_CONF has"),
        ("auto", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}, ""),
        ("cuda:1", {"CUDA_VISIBLE_DEVICES": "1"}, ""),
    ],
)
def test_a_machine_is_refused_before_torch_is_loaded(
    device: str, environment: dict[str, str], message: str, tmp_path: Path
) -> None:
    assert message in gpu_fault([device], environment, tmp_path)
    assert bool(gpu_fault([device], environment, tmp_path)) is bool(message)
    assert "no NVIDIA driver" in gpu_fault(["cuda"], environment, tmp_path / "driver")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_run_with_it_is_refused_where_there_is_no_gpu(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("name: r\nmodel: tiny\nenv: connect_four-v0\n")
    recipe = load(LeagueRecipe, path, ("placement=disaggregated", "transport=cuda_ipc"))
    with pytest.raises(ConfigError, match=r"transport.kind='cuda_ipc': .*Use 'host_memory'"):
        check_installed(recipe)
    with pytest.raises(ConfigError, match="finds no CUDA device in this process"):
        CudaIPCSettings().make_transport(tmp_path, whole_weights=False)


def test_no_recipe_gets_it_by_default_until_it_has_passed_on_a_card(tmp_path: Path) -> None:
    """A row with ``passed`` in the page of checks allows to change this."""
    row = next(line for line in CHECKS.read_text().splitlines() if "| cuda ipc |" in line)
    path = tmp_path / "r.yaml"
    path.write_text("name: r\nmodel: tiny\nenv: connect_four-v0\n")
    given = [(p, d) for p in ("auto", "disaggregated") for d in ("cpu", "cuda")]
    for placement, device in given:
        recipe = load(LeagueRecipe, path, (f"placement={placement}", f"device={device}"))
        assert recipe.carrier.kind != "cuda_ipc" or "| passed" in row


def test_torch_exports_the_fields_that_we_name() -> None:
    """As its own reductions take them apart; a torch that changes them fails here and not on a card."""
    from torch.multiprocessing import reductions

    tree = ast.parse(inspect.getsource(reductions.reduce_tensor))
    (names,) = [
        [element.id for element in node.targets[0].elts if isinstance(element, ast.Name)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and "_share_cuda_" in ast.unparse(node.value)
    ]
    assert names == [
        "device", "handle", "storage_size_bytes", "storage_offset_bytes", "ref_counter_handle",
        "ref_counter_offset", "event_handle", "event_sync_required",
    ]  # fmt: skip
    tree = ast.parse(inspect.getsource(reductions.rebuild_cuda_tensor))
    (given,) = [
        [ast.unparse(argument) for argument in node.args]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("_new_shared_cuda")
    ]
    assert given == [f"storage_{n}" if n in ("device", "handle") else n for n in names]


def test_nccl_is_refused_and_the_library_of_old_folders_is_not() -> None:
    TRANSPORT.convert({"kind": "collective", "backend": "gloo"}, "transport")
    with pytest.raises(ConfigError, match="backend='nccl': this setting was removed"):
        TRANSPORT.convert({"kind": "collective", "backend": "nccl"}, "transport")
