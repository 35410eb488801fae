"""Factors of many adapters in one product give what each gives by itself, there and back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import linear

from srl_agents.models.mixed_factors import stretches, with_factors

LENGTH, RANK, INPUTS, OUTPUTS, SCALING = 3, 2, 5, 4, 0.7


def drawn(*shape: int, dtype: torch.dtype = torch.float64, learns: bool = True) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_(learns)


@given(
    rows=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    somewhere=st.booleans(),
    frozen_inputs=st.booleans(),
    overwritten=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_mixed_factors_are_those_of_each_row(
    rows: list[int], somewhere: bool, frozen_inputs: bool, overwritten: bool
) -> None:
    torch.manual_seed(sum(rows))
    names = [f"adapter{number}" for number, count in enumerate(rows) for _ in range(count)]
    output = drawn(len(names), LENGTH, OUTPUTS)
    said = output * 1 if overwritten else output.transpose(0, 1).contiguous().transpose(0, 1)
    inputs = drawn(len(names), LENGTH, INPUTS, learns=not frozen_inputs)
    downs = {name: drawn(RANK, INPUTS) for name in names}
    ups = {name: drawn(OUTPUTS, RANK) for name in names}
    places = (torch.arange(LENGTH) >= 1)[None, :, None] if somewhere else None
    weights = torch.randn(len(names), LENGTH, OUTPUTS, dtype=torch.float64)
    learning = [output, *([] if frozen_inputs else [inputs]), *downs.values(), *ups.values()]

    some = stretches(names)
    told = with_factors(
        said, inputs, some, [*downs.values()], [*ups.values()], scaling=SCALING, places=places
    )
    each = torch.stack(
        [
            linear(linear(row, downs[name]), ups[name])
            for row, name in zip(inputs, names, strict=True)
        ]
    )
    expected = output + SCALING * (each if places is None else each * places)

    torch.testing.assert_close(told, expected)
    torch.testing.assert_close(
        torch.autograd.grad((told * weights).sum(), learning),
        torch.autograd.grad((expected * weights).sum(), learning),
    )


def test_neighbours_with_equally_many_rows_are_one_product() -> None:
    assert [(one.names, one.first, one.stop) for one in stretches("aabbccdefff")] == [
        (("a", "b", "c"), 0, 6),
        (("d", "e"), 6, 8),
        (("f",), 8, 11),
    ]


@pytest.mark.parametrize("autocast", [False, True])
def test_a_bfloat16_base_has_float32_gradients(autocast: bool) -> None:
    kind = torch.float32 if autocast else torch.bfloat16
    output, inputs = drawn(2, LENGTH, OUTPUTS, dtype=kind), drawn(2, LENGTH, INPUTS, dtype=kind)
    down, up = drawn(RANK, INPUTS, dtype=torch.float32), drawn(OUTPUTS, RANK, dtype=torch.float32)

    with torch.autocast("cpu", enabled=autocast):
        told = with_factors(
            output * 1, inputs, stretches("aa"), [down], [up], scaling=SCALING, places=None
        )
        told.float().sum().backward()

    assert told.dtype == output.dtype
    assert inputs.grad is not None
    assert inputs.grad.dtype == inputs.dtype
    assert down.grad is not None
    assert down.grad.dtype == torch.float32
    assert up.grad is not None
    assert up.grad.dtype == torch.float32
