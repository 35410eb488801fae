"""Optimizer and schedule as named tensors and JSON, so that checkpoints need no pickle.

Works for torch's and bitsandbytes' optimizers: it keeps every tensor in its own type, as
8-bit state lies beside 32-bit state of small tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

_SEPARATOR = "/"


def size(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of all tensors that the optimizer keeps, but for 8-bit tables that parameters share."""
    return sum(
        value.numel() * value.element_size()
        for state in optimizer.state.values()
        for name, value in state.items()
        if isinstance(value, torch.Tensor) and not name.startswith("qmap")
    )


def pack(
    optimizer: torch.optim.Optimizer, scheduler: torch.optim.lr_scheduler.LRScheduler
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors (copies on the CPU) and JSON values that `unpack` needs."""
    state = optimizer.state_dict()
    tensors: dict[str, torch.Tensor] = {}
    scalars: dict[str, Any] = {}
    for path, value in _leaves(state["state"], ()):
        key = _SEPARATOR.join(path)
        if isinstance(value, torch.Tensor):
            tensors[key] = value.detach().to("cpu", copy=True).contiguous()
        else:
            scalars[key] = value
    groups = [dict(group) for group in state["param_groups"]]
    return tensors, {"scalars": scalars, "groups": groups, "scheduler": scheduler.state_dict()}


def unpack(
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    tensors: dict[str, torch.Tensor],
    state: dict[str, Any],
) -> None:
    """Put back what `pack` took, into an optimizer over the same parameters.

    Raises:
        ValueError: the optimizer has other parameter groups.
    """
    nested: dict[Any, Any] = {}
    for key, value in [*tensors.items(), *state["scalars"].items()]:
        *path, leaf = key.split(_SEPARATOR)
        place = nested
        for part in path:
            place = place.setdefault(int(part) if place is nested else part, {})
        # The optimizer keeps the tensors that it is given: never share them with the caller.
        place[leaf] = value.clone() if isinstance(value, torch.Tensor) else value
    groups = [
        {key: tuple(v) if isinstance(own.get(key), tuple) else v for key, v in group.items()}
        for group, own in zip(state["groups"], optimizer.param_groups, strict=True)
    ]
    optimizer.load_state_dict({"state": nested, "param_groups": groups})
    scheduler.load_state_dict(state["scheduler"])


def _leaves(tree: dict[Any, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value
