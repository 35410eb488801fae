"""What weights are: a SHA-256 of names, types, shapes and bytes of their tensors; and whether they fit."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from srl_agents.records import WeightVersion, canonical_json
from srl_envs.errors import ModelError

_DIGITS = 16
"""Hex digits of a digest that a version carries."""
_LARGE = 2**24
"""Bytes from which a hash is kept for the next one who asks for the same tensors."""
_LOOKED_AT = 64
"""Values of a tensor, spread over it, by which a change is noticed."""


def tensors_sha256(tensors: Mapping[str, torch.Tensor]) -> str:
    """64 hex digits; the order of the tensors and where they are do not matter."""
    digest: str = _hash_of(tensors).hexdigest()
    return digest


def version_of(
    learner: str,
    number: int,
    tensors: Mapping[str, torch.Tensor],
    shown: Sequence[tuple[str, str]] = (),
) -> WeightVersion:
    """The version that these weights are.

    Args:
        learner: whose weights.
        number: updates since the learner's beginning.
        tensors: by the names in files.
        shown: (observation, reply) pairs that the learner is shown before every observation; they
            are part of how it plays.
    """
    hashed = _hash_of(tensors)
    if shown:
        hashed.update(canonical_json([list(pair) for pair in shown]).encode())
    return WeightVersion(learner, number, hashed.hexdigest()[:_DIGITS])


@dataclass(frozen=True, slots=True)
class _Hashed:
    """Large weights that were hashed, kept so that they are hashed once until they change."""

    tensors: tuple[weakref.ref[torch.Tensor], ...]
    marks: tuple[object, ...]
    hashed: Any

    def fits(self, named: Sequence[tuple[str, torch.Tensor]]) -> bool:
        """Whether these are the same tensors, unchanged."""
        same = len(named) == len(self.tensors) and all(
            ref() is tensor for ref, (_, tensor) in zip(self.tensors, named, strict=True)
        )
        return same and self.marks == _marks(named)


_last: _Hashed | None = None


def _hash_of(tensors: Mapping[str, torch.Tensor]) -> Any:
    """SHA-256 that can be added to.

    A trainer's whole weights are named, published and opened one after the other: the very same tensors
    are hashed once. They count as unchanged where torch counted no write to them and some of their
    values in each tensor are as they were, because a fused kernel's writes are not counted.
    """
    global _last  # noqa: PLW0603 - one entry, replaced as a whole
    named = sorted(tensors.items())
    if sum(tensor.nbytes for _, tensor in named) < _LARGE:
        return _computed(named)
    known = _last
    if known is not None and known.fits(named):
        return known.hashed.copy()
    marks, hashed = _marks(named), _computed(named)
    _last = _Hashed(tuple(weakref.ref(tensor) for _, tensor in named), marks, hashed.copy())
    return hashed


def _marks(named: Sequence[tuple[str, torch.Tensor]]) -> tuple[object, ...]:
    """Name, torch's count of writes, and some values of each tensor."""
    marks: list[object] = []
    for name, tensor in named:
        flat = tensor.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // _LOOKED_AT)].contiguous()
        marks += [name, tensor._version, some.to("cpu").view(torch.uint8).numpy().tobytes()]
    return tuple(marks)


def _computed(named: Sequence[tuple[str, torch.Tensor]]) -> Any:
    hashed = hashlib.sha256()
    for name, tensor in named:
        hashed.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        hashed.update(flat.view(torch.uint8).numpy().data)  # numpy has no bfloat16
    return hashed


def check_fit(
    name: str, shapes: Mapping[str, Sequence[int]], tensors: Mapping[str, torch.Tensor]
) -> None:
    """Refuse tensors that are not those of a version.

    Raises:
        ModelError: they have other names or shapes.
    """
    if shapes.keys() != tensors.keys():
        odd = sorted(shapes.keys() ^ tensors.keys())[:3]
        raise ModelError(
            f"tensors do not fit {name!r}: {odd} differ; were they made on this base, "
            "and for these lora.target_modules?"
        )
    for key, tensor in tensors.items():
        if tuple(shapes[key]) != tuple(tensor.shape):
            raise ModelError(
                f"{key} of {name!r}: shape {tuple(tensor.shape)} does not fit "
                f"{tuple(shapes[key])}; was it made with another lora_rank or base?"
            )
