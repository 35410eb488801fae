"""Runs the checks of a kit by name, with advice for the author of a part that fails one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, ParamSpec

from srl_envs.testing import ConformanceError

P = ParamSpec("P")


@dataclass(frozen=True)
class Promise(Generic[P]):
    """One thing that every part of a family keeps, and how."""

    check: Callable[P, None]
    """Raises `ConformanceError` where it is broken."""
    advice: str
    """Advice to the author of a part that breaks the promise."""


def hold(what: str, promises: Mapping[str, Promise[P]], *args: P.args, **kwargs: P.kwargs) -> None:
    """Run all checks of a kit.

    Args:
        what: the part, for messages.
        promises: by name.
        *args: of the checks.
        **kwargs: of the checks.

    Raises:
        ConformanceError: names the promise, what is wrong, and what to do.
    """
    for name, promise in promises.items():
        try:
            promise.check(*args, **kwargs)
        except ConformanceError as error:
            raise ConformanceError(
                f"{what}, {name}: {error}\nWhat to do: {promise.advice}"
            ) from error
        except Exception as error:  # foreign code: what it raises is its author's to see
            raise ConformanceError(
                f"{what}, {name}: raises {type(error).__name__}: {error}\nWhat to do: mend what the "
                f"traceback above shows. The promise in question: {promise.advice}"
            ) from error


def require(condition: bool, message: str) -> None:
    """Raise `ConformanceError` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise ConformanceError(message)
