"""What every transport must keep: exactly the published tensors, of exactly the version, or an error.

from srl_agents.testing import check_transport

def test_my_transport(tmp_path):
    check_transport(lambda folder: MyTransport(folder), tmp_path)
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Self

import torch

from srl_agents.models.digests import tensors_sha256, version_of
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.testing.advice import Promise, hold, require
from srl_agents.testing.resources import held, require_freed
from srl_agents.transports.protocol import Tensors, Transport
from srl_envs.errors import ModelError
from srl_envs.testing import ConformanceError

Make = Callable[[Path], Transport]
"""A transport that keeps its files, if it has any, in the folder; two of one folder see the same."""
Start = Literal["fork", "forkserver"]
"""How another process begins. CUDA does not outlive ``fork``; ``forkserver`` forks from a process that has
loaded torch and never asked for CUDA devices (bitsandbytes does when it is imported), and requires a `Make`
that can be pickled. Both take milliseconds."""
_KILLS = 10
_START_S = 60.0
"""Most seconds until another process begins, or answers."""
_READERS = 5
_REFUSED = "ModelError"
"""What a reader answers where it opened nothing."""


def check_transport(
    make: Make, folder: Path, *, crosses_processes: bool = False, start: Start = "fork"
) -> None:
    """Run all checks, each with a transport and a folder of its own.

    Args:
        make: builds the transport.
        folder: for scratch; need not exist.
        crosses_processes: other processes open what was published, which is checked, too.
        start: how those processes begin.

    Raises:
        ConformanceError: the first promise that is broken, and what to do about it.
    """
    hold("transport", CHECKS, make, folder)
    hold("transport", KILLED, make, folder, start)
    if crosses_processes:
        hold("transport between processes", CROSSING, make, folder, start)


def check_round_trip(make: Make, scratch: Path) -> None:
    """Names, types, shapes and bits arrive, bfloat16 and NaN included."""
    folder = _folder(scratch, "round_trip")
    transport = make(folder)
    tensors = _tensors(0)
    tensors["odd"] = torch.tensor([float("nan"), float("inf"), -0.0])
    tensors["small"] = torch.tensor([1e-40, 1.0], dtype=torch.bfloat16)
    tensors["empty"], tensors["scalar"] = torch.zeros(0, 3), torch.tensor(2.5)
    tensors["turned"] = torch.arange(6.0).reshape(2, 3).T
    version = version_of("alice", 1, tensors)
    update = transport.publish(version, tensors)
    require(update.version == version, "the update names another version than was published")
    _require_opens(transport, update, tensors, "what arrives is not what was published")
    shown = (("a board", "<action>1</action>"),)
    prompted = version_of("alice", 2, tensors, shown)
    update = transport.publish(prompted, tensors, version, shown)
    require(update.previous == version, "the update does not name the previous version")
    _require_opens(transport, update, tensors, "a version with examples does not arrive")
    transport.close()


def check_published_twice(make: Make, scratch: Path) -> None:
    """Publishing a version again changes nothing; two versions do not disturb each other."""
    folder = _folder(scratch, "published_twice")
    transport = make(folder)
    first, second = _publish(transport, 1), _publish(transport, 2)
    again = _publish(transport, 1)
    require(again == first, "publishing a version twice gives two different updates")
    for update, number in ((first, 1), (second, 2), (again, 1)):
        _require_opens(transport, update, _tensors(number), f"version {number} is another")
    transport.close()


def check_trainer_goes_on(make: Make, scratch: Path) -> None:
    """What the trainer does to its tensors changes no opened version, or the version is refused."""
    folder = _folder(scratch, "trainer_goes_on")
    transport = make(folder)
    tensors = _tensors(1)
    update = transport.publish(version_of("alice", 1, tensors), tensors)
    for tensor in tensors.values():
        tensor.data.zero_()  # as a kernel writes that no counter of torch's sees
    try:
        opened = transport.open(update)
    except ModelError:
        transport.close()
        return
    _require_equal(opened, _tensors(1), "a published version changed with the trainer's tensors")
    transport.close()


def check_wrong_digest(make: Make, scratch: Path) -> None:
    """A version whose digest is not that of the tensors is not published."""
    folder = _folder(scratch, "wrong_digest")
    transport, tensors = make(folder), _tensors(1)
    named = version_of("alice", 1, tensors)
    wrong = replace(named, digest="0" * 16)
    _require_refused(
        lambda: transport.publish(wrong, tensors), "a version with a wrong digest was published"
    )
    other = _tensors(1) | {"layer.weight": torch.zeros(3, 2)}
    _require_refused(
        lambda: transport.publish(named, other), "other tensors were published under a version"
    )
    transport.close()


def check_other_update(make: Make, scratch: Path) -> None:
    """An update that does not match the published files is refused."""
    folder = _folder(scratch, "other_update")
    transport = make(folder)
    update = _publish(transport, 1)
    for what, asked in _wrong(update).items():
        _require_refused(partial(transport.open, asked), f"{what}: opened all the same")
    _require_opens(transport, update, _tensors(1), "refusing damaged the version")
    transport.close()


def check_release(make: Make, scratch: Path) -> None:
    """A released version is gone, others stay, and releasing again does nothing."""
    folder = _folder(scratch, "release")
    transport = make(folder)
    first, second = _publish(transport, 1), _publish(transport, 2)
    opened = transport.open(first)
    for _ in range(2):
        transport.release(first.version)
    transport.release(version_of("bob", 9, _tensors(9)))
    _require_refused(lambda: transport.open(first), "a released version was opened")
    _require_opens(transport, second, _tensors(2), "releasing one version took another")
    _require_equal(opened, _tensors(1), "releasing changed tensors that an engine had opened")
    transport.close()
    transport.close()


def check_close_frees(make: Make, scratch: Path) -> None:
    """A third transport that was used and closed holds nothing, though it is still referred to."""
    closed = []
    before = None
    for number in range(3):
        transport = make(_folder(scratch, f"close_frees_{number}"))
        tensors = _large()
        update = transport.publish(version_of("alice", 1, tensors), tensors)
        opened = transport.open(update)
        del tensors, opened
        transport.close()
        closed.append(transport)
        if number == 1:  # the first may have filled caches of libraries
            before = held()
    if before is not None:
        require_freed(before, "after `close`")


def check_damage(make: Make, scratch: Path) -> None:
    """No changed, shortened, missing or foreign file of the transport is believed."""
    folder = _folder(scratch, "damage")
    transport = make(folder)
    update = _publish(transport, 1)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        content = path.read_bytes()
        if not content:  # a mark, such as who owns the folder, carries no weights
            continue
        for what, damaged in _damaged(content).items():
            path.write_bytes(damaged)
            _require_right_or_refused(transport, update, f"{path.name} {what}")
        path.unlink()
        _require_right_or_refused(transport, update, f"{path.name} missing")
        path.mkdir()
        _require_right_or_refused(transport, update, f"{path.name} as a folder")
        path.rmdir()
        path.write_bytes(content)
    _require_opens(transport, update, _tensors(1), "the restored files are refused")
    transport.close()


def check_killed_publication(make: Make, scratch: Path, start: Start = "fork") -> None:
    """A publisher that is killed leaves a version whole or not at all; the next one succeeds."""
    folder = _folder(scratch, "killed_publication")
    tensors = {f"part{k}": torch.full((512, 256), float(k)) for k in range(8)}
    version = version_of("alice", 1, tensors)
    for number in range(_KILLS):
        transport = make(folder)
        began = time.monotonic()
        update = transport.publish(version, tensors)
        lasts_s = time.monotonic() - began
        transport.release(version)
        with _Process(start, _publish_when_ready, make, folder, version, tensors) as publisher:
            publisher.hear("a publisher in another process does not begin")
            time.sleep(2 * lasts_s * (number + 0.5) / _KILLS)
        try:
            opened = transport.open(update)
        except ModelError:
            opened = tensors
        _require_equal(opened, tensors, "half of a killed publication was opened")
        again = transport.publish(version, tensors)
        _require_opens(transport, again, tensors, "after a kill a version does not arrive")
        transport.release(version)
        transport.close()


CHECKS: dict[str, Promise[[Make, Path]]] = {
    "round_trip": Promise(
        check_round_trip,
        "carry names, types, shapes and bits as they are, the examples, and the previous version.",
    ),
    "published_twice": Promise(
        check_published_twice, "make of a version that is published again the same update."
    ),
    "trainer_goes_on": Promise(
        check_trainer_goes_on,
        "copy the tensors when they are published, or compare their digest when they are opened.",
    ),
    "wrong_digest": Promise(
        check_wrong_digest,
        "compare the tensors with the version's digest before they are published.",
    ),
    "other_update": Promise(
        check_other_update, "compare what lies there with every field of the update."
    ),
    "release": Promise(
        check_release, "drop only the released version; releasing again does nothing."
    ),
    "close_frees": Promise(
        check_close_frees,
        "on `close`, end threads and child processes, close files and sockets, and drop references "
        "to tensors.",
    ),
    "damage": Promise(
        check_damage, "verify every file when it is opened, with its digest, and raise ModelError."
    ),
}
"""Name -> check, in one process."""
KILLED: dict[str, Promise[[Make, Path, Start]]] = {
    "killed_publication": Promise(
        check_killed_publication, "write aside, and rename once the whole version is on disk."
    ),
}
"""Name -> check, with a publisher in another process."""


def check_other_process(make: Make, scratch: Path, start: Start = "fork") -> None:
    """Another process opens each version as it was published, in any order, and no other one."""
    folder = _folder(scratch, "other_process")
    transport = make(folder)
    updates = [_publish(transport, number) for number in range(3)]
    transport.release(updates[1].version)
    for number in (2, 0):
        with _reader(start, make, folder, updates[number]) as reader:
            arrived = _answer(reader)
        require(arrived == _hashed(_tensors(number)), f"version {number} arrives as {arrived}")
    with _reader(start, make, folder, updates[1]) as reader:
        arrived = _answer(reader)
    require(arrived == _REFUSED, f"a released version is opened elsewhere: {arrived}")
    for what, asked in _wrong(updates[2]).items():
        with _reader(start, make, folder, asked) as reader:
            arrived = _answer(reader)
        require(arrived == _REFUSED, f"{what}: opened elsewhere all the same, as {arrived}")
    transport.close()


def check_reader_killed(make: Make, scratch: Path, start: Start = "fork") -> None:
    """A reader that is killed while it opens disturbs neither the publisher nor the next reader."""
    folder = _folder(scratch, "reader_killed")
    transport, tensors = make(folder), _large()
    update = transport.publish(version_of("alice", 1, tensors), tensors)
    began = time.monotonic()
    with _reader(start, make, folder, update) as reader:
        require(_answer(reader) == _hashed(tensors), "a large version arrives as another")
    lasts_s = time.monotonic() - began
    for number in range(_READERS):
        with _reader(start, make, folder, update) as reader:
            time.sleep(lasts_s * number / _READERS)
    with _reader(start, make, folder, update) as reader:
        require(_answer(reader) == _hashed(tensors), "after killed readers a version is another")
    _require_opens(transport, _publish(transport, 2), _tensors(2), "after killed readers")
    transport.close()


def check_publisher_killed(make: Make, scratch: Path, start: Start = "fork") -> None:
    """A publisher that is killed while others read leaves them right tensors or an error, soon."""
    folder, tensors = _folder(scratch, "publisher_killed"), _large()
    version = version_of("alice", 1, tensors)
    for number in range(_READERS):
        with _Process(start, _publish_and_wait, make, folder, version, tensors) as publisher:
            update = publisher.hear("a publisher in another process does not publish")
            with _reader(start, make, folder, update) as reader:
                time.sleep(0.05 * number)
                publisher.kill()
                arrived = _answer(reader)
        require(
            arrived in (_REFUSED, _hashed(tensors)), f"a killed publisher left a reader {arrived}"
        )
    transport = make(folder)
    update = transport.publish(version, tensors)
    with _reader(start, make, folder, update) as reader:
        require(_answer(reader) == _hashed(tensors), "the next publisher's version is another")
    transport.close()


def check_taken_over(make: Make, scratch: Path, start: Start = "fork") -> None:
    """A reader that goes on finds who publishes next: after a kill, and beside one that still lives."""
    folder = _folder(scratch, "taken_over")
    version, tensors = version_of("alice", 1, _tensors(1)), _tensors(1)
    with _Process(start, _open_and_tell_each, make, folder) as reader:

        def arrives(update: WeightUpdate, number: int, when: str) -> None:
            reader.tell(update)
            arrived = _answer(reader)
            require(
                arrived == _hashed(_tensors(number)), f"{when}, its version arrives as {arrived}"
            )

        with _Process(start, _publish_and_wait, make, folder, version, tensors) as killed:
            update = killed.hear("a publisher in another process does not publish")
            arrives(update, 1, "from the first publisher")
        second = make(folder)
        arrives(_publish(second, 2), 2, "from a publisher that follows a killed one")
        third = make(folder)
        arrives(_publish(third, 3), 3, "from a publisher beside another")
        last = _publish(second, 4)
        arrives(last, 4, "from a publisher that goes on after another began")
        third.close()
        arrives(last, 4, "from a publisher beside which another closed")
        second.close()


CROSSING: dict[str, Promise[[Make, Path, Start]]] = {
    "other_process": Promise(
        check_other_process, "let a transport of the same folder open what another one published."
    ),
    "reader_killed": Promise(
        check_reader_killed, "keep nothing per reader that its death could break."
    ),
    "publisher_killed": Promise(
        check_publisher_killed, "give every wait an end, and raise ModelError where it comes."
    ),
    "taken_over": Promise(
        check_taken_over,
        "let readers look for the publisher at every open, let the publisher announce where it is, and "
        "close only what is one's own.",
    ),
}
"""Name -> check, of transports that cross processes."""


# --- what the checks use -----------------------------------------------------------------------


def _folder(scratch: Path, name: str) -> Path:
    folder = scratch / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _tensors(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(3, 2, generator=generator)
    return {
        "layer.weight": weight,
        "layer.bias": weight[0].to(torch.bfloat16),
        "seen": weight > 0.5,
    }


def _publish(transport: Transport, number: int) -> WeightUpdate:
    tensors = _tensors(number)
    return transport.publish(version_of("alice", number, tensors), tensors)


def _large() -> dict[str, torch.Tensor]:
    """16 MiB."""
    return {f"part{k}": torch.full((1024, 1024), float(k)) for k in range(4)}


def _hashed(tensors: dict[str, torch.Tensor]) -> str:
    return tensors_sha256(tensors)


class _Process:
    """Another process, killed at the end of the block.

    Args:
        start: how it begins.
        work: what it does; gets its end of a pipe and the rest.
        *given: for the work.
    """

    def __init__(self, start: Start, work: Callable[..., None], *given: Any) -> None:
        context: Any = multiprocessing.get_context(start)
        if start == "forkserver":
            context.set_forkserver_preload([__name__])
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, *given), daemon=True)
        self._process.start()
        theirs.close()

    def hear(self, otherwise: str) -> Any:
        """The next message of the process; if none comes, fail with ``otherwise``."""
        require(self._pipe.poll(_START_S), f"{otherwise} within {_START_S:g} s")
        try:
            return self._pipe.recv()
        except EOFError:
            raise ConformanceError(f"{otherwise}: it ended") from None

    def tell(self, what: object) -> None:
        """Say something to it."""
        self._pipe.send(what)

    def kill(self) -> None:
        """Kill the process at once, as `kill -9` does."""
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _reader(start: Start, make: Make, folder: Path, update: WeightUpdate) -> _Process:
    return _Process(start, _open_and_tell, make, folder, update)


def _answer(reader: _Process) -> str:
    """SHA-256 of what a reader opened, or that it was refused."""
    return str(reader.hear("a reader has no answer"))


def _alone() -> None:
    """Be a process of one's own: a fork has no threads but its first, and ends nothing of its parent's."""
    torch.set_num_threads(1)
    gc.disable()


def _open_and_tell(pipe: Connection, make: Make, folder: Path, update: WeightUpdate) -> None:
    _alone()
    pipe.send(_opened(make(folder), update))


def _open_and_tell_each(pipe: Connection, make: Make, folder: Path) -> None:
    """Open by one transport what is asked for, until killed."""
    _alone()
    transport = make(folder)
    while True:
        pipe.send(_opened(transport, pipe.recv()))


def _opened(transport: Transport, update: WeightUpdate) -> str:
    try:
        return _hashed(transport.open(update))
    except ModelError:
        return _REFUSED


def _publish_when_ready(
    pipe: Connection, make: Make, folder: Path, version: WeightVersion, tensors: Tensors
) -> None:
    _alone()
    transport = make(folder)
    pipe.send(True)
    transport.publish(version, tensors)


def _publish_and_wait(
    pipe: Connection, make: Make, folder: Path, version: WeightVersion, tensors: Tensors
) -> None:
    _alone()
    transport = make(folder)
    pipe.send(transport.publish(version, tensors))
    pipe.recv()  # waits until it is killed


def _damaged(content: bytes) -> dict[str, bytes]:
    """Ways in which a file may be wrong."""
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    return {
        "with a changed byte": flipped,
        "with a changed last byte": content[:-1] + bytes([content[-1] ^ 1]),
        "cut": content[:middle],
        "empty": b"",
        "longer": content + b"\0" * 8,
        "of something else": b"[" * 4096,
        "of a huge header": b"\xff" * 8 + content,
    }


def _wrong(update: WeightUpdate) -> dict[str, WeightUpdate]:
    """Updates that say something else than was published."""
    return {
        "another digest": replace(update, version=replace(update.version, digest="0" * 16)),
        "another number": replace(update, version=replace(update.version, number=7)),
        "other tensors": replace(update, tensors=update.tensors[:-1]),
        "another type": replace(
            update, tensors=tuple(replace(h, dtype="F64") for h in update.tensors)
        ),
        "other examples": replace(update, shown=(("a board", "a reply"),)),
    }


def _require_equal(
    found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], promise: str
) -> None:
    require(found.keys() == expected.keys(), f"{promise}: names {sorted(found)}")
    for name, tensor in expected.items():
        same = found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        require(same, f"{promise}: {name} is {found[name].dtype} {tuple(found[name].shape)}")
        bits = [
            t.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            for t in (found[name], tensor)
        ]
        require(torch.equal(*bits), f"{promise}: {name} has other bits")


def _require_opens(
    transport: Transport, update: WeightUpdate, expected: dict[str, torch.Tensor], promise: str
) -> None:
    try:
        opened = transport.open(update)
    except ModelError as error:
        raise ConformanceError(f"{promise}: {error}") from error
    _require_equal(opened, expected, promise)


def _require_refused(act: Callable[[], object], fault: str) -> None:
    try:
        act()
    except ModelError:
        return
    raise ConformanceError(fault)


def _require_right_or_refused(transport: Transport, update: WeightUpdate, what: str) -> None:
    try:
        opened = transport.open(update)
    except ModelError as error:
        require(len(str(error)) > 20, f"{what}: the error names no cause")
        return
    _require_equal(opened, _tensors(1), f"{what} was opened")
