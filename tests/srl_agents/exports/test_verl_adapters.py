"""Adapters go to veRL and come back as PEFT folders, through veRL's own code, with every weight as it was."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from srl_agents.agents.grammar import ModelName
from srl_agents.agents.resolver import check_adapter
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model

pytest.importorskip(
    "verl", reason="verl 0.9 is not installed: `make doors` makes an environment with it"
)
pytestmark = pytest.mark.filterwarnings("ignore")  # of veRL and its dependencies


def begun(model: Path, adapter: Path) -> Any:
    """What a worker of veRL begins with, given ``actor_rollout_ref.model.lora_adapter_path``."""
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    worker = SimpleNamespace(
        model_config=SimpleNamespace(lora_adapter_path=str(adapter), use_shm=False)
    )
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    return FSDPEngine._build_lora_module(worker, base).eval()


def merged(trained: Any, folder: Path) -> Path:
    """What ``verl.model_merger`` writes of a worker's checkpoint."""
    from verl.model_merger.base_model_merger import BaseModelMerger
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

    folder.mkdir()
    rank = SimpleNamespace(rank=0)
    rank._get_lora_train_meta = FSDPCheckpointManager._get_lora_train_meta.__get__(rank)
    FSDPCheckpointManager._save_lora_train_meta(rank, str(folder), trained)
    merger = SimpleNamespace(config=SimpleNamespace(target_dir=str(folder), local_dir=str(folder)))
    merger._load_lora_train_meta = BaseModelMerger._load_lora_train_meta.__get__(merger)
    weights = {name: tensor.clone() for name, tensor in trained.state_dict().items()}
    return Path(BaseModelMerger.save_lora_adapter(merger, weights))


def test_an_adapter_goes_to_verl_and_comes_back(tmp_path: Path) -> None:
    model = random_model.build(tmp_path / "model")
    ours = BaseModel.load(model, lora_rank=4, lora_alpha=8, device="cpu")
    ours.add_adapter("alice", seed=0)
    generator = torch.Generator().manual_seed(0)
    weights = {
        name: torch.randn(tensor.shape, generator=generator) / 20
        for name, tensor in ours.adapter_tensors("alice").items()
    }
    ours.set_adapter_tensors("alice", weights)
    ours.save_adapter("alice", tmp_path / "alice")

    theirs = begun(model, tmp_path / "alice")
    ids = torch.arange(3, 40)[None]
    with torch.no_grad(), ours.through("alice"):
        assert torch.allclose(theirs(ids).logits, ours.model(ids).logits, atol=1e-5)
    with torch.no_grad():  # what training there does to them
        for tensor in (t for t in theirs.parameters() if t.requires_grad):
            tensor.add_(0.01)
        changed = theirs(ids).logits

    back = merged(theirs, tmp_path / "checkpoint")
    assert check_adapter(ModelName(model=str(model), adapter=str(back))) == (4, 8)
    ours.load_adapter("bob", back)
    returned = ours.adapter_tensors("bob")
    assert returned.keys() == weights.keys()
    assert all(torch.allclose(returned[key], weights[key] + 0.01) for key in weights)
    with torch.no_grad(), ours.through("bob"):
        assert torch.allclose(changed, ours.model(ids).logits, atol=1e-5)
