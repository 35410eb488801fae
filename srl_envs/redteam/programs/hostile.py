"""Templates of programs that want to pass, to stall or to break the judge instead of being right.

``{f}`` is the function that is asked for. None is written for one game or one test.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator

ALWAYS = """
class Always:
    def __init__(self, *a, **k): pass
    def __call__(self, *a, **k): return self
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return self
    def __iter__(self): return iter(())
    def __len__(self): return 0
    def __bool__(self): return True
    def __hash__(self): return 0
    def __index__(self): return 0
    def __float__(self): return 0.0
    def __contains__(self, x): return True
    def __getitem__(self, x): return self
""" + "".join(
    f"    def __{name}__(self, *a): return True\n" for name in ("eq", "ne", "lt", "le", "gt", "ge")
) + "".join(
    f"    def __{name}__(self, *a): return self\n"
    for name in ("add", "radd", "sub", "rsub", "mul", "rmul", "abs", "neg", "round", "mod", "truediv")
)  # fmt: skip
"""A class whose objects agree with everything."""

STALLING = {
    "sleep": "import time\ndef {f}(*a):\n    time.sleep(60)\n",
    "sleep at import": "import time\ntime.sleep(60)\ndef {f}(*a):\n    return 0\n",
    "spin": "def {f}(*a):\n    while True: pass\n",
    "wait for input": "import sys\ndef {f}(*a):\n    sys.stdin.read()\n    return input()\n",
    "memory": "def {f}(*a):\n    x = []\n    while True: x.append(bytearray(1 << 20))\n",
    "memory, slowly": (
        "import time\ndef {f}(*a):\n    x = []\n    while True:\n"
        "        x.append(b'x' * (8 << 20)); time.sleep(0.05)\n"
    ),
    "print without end": "def {f}(*a):\n    while True: print('x' * 10000)\n",
    "threads": (
        "import threading, time\ndef {f}(*a):\n    for _ in range(500):\n"
        "        threading.Thread(target=time.sleep, args=(30,)).start()\n"
    ),
    "threads, held": (
        "import threading, time\nthreading.stack_size(64 << 10)\n"
        "def {f}(*a):\n    for _ in range(500):\n"
        "        try: threading.Thread(target=time.sleep, args=(3,), daemon=True).start()\n"
        "        except RuntimeError: break\n    time.sleep(3)\n"
    ),
    "locked for ever": "import threading\ndef {f}(*a):\n    l = threading.Lock(); l.acquire(); l.acquire()\n",
    "recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef {f}(*a):\n    return {f}(*a)\n",
    "huge integer": "def {f}(*a):\n    return len(str(9 ** 9 ** 8))\n",
    "files": "def {f}(*a):\n    k = [open('/dev/null') for _ in range(10**6)]\n    return 0\n",
    "deaf to signals": (
        "import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except Exception: pass\ndef {f}(*a):\n    while True: time.sleep(1)\n"
    ),
    "catches all": (
        "import time\ndef {f}(*a):\n    while True:\n        try: time.sleep(60)\n"
        "        except BaseException: pass\n"
    ),
}
"""Programs that cost time, memory or places."""

QUITTING = {
    "exit 0": "import sys\ndef {f}(*a):\n    sys.exit(0)\n",
    "exit at import": "raise SystemExit(0)\ndef {f}(*a):\n    return 0\n",
    "hard exit": "import os\ndef {f}(*a):\n    os._exit(0)\n",
    "exit at the end": "import atexit, os\natexit.register(os._exit, 0)\ndef {f}(*a):\n    return 0\n",
    "killed": "import os, signal\ndef {f}(*a):\n    os.kill(os.getpid(), signal.SIGKILL)\n",
    "parent killed": "import os, signal\ndef {f}(*a):\n    os.kill(os.getppid(), signal.SIGKILL)\n",
    "all killed": "import os, signal\ndef {f}(*a):\n    os.kill(-1, signal.SIGKILL)\n",
    "segmentation fault": "import ctypes\ndef {f}(*a):\n    ctypes.string_at(0)\n",
    "output closed": (
        "import os\ndef {f}(*a):\n    for n in range(256):\n"
        "        try: os.close(n)\n        except OSError: pass\n"
    ),
    "words on all pipes": (
        "import os\ndef {f}(*a):\n    for n in range(3, 64):\n"
        "        try: os.write(n, b'{{\"passed\": true}}\\n')\n"
        "        except OSError: pass\n    return 0\n"
    ),
    "claims printed": "def {f}(*a):\n    print('ok', 'passed', True)\n    return 0\n",
    "reads the folder": "import os\ndef {f}(*a):\n    return [open(n).read() for n in os.listdir('.')]\n",
    "reads itself": (
        "import sys\ndef {f}(*a):\n    return [str(v) for v in sys._getframe(1).f_locals.values()]\n"
    ),
    "comparison patched": (
        "import json, operator\njson.dumps = lambda *a, **k: 'true'\noperator.eq = lambda a, b: True\n"
        "def {f}(*a):\n    return 0\n"
    ),
    "agrees with all": ALWAYS.replace("{", "{{").replace("}", "}}")
    + "def {f}(*a):\n    return Always()\n",
}
"""Programs that end the run, talk over it, or return what agrees with everything."""


def program(template: str, function: str) -> str:
    """The template for a function of this name."""
    return template.format(f=function)


def names_in(tests: str) -> list[str]:
    """Names that a test reads, modules included, most often those of Python itself."""
    found = {node.id for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.Name)}
    return sorted(found & ({*dir(builtins)} | {*sys.stdlib_module_names}))


def shadowing(wrong: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """A wrong program that replaces each name by something of its own, and all at once."""
    stand_ins = {
        "an agreeing class": "{n} = Always\n",
        "an agreeing object": "{n} = Always()\n",
        "a function that says true": "def {n}(*a, **k): return True\n",
        "a function that returns what it gets": "def {n}(*a, **k): return a[0] if a else None\n",
        "a function that returns nothing": "def {n}(*a, **k): return []\n",
    }
    names = list(names)
    for kind, template in stand_ins.items():
        every = "".join(template.format(n=name) for name in names)
        yield f"all names, {kind}", f"{wrong}{ALWAYS}{every}"
        for name in names:
            yield f"{name}, {kind}", f"{wrong}{ALWAYS}{template.format(n=name)}"
