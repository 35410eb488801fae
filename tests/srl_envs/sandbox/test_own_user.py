"""Started by root, runs are users of their own: they cannot signal, trace or read each other."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from srl_envs.sandbox import Limits
from tests.srl_envs.sandbox.tiers import executor_of, serving

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Linux only"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root can give user ids"),
]
TIERS = ("namespaces", "landlock", "seccomp", "none")
IDS = """
import os, time
def solve():
    time.sleep(0.2)
    return [*os.getresuid(), *os.getresgid(), len(os.getgroups())]
"""
HONEST = """
import time
def solve(a, b):
    time.sleep(1.0)
    return a + b
"""
KILLS = """
import os, signal
def solve(*pids):
    for pid in (-1, 0, 1, os.getppid(), *pids):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            try:
                os.kill(pid, number) if pid not in (0, -1) else None
            except OSError:
                pass
    os.kill(-1, signal.SIGKILL)
"""
TRACES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def readable(path):
    try:
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False
buffer = ctypes.create_string_buffer(8)
def span(address):
    return (ctypes.c_ulong * 2)(address, 8)
def solve(*pids):
    found, ours = [], span(ctypes.addressof(buffer))
    theirs = span(id(None))  # the server's runs are its copies
    for pid in pids:
        if libc.ptrace(16, pid, None, None) == 0:
            found.append(["traced", pid])
        if libc.process_vm_readv(pid, ours, 1, theirs, 1, 0) == 8:
            found.append(["memory", pid])
        for name in ("environ", "mem", "maps"):
            if readable(f"/proc/{pid}/{name}"):
                found.append([name, pid])
    return found
"""


def calls(*args: object) -> list[dict[str, object]]:
    return [{"function": "solve", "args": list(args)}]


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
def test_each_run_is_a_user_without_rights_and_no_two_are_the_same(tier: str) -> None:
    with (
        executor_of(tier, Limits(), allow_unsafe=tier == "none") as executor,
        ThreadPoolExecutor(3) as pool,
    ):
        runs = [pool.submit(executor.run, IDS, calls()) for _ in range(3)]
        found = [run.result()[0].value for run in runs]
        assert "own user per run" in executor.layers
    assert len({ids[0] for ids in found}) == 3
    for user, effective, saved, *groups, further in found:
        assert user == effective == saved != 0
        assert 0 not in groups
        assert further == 0


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
def test_kill_9_of_everything_ends_its_own_run_only(tier: str) -> None:
    with (
        executor_of(tier, Limits(), allow_unsafe=tier == "none") as executor,
        ThreadPoolExecutor(2) as pool,
    ):
        executor.run(HONEST.replace("1.0", "0"), calls(1, 2))  # the server is there
        pids = [os.getpid(), serving(executor), executor._dispatcher.server_pid]
        honest = pool.submit(executor.run, HONEST, calls(3, 4))
        hostile = pool.submit(executor.run, KILLS, calls(*pids))
        assert hostile.result()[0].passed is not True
        assert honest.result()[0].value == 7
        assert serving(executor) == pids[1]


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
def test_no_run_reads_or_traces_another_process(tier: str) -> None:
    with (
        executor_of(tier, Limits(), allow_unsafe=tier == "none") as executor,
        ThreadPoolExecutor(2) as pool,
    ):
        executor.run(HONEST.replace("1.0", "0"), calls(1, 2))
        honest = pool.submit(executor.run, HONEST, calls(3, 4))
        server = serving(executor)
        children = ""
        while not children and not honest.done():
            with open(f"/proc/{server}/task/{server}/children") as file:
                children = file.read()
        pids = [os.getpid(), server, *map(int, children.split())]
        (outcome,) = executor.run(TRACES, calls(*pids))
        assert honest.result()[0].value == 7
        if outcome.status == "ok":
            assert outcome.value == []
