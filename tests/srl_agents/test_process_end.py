"""A process ends with the status of its work, whatever threads are left, and with its models freed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


THREADS = """
import atexit, gc, logging, sys, threading, weakref
from srl_agents import process_end
process_end._PATIENCE_S = process_end._JOIN_S = 0.05
logging.basicConfig(level=logging.DEBUG)
def hang(daemon):
    threading.Thread(target=threading.Event().wait, name="hangs", daemon=daemon).start()
atexit.register(print, "atexit ran")
"""


def ended(program: str) -> subprocess.CompletedProcess[str]:
    """The end of a process that runs this after `THREADS`."""
    command = [sys.executable, "-c", THREADS + program]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("work", "status", "said"),
    [
        ("lambda: None", 0, ""),
        ("lambda: 3", 3, ""),
        ("lambda: sys.exit(5)", 5, ""),
        ("lambda: sys.exit()", 0, ""),
        ("lambda: sys.exit('no room')", 1, "no room"),
        ("lambda: 1 / 0", 1, "ZeroDivisionError"),
        ("lambda: (_ for _ in ()).throw(KeyboardInterrupt)", 130, "KeyboardInterrupt"),
    ],
)
@pytest.mark.parametrize("left", ["", "hang(daemon=True)", "hang(daemon=False)"])
def test_the_exit_status_is_that_of_the_work(work: str, status: int, said: str, left: str) -> None:
    done = ended(f"{left}\nprocess_end.run_process({work})")
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert done.stdout == "atexit ran\n"  # it was in a buffer
    assert ("thread 'hangs' still runs" in done.stderr) == bool(left)


def test_what_the_work_left_is_freed_by_the_main_thread_before_the_interpreter_ends() -> None:
    program = """
class Model: pass
def work():
    model = Model()
    model.itself = model
    name = lambda: print("freed by", threading.current_thread().name)
    weakref.finalize(model, name).atexit = False
    gc.disable()
process_end.run_process(work)
"""
    assert ended(program).stdout == "freed by MainThread\natexit ran\n"


def test_an_interpreter_is_not_finalised_beside_threads_of_torch() -> None:
    program = """
import torch
class Late:
    def __del__(self): print("finalised")
late = Late()
torch.set_num_threads(2)
torch.ones(400, 400) @ torch.ones(400, 400)
process_end.run_process(lambda: 4)
"""
    done = ended(program)
    assert done.returncode == 4, done.stderr
    assert done.stdout == "atexit ran\n"
    assert "native thread" in done.stderr


def test_a_process_without_streams_writes_into_no_file_of_its_own(tmp_path: Path) -> None:
    program = f"""
def work():
    with open({str(tmp_path / "store")!r}, "w") as file:
        print("chatter")
        print("chatter", file=sys.stderr)
        return 0 if not sys.stdin.read() and file.fileno() > 2 else 1
process_end.run_process(work)
"""
    closed = 'exec "$0" -c "$1" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", closed, sys.executable, THREADS + program], check=False)
    assert done.returncode == 0
    assert (tmp_path / "store").read_text() == ""
