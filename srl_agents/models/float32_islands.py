"""Parts of a base in bfloat16 or 4 bits whose weights and products stay float32.

Engine and learner then score tokens by logits that no bfloat16 rounded, which large runs were found to need
(arXiv:2506.13585), and send a token to the same experts. What passes through an island is cast on the way in
and back on the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from srl_envs.errors import ConfigError

Island = Literal["norms", "head", "routers"]


def keep_in_float32(model: Any, islands: Sequence[Island]) -> None:
    """Make islands of a loaded model float32, in place.

    Args:
        model: a transformers causal language model whose weights are frozen.
        islands: which; ``head`` unties an output head from the embedding, and lets the hidden states that it
            reads be float32, too.

    Raises:
        ConfigError: the model has no such part.
    """
    kinds: dict[Island, Callable[[Any, torch.dtype], int]] = {
        "norms": _norms,
        "head": _head,
        "routers": _routers,
    }
    stream = model.dtype
    for island in islands:
        if not kinds[island](model, stream):
            raise ConfigError(
                f"memory.float32_islands: {type(model).__name__} has no {island}. Leave them out."
            )


def _norms(model: Any, stream: torch.dtype) -> int:
    found = [module for module in model.modules() if "Norm" in type(module).__name__]
    for module in found:
        _cast_around(module, stream)
    return len(found)


def _routers(model: Any, stream: torch.dtype) -> int:
    names = ("gate", "router")
    found = [
        module
        for name, module in model.named_modules()
        if "Router" in type(module).__name__
        or (name.rpartition(".")[2] in names and isinstance(module, torch.nn.Linear))
    ]
    for module in found:
        _cast_around(module, stream)
    return len(found)


def _head(model: Any, stream: torch.dtype) -> int:  # noqa: ARG001 - nothing is cast back
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear):
        return 0
    # a parameter of its own: the embedding that it may be tied to stays as it is
    head.weight = torch.nn.Parameter(head.weight.detach().float(), requires_grad=False)
    if head.bias is not None:
        head.bias = torch.nn.Parameter(head.bias.detach().float(), requires_grad=False)
    model.base_model.register_forward_hook(_widened_states)
    return 1


def _widened_states(_module: Any, _inputs: Any, out: Any) -> Any:
    out.last_hidden_state = out.last_hidden_state.float()
    return out


def _cast_around(module: Any, stream: torch.dtype) -> None:
    """Let a module hold and compute float32 within a stream of another type."""
    module.float()

    def widen(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_as(value, torch.float32) for value in inputs)

    def narrow(_module: Any, _inputs: Any, out: Any) -> Any:
        if isinstance(out, tuple):
            return tuple(_as(value, stream) for value in out)
        return _as(out, stream)

    module.register_forward_pre_hook(widen)
    module.register_forward_hook(narrow)


def _as(value: Any, dtype: torch.dtype) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if floating else value
