"""Budgets belong to a run, room follows the host's real limits, and the run that caused a fault is blamed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from srl_envs.errors import ConfigError
from srl_envs.sandbox import Budget, CodeExecutor, Limits, capacity
from srl_envs.sandbox.capacity import Capacity, Room, memory_room, process_limit
from srl_envs.sandbox.jobs import PROCESSORS, processor_crowding
from tests.srl_envs.sandbox.processes import descendants, send
from tests.srl_envs.sandbox.tiers import executor_of

ADD = "def solve(a, b): return a + b"
CALLS = [{"function": "solve", "args": [3, 4], "expected": 7}]
DEADLY = f"import time\ntime.sleep(5)  # DEADLY\n{ADD}"
THREADS = """
import threading, time
def solve(a, b):
    started = []
    def work(): started.append(1); time.sleep(0.3)
    threads = [threading.Thread(target=work) for _ in range({count})]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return a + b if len(started) == {count} else 0
"""
THREAD_HOG = """
import threading, time
threading.stack_size(32768)
def solve(a, b):
    while True:
        try: threading.Thread(target=time.sleep, args=(2,)).start()
        except RuntimeError: time.sleep(2)
"""

# -- threads ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_thread_hogs_take_no_threads_from_their_neighbours() -> None:
    with executor_of("namespaces", Limits(wall_s=5.0)) as executor:
        honest = (THREADS.format(count=50), CALLS)
        batch = [(THREAD_HOG, CALLS), honest, (THREAD_HOG, CALLS), honest, honest]
        found = executor.run_batch(batch)
        assert [outcome.passed for (outcome,) in found[1::2] + found[4:]] == [True] * 3


def test_errors_name_the_limit_behind_them(executor: CodeExecutor) -> None:
    for program, limit in {
        "getattr(__builtins__, 'op' + 'en')('x', 'w')": "text mentions writing",
        "import os\nwhile True: os.pipe()": "files=64",
        "open('x', 'wb').write(bytes(10**7))": "output_kib=256",
        "import os\nos.fork()": "processes=1",
        "import socket\nsocket.socket()": "sockets",
        "bytearray(10**9)": "memory_mib=256",
    }.items():
        (outcome,) = executor.run_stdin(program, [""])
        assert limit in outcome.message, (program, outcome)


def test_too_many_threads_are_refused_by_a_limit_with_a_name(executor: CodeExecutor) -> None:
    (outcome,) = executor.run(THREADS.format(count=500), CALLS)
    assert outcome.status == "exception"
    assert "threads=128" in outcome.message


# -- room ---------------------------------------------------------------------------------------

MIB = 1 << 20
V1 = {
    "proc/self/cgroup": "4:memory:/pod/box\n3:cpu:/other\n0::/\n",
    "proc/self/mountinfo": "30 20 0:26 /pod /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": str(900 * MIB),
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9223372036854771712",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes": str(100 * MIB),
    "sys/fs/cgroup/memory/memory.usage_in_bytes": str(500 * MIB),
    "sys/fs/cgroup/memory/memory.stat": f"cache 1\ninactive_file {200 * MIB}\nactive_file 0\n",
}
V2 = {
    "proc/self/cgroup": "0::/pod/box\n",
    "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/pod/box/memory.max": "max",
    "sys/fs/cgroup/pod/box/memory.high": str(700 * MIB),
    "sys/fs/cgroup/pod/box/memory.current": str(300 * MIB),
    "sys/fs/cgroup/pod/box/pids.max": "max",
    "sys/fs/cgroup/pod/memory.max": str(800 * MIB),
    "sys/fs/cgroup/pod/memory.current": str(600 * MIB),
    "sys/fs/cgroup/pod/pids.max": "500",
}


@pytest.mark.parametrize(
    ("files", "room", "processes"),
    [
        (V1, Room(900 * MIB, 600 * MIB), 1 << 62),
        (V2, Room(700 * MIB, 200 * MIB), 500),
        (V2 | {"proc/self/cgroup": "0::/../elsewhere\n"}, Room(4096 * MIB, 3072 * MIB), 1 << 62),
        (
            V1
            | {"sys/fs/cgroup/memory/box/memory.stat": f"hierarchical_memory_limit {50 * MIB}\n"},
            Room(50 * MIB, 0),
            1 << 62,
        ),
        ({}, Room(4096 * MIB, 3072 * MIB), 1 << 62),
    ],
)
def test_the_smallest_limit_on_the_way_counts(
    tmp_path: Path, files: dict[str, str], room: Room, processes: int
) -> None:
    host = {"proc/meminfo": f"MemTotal: {4096 << 10} kB\nMemAvailable: {3072 << 10} kB\n"}
    for name, text in (host | files).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert memory_room(tmp_path) == room
    assert process_limit(tmp_path) == processes


def test_all_executors_of_a_process_share_its_room() -> None:
    room = Capacity(lambda: Room(1000, 900), clock=lambda: 0.0)
    woken: list[str] = []

    def take(job: str, cost: int, who: str, *, exclusive: bool = False) -> bool:
        return room.take(job, cost, who, lambda: woken.append(who), exclusive=exclusive)

    assert take("a1", 300, "a")
    assert take("b1", 200, "b")
    assert not take("a2", 1, "a")  # half of 1000 is promised
    assert not take("b2", 1, "b")
    room.give("b1")
    assert woken == ["a", "b"]
    assert not take("b2", 1, "b")  # who waits longer comes first
    assert take("a2", 1, "a")
    assert take("b2", 1, "b")
    assert not take("c1", 1, "c", exclusive=True)
    assert not take("a3", 1, "a")  # so that the exclusive one gets its turn
    for job in ("a1", "a2", "b2"):
        room.give(job)
    assert take("c1", 1, "c", exclusive=True)
    assert not take("a3", 1, "a")
    room.give("c1")
    assert take("a3", 5000, "a")  # one run always fits
    assert not take("d1", 1, "d")
    room.withdraw("d")
    room.give("a3")
    assert take("b3", 1, "b")


def test_two_executors_never_run_more_than_the_room_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capacity, "SHARED", Capacity(lambda: Room(700 * MIB, 700 * MIB)))
    with CodeExecutor() as first, CodeExecutor() as second:
        most: list[int] = []
        take = capacity.SHARED.take

        def counted(*args: object, **kwargs: object) -> bool:
            taken = take(*args, **kwargs)  # type: ignore[arg-type]
            most.append(len(first._dispatcher._active) + len(second._dispatcher._active))
            return taken

        monkeypatch.setattr(capacity.SHARED, "take", counted)
        results: list[bool | None] = []
        threads = [
            threading.Thread(
                target=lambda executor=executor: results.extend(
                    outcome.passed for outcome in executor.run(ADD, CALLS * 20)
                )
            )
            for executor in (first, second)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 40
    assert max(most) <= 1


# -- a program's wall time ----------------------------------------------------------------------


def test_a_budget_passes_while_any_run_of_the_program_is_running() -> None:
    now = [0.0]
    budget = Budget(10.0, clock=lambda: now[0], crowding=lambda: 1.0)
    now[0] = 100.0
    assert budget.left_s == 10.0
    first = budget.begin()
    now[0] += 3
    second = budget.begin()
    now[0] += 3
    budget.end(first)
    assert budget.left_s == 4.0
    budget.end(second)
    now[0] += 50
    assert budget.left_s == 4.0
    budget.begin()
    now[0] += 5
    assert budget.left_s == 0.0
    with pytest.raises(ConfigError, match="total_s=0"):
        Budget(0)


def test_a_budget_passes_as_on_a_machine_of_ones_own() -> None:
    """Else an honest program loses its tests where others work: a verdict must not depend on them."""
    now, crowd = [0.0], [4.0]
    budget = Budget(10.0, clock=lambda: now[0], crowding=lambda: crowd[0])
    begun_s = budget.begin()
    now[0] += 12
    assert budget.left_s == 7.0
    assert budget.granted_s(1.0) == 4.0
    budget.end(begun_s, cpu_s=8.0 * PROCESSORS)  # what it took itself, it pays, however many it was
    assert budget.left_s == 2.0
    assert 1.0 <= processor_crowding() < 1e4


def test_what_runs_is_taken_to_use_its_share_until_it_ends() -> None:
    """Else a program that spins in many runs gets as many again when the first of them ends."""
    now, runs = [0.0], 3 * PROCESSORS
    budget = Budget(2.0, clock=lambda: now[0], crowding=lambda: 3.0)
    begun_s = [budget.begin() for _ in range(runs)]
    now[0] += 1.5
    assert budget.left_s == pytest.approx(0.5)
    budget.end(begun_s[0], cpu_s=0.5)
    assert budget.left_s == pytest.approx(0.5)
    for begun in begun_s[1:]:
        budget.end(begun)  # they slept
    assert budget.left_s == pytest.approx(1.5)


def test_what_a_budget_leaves_no_time_for_is_not_run(executor: CodeExecutor) -> None:
    nap = "import time\ndef solve(a, b): time.sleep(60)"
    found = executor.run_batch([(nap, CALLS * 30), (ADD, CALLS * 30)], budgets=[Budget(0.5), None])
    assert {outcome.status for outcome in found[0]} == {"timeout"}
    assert sum(outcome.message.startswith("not run") for outcome in found[0]) >= 10
    assert [outcome.passed for outcome in found[0]] == [False] * 30
    assert [outcome.passed for outcome in found[1]] == [True] * 30
    spent = Budget(0.2, crowding=lambda: 1.0)
    assert executor.run_asserts(nap, "assert solve(1, 2) == 3", budget=spent).status == "timeout"
    late = executor.run_asserts(ADD, "assert solve(3, 4) == 7", budget=spent)
    assert (late.status, late.passed) == ("timeout", False)
    assert late.message.startswith("not run")


# -- blame --------------------------------------------------------------------------------------

HUNGRY = """
held = bytearray(180 << 20)
for at in range(0, len(held), 4096): held[at] = 1
def solve(a, b): return a + b
"""


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path]:
    """A control group of this limit below the process's own; skips where none can be made."""
    if os.getuid() != 0:
        pytest.skip("only root makes control groups")
    for parent in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        group = parent / f"srl-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            for name in ("memory.limit_in_bytes", "memory.max"):
                with contextlib.suppress(OSError):
                    (group / name).write_text(str(limit_bytes))
                    yield group
                    return
        finally:
            _remove(group)
    pytest.skip("no memory controller that this user may use")


def _remove(group: Path) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)


@pytest.mark.slow
def test_short_of_memory_a_program_is_served_and_a_hog_is_to_blame() -> None:
    """Programs that fit are right, whatever their number; those that do not are ``memory``."""
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
from srl_envs.sandbox import CodeExecutor, Limits
with CodeExecutor(Limits(memory_mib=SIZE)) as executor:
    for program in ({HUNGRY!r}, {ADD!r}):
        found = executor.run(program, {CALLS!r} * 12)
        print(sorted({{(outcome.status, outcome.passed) for outcome in found}}))
"""
    honest, hog = "[('ok', True)]", "[('memory', False)]"
    for group_mib, limit_mib, expected in ((600, 256, honest), (150, 256, hog), (150, 64, hog)):
        with memory_group(group_mib * MIB) as group:
            inside = ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
            done = subprocess.run(
                [*inside, sys.executable, "-c", script.replace("SIZE", str(limit_mib))],
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
        assert done.stdout.splitlines() == [expected, honest], (group_mib, done)


@pytest.mark.slow
def test_six_kills_of_the_server_lose_no_run() -> None:
    work = "import time\ndef solve(a, b): time.sleep(0.02); return a + b"
    with CodeExecutor() as executor:
        found: list[bool | None] = []
        caller = threading.Thread(
            target=lambda: found.extend(o.passed for o in executor.run(work, CALLS * 180))
        )
        caller.start()
        for _ in range(6):
            holder = executor._dispatcher._holder
            while not (holder and executor._dispatcher._active):
                time.sleep(0.001)
            with contextlib.suppress(IndexError):  # it is being replaced
                send(descendants(holder[0].pid), signal.SIGKILL)
            time.sleep(0.02)
        caller.join()
    assert found == [True] * 180


@pytest.mark.slow
def test_a_program_that_no_server_survives_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program can do that; here the server is killed when it starts the bad one."""
    with CodeExecutor() as executor:
        dispatcher = executor._dispatcher
        submit = type(dispatcher)._submit

        def deadly(self: object, server: object, run: object, **ends: object) -> None:
            submit(self, server, run, **ends)  # type: ignore[arg-type]
            if b"DEADLY" in run.payload:  # type: ignore[attr-defined]
                send(descendants(dispatcher.server_pid), signal.SIGKILL)

        monkeypatch.setattr(type(dispatcher), "_submit", deadly)
        batch = [(ADD, CALLS * 5), (DEADLY, CALLS), (ADD, CALLS * 5)]
        first, (bad,), last = executor.run_batch(batch)
        assert [outcome.passed for outcome in first + last] == [True] * 10
        assert (bad.status, bad.passed) == ("crashed", False)
        with monkeypatch.context() as patch:  # and where a server survives nothing, it is the host
            patch.setattr(type(dispatcher), "_survives_control", lambda self: False)
            (outcome,) = executor.run(DEADLY, CALLS)
        assert (outcome.status, outcome.passed) == ("infrastructure", None)


def test_a_run_has_no_rights_and_is_ended_for_memory_before_its_server(
    executor: CodeExecutor,
) -> None:
    nap = "import time\ndef solve(a, b): time.sleep(2); return a + b"
    caller = threading.Thread(target=executor.run, args=(nap, CALLS))
    before = descendants(executor._dispatcher.server_pid)
    caller.start()
    while not (started := descendants(executor._dispatcher.server_pid) - before):
        time.sleep(0.001)
    time.sleep(0.5)
    (run,) = started
    score = int(Path(f"/proc/{run}/oom_score_adj").read_text())
    others = {int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in before}
    status = Path(f"/proc/{run}/status").read_text()
    caller.join()
    assert score == 1000
    assert max(others) < 1000 or int(Path("/proc/self/oom_score_adj").read_text()) >= 1000
    rights = re.findall(r"Cap(?:Inh|Prm|Eff|Amb):\s*([0-9a-f]+)", status)
    assert {int(right, 16) for right in rights} == {0}
