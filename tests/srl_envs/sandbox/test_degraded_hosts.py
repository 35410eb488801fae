"""What the executor does where the kernel grants less: it tries, falls back, reports it, or refuses."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from srl_envs.errors import SandboxError
from srl_envs.sandbox import CodeExecutor, Limits
from srl_envs.sandbox.inside.confinement import syscalls
from tests.srl_envs.sandbox.tiers import executor_of

MOUNTING = ("mount", "umount2", "pivot_root")
PROBE = """
import os, socket
for path in ("/etc/passwd", "/proc/self/environ"):
    try: print("LEAK", open(path).read()[:20])
    except OSError: pass
try: open("/tmp/sandbox_leak", "w").write("x")
except OSError: pass
for attempt in (os.fork, socket.socket, lambda: os.kill(os.getppid(), 0)):
    try: attempt(); print("LEAK", attempt)
    except OSError: pass
print("done")
"""


def on_a_host_without(calls: tuple[str, ...], code: int = errno.EPERM) -> str:
    """Tier, layers and output of a probing program where these system calls are refused."""
    script = f"""
import os
from srl_envs.sandbox.inside.confinement import kernel; from srl_envs.sandbox.inside.confinement import rules
from srl_envs.sandbox import CodeExecutor
from srl_envs.errors import SandboxError
refused = dict.fromkeys({calls!r}, rules.error({code}))
kernel.no_new_privileges()
kernel.Filter(rules.assemble(os.uname().machine, refused, default=rules.allow())).install()
try:
    with CodeExecutor() as executor:
        (outcome,) = executor.run_stdin({PROBE!r}, [""])
        print(executor._dispatcher.tier, "+".join(executor.layers), outcome.stdout.split(), outcome.message)
except SandboxError as error:
    print("refused:", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "LEAK" not in done.stdout, done.stdout
    assert not Path("/tmp/sandbox_leak").exists()
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "code", "tier"),
    [
        (("unshare", *MOUNTING, "setns"), errno.EPERM, "landlock "),
        (MOUNTING, errno.EPERM, "landlock "),
        (("mount_setattr",), errno.ENOSYS, "landlock "),
        (("landlock_create_ruleset",), errno.ENOSYS, "namespaces "),
        (("unshare", "landlock_create_ruleset"), errno.EPERM, "seccomp "),
        (("unshare", "landlock_restrict_self"), errno.EPERM, "seccomp "),
        (("seccomp",), errno.EPERM, "refused: "),
        (("seccomp", "unshare", "landlock_create_ruleset"), errno.ENOSYS, "refused: "),
    ],
)
def test_the_strongest_tier_that_holds_is_taken(
    calls: tuple[str, ...], code: int, tier: str
) -> None:
    if os.uname().machine not in syscalls.MACHINES:
        pytest.skip("no system call table for this machine")
    text = on_a_host_without(calls, code)
    assert text.startswith(tier), text
    assert "done" in text or tier == "refused: "
    if tier == "refused: ":
        assert "allow_unsafe=True" in text


@pytest.mark.slow
def test_a_tier_that_was_asked_for_is_not_weakened(monkeypatch: pytest.MonkeyPatch) -> None:
    greeting = {"tier": "seccomp", "layers": ["seccomp"], "missing": {"landlock": "too old"}}
    monkeypatch.setattr(
        "srl_envs.sandbox.server_process.ServerProcess._greeting", lambda self: greeting
    )
    with pytest.raises(SandboxError, match=r"landlock: too old.*'seccomp'"):
        CodeExecutor(isolation="landlock")
    with pytest.raises(SandboxError, match="processes=4 needs namespaces"):
        CodeExecutor(Limits(processes=4))
    CodeExecutor().close()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_this_kernel_is_given_the_tier_that_other_tools_get() -> None:
    """Without it, a fault in a layer would skip the tests of that layer."""
    entered = subprocess.run(["unshare", "-Urmp", "true"], capture_output=True, check=False)
    landlock = ctypes.CDLL(None).syscall(444, None, 0, 1)  # asks for the version
    if entered.returncode or landlock < 1:
        pytest.skip("no user namespaces, or no Landlock")
    for tier in ("namespaces", "landlock", "seccomp"):
        with CodeExecutor(isolation=tier) as executor:
            assert executor._dispatcher._holder[0].greeting["missing"].keys() <= {"own files"}


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(SandboxError, match=r"Linux|WSL"):
        CodeExecutor()


def test_more_processes_when_asked_for() -> None:
    honest = """
import multiprocessing as m, os
def double(x): return 2 * x
def solve(n):
    with m.get_context("fork").Pool(2) as pool: return pool.map(double, range(n)), os.getpid()
"""
    bomb = """
import os, time
for _ in range(500):
    try:
        if os.fork() == 0: time.sleep(60)
    except OSError: pass
"""
    with executor_of("namespaces", Limits(processes=4, wall_s=10.0)) as executor:
        calls = [{"function": "solve", "args": [4]}]
        (outcome,) = executor.run(honest, calls)
        assert outcome.value == ([0, 2, 4, 6], 2), outcome
        killer = (
            "import os\nfor pid in range(3, 100):\n  try: os.kill(pid, 9)\n  except OSError: pass"
        )
        for program in (bomb, killer, "import os\nos.kill(-1, 9)", "import os\nos.kill(1, 9)"):
            executor.run_stdin(program, [""])
        (outcome,) = executor.run_stdin("import os\nos.kill(os.getpid(), 9)", [""])
        assert outcome.status == "exception"
        assert executor.run(honest, calls)[0].status == "ok"
        (outcome,) = executor.run(
            honest.replace("2 * x", "2 * x or os.execv('/bin/sh', ['sh'])"), calls
        )
        assert outcome.status != "infrastructure"


@pytest.mark.slow
def test_games_and_commands_need_no_module_that_windows_lacks() -> None:
    program = """
import sys
sys.modules.update(dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios", "tty")))
import srl_agents, srl_envs, srl_envs.rewards
for env_id in srl_envs.list_envs():
    srl_envs.make(env_id).close()
from srl_agents.cli.main import main
assert srl_agents.train
assert main(["plan", "quickstart-tiny"]) == main(["completion", "bash"]) == 0
from srl_agents import file_lock
try:
    file_lock.lock(0)
except srl_envs.errors.ConfigError as error:
    print(error, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("Windows") == 1
