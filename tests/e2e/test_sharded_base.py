"""Two processes that divide a base's layers train what one process does, and each holds half of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM

from srl_agents.cli.plan.run import plan_of
from srl_agents.coordination.processes import Processes
from srl_agents.memory.devices import target_of
from srl_agents.metrics.sinks import read_lines
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources.catalog import TINY
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from tests.forked_commands import (
    finish_as_torchrun,
    finish_command,
    start_function,
    torchruns_variables,
)
from tests.training_runs import train_run

pytestmark = pytest.mark.slow

RECIPE = """
name: divided
model: tiny
device: cpu
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
coordination: {kind: synchronized}
rollout: {start_states: 1, group_size: 5, max_new_tokens: 6}
opponents: {mirror: 1, live: 1, past: 0}
training: {optimizer: sgd, learning_rate: 0.3, max_grad_norm: 0, micro_batch_rows: 3}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 1
"""


def train(folder: Path, processes: int, *settings: str) -> Path:
    (folder / "r.yaml").write_text(RECIPE)
    run = folder / f"run{processes}"
    if processes == 1:
        train_run(load(LeagueRecipe, folder / "r.yaml", settings), run)
    else:
        overrides = [part for setting in settings for part in ("--set", setting)]
        command = ["train", str(folder / "r.yaml"), "--out", str(run), *overrides]
        finish_as_torchrun(command, folder / "log", processes)
    return run


@pytest.mark.filterwarnings(
    "ignore::FutureWarning"
)  # PEFT asks what transformers calls otherwise now
def test_a_divided_base_trains_resumes_and_exports_as_a_whole_one(tmp_path: Path) -> None:
    whole = train(tmp_path, 1)
    train(tmp_path, 2, "memory.sharded=true", "updates=1")
    divided = train(tmp_path, 2, "memory.sharded=true")
    assert [line["update"] for line in read_lines(divided / "metrics.jsonl")] == [1, 2]
    for learner in ("alice", "bob"):
        place = f"checkpoints/step-00000002/{learner}.adapter.safetensors"
        weights, other = load_file(whole / place), load_file(divided / place)
        for key, tensor in weights.items():
            torch.testing.assert_close(other[key], tensor, atol=1e-6, rtol=0)
        assert any(t.abs().max() > 1e-3 for key, t in weights.items() if "lora_B" in key)
    base = AutoModelForCausalLM.from_pretrained(TINY)
    plain = PeftModel.from_pretrained(base, str(divided / "adapters" / "alice"))
    factors = {
        key: parameter for key, parameter in plain.named_parameters() if ".lora_B.default" in key
    }
    assert max(float(parameter.detach().abs().max()) for parameter in factors.values()) > 1e-3


def check_halves() -> None:
    """In each of the processes that divide a base."""
    processes = Processes.join("cpu")
    whole = BaseModel.load("tiny", lora_rank=2, device="cpu")
    base = BaseModel.load("tiny", lora_rank=2, device="cpu", mesh=processes.mesh("cpu"))
    layers: Any = base._sharded
    weights: Any = whole._weights
    own = whole.model.get_base_model().model.layers
    full = sum(p.nbytes for p in own.parameters() if not p.requires_grad)
    adapters = sum(p.nbytes for name, p in own.named_parameters() if ".lora_" in name)
    ids = torch.arange(3, 9 + processes.rank)[None]
    for model in (whole, base):
        model.add_adapter("alice", 1)
        model.activate("alice")
        model.model(input_ids=ids).logits.square().mean().backward()
    one, other = (m.trainable_parameters("alice") for m in (whole, base))
    for key, parameter in one.items():
        assert parameter.grad is not None
        expected = other[key].grad
        assert expected is not None
        assert torch.equal(parameter.grad, expected)
    playing = layers.tree.model.layers[0].mlp.up_proj.weight
    assert playing.numel() == 0
    with base.whole():
        assert torch.equal(playing, weights._tree.model.layers[0].mlp.up_proj.weight)
    assert playing.numel() == 0
    assert abs(layers.local_bytes / (full - adapters) - 0.5) < 0.01
    check_plan(base, processes.size)
    print("halves")


def check_plan(base: BaseModel, processes: int) -> None:
    """Compare what `srl plan` counts for a process with the tensors that it has."""
    parts = planned(processes)
    model = base.model.get_base_model()
    layers = model.model.layers

    def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
        local = (t.to_local() if isinstance(t, DTensor) else t for t in tensors)
        return sum(tensor.nbytes for tensor in local)

    frozen = [p for name, p in model.named_parameters() if ".lora_" not in name]
    assert bytes_of(frozen) == pytest.approx(parts["train"]["base"], rel=0.01)
    sharded: Any = base._sharded
    with base.whole():
        gathered = bytes_of(sharded.tree.model.layers.parameters())
        assert gathered == pytest.approx(parts["rollout"]["gathered layers"], rel=0.01)
    seen: list[int] = []

    def count_gathered(*_: object) -> None:
        weights = [layer.mlp.up_proj.base_layer.weight for layer in layers]
        seen.append(sum(not isinstance(weight, DTensor) for weight in weights))

    for layer in layers:
        layer.mlp.up_proj.register_forward_hook(count_gathered)
        layer.mlp.up_proj.register_full_backward_hook(count_gathered)
    base.model(input_ids=torch.arange(3, 9)[None]).logits.square().mean().backward()
    one_layer = gathered / len(layers)
    assert len(seen) == 2 * len(layers)
    assert max(seen) * one_layer <= parts["train"]["gathered layers"] * 1.001


def planned(processes: int) -> dict[str, dict[str, float]]:
    """Parts of each phase that `srl plan` counts for one process."""
    override = ("model=tiny", "lora.rank=2", "memory.sharded=true", "updates=1")
    return {
        phase.name: phase.parts
        for phase in plan_of(
            "quickstart-tiny", target_of("cpu"), override, processes=processes
        ).phases
    }


def test_each_process_holds_half_and_its_own_gradients_are_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    started = [start_function(check_halves, (), log, own) for own in torchruns_variables(2)]
    for process in started:
        finish_command(process, log)
    assert log.read_text().count("halves") == 2
