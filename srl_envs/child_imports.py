"""Import paths of the Python processes that SRL starts: those of this process, and nothing else.

Python puts the current folder before everything else where a process is started with ``-m`` or ``-c``. A
`random.py` in a user's folder would then replace the standard library's in the child and not in its parent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SAFE = {"PYTHONSAFEPATH": "1"}
"""Environment variables of a Python that may be another one than ours. Source: docs.python.org, `-P`."""


def same_imports() -> dict[str, str]:
    """Environment variables of a child with this interpreter: it finds modules where this process does."""
    return {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path), **SAFE}


@contextmanager
def safe_children() -> Iterator[None]:
    """Inside, processes that libraries start (`multiprocessing`) do not import from the current folder."""
    before = {name: os.environ.get(name) for name in SAFE}
    os.environ.update(SAFE)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
