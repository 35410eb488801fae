"""However a server of ours ends, its processes end with it and its shared memory is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from srl_agents.engines.vllm import server as vllm_server

HOLDS_MEMORY = """
import subprocess, time
from multiprocessing.shared_memory import SharedMemory
held = SharedMemory(create=True, size=16)
child = subprocess.Popen(["sleep", "1000"])
print(held.name, child.pid, flush=True)
time.sleep(1000)
"""
MOST_S = 30.0


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("how", ["its parent is gone", "it is closed", "it hangs and is closed"])
def test_a_server_leaves_neither_processes_nor_shared_memory(how: str, tmp_path: Path) -> None:
    (tmp_path / "holds_memory.py").write_text(HOLDS_MEMORY)
    program = vllm_server._ENDS_WITH_PARENT.replace(
        "vllm.entrypoints.openai.api_server", "holds_memory"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path,
        start_new_session=True,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    name, child = server.stdout.readline().decode().split()
    memory = Path("/dev/shm") / name
    assert memory.exists()
    if how == "its parent is gone":
        server.stdin.close()
        server.wait(MOST_S)
    else:
        if how == "it hangs and is closed":
            os.kill(server.pid, signal.SIGSTOP)
        vllm_server._end(server, 0.3)
    server.stdout.close()
    until = time.monotonic() + MOST_S
    while memory.exists() or lives(int(child)):
        assert time.monotonic() < until
        time.sleep(0.01)
