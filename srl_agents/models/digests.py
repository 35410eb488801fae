"""What names weights for ever: SHA-256 over names, types, shapes and bytes of their tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from srl_agents.records import WeightVersion, canonical_json

_DIGITS = 16
"""Hex digits of a digest that a version carries."""


def tensors_sha256(tensors: Mapping[str, torch.Tensor]) -> str:
    """64 hex digits; the order of the tensors and where they are do not matter."""
    return _hash_of(tensors).hexdigest()


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


def _hash_of(tensors: Mapping[str, torch.Tensor]) -> Any:
    hashed = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hashed.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        hashed.update(flat.view(torch.uint8).numpy().data)  # numpy has no bfloat16
    return hashed
