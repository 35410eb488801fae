"""What only a card can show of memory: kernels, pinned copies, allocated bytes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from srl_agents.models.base_model import BaseModel
from srl_agents.models.memory.tensor_roles import DeviceGauge, DeviceRole
from srl_agents.models.sources import random_model
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.passes.log_probabilities import LogitForm, token_log_probabilities

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")


@pytest.fixture
def base(tmp_path: Path) -> BaseModel:
    return BaseModel.load(random_model.build(tmp_path / "model"), lora_rank=4, device="cuda")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tiles_score_as_all_logits_do(dtype: torch.dtype) -> None:
    hidden = torch.randn(300, 64, device=CUDA, dtype=dtype).requires_grad_()
    weight = torch.randn(50_000, 64, device=CUDA, dtype=dtype) * 0.1
    targets = torch.randint(0, 50_000, (300,), device=CUDA)
    exact = hidden.detach().float().requires_grad_()
    logps = (exact @ weight.float().T).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    logps.sum().backward()

    own, _ = token_log_probabilities(hidden, weight, targets, LogitForm())
    own.sum().backward()

    near = 1e-3 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(own, logps, rtol=near, atol=near)
    assert hidden.grad is not None
    torch.testing.assert_close(hidden.grad.float(), exact.grad, rtol=near, atol=near)


def test_a_role_leaves_the_card_and_comes_back_unchanged() -> None:
    gauge, tensor = DeviceGauge(CUDA), torch.rand(2**24, device=CUDA)  # 64 MiB
    expected, before = float(tensor.double().sum()), gauge.now()
    role = DeviceRole(lambda: [tensor], CUDA)

    role.leave()

    assert gauge.now() <= before - 2**26
    assert tensor.is_pinned()
    role.come()
    assert tensor.device.type == "cuda"
    assert float(tensor.double().sum()) == expected


def test_a_base_in_four_bits_holds_fewer_bytes(tmp_path: Path) -> None:
    folder = random_model.build(tmp_path / "model", hidden=512, layers=4)
    gauge, start = DeviceGauge(CUDA), DeviceGauge(CUDA).now()
    plain = BaseModel.load(folder, dtype="bfloat16", device="cuda")
    whole = gauge.now() - start
    del plain
    start = gauge.now()

    BaseModel.load(folder, dtype="bfloat16", quantization="nf4", device="cuda")

    assert gauge.now() - start < whole


@pytest.mark.parametrize("optimizer", ["paged_adamw_8bit", "adamw_8bit"])
def test_an_eight_bit_optimizer_steps(base: BaseModel, optimizer: str) -> None:
    from tests.srl_agents.trainers.conftest import sample_batch

    settings = GRPOSettings(optimizer=optimizer, learning_rate=1e-2)
    learner = GRPOLearner("alice", base, settings, 1.0, seed=0)
    before = base.adapter_tensors("alice")

    learner.update(sample_batch(base, "alice"))

    after = base.adapter_tensors("alice")
    assert any(not torch.equal(after[key], before[key]) for key in after)


@pytest.mark.skipif(
    importlib.util.find_spec("flash_attn") is None, reason="flash-attn is not installed"
)
def test_packed_rows_through_flash_attention_are_padded_rows_under_sdpa(tmp_path: Path) -> None:
    from tests.srl_agents.trainers.conftest import sample_batch

    folder = random_model.build(tmp_path / "model")
    norms = []
    for attention, pack in (("sdpa", False), ("flash_attention_2", True)):
        base = BaseModel.load(
            folder,
            lora_rank=4,
            dtype="bfloat16",
            attention=attention,  # type: ignore[arg-type]
            device="cuda",
        )
        learner = GRPOLearner("alice", base, GRPOSettings(pack_rows=pack), 1.0, seed=0)
        norms.append(learner.compute_gradients(sample_batch(base, "alice"))["grad_norm"])
    assert norms[1] == pytest.approx(norms[0], rel=0.05)


def test_tf32_rounds_products_of_float32_matrices() -> None:
    from srl_agents.models.model_loading import allow_tf32

    left, right = (torch.randn(256, 256, device=CUDA) for _ in "ab")
    exact = left.double() @ right.double()
    errors = []
    try:
        for allowed in (False, True):
            allow_tf32(allowed)
            errors.append(float((left @ right - exact).abs().max()))
    finally:
        allow_tf32(False)
    assert errors[1] > 10 * errors[0]
