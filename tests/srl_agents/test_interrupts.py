"""Ctrl-C, SIGTERM and SIGHUP as real signals to processes of their own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest

from srl_agents import interrupts

_COMMAND = """
import asyncio, os, signal, sys, threading, time
from srl_agents import interrupts
from srl_agents.cli import main as cli

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored where nohup starts the tests

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


def ran(work: str, *, in_background: bool = False) -> tuple[int, str]:
    """Exit code and output of `srl probe`, whose work is the function ``work(arguments)``.

    Args:
        work: text of the function.
        in_background: start it as a shell's background job, which ignores Ctrl-C.
    """
    command = [sys.executable, "-c", _COMMAND.format(work=work)]
    job = ["sh", "-c", '"$@" & wait $!', "sh"]
    done = subprocess.run(
        [*job, *command] if in_background else command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


ENDS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), ENDS)
@pytest.mark.parametrize(
    "waiting",
    [
        "time.sleep(60)",
        "asyncio.run(asyncio.sleep(60))",
        "interrupts.EventLoop().run(asyncio.sleep(60))",
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


IN_A_LOOP = """
async def waiting(reply):
    try:
        await reply
    finally:
        print("in order", flush=True)

async def future():
    return asyncio.get_running_loop().create_future()

async def play(replies):
    await asyncio.gather(*(waiting(reply) for reply in replies))

def work(arguments):
    threading.Timer(0.2, lambda: [send(number) for number in ({numbers})]).start()
    loop = interrupts.EventLoop()
    replies = [loop.run(future()) for _ in range(2)]
    async def end():
        for reply in replies:
            reply.done() or reply.set_exception(RuntimeError("the engine is closed"))
        await asyncio.sleep(0.01)
    try:
        loop.run(play(replies))
    finally:
        print("closing", flush=True)
        loop.run(end())
        loop.close()
"""
ORDERLY = "in order\nin order\nclosing\nsrl probe: interrupted.\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_loop_of_a_background_job_in_order(number: int) -> None:
    work = IN_A_LOOP.format(numbers=f"signal.SIGINT, {int(number)}")  # Ctrl-C stays ignored
    assert ran(work, in_background=True) == (128 + number, ORDERLY)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_to_a_process_and_to_its_group_is_one_signal(name: str) -> None:
    work = IN_A_LOOP.format(numbers=f"signal.{name}, signal.{name}")
    assert ran(work) == (128 + getattr(signal, name), ORDERLY)


def test_a_hang_up_behind_another_signal_changes_nothing() -> None:
    work = """
def work(arguments):
    try:
        send(signal.SIGTERM)
    finally:
        send(signal.SIGHUP)
        print("whole", flush=True)
"""
    assert ran(work) == (143, "whole\nsrl probe: interrupted.\n")


def test_a_background_job_and_its_children_ignore_ctrl_c() -> None:
    work = """
def work(arguments):
    send(signal.SIGINT)
    os.system('kill -INT $$; echo whole')
"""
    assert ran(work, in_background=True) == (0, "whole\n")


def test_what_must_be_whole_is_finished_first() -> None:
    work = """
def work(arguments):
    with interrupts.finished_first(lambda: print("finishing", flush=True)):
        send(signal.SIGTERM)
        print("whole", flush=True)
    print("not reached")
"""
    assert ran(work) == (143, "finishing\nwhole\nsrl probe: interrupted.\n")


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [("SIGINT", "SIGINT"), ("SIGTERM", "SIGINT")])
@pytest.mark.parametrize(
    "inside", ["interrupts.finished_first(lambda: None)", "interrupts.terminable()"]
)
def test_a_second_signal_ends_at_once(numbers: Sequence[str], inside: str) -> None:
    first, second = numbers
    work = f"""
def work(arguments):
    try:
        with {inside}:
            try:
                send(signal.{first})
            finally:
                print("ending", flush=True)
                {{}}
                send(signal.{second})
                print("not reached", flush=True)
    finally:
        send(signal.{second})
        print("not reached either", flush=True)
"""
    assert ran(work.format("")) == (-getattr(signal, second), "ending\n")
    outside = work.format("raise KeyboardInterrupt")  # the second one comes after the inside
    assert ran(outside) == (-getattr(signal, second), "ending\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])  # as nohup does
def test_an_ignored_signal_stays_ignored(name: str) -> None:
    work = f"""
def work(arguments):
    with interrupts.terminable(), interrupts.finished_first(lambda: print("noted")):
        send(signal.{name})
    print("went on")
"""
    before = f"signal.signal(signal.{name}, signal.SIG_IGN)\n"
    assert ran(before + work) == (0, "went on\n")


def test_handlers_are_put_back() -> None:
    work = """
def work(arguments):
    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    with interrupts.terminable(), interrupts.finished_first(lambda: None):
        pass
    assert before == [signal.getsignal(number) for number in interrupts.SIGNALS]
    print("equal")
"""
    assert ran(work) == (0, "equal\n")


@pytest.mark.parametrize(("number", "code"), ENDS)
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
assert [signal.getsignal(number) for number in interrupts.SIGNALS] == [own] * 3
"""
    then = """
def work(arguments):
    print("again")
"""
    code, output = ran(caller + then)
    assert (code, output.splitlines()[0]) == (0, "again")


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_children_ignore_what_a_terminal_sends_to_all(name: str) -> None:
    work = f"""
def work(arguments):
    import subprocess
    with interrupts.terminal_ignored_by_children():
        child = subprocess.Popen(["sleep", "0.3"])
    child.send_signal(signal.{name})
    print(child.wait())
"""
    assert ran(work) == (0, "0\n")


def test_a_loop_runs_inside_of_the_callers_own() -> None:
    """A notebook's cell is part of a running loop."""

    async def cell() -> tuple[int, int]:
        loop = interrupts.EventLoop()
        found = loop.run(later(1)), loop.run(later(2))
        loop.close()
        return found

    async def later(number: int) -> int:
        await asyncio.sleep(0)
        return number

    assert asyncio.run(cell()) == (1, 2)


def test_ctrl_c_in_a_cell_ends_what_runs_beside_it() -> None:
    ended, main = threading.Event(), threading.main_thread().ident

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def cell() -> None:
        loop = interrupts.EventLoop()
        threading.Timer(0.2, signal.pthread_kill, [main, signal.SIGINT]).start()
        try:
            loop.run(work())
        finally:
            loop.close()

    callers = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            callers.run_until_complete(cell())
    finally:
        callers.close()
    assert ended.is_set()
