"""Roles leave and come as phases say; memory is measured, and the budget is kept or the run ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from srl_agents.memory.phase_manager import HostGauge, PhaseManager
from srl_agents.models.memory.mapped_tensors import MappedTensors
from srl_agents.models.memory.tensor_roles import HostRole
from srl_envs.errors import MemoryLimitError

MIB = 2**20


class Scripted:
    """A role and a gauge whose bytes a test sets."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes, self.there = sizes, set(sizes)
        self.moves: list[str] = []
        self.extra = self.most = 0

    def role(self, name: str) -> ScriptedRole:
        return ScriptedRole(self, name)

    def now(self) -> int:
        used = sum(self.sizes[name] for name in self.there) + self.extra
        self.most = max(self.most, used)
        return used

    def peak(self) -> int:
        return max(self.most, self.now())

    def restart(self) -> None:
        self.most = 0


class ScriptedRole:
    def __init__(self, machine: Scripted, name: str) -> None:
        self.machine, self.name = machine, name

    def leave(self) -> None:
        self.machine.there.discard(self.name)

    def come(self) -> None:
        self.machine.there.add(self.name)
        self.machine.now()


NEEDS = {
    "play": frozenset({"base"}),
    "learn": frozenset({"base", "state"}),
    "judge": frozenset({"judge"}),
}


def managed(budget: int | None, trace: Path | None = None) -> tuple[Scripted, PhaseManager]:
    machine = Scripted({"base": 60, "state": 30, "judge": 50})
    roles = {name: machine.role(name) for name in machine.sizes}
    return machine, PhaseManager(roles, NEEDS, machine, budget=budget, trace=trace)


def test_no_phase_has_more_than_its_roles_where_there_is_a_budget(tmp_path: Path) -> None:
    trace = tmp_path / "memory.jsonl"
    machine, manager = managed(100, trace)

    for number, name in enumerate(["play", "learn", "judge", "play"]):
        manager.update = number
        with manager.phase(name):
            assert machine.there == NEEDS[name]

    traced = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [line["peak"] for line in traced] == [60, 90, 50, 60]  # all at once would be 140
    assert [line["freed"] for line in traced] == [80, -30, 40, -10]


def test_a_phase_that_is_written_down_early_has_one_line(tmp_path: Path) -> None:
    trace = tmp_path / "memory.jsonl"
    _, manager = managed(None, trace)

    with manager.phase("play"):
        manager.write_down()
        assert [json.loads(line)["phase"] for line in trace.read_text().splitlines()] == ["play"]
    with manager.phase("learn"), manager.phase("judge", traced=False):
        manager.write_down()  # of the innermost phase, which gets no line
    manager.write_down()

    traced = [json.loads(line)["phase"] for line in trace.read_text().splitlines()]
    assert traced == ["play", "learn"]


def test_without_a_budget_nothing_is_refused_and_all_is_measured() -> None:
    machine, manager = managed(None)

    with manager.phase("judge"):
        assert machine.there == {"judge"}
        machine.extra = 1000
        machine.now()

    assert manager.peaks == {"judge": 1050}


def learn_with_a_peak(machine: Scripted, manager: PhaseManager) -> None:
    with manager.phase("learn"):
        machine.extra = 20
        machine.now()
        machine.extra = 0  # given back before the phase is over


def test_a_phase_that_takes_more_than_the_budget_ends_with_its_name_and_roles() -> None:
    machine, manager = managed(100)

    with pytest.raises(MemoryLimitError, match=r"phase 'learn' of update 0 took .* base, state"):
        learn_with_a_peak(machine, manager)


def test_a_role_that_gives_nothing_back_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, manager = managed(100)
    monkeypatch.setattr(ScriptedRole, "leave", lambda self: None)
    with pytest.raises(MemoryLimitError), manager.phase("play"):
        pass


def test_an_outer_phase_has_the_peak_of_inner_ones() -> None:
    machine, manager = managed(None)

    with manager.phase("update"):
        with manager.phase("learn"):
            machine.extra = 70
            machine.now()
            machine.extra = 0
        machine.now()

    assert manager.peaks == {"learn": 160, "update": 160}


def test_tensors_leave_resident_memory_and_come_back_with_their_numbers(tmp_path: Path) -> None:
    gauge, state = HostGauge(), torch.rand(16 * MIB // 4)
    parameter = torch.nn.Parameter(torch.rand(4 * MIB, 4))  # 64 MiB
    view, small = parameter.detach(), torch.rand(3)
    expected = parameter.detach()[::1000].clone(), state[::1000].clone()
    role = HostRole(lambda: [parameter, state, small], tmp_path)
    del view

    role.leave()
    role.leave()
    gone = gauge.now()
    role.come()
    with torch.no_grad():
        parameter.add_(0.0)  # touches every page

    assert gauge.now() - gone > 60 * MIB
    assert torch.equal(parameter.detach()[::1000], expected[0])
    assert torch.equal(state[::1000], expected[1])
    with torch.no_grad():
        parameter[0] = 7.0
    role.leave()
    assert parameter[0, 0] == 7.0  # what was written is not lost
    assert list(tmp_path.iterdir()) == []  # the file has no name


def test_state_that_comes_later_leaves_too(tmp_path: Path) -> None:
    held: list[torch.Tensor] = []
    role = HostRole(lambda: held, tmp_path)
    role.leave()
    held.append(torch.ones(MIB))
    role.leave()
    held.append(torch.full((MIB,), 2.0))
    role.leave()

    assert [float(tensor.sum()) for tensor in held] == [MIB, 2.0 * MIB]


def test_a_tensor_of_any_type_and_shape_keeps_both(tmp_path: Path) -> None:
    tensors = [
        torch.arange(6).view(2, 3),
        torch.tensor(1.5),
        torch.rand(5).bfloat16(),
        torch.rand(4, 3).T,
        torch.arange(200, dtype=torch.uint8),
        torch.empty(0, 3),
    ]
    copies = [tensor.clone() for tensor in tensors]

    mapped = MappedTensors(tensors, tmp_path)
    mapped.leave_memory()

    for tensor, copy in zip(tensors, copies, strict=True):
        assert mapped.holds(tensor) or not tensor.numel()
        assert tensor.dtype == copy.dtype
        assert torch.equal(tensor, copy)
