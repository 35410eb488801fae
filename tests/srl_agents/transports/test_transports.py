"""All transports keep the contract; what only one of them promises is tested here."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from srl_agents.checkpoints import remove_entry
from srl_agents.models.digests import version_of
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.testing import check_transport
from srl_agents.transports.collective import ADDRESS, CollectiveTransport
from srl_agents.transports.delta import FILE, DeltaTransport
from srl_agents.transports.files import MANIFEST, WEIGHTS, FilesTransport
from srl_agents.transports.host_memory import HostMemoryTransport
from srl_agents.transports.protocol import Transport
from srl_agents.transports.settings import TRANSPORTS, HostMemorySettings
from srl_agents.transports.shared import SharedTransport
from srl_envs.errors import ModelError

MAKE: dict[str, Callable[[Path], Transport]] = {
    "shared": lambda _: SharedTransport(),
    "files": FilesTransport,
    "delta": DeltaTransport,
    "host_memory": lambda folder: HostMemoryTransport(folder, memory=folder),
    "collective": lambda folder: CollectiveTransport(folder, patience_s=3.0),
}
TENSORS = {"a": torch.arange(4.0), "b": torch.ones(2, 2, dtype=torch.bfloat16)}
VERSION = version_of("alice", 3, TENSORS)


EVERY_COMMIT = ("shared", "files", "collective")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in EVERY_COMMIT else pytest.mark.nightly)
        for name in MAKE
    ],
)
def test_shipped_transports_keep_the_contract(name: str, tmp_path: Path) -> None:
    crosses = TRANSPORTS.find(name).crosses_processes
    check_transport(MAKE[name], tmp_path, crosses_processes=crosses)


def test_a_machines_memory_is_mapped_and_given_back(tmp_path: Path) -> None:
    made = HostMemorySettings()
    transport = made.make_transport(tmp_path, whole_weights=False)
    update = transport.publish(VERSION, TENSORS)
    path = Path(update.handle)
    assert path.is_relative_to("/dev/shm")
    reader = made.make_transport(tmp_path, whole_weights=False)
    opened = reader.open(update)
    reader.close()
    assert path.is_file()
    transport.close()
    assert not path.parent.exists()
    assert torch.equal(opened["a"], TENSORS["a"])


def drifting(seed: int, versions: int) -> list[dict[str, torch.Tensor]]:
    """Versions of which each moves a few entries of the one before."""
    draw = torch.Generator().manual_seed(seed)
    now = {"a": torch.rand(64, 64, generator=draw).bfloat16(), "b": torch.rand(9, generator=draw)}
    made = [now]
    for _ in range(versions - 1):
        now = {name: tensor.clone() for name, tensor in now.items()}
        now["a"].view(-1)[torch.randperm(4096, generator=draw)[:5]] += 1
        made.append(now)
    return made


@given(
    st.integers(0, 9),
    st.integers(1, 4),
    st.permutations(range(6)),
    st.lists(st.integers(0, 5), unique=True, max_size=5),
)
@settings(max_examples=15, deadline=None)
def test_versions_stored_as_differences_open_in_any_order_whatever_was_released(
    seed: int, anchor_every: int, order: list[int], released: list[int]
) -> None:
    with TemporaryDirectory() as folder:
        transport = DeltaTransport(Path(folder), anchor_every)
        updates: list[WeightUpdate] = []
        made = drifting(seed, 6)
        for number, tensors in enumerate(made):
            version = version_of("alice", number, tensors)
            previous = updates[-1].version if updates else None
            updates.append(transport.publish(version, tensors, previous))
        for number in released:
            transport.release(updates[number].version)
        reader = DeltaTransport(Path(folder), anchor_every)
        for number in order:
            if number in released:
                with pytest.raises(ModelError):
                    reader.open(updates[number])
                continue
            opened = reader.open(updates[number])
            assert all(torch.equal(opened[name], made[number][name]) for name in opened)
        for update in updates:
            transport.release(update.version)
        assert not list(Path(folder).glob(f"*/{FILE}"))


def test_a_small_change_is_a_small_file_and_every_so_many_are_whole(tmp_path: Path) -> None:
    transport, sizes = DeltaTransport(tmp_path, anchor_every=3), []
    previous: WeightVersion | None = None
    for number, tensors in enumerate(drifting(0, 6)):
        version = version_of("alice", number, tensors)
        update = transport.publish(version, tensors, previous)
        sizes.append((Path(update.handle) / FILE).stat().st_size)
        previous = version
    assert [size > 8000 for size in sizes] == [True, False, False] * 2
    assert max(sizes[1:3]) < 500


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (f"../elsewhere/{VERSION}", "is not a version"),
        ("a\0b", "is not a version"),
        ("gone@1-0000000000000000", "is missing, no ordinary file"),
        (str(VERSION), "is stored as a difference from itself"),
    ],
)
def test_a_difference_without_its_base_beside_it_is_refused(
    base: str, words: str, tmp_path: Path
) -> None:
    DeltaTransport(tmp_path / "elsewhere").publish(VERSION, TENSORS)
    transport = DeltaTransport(tmp_path / "run")
    update = transport.publish(VERSION, TENSORS)
    path = Path(update.handle) / FILE
    save_file(load_file(path), path, metadata={"base": base})
    with pytest.raises(ModelError, match=words):
        DeltaTransport(tmp_path / "run").open(update)


@pytest.mark.parametrize(
    ("mode", "user", "words"),
    [(0o777, 0, "open to other users"), (0o710, 0, "open to other"), (0o700, 1, "of this user")],
)
def test_memory_that_other_users_may_write_is_neither_written_nor_read(
    mode: int, user: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user can make a folder in /dev/shm, and could change what readers have mapped."""
    transport = HostMemoryTransport(tmp_path, memory=tmp_path)
    update = transport.publish(VERSION, TENSORS)
    transport.folder.chmod(mode)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + user)
    with pytest.raises(ModelError, match=words):
        transport.open(update)
    transport.close()
    transport.folder.mkdir(mode=0o700)
    transport.folder.chmod(mode)
    with pytest.raises(ModelError, match=words):
        transport.publish(VERSION, TENSORS)


def test_a_full_memory_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = HostMemoryTransport(tmp_path, memory=tmp_path)
    full = os.statvfs_result((4096, 4096, 10, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(ModelError, match=r"MiB of shared memory, and .* has 0 MiB free"):
        transport.publish(VERSION, TENSORS)
    assert not sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (None, "is missing, so no publisher runs"),
        ("", "holds no address"),
        ("[" * 10**5, "holds no address"),
        ('["127.0.0.1"]', "holds no address"),
        ('{"host": "127.0.0.1", "port": 99999}', "holds no address"),
        ('{"host": "127.0.0.1", "port": 1}', "refused"),
        ('{"host": "127.0.0.1", "port": SILENT}', "timed out"),
    ],
)
def test_a_collective_without_a_publisher_is_refused(
    address: str | None, words: str, tmp_path: Path
) -> None:
    """Also where a process listens and sends nothing, as a publisher does that hangs."""
    transport = CollectiveTransport(tmp_path)
    update = transport.publish(VERSION, TENSORS)
    transport.close()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        if address is not None:
            port = str(silent.getsockname()[1])
            (tmp_path / ADDRESS).write_text(address.replace("SILENT", port))
        with pytest.raises(ModelError, match=f"did not arrive from the publisher in .*{words}"):
            CollectiveTransport(tmp_path, patience_s=0.5).open(update)


def test_a_collective_that_cannot_be_found_is_not_published(tmp_path: Path) -> None:
    (tmp_path / "taken" / ADDRESS).mkdir(parents=True)
    for folder, host in ((tmp_path, "192.0.2.1"), (tmp_path / "taken", "127.0.0.1")):
        with pytest.raises(ModelError, match="no reader can connect to"):
            CollectiveTransport(folder, host=host).publish(VERSION, TENSORS)


def test_an_alias_that_the_trainer_overwrote_is_refused() -> None:
    """Even where no version counter of torch's moved, as when a kernel writes by pointer."""
    transport, weights = SharedTransport(alias=True), {"a": torch.arange(4.0)}
    update = transport.publish(version_of("alice", 1, weights), weights)
    assert transport.open(update)["a"].data_ptr() == weights["a"].data_ptr()
    weights["a"].data[1] = 7
    with pytest.raises(ModelError, match="changed after the version was named"):
        transport.open(update)


def test_readers_elsewhere_open_what_a_folder_holds(tmp_path: Path) -> None:
    update = FilesTransport(tmp_path / "new" / "folder").publish(VERSION, TENSORS)
    opened = FilesTransport(tmp_path).open(update)
    assert all(torch.equal(opened[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("files", ""),
        ("files", f"/{MANIFEST}"),
        ("files", f"/{WEIGHTS}"),
        ("delta", ""),
        ("delta", f"/{FILE}"),
        ("host_memory", ""),
    ],
)
def test_links_are_not_followed_and_what_lies_in_the_way_is_replaced(
    name: str, where: str, tmp_path: Path
) -> None:
    transport = MAKE[name](tmp_path)
    update = transport.publish(VERSION, TENSORS)
    path = Path(update.handle + where)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match=str(VERSION)):
        MAKE[name](tmp_path).open(update)
    for in_the_way in (path.touch, path.mkdir, lambda: os.mkfifo(path)):
        transport.publish(VERSION, TENSORS)
        assert torch.equal(MAKE[name](tmp_path).open(update)["a"], TENSORS["a"])
        remove_entry(path)
        in_the_way()
        with pytest.raises(ModelError):
            MAKE[name](tmp_path).open(update)
    transport.release(VERSION)
    if not where:
        assert not path.is_dir()
    assert (tmp_path / "elsewhere").exists()


def test_a_manifest_that_was_sealed_again_over_other_weights_is_refused(tmp_path: Path) -> None:
    """A user that can write to the folder can write seals; the update's digest decides."""
    transport = FilesTransport(tmp_path)
    update = transport.publish(VERSION, TENSORS)
    others = {"a": torch.zeros(4), "b": torch.ones(2, 2, dtype=torch.bfloat16)}
    forged = transport.publish(version_of("eve", 3, others), others)
    weights = (Path(forged.handle) / WEIGHTS).read_bytes()
    (Path(update.handle) / WEIGHTS).write_bytes(weights)
    from srl_agents.checkpoints.folder import seal_of, sha256_of

    path = Path(update.handle) / MANIFEST
    content = {k: v for k, v in json.loads(path.read_text()).items() if k != "seal"}
    content["sha256"] = sha256_of(Path(update.handle) / WEIGHTS)
    path.write_text(json.dumps(content | {"seal": seal_of(content)}))
    with pytest.raises(ModelError, match=f"{WEIGHTS}: the tensors have digest"):
        transport.open(update)


def test_a_damaged_version_is_published_again(tmp_path: Path) -> None:
    transport = FilesTransport(tmp_path)
    update = transport.publish(VERSION, TENSORS)
    (Path(update.handle) / WEIGHTS).write_bytes(b"gone")
    assert transport.publish(VERSION, TENSORS) == update
    assert torch.equal(transport.open(update)["a"], TENSORS["a"])


def test_closing_removes_what_a_killed_publisher_left(tmp_path: Path) -> None:
    (tmp_path / f".tmp-{VERSION}").mkdir()
    transport = FilesTransport(tmp_path)
    transport.publish(VERSION, TENSORS)
    transport.close()
    assert os.listdir(tmp_path) == [str(VERSION)]
