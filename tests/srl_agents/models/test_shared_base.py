"""A base that two processes map is the base, bit for bit, and its weights are in memory once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from srl_agents.models.base_model import BaseModel
from srl_agents.models.shared_base import share_weights
from srl_envs.errors import ModelError

IDS = torch.arange(3, 11)[None]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[BaseModel, torch.Tensor, Path]:
    """A base, its logits before it was shared, and the file."""
    base = BaseModel.load("tiny", lora_rank=2, device="cpu")
    base.add_adapter("alice", 0)
    with torch.no_grad():
        before = base.model(input_ids=IDS).logits
    path = tmp_path_factory.mktemp("run") / "shared_base.safetensors"
    share_weights(base, path)
    return base, before, path


def test_both_sides_compute_what_the_base_did(
    shared: tuple[BaseModel, torch.Tensor, Path],
) -> None:
    base, before, path = shared
    other = BaseModel.load("tiny", lora_rank=2, device="cpu", weights=path)
    with torch.no_grad():
        assert torch.equal(base.model(input_ids=IDS).logits, before)
        assert torch.equal(other.model(input_ids=IDS).logits, before)
    assert other.eos_token_ids == base.eos_token_ids
    assert other.model.dtype == base.model.dtype


def test_all_frozen_weights_lie_in_the_file(shared: tuple[BaseModel, torch.Tensor, Path]) -> None:
    base, _, path = shared
    other = BaseModel.load("tiny", lora_rank=2, device="cpu", weights=path)
    maps = [
        tuple(int(end, 16) for end in line.split()[0].split("-"))
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.endswith(path.name)
    ]
    for side in (base, other):
        inner = side.model.get_base_model()
        places = [p.data_ptr() for name, p in inner.named_parameters() if ".lora_" not in name]
        assert all(any(begin <= place < end for begin, end in maps) for place in places)


def test_a_file_that_is_no_base_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="holds no weights of"):
        BaseModel.load("tiny", device="cpu", weights=tmp_path / "w")
