"""What a CUDA graph does, on a CPU: the operations of one run again, on the very same tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from srl_agents.engines.embedded.captured_passes import Run


class _Tape(TorchDispatchMode):
    """Keeps every operation, with what went in and the tensors that came out."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Callable[..., Any], Any, Any, list[torch.Tensor]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        leaves = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.operations.append((func, args, kwargs or {}, leaves))
        return out


def captured(run: Run) -> Run:
    """See `captured_passes.Capture`. What Python decides and what it makes of host data stays as it was."""
    with _Tape() as tape:
        out = run()

    def replay() -> torch.Tensor:
        for func, args, kwargs, kept in tape.operations:
            fresh = [x for x in tree_leaves(func(*args, **kwargs)) if isinstance(x, torch.Tensor)]
            for old, new in zip(kept, fresh, strict=True):
                if old.data_ptr() != new.data_ptr():  # neither a view nor in place
                    old.copy_(new)
        return out

    return replay
