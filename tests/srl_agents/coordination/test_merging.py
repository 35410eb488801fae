"""Low-rank adapters merged, against matrices multiplied out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.coordination.members import Tensors
from srl_agents.coordination.merging import (
    merge_entries,
    merge_gap,
    merge_products,
    softmax_weights,
)
from srl_envs.errors import ConfigError

LAYERS = {"q": (5, 4), "v": (3, 6)}
SHARES = st.lists(st.integers(0, 4), min_size=2, max_size=4).filter(sum)


def adapter(seed: int, rank: int = 2, zero_b: bool = False) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer, (out, into) in LAYERS.items():
        tensors[f"{layer}.lora_A.weight"] = torch.randn(rank, into, generator=generator)
        b = torch.randn(out, rank, generator=generator)
        tensors[f"{layer}.lora_B.weight"] = b * (not zero_b)
    return tensors


def products(tensors: Tensors) -> Tensors:
    return {
        layer: tensors[f"{layer}.lora_B.weight"].double()
        @ tensors[f"{layer}.lora_A.weight"].double()
        for layer in LAYERS
    }


def average(adapters: list[Tensors], weights: list[float]) -> Tensors:
    parts = [products(a) for a in adapters]
    return {
        layer: torch.stack([w * p[layer] for w, p in zip(weights, parts, strict=True)]).sum(0)
        for layer in LAYERS
    }


def test_factors_by_hand() -> None:
    one = {"l.lora_A.weight": torch.tensor([[1.0, 0.0]]), "l.lora_B.weight": torch.tensor([[2.0]])}
    two = {"l.lora_A.weight": torch.tensor([[0.0, 1.0]]), "l.lora_B.weight": torch.tensor([[4.0]])}
    merged = merge_entries([one, two], [0.75, 0.25])
    assert merged["l.lora_A.weight"].tolist() == [[0.75, 0.25]]
    assert merged["l.lora_B.weight"].tolist() == [[2.5]]
    # wanted 0.75 * [2, 0] + 0.25 * [0, 4] = [1.5, 1]; got 2.5 * [0.75, 0.25] = [1.875, 0.625]
    by_hand = (0.375**2 + 0.375**2) ** 0.5 / (1.5**2 + 1.0**2) ** 0.5
    assert merge_gap([one, two], [0.75, 0.25], merged) == pytest.approx(by_hand)
    best = merge_products([one, two], [0.75, 0.25], nearest_to=one)
    wanted = best["l.lora_B.weight"] @ best["l.lora_A.weight"]
    assert wanted.tolist() == [pytest.approx([1.5, 1.0])]  # rank 1 suffices: nothing is cut off
    assert merge_gap([one, two], [0.75, 0.25], best) == pytest.approx(0, abs=1e-6)


@given(SHARES, st.integers(1, 3))
def test_products_are_the_best_of_their_rank(shares: list[int], rank: int) -> None:
    """By the theorem of Eckart and Young: what is missed are the singular values cut off."""
    adapters = [adapter(seed, rank) for seed in range(len(shares))]
    weights = [s / sum(shares) for s in shares]
    merged = merge_products(adapters, weights, nearest_to=adapters[0])
    whole, missed = 0.0, 0.0
    for layer, wanted in average(adapters, weights).items():
        assert merged[f"{layer}.lora_A.weight"].shape == adapters[0][f"{layer}.lora_A.weight"].shape
        cut = torch.linalg.svdvals(wanted)[rank:]
        missed += float((cut**2).sum())
        whole += float((wanted**2).sum())
        got = products(merged)[layer]
        assert float(((got - wanted) ** 2).sum()) == pytest.approx(
            float((cut**2).sum()), abs=1e-4 * whole
        )
    gap = merge_gap(adapters, weights, merged)
    assert gap == pytest.approx((missed / whole) ** 0.5, abs=1e-4)
    assert gap <= merge_gap(adapters, weights, merge_entries(adapters, weights)) + 1e-6


def test_equal_adapters_keep_their_product_and_give_equal_results() -> None:
    adapters = [adapter(7) for _ in range(3)]
    merged = [merge_products(adapters, [0.2, 0.3, 0.5], nearest_to=a) for a in adapters]
    for layer, wanted in products(adapters[0]).items():
        assert torch.allclose(products(merged[0])[layer], wanted, atol=1e-5)
    for other in merged[1:]:
        assert all(torch.equal(other[key], merged[0][key]) for key in other)
    factors = merge_entries(adapters, [0.2, 0.3, 0.5])
    assert all(torch.allclose(factors[key], adapters[0][key]) for key in factors)
    assert merge_gap(adapters, [0.2, 0.3, 0.5], factors) < 1e-6


@pytest.mark.parametrize("merge", [merge_entries, lambda a, w: merge_products(a, w, a[0])])
def test_weight_zero_has_no_influence(merge: object) -> None:
    nonsense = {key: torch.full_like(t, torch.nan) for key, t in adapter(1).items()}
    with_it = merge([adapter(0), nonsense, adapter(2)], [0.5, 0.0, 0.5])  # type: ignore[operator]
    without = merge([adapter(0), adapter(2)], [0.5, 0.5])  # type: ignore[operator]
    assert all(torch.equal(with_it[key], without[key]) for key in without)


def test_a_product_of_zero_can_still_learn() -> None:
    """New adapters have B = 0. With A = 0 too, neither factor would ever get a gradient."""
    adapters = [adapter(seed, zero_b=True) for seed in (1, 2)]
    merged = merge_products(adapters, [0.5, 0.5], nearest_to=adapters[0])
    for layer in LAYERS:
        assert not merged[f"{layer}.lora_B.weight"].any()
        A, own = merged[f"{layer}.lora_A.weight"], adapters[0][f"{layer}.lora_A.weight"]
        assert torch.linalg.matrix_rank(A) == 2
        assert float(A.norm()) == pytest.approx(float(own.norm()), rel=1e-5)
        together = torch.cat([A, own])
        assert torch.linalg.matrix_rank(together, atol=1e-5) == 2  # the learner's own directions
    assert merge_gap(adapters, [0.5, 0.5], merged) == 0.0


def test_of_all_rotations_the_one_nearest_to_the_learner_is_taken() -> None:
    adapters = [adapter(seed) for seed in (1, 2)]
    merged = merge_products(adapters, [0.6, 0.4], nearest_to=adapters[0])
    A, own = merged["q.lora_A.weight"], adapters[0]["q.lora_A.weight"]
    for angle in (0.1, -0.1, 1.0, 3.0):
        c, s = torch.tensor(angle).cos(), torch.tensor(angle).sin()
        turned = torch.stack([torch.stack([c, -s]), torch.stack([s, c])]) @ A
        assert (A - own).norm() < (turned - own).norm()


def test_softmax_weights_by_hand() -> None:
    weights = softmax_weights({"a": 0.3, "b": 0.1}, temperature=0.2)
    e = 2.718281828459045
    assert weights == pytest.approx({"a": e / (1 + e), "b": 1 / (1 + e)})
    assert softmax_weights({"a": 2.0, "b": 2.0}, 0.1) == {"a": 0.5, "b": 0.5}
    assert softmax_weights({"a": 1e6, "b": 0.0}, 0.1) == {"a": 1.0, "b": 0.0}


def test_weights_must_be_shares() -> None:
    for weights in ([0.5, 0.6], [1.5, -0.5], [1.0]):
        with pytest.raises(ConfigError, match="sum 1"):
            merge_entries([adapter(0), adapter(1)], weights)
