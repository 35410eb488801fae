"""Programs that attack the verdict, the host or the executor, in every tier that claims to hold."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from srl_envs.sandbox import CodeExecutor, Limits

CASES = [((3, 4), 7), ((10, -2), 8), ((100, 250), 350)]

FORGED_RESULTS = {
    "equal to everything": """
class Anything:
    def __eq__(self, other): return True
    def __hash__(self): return 7
def solve(a, b): return Anything()
""",
    "a list equal to everything": """
class Anything(list):
    def __eq__(self, other): return True
def solve(a, b): return Anything()
""",
    "an int that lies": """
class Liar(int):
    def __eq__(self, other): return True
    def __index__(self): return 7
    def __int__(self): return 7
    def __repr__(self): return "7"
def solve(a, b): return Liar(0)
""",
    "a float without distance": """
class Near(float):
    def __sub__(self, other): return 0.0
    __rsub__ = __sub__
def solve(a, b): return Near(0)
""",
    "patched json": """
import json, json.encoder
json.dumps = json.encoder.encode_basestring = lambda *a, **k: '{"dict":[["status","ok"],["value",true]]}'
def solve(a, b): return 0
""",
    "patched codec": """
import sys
for name, module in list(sys.modules.items()):
    if name.endswith(("codec", "programs", "wire")):
        for attribute in dir(module):
            if not attribute.startswith("_"):
                try: setattr(module, attribute, lambda *a, **k: b'true')
                except Exception: pass
def solve(a, b): return 0
""",
    "patched builtins": """
import builtins
builtins.all = builtins.any = builtins.isinstance = lambda *a: True
builtins.len = lambda x: 3
def solve(a, b): return 0
""",
    "every answer as a frame": """
import os
for n in range(-50, 400):
    os.write(3, b'{"dict":[["status","ok"],["end",0],["value",%d]]}\\n' % n)
def solve(a, b): return 0
""",
    "a constant frame, then leave": """
import os
os.write(3, b'{"dict":[["status","ok"],["end",0],["value",7]]}\\n')
os._exit(0)
""",
    "a verdict in the frame": """
import os
os.write(3, b'{"dict":[["status","ok"],["passed",true],["value",null]]}\\n')
os._exit(0)
""",
    "nested brackets": "import os\nos.write(3, b'[' * 200000)\ndef solve(a, b): return 0",
    "an unfinished frame": "import os\nos.write(3, b'{\"dict\":[[')\ndef solve(a, b): return 0",
    "results rewound": """
import os, threading
def solve(a, b):
    os.lseek(3, 0, 0); os.ftruncate(3, 0); return 0
""",
    "a late thread": """
import os, threading, time
def late():
    time.sleep(0.05)
    for fd in range(1, 12):
        try: os.write(fd, b'{"dict":[["status","ok"],["end",0],["value",7]]}\\n')
        except OSError: pass
threading.Thread(target=late).start()
def solve(a, b):
    time.sleep(0.2); return 0
""",
    "answers of the caller's frames": """
import sys
def solve(a, b):
    frame, found = sys._getframe(), []
    while frame:
        for value in list(frame.f_locals.values()):
            if isinstance(value, dict):
                found += [v for k, v in value.items() if k in ("expected", "answer", "want")]
        frame = frame.f_back
    return found[0] if found else None
""",
    "answers on the heap": """
import gc
def solve(a, b):
    for thing in gc.get_objects():
        if isinstance(thing, dict) and "expected" in thing: return thing["expected"]
""",
    "state from the run before": """
import os
def solve(a, b):
    for folder in ("/tmp", "/box", "/dev/shm", "/var/tmp", "."):
        try:
            path = folder + "/seen"
            if os.path.exists(path): return int(open(path).read())
            open(path, "w").write("8")
        except OSError: pass
""",
    "not a number": "def solve(a, b): return float('nan')",
    "true": "def solve(a, b): return True",
    "text of the answer": "def solve(a, b): return str(a + b)",
    "all answers": "def solve(a, b): return list(range(-1000, 1000))",
    "leave at once": "import sys; sys.exit(0)",
    "leave quietly": "import os\ndef solve(a, b): os._exit(0)",
    "an exit handler": "import atexit, os\natexit.register(os._exit, 0)\ndef solve(a, b): return 0",
}

USING_UP = {
    "loops": "def solve(a, b):\n  while True: pass",
    "loops at load": "while True: pass",
    "ignores signals": """
import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except Exception: pass
while True: pass
""",
    "swallows everything": """
while True:
    try:
        while True: pass
    except BaseException: pass
""",
    "loops in threads": """
import hashlib, threading
def burn():
    data = b"x" * (1 << 20)
    while True: hashlib.sha256(data)
for _ in range(8): threading.Thread(target=burn).start()
""",
    "takes memory": "held = []\nwhile True: held.append(bytearray(10**6))",
    "takes memory again and again": """
held = []
while True:
    try: held.append(bytearray(10**6))
    except MemoryError: pass
""",
    "maps memory": "import mmap\nheld = []\nwhile True: held.append(mmap.mmap(-1, 1 << 24))",
    "forks": "import os\nwhile True: os.fork()",
    "starts threads": """
import threading, time
threading.stack_size(32768)
while True: threading.Thread(target=time.sleep, args=(60,)).start()
""",
    "prints for ever": "while True: print('x' * 1000)",
    "writes for ever": "i = 0\nwhile True:\n  open(f'/tmp/{i}', 'wb').write(b'x' * 100000); i += 1",
    "fills pipes": """
import os
held = []
while True:
    held.append(os.pipe()); os.set_blocking(held[-1][1], False); os.write(held[-1][1], b"x" * 65536)
""",
    "memory files": "import os\nwhile True: os.write(os.memfd_create('x'), b'x' * (1 << 20))",
    "recurses in C": """
import sys
sys.setrecursionlimit(10**9)
x = []
for _ in range(10**6): x = [x]
repr(x)
""",
    "a compile bomb": "compile('-' * 300000 + '1', 'x', 'eval')",
    "raises its limits": """
import resource
for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NPROC"):
    try: resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY,) * 2)
    except (ValueError, OSError): pass
held = bytearray(10**9)
def solve(a, b): return a + b
""",
}

WITH_THE_KERNEL = {
    "kills its parent": "import os\nos.kill(os.getppid(), 9)",
    "kills everything": "import os\nos.kill(-1, 9)",
    "kills by number": """
import os
for pid in [VICTIM, *range(1, 3000)]:
    if pid != os.getpid():
        try: os.kill(pid, 9)
        except OSError: pass
""",
    "kills its group": "import os\nos.killpg(0, 9)",
    "a socket": "import socket\nsocket.create_connection(('127.0.0.1', PORT), 1)",
    "a datagram": "import socket\nsocket.socket(2, 2).sendto(b'x', ('127.0.0.1', PORT))",
    "a local socket": "import socket\nsocket.socket(socket.AF_UNIX).connect('SECRET.sock')",
    "a listener": "import socket\ns = socket.socket(); s.bind(('', 0)); s.listen()",
    "a shell": "import os\nassert os.system('touch SECRET.changed') == 0",
    "an executed program": "import os\nos.execv('/bin/sh', ['sh', '-c', 'exit 0'])",
    "a subprocess": "import subprocess, sys\nsubprocess.check_call([sys.executable, '-c', ''])",
    "reads a file": "print(open('SECRET').read())",
    "reads passwords": "print(open('/etc/passwd').read())",
    "reads a home": "import os\nfor n in os.listdir('/root') + os.listdir('/home'): print('LEAK', n)",
    "reads processes": "import glob\nfor p in glob.glob('/proc/*/environ'): print('LEAK', open(p).read())",
    "reads descriptors": """
import os
for fd in range(4, 1024):
    try: print("LEAK", os.fstat(fd))
    except OSError: pass
""",
    "writes a file": "open('SECRET', 'w').write('changed')",
    "deletes a file": "import os\nos.unlink('SECRET')",
    "links a file": "import os\nos.link('SECRET', '/tmp/link'); print('LEAK', open('/tmp/link').read())",
    "truncates a file": "import os\nos.truncate('SECRET', 0)",
    "renames a file": "import os\nos.rename('SECRET', 'SECRET.changed')",
    "changes rights": "import os\nos.chmod('SECRET', 0o777)",
    "the interpreter": "import os\nprint('LEAK', os.open(os.__file__, os.O_WRONLY))",
    "the packages": "import srl_envs\nprint('LEAK')",
    "namespaces": "import ctypes\nif ctypes.CDLL(None).unshare(0x10000000) == 0: print('LEAK')",
    "mounts": "import ctypes\nif ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, 0) == 0: print('LEAK')",
    "another root": "import os\nos.chroot('/tmp'); print('LEAK')",
    "another user": "import os\nos.setuid(0); open('SECRET').read()",
    "tracing": "import ctypes\nif ctypes.CDLL(None).ptrace(16, VICTIM, 0, 0) == 0: print('LEAK')",
    "dangerous calls": """
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(256)
numbers = (321, 298, 323, 250, 248, 425, 319, 304, 135, 222) if platform.machine() == "x86_64" else (
    280, 241, 282, 219, 217, 425, 279, 265, 92, 107)
for number in numbers:
    if libc.syscall(number, 0, buffer, 0, 0, 0) >= 0: print("LEAK", number)
""",
    "32-bit calls": """
import ctypes, mmap
# int 0x80 with eax = 20, getpid of the 32-bit table
code = mmap.mmap(-1, 4096, prot=7)
code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
print("LEAK", ctypes.CFUNCTYPE(ctypes.c_int)(address)())
""",
    "limits of others": """
import os, resource
resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)); print("LEAK")
""",
    "environment": "import os\nprint(dict(os.environ))",
    "a device": "print('LEAK', open('/dev/kmsg', 'rb').read(1))",
}


def verdict(executor: CodeExecutor, program: str) -> list[bool | None]:
    calls = [{"function": "solve", "args": list(a), "expected": e} for a, e in CASES]
    return [outcome.passed for outcome in executor.run(program, calls)]


@pytest.fixture
def canaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, int, int, list[str]]]:
    """A readable file, a listening port and a process that programs must not touch."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == Path.home().owner() and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    secret = tmp_path / "secret.txt"
    secret.write_text("CANARY-IN-FILE")
    secret.chmod(0o666)
    monkeypatch.setenv("SANDBOX_CANARY", "CANARY-IN-ENVIRONMENT")
    hits: list[str] = []
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        subprocess.Popen(["sleep", "60"]) as victim,
    ):
        server.settimeout(0.01)
        yield secret, server.getsockname()[1], victim.pid, hits
        with pytest.raises(TimeoutError):
            server.accept()
        assert victim.poll() is None
        victim.kill()


@pytest.mark.parametrize("name", FORGED_RESULTS)
def test_no_claim_is_taken_for_the_answer(executor: CodeExecutor, name: str) -> None:
    """A constant may be right once: the program could have returned it. Never for every case."""
    assert verdict(executor, FORGED_RESULTS[name]).count(True) <= 1


@pytest.fixture(scope="module")
def impatient() -> Iterator[CodeExecutor]:
    limits = Limits(cpu_s=0.3, wall_s=10.0, memory_mib=128, output_kib=64)
    with CodeExecutor(limits) as executor:
        yield executor


@pytest.mark.parametrize("name", USING_UP)
def test_no_program_outlives_its_limits(impatient: CodeExecutor, name: str) -> None:
    calls = [{"function": "solve", "args": [3, 4], "expected": 7}]
    (outcome,) = impatient.run(USING_UP[name], calls)
    assert outcome.passed is False, outcome
    assert outcome.cpu_s < 3
    assert impatient.run("def solve(a, b): return a + b", calls)[0].passed is True


def test_a_program_that_stops_itself_is_ended() -> None:
    with CodeExecutor(Limits(wall_s=0.5)) as executor:
        program = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)"
        assert executor.run_stdin(program, [""])[0].status == "timeout"


@pytest.mark.parametrize("name", WITH_THE_KERNEL)
def test_the_host_stays_out_of_reach(
    each_tier: CodeExecutor, canaries: tuple[Path, int, int, list[str]], name: str
) -> None:
    secret, port, victim, _ = canaries
    program = WITH_THE_KERNEL[name]
    for word, value in (("SECRET", secret), ("PORT", port), ("VICTIM", victim)):
        program = program.replace(word, str(value))
    (outcome,) = each_tier.run_stdin(program, [""])
    assert outcome.status in ("ok", "exception", "crashed", "timeout"), outcome
    assert "LEAK" not in outcome.stdout
    assert "CANARY" not in outcome.stdout + outcome.message
    assert secret.read_text() == "CANARY-IN-FILE"
    assert os.listdir(secret.parent) == [secret.name]
    assert each_tier.run_stdin("print(1)", [""])[0].status == "ok"


@pytest.mark.slow
def test_a_program_cannot_blame_the_host(each_tier: CodeExecutor) -> None:
    """``infrastructure`` voids an episode: a losing program must not be able to ask for it."""
    hasty = CodeExecutor(Limits(cpu_s=0.1), isolation=each_tier.isolation)
    for program in (
        "import os\nos.kill(os.getpid(), 9)",
        "import signal\nsignal.raise_signal(9)",
        "import os\nos._exit(121)",
        "import os\nfor fd in range(3, 256):\n  try: os.write(fd, b'\\0' * 64)\n  except OSError: pass",
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (0, 0))\nwhile True: pass",
        "import resource\nresource.prlimit(0, resource.RLIMIT_CPU, (0, 0))\nwhile True: pass",
        "import os, resource\nresource.prlimit(os.getpid(), 0, (0, 0))\nwhile True: pass",
        "import ctypes\nctypes.CDLL(None).syscall(160, 0, (ctypes.c_long * 2)(0, 0))\nwhile True: pass",
        """
import ctypes
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("rest", ctypes.c_char * 52)]
libc = ctypes.CDLL(None)
timer = ctypes.c_int()
libc.syscall(222, 1, ctypes.byref(Event(None, 9)), ctypes.byref(timer))
libc.syscall(223, timer, 0, ctypes.byref((ctypes.c_long * 4)(0, 0, 0, 1000000)), 0)
while True: pass
""",
    ):
        (outcome,) = hasty.run_stdin(program, [""], expected=["x"])
        assert outcome.status != "infrastructure", (program, outcome)
        assert outcome.passed is False
    hasty.close()


def test_secrets_of_this_process_are_not_in_the_server(executor: CodeExecutor) -> None:
    program = "import os, sys\nprint(sorted(os.environ), sys.argv, len(sys.orig_argv))"
    (outcome,) = executor.run_stdin(program, [""])
    assert "SANDBOX_CANARY" not in outcome.stdout
    assert "CANARY" not in outcome.stdout


@pytest.mark.slow
def test_concurrent_hostile_and_honest_batches_do_not_mix(executor: CodeExecutor) -> None:
    results: list[bool] = []

    def honest() -> None:
        for _ in range(5):
            results.append(verdict(executor, "def solve(a, b): return a + b") == [True] * 3)

    threads = [threading.Thread(target=honest) for _ in range(2)]
    for thread in threads:
        thread.start()
    verdict(executor, FORGED_RESULTS["a late thread"])
    for thread in threads:
        thread.join()
    assert results == [True] * 10
    assert signal.getsignal(signal.SIGINT) is not None
