"""Positions of rows that are padded on the left, for models with a table of positions.

Rotations see only differences of positions, which padding does not change. A learned table (GPT-2, OPT)
has an entry for every place: a padded row without positions of its own would be read at those of its padding.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from srl_agents.models.base_model import BaseModel


def has_position_table(base: BaseModel) -> bool:
    """Whether a model reads positions from an embedding, and takes them as an argument."""
    inner = base.model.get_base_model()
    tables = [module for module in inner.modules() if isinstance(module, torch.nn.Embedding)]
    return len(tables) > 1 and "position_ids" in inspect.signature(type(inner).forward).parameters


def row_positions(mask_RL: torch.Tensor) -> torch.Tensor:
    """(R, L) places of tokens in their own rows; 0 in the padding.

    Args:
        mask_RL: 1 where a token is one.
    """
    return (mask_RL.long().cumsum(1) - 1).clamp(min=0)


@contextmanager
def _given(model: Any) -> Iterator[None]:
    def add(_model: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "position_ids": row_positions(kwargs["attention_mask"])}

    hook = model.register_forward_pre_hook(add, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def positions_given(base: BaseModel, *, table: bool) -> Any:
    """Inside, forwards over padded rows get the rows' positions, where the model has a table of them.

    Args:
        base: owner of the model.
        table: from `has_position_table`.
    """
    return _given(base.model) if table else nullcontext()
