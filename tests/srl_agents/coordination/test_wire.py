"""Messages between processes arrive unchanged, and reading one runs no code."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.coordination.wire import from_bytes, to_bytes
from srl_agents.records import MatchSpec, WeightVersion
from srl_envs.errors import ModelError

KEYS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.tuples(st.integers()))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(st.characters()), st.binary(),
        st.floats(allow_nan=False), st.frozensets(st.text()), st.sets(st.integers()),
    ),
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(KEYS, inner)
    ),
    max_leaves=12,
)  # fmt: skip


@given(VALUES)
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    assert typed(from_bytes(to_bytes(value))) == typed(value)


def typed(value: Any) -> Any:
    """The value with the type of each part: 1, 1.0 and True are equal otherwise."""
    if isinstance(value, dict):
        return "dict", [(typed(k), typed(v)) for k, v in value.items()]
    if isinstance(value, set | frozenset):
        return type(value), value
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    return type(value), value


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_tensors_and_arrays_come_back_bit_for_bit(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = torch.randn(shape).mul(9).to(dtype)
    arrays: dict[str, Any] = {
        "a": np.arange(6, dtype=np.int32).reshape(2, 3),
        "s": np.float64("nan"),
    }
    back = from_bytes(to_bytes({"t": [tensor], **arrays}))
    assert back["t"][0].dtype == dtype
    assert back["t"][0].shape == tensor.shape
    assert torch.equal(back["t"][0], tensor)
    assert back["a"].dtype == arrays["a"].dtype
    assert (back["a"] == arrays["a"]).all()
    assert isinstance(back["s"], np.float64)
    assert np.isnan(back["s"])


def test_records_come_back_equal() -> None:
    spec = MatchSpec(
        env_id="nim-v0", options={"heap": 3}, seed=1, split="train", seats=("a", "b"), number=2
    )
    version = WeightVersion("alice", 3, "9f2c1a0b7d5e4c31")
    assert from_bytes(to_bytes([spec, (version, None)])) == [spec, (version, None)]


@dataclass
class Foreign:
    value: int


@pytest.mark.parametrize("value", [object(), Foreign(1), print, [complex(1)]])
def test_what_is_no_data_of_ours_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be sent to another process"):
        to_bytes(value)


def message(plain: Any) -> bytes:
    text = json.dumps(plain).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "given",
    [
        pickle.dumps([1]),
        b"",
        to_bytes(b"abc")[:-1],
        message({"!": "dataclass", "of": {}, "class": ["os", "system"]}),
        message({"!": "dataclass", "of": {}, "class": ["srl_agents.records", "dataclass"]}),
        message({"!": "dataclass", "of": {}, "class": ["srl_agents.absent", "Thing"]}),
        message({"!": "dataclass", "of": {}, "class": ["srl_agents.records", "MatchSpec"]}),
        message({"!": "array", "at": 0, "size": 0, "dtype": "|O", "shape": [0]}),
        message({"!": "call", "of": "print"}),
    ],
)
def test_a_message_that_is_damaged_or_names_foreign_things_is_refused(given: bytes) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        from_bytes(given)
