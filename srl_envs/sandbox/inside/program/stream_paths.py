"""``/dev/stdin`` and its like, for programs that see no ``/proc`` and open no file.

On a usual system these names lead through ``/proc`` to the process's own descriptors. Here the
functions that open files lead to a copy of the descriptor, in every tier.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable
from typing import Any

_NAMES = {0: "stdin", 1: "stdout", 2: "stderr"}
STREAMS = {
    path: descriptor
    for descriptor, name in _NAMES.items()
    for path in (
        f"/dev/{name}",
        f"/dev/fd/{descriptor}",
        f"/proc/self/fd/{descriptor}",
        f"/proc/thread-self/fd/{descriptor}",
    )
}
"""Path -> the descriptor that it names."""
_open_file, _open_descriptor = io.open, os.open


def _descriptor(path: object) -> int | None:
    """The standard descriptor that a path names; None for other paths."""
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return STREAMS.get(path) if isinstance(path, str) else None


class _Opener:
    """A function that opens paths, but copies a standard descriptor where the path names one.

    An object and not a function, so that it binds to no class that it is an attribute of: the
    original does not either.
    """

    def __init__(self, original: Callable[..., Any], on_stream: Callable[..., Any]) -> None:
        self.__name__ = self.__qualname__ = "open"
        self.__module__ = original.__module__
        self.__doc__ = original.__doc__
        self._original = original
        self._on_stream = on_stream

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        path = args[0] if args else kwargs.get("file", kwargs.get("path"))
        descriptor = None if type(path) is int else _descriptor(path)
        if descriptor is None:
            return self._original(*args, **kwargs)
        return self._on_stream(os.dup(descriptor), *args[1:], **kwargs)

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"


def _open_stream(descriptor: int, *args: Any, **kwargs: Any) -> Any:
    kwargs = {name: value for name, value in kwargs.items() if name not in ("file", "opener")}
    try:
        return _open_file(descriptor, *args, **kwargs)
    except BaseException:
        os.close(descriptor)
        raise


def _keep_descriptor(descriptor: int, *_: Any, **__: Any) -> int:
    return descriptor


def lead_to_descriptors() -> None:
    """Replace what opens files in this process."""
    opened = _Opener(_open_file, _open_stream)
    builtins.open = io.open = opened
    os.open = _Opener(_open_descriptor, _keep_descriptor)
