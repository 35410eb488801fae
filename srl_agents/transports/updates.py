"""What every transport checks on both ends: that tensors are those of the version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch

from srl_agents.models.digests import version_of
from srl_agents.records import TensorHeader, WeightUpdate, WeightVersion
from srl_agents.transports.protocol import Shown, Tensors
from srl_envs.errors import ModelError

T = TypeVar("T")
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""As safetensors spells them."""


@dataclass(frozen=True, slots=True)
class Published(Generic[T]):
    """A version that its publisher has in memory."""

    update: WeightUpdate
    kept: T
    """Tensors of the version, or the memory that holds them."""


def kept_of(found: Published[T] | None, update: WeightUpdate) -> T:
    """What the publisher itself keeps of a version.

    Args:
        found: under the version's id; None: nothing.
        update: that is opened.

    Raises:
        ModelError: it was released, or the update is not what was published.
    """
    expected = replace(update, previous=None, logprobs=())
    if found is None or replace(found.update, previous=None) != expected:
        raise ModelError(
            f"{update.version} differs in this process from the update: it was released, or another "
            "one was published here."
        )
    return found.kept


def headers_of(tensors: Tensors) -> tuple[TensorHeader, ...]:
    """Names, types and shapes, sorted by name.

    Raises:
        ModelError: no tensors are given, or one has a type that safetensors cannot hold.
    """
    if not tensors:
        raise ModelError("an update without tensors: give the weights that changed.")
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise ModelError(
                f"tensor {name!r} has type {tensor.dtype}; use one of {', '.join(DTYPES.values())}."
            )
    return tuple(
        TensorHeader(name=name, dtype=DTYPES[tensor.dtype], shape=tuple(tensor.shape))
        for name, tensor in sorted(tensors.items())
    )


def require_version(version: WeightVersion, tensors: Tensors, shown: Shown, where: str) -> None:
    """Refuse tensors that are not the version's.

    Args:
        version: that they are said to be.
        tensors: by the names in files.
        shown: examples that the digest covers.
        where: they are, for the error.

    Raises:
        ModelError: their digest is another one.
    """
    found = version_of(version.learner, version.number, tensors, shown)
    if found != version:
        raise ModelError(
            f"{where}: the tensors have digest {found.digest}, those of {version} have {version.digest}. "
            "They changed after the version was named, or belong to another one."
        )


def described(
    version: WeightVersion,
    tensors: Tensors,
    previous: WeightVersion | None,
    shown: Shown,
    handle: str,
) -> WeightUpdate:
    """The update that describes tensors before they are published.

    Raises:
        ModelError: there are none, one has a type that cannot travel, or they are not the version's.
    """
    headers = headers_of(tensors)
    require_version(version, tensors, shown, "publish")
    return WeightUpdate(
        version=version, previous=previous, shown=tuple(shown), tensors=headers, handle=handle
    )


def require_update(update: WeightUpdate, tensors: Tensors, where: str) -> None:
    """Refuse tensors that differ from an update.

    Raises:
        ModelError: names, types, shapes or the digest differ.
    """
    found = {header.name: header for header in headers_of(tensors)}
    expected = {header.name: header for header in update.tensors}
    odd = sorted(name for name in found.keys() | expected if found.get(name) != expected.get(name))
    if odd:
        raise ModelError(
            f"{where}: {', '.join(map(repr, odd[:3]))} differ in name, type or shape from the update of "
            f"{update.version}."
        )
    require_version(update.version, tensors, update.shown, where)
