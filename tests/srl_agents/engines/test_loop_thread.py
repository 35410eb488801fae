"""Jobs run in order on one thread, and a failure ends neither them nor later jobs."""

import threading
from functools import partial

import pytest

from srl_agents.engines.embedded.loop_thread import LoopThread


def nothing_to_do() -> bool:
    return False


def test_jobs_run_in_order_on_one_thread() -> None:
    loop = LoopThread("test", lambda: None, nothing_to_do)
    waits = [loop.submit(threading.get_ident) for _ in range(5)]
    assert len({wait.result(5) for wait in waits}) == 1
    seen: list[int] = []
    for wait in [loop.submit(partial(seen.append, number)) for number in range(20)]:
        wait.result(5)
    assert seen == list(range(20))


def test_steps_go_on_between_jobs_until_there_is_no_more_to_do() -> None:
    steps: list[int] = []
    done = threading.Event()

    def step() -> bool:
        steps.append(len(steps))
        if len(steps) == 3:
            done.set()
        return len(steps) < 3

    LoopThread("test", lambda: None, step).submit(lambda: None).result(5)
    assert done.wait(5)
    assert steps == [0, 1, 2]


def test_a_job_that_fails_raises_only_in_its_caller() -> None:
    loop = LoopThread("test", lambda: None, nothing_to_do)

    def fails() -> None:
        raise KeyError("mine")

    broken, fine = loop.submit(fails), loop.submit(lambda: 3)
    with pytest.raises(KeyError, match="mine"):
        broken.result(5)
    assert fine.result(5) == 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_step_that_fails_does_not_leave_later_jobs_waiting() -> None:
    failed = threading.Event()

    def step() -> bool:
        if failed.is_set():
            return False
        failed.set()
        raise ZeroDivisionError("a bug")

    loop = LoopThread("breaks", lambda: None, step)
    loop.submit(lambda: None).result(5)
    assert failed.wait(5)
    for thread in threading.enumerate():
        if thread.name == "breaks":
            thread.join(5)
    assert loop.submit(lambda: 3).result(5) == 3


def test_an_ended_thread_is_gone_after_its_work_and_later_jobs_are_done() -> None:
    loop = LoopThread("ends", lambda: None, nothing_to_do)
    wait = loop.submit(lambda: 1)
    loop.end(patience_s=60)
    assert wait.done()
    assert "ends" not in {thread.name for thread in threading.enumerate()}
    assert loop.submit(lambda: 2).result(5) == 2
    hanging = threading.Event()
    held = loop.submit(hanging.wait)
    loop.end(patience_s=0.01)
    assert not held.done()
    hanging.set()
    assert held.result(5)
