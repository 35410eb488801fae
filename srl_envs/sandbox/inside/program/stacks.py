"""Threads whose stacks fit: addresses are what a program's memory limit counts, used or not.

Python asks for 8 MiB of them for each thread, and programs for hundreds before a deep recursion. A
thread that would not start, or would leave next to nothing to the others and to the heap, gets the
largest stack that fits instead. A thread that really needs more memory than the limit still fails, as
before.
"""

from __future__ import annotations

import _thread
import functools
import mmap
import threading
from collections.abc import Callable
from typing import Any

_DEFAULT = 8 << 20
_LEAST = 256 << 10
_PAGE = 4096
_KEPT = 32
"""A stack of the default size takes at most this part of the addresses that are left."""
_KEPT_OF_ASKED = 2
"""A stack of a size that the program asked for, this part of them."""
_STARTERS = ("start_new_thread", "start_new", "start_joinable_thread")


def fit() -> None:
    """Let all threads of this process and of its children start with stacks that fit."""
    for name in _STARTERS:
        for module, there in ((_thread, name), (threading, f"_{name}")):
            start = getattr(module, there, None)
            if start is not None:
                setattr(module, there, _fitting(start))


def _fitting(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    def begin(*args: Any, **kwargs: Any) -> Any:
        asked = _thread.stack_size()
        size = _largest(asked)
        if size == asked:
            return start(*args, **kwargs)
        _thread.stack_size(size)
        try:
            return start(*args, **kwargs)
        finally:
            _thread.stack_size(asked)

    return begin


def _largest(asked: int) -> int:
    """Bytes of a stack; what was asked for (0: the default) where it fits."""
    size, kept = (asked, _KEPT_OF_ASKED) if asked else (_DEFAULT, _KEPT)
    while size > _LEAST and not _is_free(size * kept):
        size = size // 2 // _PAGE * _PAGE
    return asked if size == (asked or _DEFAULT) else size


def _is_free(size: int) -> bool:
    try:
        mmap.mmap(
            -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ
        ).close()
    except (OSError, ValueError, OverflowError, MemoryError):
        return False
    return True
