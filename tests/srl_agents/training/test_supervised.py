"""A child under supervision: dead ones are replaced at once, silent ones after a while, none outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from srl_agents.training.faults.supervised import Supervised, be_child
from srl_envs.errors import ConfigError, DeadlineError, ModelError, SRLError

QUIET = ["-c", "import sys; sys.stdin.buffer.read()"]
DYING = ["-c", "import sys; sys.exit('the weights are gone')"]
MOST_S = 30.0
"""For what happens at once on an idle machine."""


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    made: list[Supervised] = []

    def make(command: list[str], patience_s: float = 600.0, restarts: int = 2) -> Supervised:
        child = Supervised(
            "the child", [sys.executable, "-S", *command], tmp_path / "child.log",
            patience_s=patience_s, restarts=restarts,
        )  # fmt: skip
        made.append(child)
        child.start()
        return child

    yield make
    for child in made:
        child.close()


def soon(holds: Callable[[], bool]) -> bool:
    """Whether it comes true before something must be wrong."""
    end = time.monotonic() + MOST_S
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.005)
    return False


def checked(child: Supervised) -> None:
    """Wait as a trainer does, until the child is given up."""
    end = time.monotonic() + MOST_S
    while time.monotonic() < end:
        child.check()
        time.sleep(0.005)


def test_a_child_that_met_the_users_mistake_is_not_started_again(
    supervise: Callable[..., Supervised],
) -> None:
    child = supervise(["-c", "print('ConfigError: no cluster answers'); raise SystemExit(2)"])
    with pytest.raises(ConfigError, match="no cluster answers"):
        checked(child)
    assert child.starts == 1


@pytest.mark.parametrize(("error", "code"), [(ConfigError, 2), (ModelError, 1)])
def test_an_error_of_ours_is_one_line_of_a_childs_log(
    error: type[SRLError], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        raise error("the weights are gone.")

    with pytest.raises(SystemExit) as ended:
        be_child(work)
    assert ended.value.code == code
    assert capsys.readouterr().err == f"{error.__name__}: the weights are gone.\n"


def test_a_killed_child_is_replaced_without_anybody_asking(
    supervise: Callable[..., Supervised],
) -> None:
    child = supervise(QUIET)
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert soon(lambda: child.pid not in (None, first))
    assert child.starts == 2


def test_a_child_that_keeps_dying_is_given_up_with_its_last_words(
    supervise: Callable[..., Supervised],
) -> None:
    child = supervise(DYING)
    with pytest.raises(ModelError, match=r"the child ended with exit code 1.*\n.*weights are gone"):
        checked(child)
    assert child.starts == 3


def test_a_silent_child_is_ended_and_given_up_in_the_end(
    supervise: Callable[..., Supervised],
) -> None:
    child = supervise(QUIET, patience_s=0.01, restarts=1)
    with pytest.raises(DeadlineError, match=r"the child did nothing for 0\.01 s"):
        checked(child)
    assert child.starts == 2


def restarted(child: Supervised, starts: int) -> bool:
    return child.starts == starts and child.pid is not None


def test_a_sign_of_life_forgives_what_was_before(supervise: Callable[..., Supervised]) -> None:
    child = supervise(QUIET, restarts=1)
    for starts in (2, 3, 4):
        pid = child.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert soon(partial(restarted, child, starts))
        child.heard()
    child.check()


PARENT = """
import sys
from pathlib import Path
from srl_agents.training.faults.supervised import Supervised
child = Supervised("the child", sys.argv[2:], Path(sys.argv[1]), patience_s=9.0, restarts=0)
child.start()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log"), sys.executable, "-S", *QUIET]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    assert soon(lambda: not running(pid))


def running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
