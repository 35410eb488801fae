"""The executor survives the end of its server, of its parent and of its caller, and leaves nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from srl_envs.sandbox import CodeExecutor, Limits, server_process
from srl_envs.sandbox.server_process import ServerProcess
from tests.srl_envs.sandbox.processes import descendants, send

pytestmark = pytest.mark.slow


ADD = "def solve(a, b): return a + b"
CALLS = [{"function": "solve", "args": [3, 4], "expected": 7}]


def server_pid(executor: CodeExecutor) -> int:
    return executor._dispatcher.server_pid


def gone(pids: set[int]) -> bool:
    for _ in range(200):
        if not any(_alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def passed(executor: CodeExecutor) -> bool:
    return executor.run(ADD, CALLS)[0].passed is True


def test_a_killed_server_is_replaced_within_the_same_call() -> None:
    with CodeExecutor() as executor:
        assert passed(executor)
        first = descendants(server_pid(executor))
        send(first, 9)
        assert gone(first)
        assert passed(executor)
        assert server_pid(executor) not in first


def test_a_server_killed_in_the_middle_is_no_wrong_answer() -> None:
    program = "import time\ndef solve(a, b): time.sleep(0.3); return a + b"
    with CodeExecutor() as executor:
        pids = descendants(server_pid(executor))
        killer = threading.Timer(0.1, send, (pids, 9))
        killer.start()
        outcomes = executor.run(program, CALLS * 4)
        killer.join()
    assert [outcome.passed for outcome in outcomes] == [True] * 4


def test_a_server_that_cannot_start_again_voids_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with CodeExecutor() as executor:
        executor.close()
        monkeypatch.setattr(sys, "_base_executable", "/nonexistent/python")
        (outcome,) = executor.run(ADD, CALLS)
        judged = executor.run_asserts(ADD, "assert solve(3, 4) == 7")
    for result in (outcome, judged):
        assert (result.status, result.passed, result.value) == ("infrastructure", None, None)
        assert "cannot start" in result.message


def test_closing_leaves_no_process_and_no_descriptor() -> None:
    CodeExecutor().close()
    before = sorted(os.listdir("/proc/self/fd"))
    executor = CodeExecutor()
    assert passed(executor)
    executor.run_asserts(ADD, "assert solve(3, 4) == 7")
    executor.run_stdin("while True: print('x' * 1000)", ["", ""])
    pids = descendants(server_pid(executor))
    executor.close()
    executor.close()
    assert gone(pids)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert passed(executor)  # a closed executor starts again
    executor.close()


def test_many_runs_leak_nothing(executor: CodeExecutor) -> None:
    _many_runs(executor, 100)


def test_two_thousand_runs_leak_nothing(executor: CodeExecutor) -> None:
    _many_runs(executor, 2_000)


def _many_runs(executor: CodeExecutor, count: int) -> None:
    assert passed(executor)
    server = max(descendants(server_pid(executor)))
    before = _holdings(server)
    hostile = "import os, tempfile\nf = [os.pipe() for _ in range(20)]\nopen('/tmp/x', 'w')\n"
    for _ in range(count // 100):
        executor.run(ADD, CALLS * 60)
        executor.run_stdin(hostile, [""] * 36)
        executor.run_asserts(ADD, "assert solve(3, 4) == 7")
        executor.run_asserts(ADD, "assert solve(3, 4) == 8")
    assert _holdings(server) == before


def _holdings(server: int) -> dict[str, object]:
    return {
        "descriptors here": len(os.listdir("/proc/self/fd")),
        "descriptors there": len(os.listdir(f"/proc/{server}/fd")) if os.getuid() == 0 else 0,
        "processes": len(descendants(os.getpid())),
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
        "files": sorted(name for name in os.listdir("/tmp") if name.startswith("sandbox")),
    }


def test_an_abandoned_executor_ends_its_server() -> None:
    executor = CodeExecutor()
    pids = descendants(server_pid(executor))
    del executor
    gc.collect()
    assert gone(pids)


@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(1)", "import os; os._exit(0)", "os.kill(os.getpid(), 9)"]
)
def test_the_server_ends_with_the_interpreter(ending: str) -> None:
    program = f"""
import os
from srl_envs.sandbox import CodeExecutor
executor = CodeExecutor()
print(executor._dispatcher.server_pid, flush=True)
input()
{ending}
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pids = descendants(int(process.stdout.readline()))
        assert pids
        process.stdin.write("\n")
        process.stdin.close()
        process.wait()
    assert gone(pids)


def test_a_forked_copy_uses_a_server_of_its_own() -> None:
    with CodeExecutor() as executor:
        assert passed(executor)
        mine = server_pid(executor)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if passed(executor) and server_pid(executor) != mine else 2
                executor.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert passed(executor)
        assert server_pid(executor) == mine


def test_threads_share_one_executor() -> None:
    with CodeExecutor() as executor:
        results: list[bool] = []
        threads = [
            threading.Thread(target=lambda: results.append(passed(executor))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 8


def test_a_slow_program_holds_up_no_other_thread() -> None:
    slow = "import time\ndef solve(a, b): time.sleep(3); return a + b"
    with CodeExecutor() as executor:
        thread = threading.Thread(target=executor.run, args=(slow, CALLS))
        thread.start()
        while not executor._dispatcher._active:
            time.sleep(0.001)
        assert passed(executor)
        assert executor.run_asserts(ADD, "assert solve(3, 4) == 7").passed
        assert thread.is_alive()
        thread.join()


def test_what_is_asked_for_while_the_server_dies_is_not_lost() -> None:
    slow = "import time\ndef solve(a, b): time.sleep(0.2); return a + b"
    with CodeExecutor() as executor:
        results: list[bool | None] = []
        threads = [
            threading.Thread(
                target=lambda: results.extend(o.passed for o in executor.run(slow, CALLS * 3))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        send(descendants(server_pid(executor)), 9)
        for thread in threads:
            thread.join()
    assert results == [True] * 12


def test_an_interrupted_leader_leaves_the_others_their_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = "import time\ndef solve(a, b): time.sleep(0.3); return a + b"
    with CodeExecutor() as executor:
        dispatcher = executor._dispatcher
        leads = threading.Event()
        collect = ServerProcess.collect

        def interrupted(server: ServerProcess, timeout_s: float) -> object:
            if threading.current_thread() is threading.main_thread():
                leads.set()
                while len(dispatcher._active) < 2:  # until the other thread's run has started, too
                    dispatcher._start_waiting(server)
                raise KeyboardInterrupt
            return collect(server, timeout_s)

        results: list[bool] = []

        def follow() -> None:
            leads.wait()
            results.append(executor.run(slow, CALLS)[0].passed is True)

        follower = threading.Thread(target=follow)
        follower.start()
        with monkeypatch.context() as patch:
            patch.setattr(ServerProcess, "collect", interrupted)
            with pytest.raises(KeyboardInterrupt):
                executor.run(slow, CALLS)
            follower.join()
        assert results == [True]
        assert passed(executor)


def test_coroutines_run_side_by_side() -> None:
    async def all_of_them(executor: CodeExecutor) -> tuple[Any, ...]:
        calls = [executor.run_async(ADD, CALLS) for _ in range(20)]
        scripts = executor.run_stdin_async("print(input())", ["a"], expected=["a"])
        tests = executor.run_asserts_async(ADD, "assert solve(3, 4) == 7")
        batch = executor.run_batch_async([(ADD, CALLS), ("x", CALLS)], one_process=True)
        return await asyncio.gather(asyncio.gather(*calls), scripts, tests, batch)

    with CodeExecutor() as executor:
        calls, scripts, tests, batch = asyncio.run(all_of_them(executor))
    assert [outcome.passed for (outcome,) in calls] == [True] * 20
    assert scripts[0].passed
    assert tests.passed
    assert [outcome.passed for (outcome,) in batch] == [True, False]


def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srl_envs.sandbox.dispatch._UNANSWERED_S", 0.2)
    with CodeExecutor(Limits(wall_s=0.2)) as executor:
        send(descendants(server_pid(executor)), 19)
        assert passed(executor)  # with the next one


def test_importing_is_light() -> None:
    program = """
import sys
import srl_envs.sandbox
heavy = {"torch", "transformers", "sympy", "pandas", "multiprocessing.managers"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_server_runs_without_the_packages_of_the_host() -> None:
    server = ServerProcess("namespaces", [])
    try:
        assert server.greeting["tier"] in ("namespaces", "landlock", "seccomp")
    finally:
        server.close()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_start_finds_compiled_modules_where_files_may_be_written(
    allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(
        server_process._INSIDE, tmp_path / "inside", ignore=shutil.ignore_patterns("__pycache__")
    )
    monkeypatch.setattr(server_process, "_INSIDE", str(tmp_path / "inside"))
    monkeypatch.setattr(sys, "dont_write_bytecode", not allowed)
    server_process._compile_inside.cache_clear()
    ServerProcess("namespaces", []).close()
    modules = {path.stem for path in tmp_path.rglob("*.py")}
    compiled = {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")}
    assert compiled == (modules if allowed else set())
