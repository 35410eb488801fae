"""Gradients of several learners: their mean, agreement of signs, and similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from srl_agents.coordination.members import Tensors


def mean_gradient(gradients: Sequence[Tensors]) -> Tensors:
    """g = (1/N) * sum over learners of g_j, entry by entry, summed in the given order.

    N equal gradients give that gradient back, to rounding; for N a power of 2, exactly.
    """
    first, *others = gradients
    return {
        key: sum((other[key] for other in others), start=tensor.clone()) / len(gradients)
        for key, tensor in first.items()
    }


def agreeing_entries(gradients: Sequence[Tensors]) -> Tensors:
    """Which entries all learners would move in one direction.

    An entry is True where |sum over j of sign(g_j)| = N: no sign is 0 or another one's opposite.

    Source: the AND-mask, arXiv:2009.00329 section 3.
    """
    first, *others = gradients
    masks = {}
    for key, tensor in first.items():
        total = sum((other[key].sign() for other in others), start=tensor.sign()).abs()
        masks[key] = total == len(gradients)
    return masks


def agreement(gradients: Mapping[str, Tensors]) -> dict[str, float]:
    """The metric ``gradient_agreement`` where there are several gradients to compare.

    For adapters that started alike: elsewhere entries mean different things.
    """
    several = len(gradients) > 1
    return {"gradient_agreement": pairwise_cosine(list(gradients.values()))} if several else {}


def pairwise_cosine(gradients: Sequence[Tensors]) -> float:
    """Mean over pairs of <g_i, g_j> / (|g_i| |g_j|) over all tensors together, in [-1, 1].

    A pair with a gradient of 0 counts 0; fewer than 2 gradients give 0.
    """
    norms = [_dot(g, g) ** 0.5 for g in gradients]
    cosines = []
    for (one, length), (other, width) in combinations(zip(gradients, norms, strict=True), 2):
        size = length * width
        cosines.append(_dot(one, other) / size if size > 0 else 0.0)
    return sum(cosines) / len(cosines) if cosines else 0.0


def _dot(one: Tensors, other: Tensors) -> float:
    """<one, other>, tensor by tensor: whole weights must not be copied together."""
    products = (one[key].double().flatten() @ other[key].double().flatten() for key in sorted(one))
    return float(sum(products))
