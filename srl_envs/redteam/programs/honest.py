"""Ordinary programs that a careful author may write; each returns a plain value."""

from __future__ import annotations

_THREADED = """
import threading, time
def solve(n):
    done = []
    def work(i):
        time.sleep(0.05)
        done.append(i)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return sorted(done)
"""
_BODY = "def solve(n):\n    return n + 1\n"

PROGRAMS: dict[str, tuple[str, int]] = {
    **{f"{n} threads": (_THREADED, n) for n in (2, 4, 8, 16, 32, 64)},
    **{
        f"stack of {mib} MiB": (
            f"import threading\nthreading.stack_size({mib} << 20)\ndef solve(n):\n    out = []\n"
            "    t = threading.Thread(target=lambda: out.append(n)); t.start(); t.join()\n    return out\n",
            3,
        )
        for mib in (1, 16, 64, 512)
    },
    "byte-order mark": ("\ufeff" + _BODY, 1),
    "carriage returns": (_BODY.replace("\n", "\r\n"), 1),
    "form feed": ("\f\n" + _BODY, 1),
    "coding line": ("# -*- coding: utf-8 -*-\n" + _BODY, 1),
    "future import": ("from __future__ import annotations\n" + _BODY, 1),
    "deep recursion": ("def solve(n):\n    return 0 if n == 0 else 1 + solve(n - 1)\n", 900),
    "deeper recursion": (
        "import sys\nsys.setrecursionlimit(20000)\n"
        "def solve(n):\n    return 0 if n == 0 else 1 + solve(n - 1)\n", 8000,
    ),
    "own source": ("import inspect\ndef solve(n):\n    return len(inspect.getsource(solve)) > n\n", 5),
    "source of the library": (
        "import inspect, json\ndef solve(n):\n    return len(inspect.getsource(json)) > n\n", 5,
    ),
    "log to a file": (
        "import logging\nlogging.basicConfig(filename='run.log')\ndef solve(n):\n"
        "    logging.warning('x')\n    return n\n", 4,
    ),
    "file in the folder": (
        "def solve(n):\n    with open('note.txt', 'w') as f: f.write('x' * n)\n"
        "    return len(open('note.txt').read())\n", 4,
    ),
    "temporary file": (
        "import tempfile\ndef solve(n):\n    with tempfile.TemporaryFile() as f:\n"
        "        f.write(b'x' * n)\n        return f.tell()\n", 4,
    ),
    "pool of threads": (
        "from concurrent.futures import ThreadPoolExecutor\ndef solve(n):\n"
        "    with ThreadPoolExecutor() as pool: return list(pool.map(lambda x: x * x, range(n)))\n", 6,
    ),
    "event loop": (
        "import asyncio\nasync def work(n):\n    await asyncio.sleep(0)\n    return n\n"
        "def solve(n):\n    return asyncio.run(work(n))\n", 6,
    ),
    "database in memory": (
        "import sqlite3\ndef solve(n):\n    c = sqlite3.connect(':memory:')\n"
        "    return c.execute('select ?', (n,)).fetchone()[0]\n", 6,
    ),
    "data class": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n"
        "def solve(n):\n    return P(n).x\n", 6,
    ),
    "named tuple": (
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n"
        "def solve(n):\n    return P(n).x\n", 6,
    ),
    "global state": ("seen = {}\ndef solve(n):\n    seen[n] = n\n    return len(seen)\n", 6),
    "main guard": (_BODY + "if __name__ == '__main__':\n    raise SystemExit(1)\n", 6),
    "standard input at the end": ("import sys\ndef solve(n):\n    return sys.stdin.read()\n", 6),
    "exact numbers": ("from fractions import Fraction\ndef solve(n):\n    return str(Fraction(n, 9))\n", 6),
    "huge integer": ("def solve(n):\n    return 7 ** n\n", 400),
    "surrogate": ("def solve(n):\n    return chr(0x1F600) * n\n", 3),
    "pickled copy": ("import pickle\ndef solve(n):\n    return pickle.loads(pickle.dumps([n]))\n", 6),
    "warning": ("import warnings\ndef solve(n):\n    warnings.warn('x')\n    return n\n", 6),
    "timer": (
        "import time\ndef solve(n):\n    a = time.perf_counter()\n"
        "    return time.perf_counter() >= a\n", 6,
    ),
    "own class as key": (
        "class K:\n    def __hash__(self): return 1\n    def __eq__(self, o): return True\n"
        "def solve(n):\n    return len({K(), K()})\n", 6,
    ),
}  # fmt: skip
"""Name -> source and the argument of ``solve``."""
