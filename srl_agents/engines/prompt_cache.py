"""Computes what the prompts of a batch share once: equal prompts, and their common beginning.

Players of one game read the same rules, and attempts from one start state the same board.
What is shared depends on the adapter, so rows of different adapters share nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from srl_agents.models.base_model import BaseModel


@dataclass(frozen=True, slots=True)
class Prompts:
    """What `generate` continues: padded prompts, and keys and values of all but their last token.

    Padding stands on the left of what differs, that is, after a shared beginning.
    """

    ids_RP: torch.Tensor
    mask_RP: torch.Tensor
    cache: DynamicCache | None
    """None where sharing would not pay; `generate` then reads the whole prompts."""


def prefill(
    base: BaseModel, adapters: Sequence[str | None], prompts: Sequence[tuple[int, ...]]
) -> Prompts:
    """Read the prompts of one batch.

    Args:
        base: the model, in eval mode.
        adapters: one per row, equal ones in runs.
        prompts: one per row, none empty.
    """
    rows = list(zip(adapters, prompts, strict=True))
    unique = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    owners = list(dict.fromkeys(adapters))
    shared = _common_length([prompt[:-1] for prompt in prompts])
    width = max(len(prompt) for prompt in prompts)
    pad = base.tokenizer.pad_token_id
    computed = len(owners) * shared + len(unique) * (width - shared)
    cache = DynamicCache(config=base.model.config)
    # Reading the last tokens apart costs one step. Windows would count the padding in between.
    pays = computed + 2 * len(rows) < len(rows) * width
    if not pays or any(type(layer) is not DynamicLayer for layer in cache.layers):
        ids_RP, mask_RP = _pad(prompts, 0, pad)
        return Prompts(ids_RP.to(base.device), mask_RP.to(base.device), None)
    ids_UP, mask_UP = _pad([prompt for _, prompt in unique], shared, pad)
    if shared:
        _read(base, owners, cache, ids_UP[: len(owners), :shared], mask_UP[: len(owners), :shared])
        cache.reorder_cache(torch.tensor([owners.index(owner) for owner, _ in unique]))
    if width - 1 > shared:
        _read(base, [owner for owner, _ in unique], cache, ids_UP[:, shared:-1], mask_UP[:, :-1])
    spread_R = torch.tensor([unique[row] for row in rows])
    cache.reorder_cache(spread_R)
    return Prompts(ids_UP[spread_R].to(base.device), mask_UP[spread_R].to(base.device), cache)


def _read(
    base: BaseModel,
    adapters: Sequence[str | None],
    cache: DynamicCache,
    ids: torch.Tensor,
    mask: torch.Tensor,
) -> None:
    """Add keys and values of `ids` to the cache; `mask` also covers what it holds already."""
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
    model: Any = base.model.get_base_model().base_model  # without the output head
    with base.mixture(adapters):
        model(
            input_ids=ids.to(base.device),
            attention_mask=mask.to(base.device),
            position_ids=positions.to(base.device),
            past_key_values=cache,
            use_cache=True,
        )


def _pad(
    prompts: Sequence[tuple[int, ...]], shared: int, pad_id: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(R, P) token ids and mask, with the padding after the first `shared` tokens."""
    width = max(len(prompt) for prompt in prompts)
    ids_RP: NDArray[np.int64] = np.full((len(prompts), width), pad_id, dtype=np.int64)
    mask_RP: NDArray[np.int64] = np.zeros((len(prompts), width), dtype=np.int64)
    for row, prompt in enumerate(prompts):
        own = width - len(prompt) + shared
        ids_RP[row, :shared], ids_RP[row, own:] = prompt[:shared], prompt[shared:]
        mask_RP[row, :shared] = mask_RP[row, own:] = 1
    return torch.from_numpy(ids_RP), torch.from_numpy(mask_RP)


def _common_length(prompts: Sequence[tuple[int, ...]]) -> int:
    """Tokens that all prompts begin with; what the first and the last in order share, all share."""
    first, last = min(prompts), max(prompts)
    pairs = enumerate(zip(first, last, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(last)))
