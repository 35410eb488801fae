"""Check that arrays which belong together have one shape."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from srl_envs.errors import ShapeError


def same_shape(ndim: int, **arrays: NDArray[Any]) -> None:
    """Raise ShapeError unless all arrays have ``ndim`` axes and one shape."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != ndim for shape in shapes.values()):
        raise ShapeError(f"expected arrays of {ndim} axes and one shape, got {shapes}.")
