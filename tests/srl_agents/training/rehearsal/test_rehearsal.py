"""The learning step and the engine at full size on a device without numbers, in processes of their own."""

import subprocess
import sys

import pytest

from benchmarks.memory.rehearsals import CASES
from srl_agents.training.rehearsal.data_sites import ANSWERS, HOST_INDICES
from srl_agents.training.rehearsal.own_process import rehearsed
from srl_agents.training.rehearsal.seams import SEAMS
from srl_envs.errors import ModelError

MOST_SITES, MOST_SEAMS = 22, 16
UNDER, OVER = 0.93, 1.10
"""Plan divided by rehearsal, both without the 6 % that the plan adds for the allocator."""


def test_what_a_rehearsal_assumes_only_shrinks() -> None:
    assert len(ANSWERS) <= MOST_SITES
    assert len(SEAMS) <= MOST_SEAMS
    assert len(HOST_INDICES) <= 1


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_the_plan_of_a_recipe_is_its_rehearsal(case: str) -> None:
    recipe, device, overrides = CASES[case]
    found = rehearsed(recipe, overrides, device)["phases"]
    assert {"rollout", "train", "step"} <= set(found)
    assert ("judge" in found) == case.startswith("PPO")
    for name, own in found.items():
        assert UNDER < own["planned"] / own["rehearsed"] < OVER, name
    assert found["train"]["flops"] > 0
    assert found["rollout"]["flops"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "overrides", "said"),
    [
        ("qwen2.5-7b-80gb", ("engine={kind: vllm}",), "only the embedded engine is rehearsed"),
        ("two-bases-tiny", (), "a recipe with several bases is not rehearsed"),
    ],
)
def test_a_recipe_that_is_not_rehearsed_gives_its_reason(
    recipe: str, overrides: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        rehearsed(recipe, overrides, "a100-80gb")


_PLANTED = """
import torch
from srl_agents.training.rehearsal import device, ledger
ledger_ = ledger.Ledger()
with device.register(), ledger_:
    weights = torch.empty(4, 4, device="card")
    with ledger_.phase("one"):
        kept = torch.empty(1000, device="card")
        torch.empty(100, device="card")
    assert ledger_.peaks["one"] == 512 + 4096 + 512, ledger_.peaks
    assert ledger_.live == 512 + 4096, ledger_.live
    {planted}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "error"),
    [
        ("weights + torch.ones(4, 4)", "two devices"),
        ("weights @ torch.ones(4, 4)", "two devices"),
        ("float(weights.sum())", "reads a number"),
        ("weights[weights > 0]", "reads a number"),
        ("weights[torch.tensor([0, 1])]", "copied at every call"),
        ("weights[torch.tensor([0, 1])] = 1.0", "copied at every call"),
    ],
)
def test_mixed_devices_and_numbers_end_a_rehearsal(planted: str, error: str) -> None:
    program = _PLANTED.format(planted=planted)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert error in done.stderr
