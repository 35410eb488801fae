"""Judges of one process share a few sandboxes, which end with the last of them."""

from __future__ import annotations

import os
import threading

from srl_envs.families.coding.judging import Judge
from srl_envs.sandbox import Budget, CodeExecutor, Outcome, lending
from srl_envs.sandbox.lending import kept_sandboxes

PROGRAM = "def solve(number):\n    return number + 1"


def asked(judge: Judge, number: int) -> Outcome:
    ((outcome,),) = judge.calls([(PROGRAM, [str(number)])], "solve", [Budget(20.0)])
    return outcome


def alive() -> int:
    return sum(executor() is not None for executor in lending._SHARED._alive)


def test_live_judges_share_a_few_sandboxes_which_end_with_the_last_of_them() -> None:
    judges = [Judge() for _ in range(3 * lending._SERVERS)]
    before = alive()
    for number, judge in enumerate(judges):
        assert asked(judge, number).value == number + 1
    executors = {id(judge._executor) for judge in judges}
    assert len(executors) == alive() == lending._SERVERS
    for judge in judges[:-1]:
        judge.close()
    assert asked(judges[-1], 7).value == 8
    judges[-1].close()
    del judge, judges
    assert alive() == before


def test_kept_sandboxes_serve_the_next_game_and_end_with_the_context() -> None:
    before = alive()
    with kept_sandboxes():
        used = set()
        for number in range(2 * lending._SERVERS):
            judge = Judge()
            assert asked(judge, number).value == number + 1
            used.add(id(judge._executor))
            judge.close()
        del judge
        assert len(used) == alive() == lending._SERVERS
    assert alive() == before


def test_many_threads_may_ask_at_once() -> None:
    judges = [Judge() for _ in range(8)]
    found: dict[int, object] = {}

    def ask(number: int) -> None:
        found[number] = asked(judges[number], number).value

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number + 1 for number in range(8)}
    for judge in judges:
        judge.close()


def test_a_forked_process_starts_a_sandbox_of_its_own() -> None:
    """Even where another thread of the parent held the lock."""
    judge = Judge()
    assert asked(judge, 1).value == 2
    with lending._SHARED._lock:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = int(asked(Judge(), 2).value != 3)
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asked(judge, 3).value == 4
    judge.close()


def test_a_sandbox_that_was_given_is_the_judges_alone() -> None:
    with CodeExecutor(lending.LIMITS) as executor:
        judge = Judge(executor)
        assert asked(judge, 1).value == 2
        assert judge._executor is executor
        judge.close()
