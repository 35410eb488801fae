"""A program's text as the interpreter would find it in a file."""

from __future__ import annotations

import contextlib
import linecache
import os
import types

FILE = "solution.py"
_folders: list[str] = []


def keep_in(folder: str) -> None:
    """Write the program that is compiled next to this folder, for ``open(__file__)``."""
    _folders.append(folder)


def compiled(program: str) -> types.CodeType:
    """Compiled code of a program; tracebacks and `inspect.getsource` find its lines."""
    program = program.removeprefix("\ufeff")
    linecache.cache[FILE] = (lambda: program,)  # read when it is needed
    if _folders:
        with contextlib.suppress(OSError), open(os.path.join(_folders[0], FILE), "xb") as file:
            file.write(program.encode("utf-8", "surrogatepass"))
    return compile(program, FILE, "exec", dont_inherit=True)
