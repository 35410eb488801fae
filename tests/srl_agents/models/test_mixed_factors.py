"""Factors of many adapters in one product give what each gives by itself, there and back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import linear

from srl_agents.models.weights.mixed_factors import lowered, raised, stretches

LENGTH, RANK, INPUTS, OUTPUTS, SCALING = 3, 2, 5, 4, 0.7


def drawn(*shape: int, dtype: torch.dtype = torch.float64, learns: bool = True) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_(learns)


def layer(
    inputs: Tensor,
    weight: Tensor,
    names: list[str],
    factors: dict[str, tuple[Tensor, Tensor]],
    places: Tensor | None = None,
) -> Tensor:
    """A frozen layer with adapters beside it."""
    some = stretches(names)
    downs, ups = zip(*factors.values(), strict=True)
    read, lows = lowered(inputs, some, downs, scaling=SCALING, places=places)
    return raised(linear(read, weight), lows, some, ups)


@given(
    rows=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    somewhere=st.booleans(),
    frozen_inputs=st.booleans(),
    shuffled=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_mixed_factors_are_those_of_each_row(
    rows: list[int], somewhere: bool, frozen_inputs: bool, shuffled: bool
) -> None:
    torch.manual_seed(sum(rows))
    names = [f"adapter{number}" for number, count in enumerate(rows) for _ in range(count)]
    inputs = drawn(len(names), LENGTH, INPUTS, learns=not frozen_inputs)
    read = inputs.transpose(0, 1).contiguous().transpose(0, 1) if shuffled else inputs
    weight = drawn(OUTPUTS, INPUTS, learns=False)
    factors = {name: (drawn(RANK, INPUTS), drawn(OUTPUTS, RANK)) for name in names}
    places = (torch.arange(LENGTH) >= 1)[None, :, None] if somewhere else None
    weights = torch.randn(len(names), LENGTH, OUTPUTS, dtype=torch.float64)
    learning = [
        *([] if frozen_inputs else [inputs]),
        *(factor for own in factors.values() for factor in own),
    ]

    raised = layer(read, weight, names, factors, places)
    each = torch.stack(
        [
            linear(linear(row, factors[name][0]), factors[name][1])
            for row, name in zip(inputs, names, strict=True)
        ]
    )
    expected = linear(inputs, weight) + SCALING * (each if places is None else each * places)

    torch.testing.assert_close(raised, expected)
    torch.testing.assert_close(
        torch.autograd.grad((raised * weights).sum(), learning),
        torch.autograd.grad((expected * weights).sum(), learning),
    )


def test_what_several_layers_read_gets_the_slopes_of_all() -> None:
    names = ["a", "b", "b"]
    inputs = drawn(3, LENGTH, INPUTS)
    weights = [drawn(OUTPUTS, INPUTS, learns=False) for _ in range(2)]
    sets = [{name: (drawn(RANK, INPUTS), drawn(OUTPUTS, RANK)) for name in "ab"} for _ in weights]

    raised = [layer(inputs, weight, names, own) for weight, own in zip(weights, sets, strict=True)]
    together = torch.autograd.grad((raised[0] * raised[1]).sum() + inputs.square().sum(), inputs)
    expected = torch.zeros_like(inputs)
    for row, name in enumerate(names):
        whole = [
            weight + SCALING * own[name][1] @ own[name][0]
            for weight, own in zip(weights, sets, strict=True)
        ]
        one = inputs.detach()[row].requires_grad_()
        product = linear(one, whole[0]) * linear(one, whole[1])
        (expected[row],) = torch.autograd.grad(product.sum() + one.square().sum(), one)

    torch.testing.assert_close(together[0], expected)


def test_neighbours_with_equally_many_rows_are_one_product() -> None:
    assert [(one.names, one.first, one.stop) for one in stretches("aabbccdefff")] == [
        (("a", "b", "c"), 0, 6),
        (("d", "e"), 6, 8),
        (("f",), 8, 11),
    ]


@pytest.mark.parametrize("autocast", [False, True])
def test_a_bfloat16_base_has_float32_gradients(autocast: bool) -> None:
    kind = torch.float32 if autocast else torch.bfloat16
    inputs = drawn(2, LENGTH, INPUTS, dtype=kind)
    weight = drawn(OUTPUTS, INPUTS, dtype=kind, learns=False)
    down, up = drawn(RANK, INPUTS, dtype=torch.float32), drawn(OUTPUTS, RANK, dtype=torch.float32)

    with torch.autocast("cpu", enabled=autocast):
        raised = layer(inputs, weight, ["a", "a"], {"a": (down, up)})
        raised.float().sum().backward()

    assert raised.dtype == torch.bfloat16
    assert inputs.grad is not None
    assert inputs.grad.dtype == inputs.dtype
    assert down.grad is not None
    assert down.grad.dtype == torch.float32
    assert up.grad is not None
    assert up.grad.dtype == torch.float32
