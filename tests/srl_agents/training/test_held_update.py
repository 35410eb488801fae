"""The copy of an update that no checkpoint holds: later steps do not change it, in memory or in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from srl_agents.training.loop.state import Gathered


@pytest.mark.parametrize("in_a_file", [False, True])
def test_later_steps_do_not_change_a_copy(tmp_path: Path, in_a_file: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(3, 4))
    group = {"weight": weight.detach(), "step": torch.tensor(7.0), "none": torch.empty(0)}
    whole = Gathered(done=1, tensors={"alice": group}, state={"number": [1]}, score=None)

    held = whole.copied(tmp_path if in_a_file else None)
    with torch.no_grad():
        weight.mul_(2)
    whole.state["number"].append(2)

    assert torch.equal(held.tensors["alice"]["weight"], torch.ones(3, 4))
    assert held.tensors["alice"]["step"] == 7
    assert held.tensors["alice"]["none"].shape == (0,)
    assert held.state == {"number": [1]}
    assert weight.data_ptr() != held.tensors["alice"]["weight"].data_ptr()
    assert not list(tmp_path.iterdir())  # the file has no name
