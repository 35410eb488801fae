"""Ctrl-C and SIGTERM as real signals to processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

_COMMAND = """
import asyncio, os, signal, sys, time
from srl_agents.cli import main as cli
from srl_agents import interrupts

def send(number):
    os.kill(os.getpid(), number)

class Entry:
    name, module = "probe", "probe"
    def load(self):
        return work

cli.metadata.entry_points = lambda group: [Entry()]
{work}
sys.exit(cli.main(["probe"]))
"""


def ran(work: str) -> tuple[int, str]:
    """Exit code and output of `srl probe`, whose work is the function ``work(arguments)``."""
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND.format(work=work)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(
    "waiting",
    [
        "time.sleep(60)",
        "asyncio.run(asyncio.sleep(60))",
        "asyncio.Runner().run(asyncio.sleep(60))",
    ],
)
def test_a_signal_ends_a_command_with_its_code_and_its_words(
    number: int, code: int, waiting: str
) -> None:
    work = f"""
def work(arguments):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    signal.signal(signal.SIGALRM, lambda *_: send({int(number)}))
    try:
        {waiting}
    except KeyboardInterrupt:
        raise KeyboardInterrupt("half is kept.") from None
"""
    assert ran(work) == (code, "srl probe: half is kept.\n")


def test_what_must_be_whole_is_finished_first() -> None:
    work = """
def work(arguments):
    with interrupts.finished_first(lambda: print("finishing", flush=True)):
        send(signal.SIGTERM)
        print("whole", flush=True)
    print("not reached")
"""
    assert ran(work) == (143, "finishing\nwhole\nsrl probe: interrupted.\n")


@pytest.mark.parametrize("numbers", [("SIGINT", "SIGINT"), ("SIGTERM", "SIGINT")])
@pytest.mark.parametrize(
    "inside",
    ["interrupts.finished_first(lambda: None)", "interrupts.second_ends_at_once()"],
)
def test_a_second_signal_ends_at_once(numbers: Sequence[str], inside: str) -> None:
    first, second = numbers
    work = f"""
def work(arguments):
    try:
        with {inside}:
            if "finished" in "{inside}":
                send(signal.{first})
            print("ending", flush=True)
            send(signal.{second})
            print("not reached", flush=True)
    finally:
        print("not reached either", flush=True)
"""
    assert ran(work) == (-getattr(signal, second), "ending\n")


def test_an_ignored_sigterm_stays_ignored() -> None:
    work = """
def work(arguments):
    with interrupts.terminable(), interrupts.finished_first(lambda: print("noted")):
        send(signal.SIGTERM)
    print("went on")
"""
    before = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    assert ran(before + work) == (0, "went on\n")


def test_handlers_are_put_back() -> None:
    work = """
def work(arguments):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interrupts.terminable(), interrupts.finished_first(lambda: None):
        pass
    with interrupts.second_ends_at_once():
        pass
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    print("equal")
"""
    assert ran(work) == (0, "equal\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_program_that_calls_a_command_keeps_its_handlers_after_a_signal(
    number: int, code: int
) -> None:
    caller = f"""
def own(*_):
    raise KeyboardInterrupt("mine.")

for number in interrupts.SIGNALS:
    signal.signal(number, own)

def work(arguments):
    with interrupts.finished_first(lambda: None):
        send({int(number)})

assert cli.main(["probe"]) == {code}
assert [signal.getsignal(number) for number in interrupts.SIGNALS] == [own, own]
"""
    then = """
def work(arguments):
    print("again")
"""
    assert ran(caller + then) == (0, "again\nsrl probe: mine.\n")


def test_children_ignore_ctrl_c() -> None:
    work = """
def work(arguments):
    import subprocess
    with interrupts.ctrl_c_ignored_by_children():
        child = subprocess.Popen(["sleep", "0.3"])
    child.send_signal(signal.SIGINT)
    print(child.wait())
"""
    assert ran(work) == (0, "0\n")
