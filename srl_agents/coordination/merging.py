"""Several learners' weights into one: entry by entry, or LoRA's factors by their products.

Of whole weights the average is that of their entries. An adapter adds scaling * B @ A to a layer: B is
(out, r), A is (r, in). Sum w_j B_j A_j is the average of what the adapters do; (sum w_j B_j)(sum w_j A_j)
also holds every B_i A_j, which were never trained together.
Source: the difference, arXiv:2410.09432 section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from srl_agents.coordination.members import Member, Tensors
from srl_envs.errors import ConfigError

Merge = Callable[[Sequence[Tensors], Sequence[float], Tensors], Tensors]
"""(tensors of the learners, their weights, tensors of the learner that continues) -> merged."""
_A, _B = ".lora_A.weight", ".lora_B.weight"
_ZERO = 1e-10
"""Singular values below this share of the factors' norms are rounding."""


def softmax_weights(performance: Mapping[str, float], temperature: float) -> dict[str, float]:
    """w_j = exp(p_j / temperature) / sum; equal performances give equal weights."""
    best = max(performance.values())
    values = {name: (p - best) / temperature for name, p in performance.items()}
    raw = {name: float(torch.tensor(v, dtype=torch.float64).exp()) for name, v in values.items()}
    total = sum(raw.values())
    return {name: value / total for name, value in raw.items()}


def merge_entries(adapters: Sequence[Tensors], weights: Sequence[float]) -> Tensors:
    """sum w_j x_j for every entry of every tensor; weight 0 has no influence.

    Of whole weights that is their average, of LoRA's factors A = sum w_j A_j and B = sum w_j B_j.

    Args:
        adapters: of one shape.
        weights: one per adapter, 0 or more, sum 1.

    Raises:
        ConfigError: weights that are not shares.
    """
    shares = _shares(adapters, weights)
    return {
        key: sum((w * a[key].double() for a, w in shares), start=torch.zeros_like(t).double()).to(
            t.dtype
        )
        for key, t in adapters[0].items()
    }


def merge_products(
    adapters: Sequence[Tensors], weights: Sequence[float], nearest_to: Tensors
) -> Tensors:
    """Factors of the best rank-r approximation of sum w_j B_j A_j.

    With Y = [A_1; A_2; ...] (stacked rows) and X = [w_1 B_1, w_2 B_2, ...], the sum is X Y. From
    X = Q_x R_x and Y' = Q_y R_y, the SVD of the small R_x R_y' gives that of X Y: U S V'. Its r largest
    parts are factored as A = c R V' and B = U S R' / c, with c the size of a row of ``nearest_to``'s A
    and R the rotation that brings A nearest to it. Where the sum has rank below r, rows of A that B
    does not use yet come from ``nearest_to``'s A: with zero rows on both sides they could never learn.

    Args:
        adapters: of one scaling; their ranks may differ.
        weights: one per adapter, 0 or more, sum 1; weight 0 has no influence.
        nearest_to: the adapter that continues with the result, whose rank r is.

    Returns:
        New tensors; scaling is the same as before.

    Raises:
        ConfigError: weights that are not shares.
    """
    shares = _shares(adapters, weights)
    merged = {}
    for layer in _layers(nearest_to):
        X = torch.cat([w * a[layer + _B].double() for a, w in shares], dim=1)
        Y = torch.cat([a[layer + _A].double() for a, _ in shares], dim=0)
        own = nearest_to[layer + _A]
        B, A = _factored(X, Y, own.double())
        merged[layer + _A], merged[layer + _B] = A.to(own.dtype), B.to(own.dtype)
    return {key: merged[key] for key in nearest_to}


def in_units_of(reader: Member, other: Member) -> Tensors:
    """The tensors of ``other`` where the reader's are, with the reader's scaling: B is larger where its own
    scaling was. What it adds to a layer is the same."""
    ratio = other.shape.scaling / reader.shape.scaling
    return {
        key: (tensor * ratio if ratio != 1 and key.endswith(_B) else tensor).to(
            reader.adapter[key].device
        )
        for key, tensor in other.adapter.items()
    }


def merge_of(rank: int | None, by_product: bool) -> Merge:
    """How tensors of one kind are merged.

    Args:
        rank: of LoRA's factors; None for whole weights.
        by_product: average what factors do; of whole weights their entries are what they do.

    Raises:
        ConfigError: factors of whole weights.
    """
    if rank is None and not by_product:
        raise ConfigError(
            "coordination.merge='factors': whole weights have no factors; leave it out."
        )
    if rank is None or not by_product:
        return lambda adapters, weights, _: merge_entries(adapters, weights)
    return merge_products


def merge_gap(adapters: Sequence[Tensors], weights: Sequence[float], merged: Tensors) -> float:
    """How far a merged adapter is from the average of what the adapters do.

    |sum w_j B_j A_j - B A| / |sum w_j B_j A_j|, Frobenius norms over all layers; 0 if the average is 0
    and the merged one too. For `merge_products` it is what the rank cut off, for `merge_entries` the
    error of mixing one learner's B with another's A.
    """
    shares = _shares(adapters, weights)
    missed, whole = 0.0, 0.0
    for layer in _layers(merged):
        X = torch.cat([w * a[layer + _B].double() for a, w in shares], dim=1)
        Y = torch.cat([a[layer + _A].double() for a, _ in shares], dim=0)
        whole += _product_norm2(X, Y)
        missed += _product_norm2(
            torch.cat([X, -merged[layer + _B].double()], dim=1),
            torch.cat([Y, merged[layer + _A].double()], dim=0),
        )
    if whole <= 0:
        return 0.0 if missed <= 0 else float("inf")
    return float((max(missed, 0.0) / whole) ** 0.5)


def _factored(X: Tensor, Y: Tensor, own_A: Tensor) -> tuple[Tensor, Tensor]:
    """(B, A) of the rank-r approximation of X @ Y, r the rows of ``own_A``."""
    rank = len(own_A)
    Q_x, R_x = torch.linalg.qr(X)
    Q_y, R_y = torch.linalg.qr(Y.T)
    U, S, Vh = torch.linalg.svd(R_x @ R_y.T, full_matrices=False)
    used = min(rank, int((_ZERO * X.norm() * Y.norm() < S).sum()))
    rows = Vh[:used] @ Q_y.T
    columns = (Q_x @ U[:, :used]) * S[:used]
    if used < rank:
        rest = own_A - (own_A @ rows.T) @ rows
        _, _, spare = torch.linalg.svd(rest, full_matrices=False)
        rows = torch.cat([rows, spare[: rank - used]])
        columns = torch.nn.functional.pad(columns, (0, rank - used))
    size = own_A.norm() / rank**0.5
    size = torch.where(size > 0, size, torch.ones_like(size))
    P, _, Qh = torch.linalg.svd(own_A @ rows.T)
    rotation = P @ Qh
    return columns @ rotation.T / size, size * rotation @ rows


def _product_norm2(X: Tensor, Y: Tensor) -> float:
    """|X @ Y|^2 without forming the product."""
    return float(((X.T @ X) * (Y @ Y.T)).sum())


def _layers(adapter: Tensors) -> list[str]:
    return [key.removesuffix(_A) for key in adapter if key.endswith(_A)]


def _shares(adapters: Sequence[Tensors], weights: Sequence[float]) -> list[tuple[Tensors, float]]:
    """Adapters that have a weight, with it."""
    if (
        len(adapters) != len(weights)
        or not all(w >= 0 for w in weights)
        or abs(sum(weights) - 1) > 1e-6
    ):
        raise ConfigError(
            f"{len(adapters)} adapters with weights {list(weights)}: give each 0 or more, sum 1."
        )
    return [(a, w) for a, w in zip(adapters, weights, strict=True) if w > 0]
