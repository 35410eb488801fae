"""Keys and values in 8 bits: how far from what they were, and that more packing loses nothing more."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.engines.embedded.places.kv_packing import EightBits
from srl_agents.engines.embedded.prefix_tree import PrefixTree
from tests.srl_agents.engines.test_prefix_tree import Row


def kept_as(dtype: torch.dtype = torch.float32) -> EightBits:
    return EightBits(
        dtype=dtype, whole_bytes_per_token=2 * 4 * dtype.itemsize, bytes_per_token=2 * 8
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 99),
    size=st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 1e4]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_no_number_moves_by_more_than_half_a_step_of_its_token_and_head(
    seed: int, size: float, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(seed)
    kv = (torch.randn(3, 2, 2, 5, 4, generator=generator) * size).to(dtype)
    eight = kept_as(dtype)
    packed = eight.pack(kv)
    assert packed.shape == (3, 2, 2, 5, 8)
    assert packed.nbytes == 3 * 2 * 5 * 16
    found = eight.unpack(packed)
    assert found.dtype == dtype
    largest = kv.float().abs().amax(dim=-1, keepdim=True)
    rounding = torch.finfo(dtype).eps * largest
    assert bool(((found.float() - kv.float()).abs() <= largest / 254 + rounding).all())
    # each run of tokens is packed by itself, so that nodes split and blocks are cut
    assert torch.equal(eight.unpack(packed[..., 1:4, :]), found[..., 1:4, :])


def test_broken_numbers_stay_broken() -> None:
    kv = torch.ones(1, 2, 1, 3, 4)
    kv[0, 0, 0, 0, 1], kv[0, 1, 0, 2, 0] = float("nan"), float("inf")
    found = kept_as().unpack(kept_as().pack(kv))
    assert not found[0, 0, 0, 0].isfinite().any()
    assert not found[0, 1, 0, 2].isfinite().all()
    assert found[0, 0, 0, 1].isfinite().all()


def test_what_is_read_and_kept_again_and_again_does_not_drift() -> None:
    tree = PrefixTree(16, 10**6, eight_bits=kept_as(torch.bfloat16))
    kv = torch.randn(1, 2, 1, 6, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    first: torch.Tensor | None = None
    for number in range(5):
        end, cached = tree.enter("a", (1, 2, 3, 4, 5, 6)[: 6 - number % 2])
        reader = Row(end)
        assert cached == (0 if not number else 6 - number % 2)
        for node in end.path():
            tree.hold(node, reader)
            if not number:
                node.kv, node.computed = kv.clone(), 6
        values = [node.kv for node in end.path() if node.kv is not None]
        if number == 1:
            first = torch.cat(values, dim=-2)
        elif number > 1 and first is not None:
            assert torch.equal(torch.cat(values, dim=-2)[..., :5, :], first)
        tree.leave(end, reader)
        tree.shrink()
        assert all(node.kv is None and node.packed is not None for node in end.path())
        assert tree.bytes == 6 * 16
    assert first is not None
    assert torch.allclose(first.float(), kv[..., :5, :].float(), atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_rows_hold_is_counted_in_both_forms(dtype: torch.dtype) -> None:
    tree = PrefixTree(16, 0, eight_bits=kept_as(dtype))
    end, _ = tree.enter("a", tuple(range(100)))
    tree.hold(end, reader := Row(end))
    assert tree.held_places == {torch.float32: 150, torch.bfloat16: 200}[dtype]
    tree.leave(end, reader)
    assert tree.held_places == 0
