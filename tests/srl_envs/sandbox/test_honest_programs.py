# ruff: noqa: E501 - the programs are quoted as their authors would write them
"""Unusual but honest programs behave as in plain Python."""

from __future__ import annotations

import pytest

from srl_envs.sandbox import CodeExecutor

# each reads "3 4" and prints 7
SCRIPTS = {
    "input": "a, b = map(int, input().split())\nprint(a + b)",
    "read": "import sys\nprint(sum(map(int, sys.stdin.read().split())))",
    "buffer": "import sys\nprint(sum(map(int, sys.stdin.buffer.readline().split())))",
    "buffer read": "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))",
    "alias": "import sys\ninput = sys.stdin.readline\nprint(sum(map(int, input().split())))",
    "iteration": "import sys\nfor line in sys.stdin: print(sum(map(int, line.split())))",
    "open(0)": "print(sum(map(int, open(0).read().split())))",
    "open /dev/stdin by number": "import os\nprint(sum(map(int, os.fdopen(0).read().split())))",
    "os.read": "import os\nprint(sum(map(int, os.read(0, 1000).split())))",
    "fileinput": "import fileinput\nfor line in fileinput.input(): print(sum(map(int, line.split())))",
    "until EOF": "s = 0\nwhile True:\n  try: s += sum(map(int, input().split()))\n  except EOFError: break\nprint(s)",
    "main guard": "def main(): print(sum(map(int, input().split())))\nif __name__ == '__main__': main()",
    "globals": "a, b = map(int, input().split())\ndef f():\n  global a\n  a += b\nf()\nprint(a)",
    "comprehension scope": "x = list(map(int, input().split()))\nprint([sum(y for y in x) for _ in x][0])",
    "exit": "import sys\nprint(sum(map(int, input().split())))\nsys.exit()",
    "quit": "print(sum(map(int, input().split())))\nquit()",
    "os._exit": "import os, sys\nprint(sum(map(int, input().split())))\nsys.stdout.flush()\nos._exit(0)",
    "write": "import sys\nsys.stdout.write('%d' % sum(map(int, input().split())))",
    "bytes out": "import sys\nsys.stdout.buffer.write(b'%d\\n' % sum(map(int, input().split())))",
    "os.write": "import os\nos.write(1, b'%d' % sum(map(int, input().split())))",
    "stderr": "import sys\nprint('noise' * 10000, file=sys.stderr)\nprint(sum(map(int, input().split())))",
    "fast io": """
import os, sys
from io import BytesIO, IOBase
class FastIO(IOBase):
    newlines = 0
    def __init__(self, file):
        self._fd = file.fileno(); self.buffer = BytesIO(); self.writable = "x" in file.mode or "r" not in file.mode
        self.write = self.buffer.write if self.writable else None
    def readline(self):
        while self.newlines == 0:
            b = os.read(self._fd, max(os.fstat(self._fd).st_size, 8192))
            self.newlines = b.count(b"\\n") + (not b)
            p = self.buffer.tell(); self.buffer.seek(0, 2); self.buffer.write(b); self.buffer.seek(p)
        self.newlines -= 1
        return self.buffer.readline()
    def flush(self):
        if self.writable: os.write(self._fd, self.buffer.getvalue()); self.buffer.truncate(0); self.buffer.seek(0)
class Wrapper(IOBase):
    def __init__(self, file):
        self.buffer = FastIO(file); self.flush = self.buffer.flush; self.writable = self.buffer.writable
        self.write = lambda s: self.buffer.write(s.encode()); self.readline = lambda: self.buffer.readline().decode()
sys.stdin, sys.stdout = Wrapper(sys.stdin), Wrapper(sys.stdout)
print(sum(map(int, sys.stdin.readline().split())))
""",
    "buffered until exit": "import atexit, io, sys\nout = io.StringIO()\natexit.register(lambda: sys.__stdout__.write(out.getvalue()))\nprint(sum(map(int, input().split())), file=out)",
    "redirect": "import contextlib, io\nf = io.StringIO()\nwith contextlib.redirect_stdout(f): print(sum(map(int, input().split())))\nprint(f.getvalue(), end='')",
    "devnull": "import os\nprint('x', file=open(os.devnull, 'w'))\nprint(sum(map(int, input().split())))",
    "recursion": "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(sum(map(int, input().split())) + f(50000) - 50000)",
    "recursion in a thread": """
import sys, threading
sys.setrecursionlimit(10**6); threading.stack_size(1 << 26)
def main():
    def f(n): return 0 if n == 0 else 1 + f(n - 1)
    print(sum(map(int, input().split())) + f(50000) - 50000)
t = threading.Thread(target=main); t.start(); t.join()
""",
    "a thread not joined": "import threading, time\ndef f(): time.sleep(0.05); print(sum(map(int, input().split())))\nthreading.Thread(target=f).start()",
    "a daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint(sum(map(int, input().split())))",
    "a thread pool": "from concurrent.futures import ThreadPoolExecutor as T\nwith T(8) as p: print(sum(p.map(int, input().split())))",
    "fifty threads": "import threading as t\nn = []\ng = t.Barrier(50)\nts = [t.Thread(target=lambda: (g.wait(), n.append(1))) for _ in range(50)]\nfor x in ts: x.start()\nfor x in ts: x.join()\nprint(sum(map(int, input().split())) + len(n) - 50)",
    "a huge stack": """
import functools, sys, threading
sys.setrecursionlimit(10**6); threading.stack_size(512 << 20)
deep = 20000 if sys.version_info < (3, 12) else 400  # later Pythons bound recursion through C
@functools.lru_cache(None)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
t = threading.Thread(target=lambda: print(sum(map(int, input().split())) + f(deep) - deep)); t.start(); t.join()
assert threading.stack_size() == 512 << 20
""",
    "its own source": "import inspect\ndef f(): return sum(map(int, input().split()))\nassert inspect.getsource(f).startswith('def f()')\nprint(f())",
    "its own file": "text = open(__file__).read()\nassert text.startswith('text')\nprint(sum(map(int, input().split())))",
    "a byte-order mark": "\ufeff# coding: utf-8\nprint(sum(map(int, input().split())))",
    "line ends of DOS": "s = '''a\r\nb'''\r\nassert s == 'a\\nb'\r\nif s:\r\n\tprint(sum(map(int, input().split())))\r\n",
    "a log file": "import logging\nlogging.basicConfig(filename='x.log', level='INFO')\nlogging.info(input())\nprint(sum(map(int, open('x.log').read().split(':')[2].split())))",
    "end of input": "x = input()\ntry: input()\nexcept EOFError: print(sum(map(int, x.split())))",
    "asyncio": "import asyncio\nasync def main():\n  await asyncio.sleep(0)\n  return sum(map(int, input().split()))\nprint(asyncio.run(main()))",
    "signals": "import signal\nsignal.signal(signal.SIGALRM, lambda *_: print(sum(map(int, input().split()))))\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()",
    "stack limit": "import resource\nresource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY,) * 2)\nprint(sum(map(int, input().split())))",
    "big integers": "a, b = map(int, input().split())\nassert len(str(7 ** 4000)) == 3381\nprint(a + b)",
    "digit limit": "try: str(10 ** 5000); print('no limit')\nexcept ValueError: print(sum(map(int, input().split())))",
    "decimal and fraction": "from decimal import *\nfrom fractions import Fraction as F\na, b = input().split()\nprint(int(Decimal(a) + Decimal(b) + F(1, 2).numerator - 1))",
    "memory": "x = bytearray(150 << 20)\nprint(sum(map(int, input().split())))",
    "temporary file": "import tempfile\nwith tempfile.TemporaryFile('w+') as f: f.write(input()); f.seek(0); print(sum(map(int, f.read().split())))",
    "a folder": "import os, pathlib\nos.makedirs('d/e'); pathlib.Path('d/e/f').write_text(input())\nprint(sum(map(int, open('d/e/f').read().split()))); assert os.listdir('d') == ['e']",
    "sqlite": "import sqlite3\nc = sqlite3.connect(':memory:')\nprint(c.execute('select ? + ?', tuple(map(int, input().split()))).fetchone()[0])",
    "a database file": """
import sqlite3
for mode in ("delete", "wal"):
    one, two = sqlite3.connect(mode), sqlite3.connect(mode)
    one.execute(f"pragma journal_mode={mode}"); one.execute("create table t (x)"); one.commit()
    two.execute("insert into t values (4)"); two.commit()
    assert one.execute("select x from t").fetchall() == [(4,)]; one.close(); two.close()
print(sum(map(int, input().split())))
""",
    "a locked file": "import fcntl\nf = open('log', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); f.write('x'); fcntl.lockf(f, fcntl.LOCK_UN)\nprint(sum(map(int, input().split())))",
    "asyncio over a pair": """
import asyncio, socket
async def main():
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=ours)
    reader, _ = await asyncio.open_connection(sock=theirs)
    writer.write(b"x" * 10**6); writer.write(input().encode()); writer.close()
    return sum(map(int, (await reader.read()).lstrip(b"x").split()))
print(asyncio.run(main()))
""",
    "parts of a message": """
import socket
ours, theirs = socket.socketpair()
assert ours.sendmsg([input().encode(), b"", memoryview(b" 0")]) == 5
print(sum(map(int, theirs.recv(99).split())))
""",
    "threads of the C library": """
import ctypes
libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
body = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: __import__("time").sleep(0.05))
assert libc.pthread_create(ctypes.byref(thread), None, body, None) == 0 == libc.pthread_join(thread, None)
print(sum(map(int, input().split())))
""",
    "the platform": "import platform, os\nassert platform.system() == os.uname().sysname == 'Linux'\nprint(sum(map(int, input().split())))",
    "processor time": "import os, time\nassert time.process_time() >= 0 <= time.thread_time() and os.times()[0] >= 0\nprint(sum(map(int, input().split())))",
    "scheduling of itself": "import os\nassert os.sched_getaffinity(0) == os.sched_getaffinity(os.getpid()) and os.getpgid(0) >= 0\nprint(sum(map(int, input().split())))",
    "unicode": "é = sum(map(int, input().split()))\nassert len('\\U0001f600ß') == 2\nprint(é)",
    "a surrogate": "x = '\\ud800'\nprint(sum(map(int, input().split())))",
    "dataclass": "from dataclasses import dataclass\n@dataclass(order=True)\nclass P:\n  x: int\n  y: 'int' = 0\nprint(P(*map(int, input().split())).x + 4)",
    "type hints": "from __future__ import annotations\nimport typing\ndef f(a: int) -> list[Foo]: ...\nprint(sum(map(int, input().split())))",
    "match": "match input().split():\n  case [a, b]: print(int(a) + int(b))",
    "walrus and star": "*x, = map(int, input().split())\nprint(y) if (y := sum(x)) else None",
    "exec": "exec('print(sum(map(int, input().split())))')",
    "eval": "print(eval(input().replace(' ', '+')))",
    "metaclass": "class M(type):\n  def __add__(c, o): return sum(map(int, input().split()))\nclass A(metaclass=M): pass\nprint(A + A)",
    "closing stdout": "import sys\nprint(sum(map(int, input().split())))\nsys.stdout.close()",
    "no stdout": "import sys\nprint(sum(map(int, input().split())))\nsys.stdout.flush()\nsys.stdout = None",
    "gc": "import gc\ngc.disable(); gc.collect(); gc.enable()\nprint(sum(map(int, input().split())))",
    "weak references": "import weakref\nclass A: pass\na = A(); r = weakref.ref(a); del a\nassert r() is None\nprint(sum(map(int, input().split())))",
    "time": "import time\ntime.sleep(0.01); assert time.time() > 1e9 < time.time_ns()\nprint(sum(map(int, input().split())))",
    "time zones": "import datetime, zoneinfo\nd = datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo('UTC'))\nassert d.year == 2024\nprint(sum(map(int, input().split())))",
    "late imports": "import wave\nprint(sum(map(int, input().split())))",
    "heap and queue": "import heapq, bisect, queue, collections\nh = list(map(int, input().split())); heapq.heapify(h)\nprint(heapq.heappop(h) + heapq.heappop(h))",
    "caches": "from functools import lru_cache\n@lru_cache(None)\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nassert f(300) > 0\nprint(sum(map(int, input().split())))",
    "random": "import random\nrandom.seed(5); x = random.random(); random.seed(5); assert x == random.random()\nprint(sum(map(int, input().split())))",
    "hashing": "import hashlib, secrets, uuid\nhashlib.sha256(secrets.token_bytes(8)).hexdigest(); uuid.uuid4()\nprint(sum(map(int, input().split())))",
    "pickle and copy": "import copy, pickle\nprint(sum(pickle.loads(pickle.dumps(copy.deepcopy(list(map(int, input().split())))))))",
    "mmap": "import mmap\nm = mmap.mmap(-1, 1000); m[:3] = b'abc'; m.close()\nprint(sum(map(int, input().split())))",
    "ctypes": "import ctypes\nassert ctypes.sizeof(ctypes.c_long) == 8\nprint(sum((ctypes.c_int * 2)(*map(int, input().split()))))",
    "pipes": "import os\nr, w = os.pipe(); os.write(w, input().encode()); print(sum(map(int, os.read(r, 99).split())))",
    "cpu count": "import os\nassert os.cpu_count() >= 1\nprint(sum(map(int, input().split())))",
    "command line": "import sys\nassert len(sys.argv) == 1 and __file__ and __name__ == '__main__'\nprint(sum(map(int, input().split())))",
    "swallowed error": "try: 1 / 0\nexcept ZeroDivisionError: import traceback; traceback.print_exc()\nprint(sum(map(int, input().split())))",
    "warnings": "import warnings\nwarnings.warn('w')\nprint(sum(map(int, input().split())))",
    "logging": "import logging\nlogging.warning('w')\nprint(sum(map(int, input().split())))",
}  # fmt: skip
NOT_SEALED = {
    "its own file",
    "a log file",
    "devnull",
    "temporary file",
    "a folder",
    "time zones",
    "late imports",
    "a database file",
    "a locked file",
}
"""Need a file system; the weakest tier has none."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_behave_as_in_plain_python(executor: CodeExecutor, name: str) -> None:
    (outcome,) = executor.run_stdin(SCRIPTS[name], ["3 4\n"], expected=["7"])
    assert (outcome.status, outcome.passed) == ("ok", True), outcome


@pytest.mark.slow
def test_the_weakest_tier_fails_only_what_needs_files() -> None:
    with CodeExecutor(isolation="seccomp") as executor:
        for name in SCRIPTS.keys() - NOT_SEALED:
            (outcome,) = executor.run_stdin(SCRIPTS[name], ["3 4\n"], expected=["7"])
            assert outcome.passed is True, (name, outcome)


@pytest.mark.slow
def test_numpy_is_there_when_it_is_installed(each_tier: CodeExecutor) -> None:
    pytest.importorskip("numpy")
    program = "import numpy as np\nprint(np.array(input().split(), dtype=np.int64).sum())"
    assert each_tier.run_stdin(program, ["3 4"], expected=["7"])[0].passed is True
    program = "import numpy as np\ndef solve(a): return [np.array(a), np.float64(0.5), np.int8(3), np.bool_(True)]"
    (outcome,) = each_tier.run(program, [{"function": "solve", "args": [[1, 2]]}])
    assert outcome.value == [[1, 2], 0.5, 3, True]
    assert type(outcome.value[3]) is bool
