"""A learner's tensors, their shape and its performance, as coordination reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from srl_envs.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

Tensors = dict[str, "Tensor"]
"""By their names in files; LoRA's factors end in ``.lora_A.weight`` and ``.lora_B.weight``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterShape:
    """What two learners' tensors must have in common before they may meet."""

    base: str
    """The frozen model, as the recipe names it."""
    rank: int | None
    """Rank of LoRA's factors; None: the tensors are whole weights."""
    scaling: float = 1.0
    """alpha / rank: the adapter adds scaling * B @ A."""


@dataclass(kw_only=True, slots=True)
class Member:
    """One learner of an update."""

    name: str
    shape: AdapterShape
    adapter: Tensors
    """The live weights; coordinators read them and never write."""
    gradients: Tensors | None = None
    """None: there was nothing to train on, or the step is taken."""
    rows: int = 0
    """Rows of this update's batch."""


@dataclass(kw_only=True, slots=True)
class Decision:
    """Changes that the training loop applies, and the metrics of the decision."""

    changes: dict[str, Tensors] = field(default_factory=dict)
    """By learner: before the step, the gradients to step along, and who is absent takes no step;
    after the step, the new weights, and who is absent keeps its own."""
    reset_moments: bool = False
    """After the step: whether the optimizers drop their moments of weights that change."""
    run: dict[str, float] = field(default_factory=dict)
    """Metrics of the run."""
    learners: dict[str, dict[str, float]] = field(default_factory=dict)
    """Metrics by learner."""


def require_alike(members: Sequence[Member]) -> None:
    """Refuse learners whose tensors cannot be combined.

    Raises:
        ModelError: kinds of weights, bases, ranks, scales, or names or shapes of tensors differ.
    """
    first, *others = members
    for other in others:
        if (first.shape.rank is None) != (other.shape.rank is None):
            whole, low = (first, other) if first.shape.rank is None else (other, first)
            raise ModelError(
                f"{whole.name!r} learns whole weights and {low.name!r} a LoRA adapter, which cannot "
                "be combined: train all with the same parameters, or use kind 'independent' or "
                "'distillation'."
            )
        for what in ("base", "rank", "scaling"):
            first_value, other_value = getattr(first.shape, what), getattr(other.shape, what)
            if first_value != other_value:
                raise ModelError(
                    f"adapters of {first.name!r} and {other.name!r} cannot be combined: {what} "
                    f"{first_value!r} and {other_value!r}. Give both the same base, rank and alpha, or use "
                    "kind 'independent' or 'distillation'."
                )
        first_shapes = {key: tuple(t.shape) for key, t in first.adapter.items()}
        their_shapes = {key: tuple(t.shape) for key, t in other.adapter.items()}
        if first_shapes != their_shapes:
            odd = sorted(dict(first_shapes.items() ^ their_shapes.items()))[:3]
            raise ModelError(
                f"adapters of {first.name!r} and {other.name!r} cannot be combined: tensors "
                f"{odd} differ in name or shape."
            )


def require_one_base(members: Sequence[Member]) -> None:
    """Refuse learners whose adapters do not act on the same layers of one base; ranks may differ.

    Raises:
        ModelError: kinds of weights, bases, or names or sizes of layers differ.
    """
    first, *others = members
    for other in others:
        for what, one, two in (
            ("parameters", first.shape.rank is None, other.shape.rank is None),
            ("bases", first.shape.base, other.shape.base),
            ("layers", _sizes(first.adapter), _sizes(other.adapter)),
        ):
            if one != two:
                raise ModelError(
                    f"adapters of {first.name!r} and {other.name!r} cannot be combined: their {what} differ. "
                    "Give both the same model and target_modules, or use kind 'independent'."
                )


def _sizes(adapter: Tensors) -> dict[str, int]:
    """Inputs of each layer by the name of A, and outputs by that of B."""
    return {
        key: tensor.shape[1 if key.endswith(".lora_A.weight") else 0]
        for key, tensor in adapter.items()
    }
