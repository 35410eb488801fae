"""Several processes share work and agree; a single process does all of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import FileStore, HashStore, ProcessGroupGloo  # type: ignore[attr-defined]

from srl_agents.coordination.processes import LostProcessError, Processes, take_own_gpu
from srl_agents.training.folder.process_copies import own_folder
from srl_envs.errors import ConfigError, ModelError


def together(size: int, work: Callable[[Processes], Any]) -> list[Any]:
    """What ``work`` returns, or raises, in each of so many connected processes (threads here)."""
    store, found = HashStore(), [None] * size

    def run(rank: int) -> None:
        group = ProcessGroupGloo(store, rank, size, timedelta(seconds=60))
        try:
            found[rank] = work(Processes(rank, size, group))
        except ModelError as error:
            found[rank] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_all_hear_what_each_gives_whatever_its_length() -> None:
    given = together(3, lambda p: p.gather({"rank": p.rank, "long": "x" * 1000 * p.rank}))
    assert given[0] == given[1] == given[2]
    assert [part["rank"] for part in given[0]] == [0, 1, 2]
    assert [len(part["long"]) for part in given[0]] == [0, 1000, 2000]


def test_all_hear_what_the_first_gives() -> None:
    given = together(3, lambda p: p.from_first({"of": p.rank, "bytes": b"x" * 100}))
    assert given == [{"of": 0, "bytes": b"x" * 100}] * 3
    assert Processes().from_first({"of": 0}) == {"of": 0}


LEAVES = """
import os, sys
from datetime import timedelta
from torch.distributed import FileStore, ProcessGroupGloo
from srl_agents.coordination.processes import Processes
group = ProcessGroupGloo(FileStore(sys.argv[1], 2), 1, 2, timedelta(seconds=300))
Processes(1, 2, group).gather(1)
os._exit(9)
"""


@pytest.mark.slow
def test_the_end_of_another_process_has_a_name(tmp_path: Path) -> None:
    meeting = str(tmp_path / "meeting")
    with subprocess.Popen([sys.executable, "-c", LEAVES, meeting]) as other:
        group = ProcessGroupGloo(FileStore(meeting, 2), 0, 2, timedelta(seconds=300))
        processes = Processes(0, 2, group)
        assert processes.gather(0) == [0, 1]
        for give in (processes.gather, processes.from_first):
            with pytest.raises(LostProcessError, match="another process of this run is gone"):
                give("more")
        with pytest.raises(LostProcessError):
            processes.sum({"a": torch.zeros(3)})
    assert other.returncode == 9


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_shared_out_work_comes_back_in_its_order(count: int) -> None:
    def work(processes: Processes) -> list[int]:
        mine = [number for number in range(count) if processes.mine(number)]
        return processes.interleave([10 * number for number in mine])

    expected = [10 * number for number in range(count)]
    assert together(3, work) == [expected] * 3
    assert work(Processes()) == expected


def test_sums_are_the_same_everywhere_also_of_tensors_that_some_lack() -> None:
    def work(processes: Processes) -> dict[str, torch.Tensor]:
        own = {f"of {processes.rank}": torch.full((2, 3), 2.0), "all": torch.full((5,), 0.1)}
        return processes.sum(own)

    found = together(3, work)
    expected = {f"of {rank}": torch.full((2, 3), 2.0) for rank in range(3)}
    expected["all"] = torch.full((5,), 0.3)
    for sums in found:
        assert sums.keys() == expected.keys()
        for name, tensor in sums.items():
            torch.testing.assert_close(tensor, expected[name])
            assert torch.equal(tensor, found[0][name])
    assert Processes().sum({}) == {}


def test_different_weights_are_found_in_every_process() -> None:
    def work(processes: Processes) -> None:
        weights = {"a": torch.zeros(3), "b": torch.ones(2, dtype=torch.bfloat16)}
        processes.require_equal("weights", weights)
        weights["b"][1] += processes.rank
        processes.require_equal("weights", weights)

    found = together(2, work)
    assert all(isinstance(error, ModelError) for error in found)
    assert "weights differ between the processes" in str(found[0])


def test_only_the_first_process_writes_into_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "kept").write_text("before")
    (folder / "league.db.lock").write_text("")

    def work(processes: Processes) -> tuple[Path, list[str]]:
        with own_folder(folder, processes) as own:
            seen = sorted(path.name for path in own.iterdir())
            processes.gather(None)
            (own / f"by-{processes.rank}").write_text("")
            return own, seen

    (first, _), (second, seen) = together(2, work)
    assert first == folder
    assert not second.exists()
    assert seen == ["kept"]
    assert sorted(path.name for path in folder.iterdir()) == ["by-0", "kept", "league.db.lock"]


def test_alone_unless_torchrun_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    processes = Processes.join("cpu")
    assert processes.first
    assert processes.size == 1
    assert processes.gather(7) == [7]
    assert all(processes.mine(number) for number in range(5))


def test_one_process_of_torchrun_is_alone_and_libraries_do_not_hear_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        monkeypatch.setenv(name, value)
    assert Processes.join("cpu").size == 1
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & set(os.environ)


@pytest.mark.parametrize("size", ["2", "many"])
def test_several_processes_that_nobody_numbered_are_refused(
    size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", size)
    monkeypatch.setenv("LOCAL_RANK", "0")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=rf"WORLD_SIZE={size}.* RANK, MASTER_ADDR"):
        Processes.join("cpu")


@pytest.mark.parametrize(
    ("device", "taken"), [("auto", [1]), ("cuda", [1]), ("cuda:0", []), ("cpu", [])]
)
def test_a_process_takes_a_gpu_only_where_models_will_be_on_it(
    device: str, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", seen.append)
    take_own_gpu(device, 3)
    assert seen == taken
