"""Choice of a model's layers that get low-rank factors.

Only linear layers that read every token: PEFT's way to adapt the stacked weights of experts and
routers, which are parameters and no layers in transformers 5, cannot sample several adapters at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import torch
from transformers.pytorch_utils import Conv1D

from srl_envs.errors import ConfigError, nearest

Targets = Literal["all-linear"] | tuple[str, ...]
"""All linear layers but the output head, or names of layers such as ``q_proj``."""
_EXPERTS = "expert"
"""In the names of modules whose rows are tokens sorted by expert, and no rows of a batch."""
_SHARED = "shared_expert"
"""In the names of experts that read every token."""


def target_layers(model: Any, targets: Targets, excluded: tuple[str, ...] = ()) -> list[str]:
    """Full names of the layers that get factors, in the model's order.

    Args:
        model: a transformers causal language model.
        targets: as a recipe's ``lora.target_modules`` has them.
        excluded: as its ``lora.exclude_modules``: layers, or modules that hold layers.

    Raises:
        ConfigError: a name is that of no such layer or module, or no layer is left.
    """
    linear = list(_linear(model))
    if not linear:
        raise ConfigError(
            f"{type(model).__name__} has no linear layer that reads every token, so no adapter can be put "
            "on it. Use parameters 'full', or another model."
        )
    if targets != "all-linear":
        for target in targets:
            if not any(_means(target, name) for name in linear):
                raise ConfigError(_refusal(model, target, linear))
        linear = [name for name in linear if any(_means(target, name) for target in targets)]
    return _without(model, linear, excluded)


def _without(model: Any, linear: list[str], excluded: tuple[str, ...]) -> list[str]:
    """Layers that are not, and do not lie in, a module of these names.

    Raises:
        ConfigError: a name is in no module's, or no layer is left.
    """
    modules = [name for name, _ in model.named_modules()]
    for part in excluded:
        if not any(_holds(part, name) for name in modules):
            short = sorted({name.rpartition(".")[2] for name in modules if name})
            raise ConfigError(
                f"lora.exclude_modules: {part!r} is not a module of {type(model).__name__}."
                f"{nearest(part, short)} Use some of {short}."
            )
    left = [name for name in linear if not any(_holds(part, name) for part in excluded)]
    if not left:
        raise ConfigError(f"lora.exclude_modules={[*excluded]}: no layer is left. Exclude fewer.")
    return left


def _holds(part: str, name: str) -> bool:
    """Whether the dots of a full name set off this part of it."""
    return f".{part}." in f".{name}."


def require_useful_rank(model: Any, layers: Iterable[str], rank: int) -> None:
    """Refuse factors that are larger than what they change.

    Args:
        model: a transformers causal language model.
        layers: full names of those that get factors.
        rank: of the factors.

    Raises:
        ConfigError: no layer has so many rows and columns.
    """
    largest = max(min(_shape(model.get_submodule(name))) for name in layers)
    if rank > largest:
        raise ConfigError(
            f"lora.rank={rank}: no layer of {type(model).__name__} that gets factors has more than "
            f"{largest} rows and columns, so a rank above {largest} adds nothing. Use at most that; 8 to 64 "
            "is usual."
        )


def _shape(layer: Any) -> tuple[int, int]:
    """Of the matrix that a layer stands for, however its weights are stored."""
    if isinstance(layer, torch.nn.Linear):
        return layer.in_features, layer.out_features
    rows, columns = layer.weight.shape
    return rows, columns


def means(targets: Any, layer: str) -> bool:
    """Whether the ``target_modules`` of an adapter's configuration name a layer.

    Args:
        targets: names, or a text that stands for all layers.
        layer: full name.
    """
    return not isinstance(targets, list) or any(_means(str(target), layer) for target in targets)


def _linear(model: Any) -> Iterator[str]:
    head = model.get_output_embeddings()
    for name, module in model.named_modules():
        sorted_tokens = _EXPERTS in name and _SHARED not in name
        if (
            isinstance(module, (torch.nn.Linear, Conv1D))
            and module is not head
            and not sorted_tokens
        ):
            yield name


def _means(target: str, name: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _refusal(model: Any, target: str, linear: list[str]) -> str:
    short = sorted({name.rpartition(".")[2] for name in linear})
    start = f"lora.target_modules: {target!r}"
    if any(target in name.split(".") for name, _ in model.named_parameters()):
        return (
            f"{start} is not a linear layer of {type(model).__name__} that reads every token: experts, "
            f"routers, embeddings and the output head stay as they are. Use some of {short}."
        )
    cls = type(model).__name__
    return f"{start} is not a layer of {cls}.{nearest(target, short)} Use some of {short}."
