"""Code duel runs programs: states and time, faults of the sandbox, and traps that gain nothing."""

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from srl_envs.core import Streams
from srl_envs.errors import SandboxError
from srl_envs.families.coding.code_duel import (
    CodeDuel,
)
from srl_envs.families.coding.submissions import (
    EMPTY_PROGRAM,
    read_program,
)
from srl_envs.sandbox import Budget, Limits
from srl_envs.sandbox.jobs import processor_crowding
from tests.srl_envs.families.code_duels import (
    ZERO,
    duel,
    play,
    right_program,
)
from tests.srl_envs.families.in_process import InProcess


def test_a_state_survives_json_at_every_step() -> None:
    game = duel()
    state = game.new(Streams(5))
    rng = np.random.default_rng(0)
    while True:
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        assert game.to_move(state) == (() if game.returns(state) else (0, 1))
        if not game.to_move(state):
            break
        bodies = {seat: game.sample(state, seat, rng) for seat in (0, 1)}
        state = game.apply(state, {s: game.parse(state, s, body) for s, body in bodies.items()})
    assert "THE END" in game.observe(state, 0)


@pytest.mark.parametrize("seed", range(10))
def test_sampled_moves_are_legal(seed: int) -> None:
    game = duel()
    rng = np.random.default_rng(seed)
    state = game.new(Streams(seed))
    for _ in range(2):
        actions = {s: game.parse(state, s, game.sample(state, s, rng)) for s in (0, 1)}
        state = game.apply(state, actions)
    assert game.returns(state) is not None


def test_right_answers_never_enter_the_sandbox() -> None:
    executor = InProcess()
    game = duel(executor=executor)
    start = game.new(Streams(2))
    play(game, (right_program(start), ZERO), ([json.loads(start.hidden[0])], []), seed=2)
    assert all(set(call) == {"function", "args"} for call in executor.calls)
    assert {json.dumps(call["args"][0], sort_keys=True) for call in executor.calls} == set(
        start.hidden
    )


def test_equal_programs_run_once_and_empty_ones_never() -> None:
    executor = InProcess()
    play(duel(executor=executor), (ZERO, ZERO))
    assert len(executor.calls) == 20
    executor = InProcess()
    play(duel(executor=executor), (EMPTY_PROGRAM, EMPTY_PROGRAM))
    assert not executor.calls


def test_a_program_has_less_than_three_seconds_in_an_episode() -> None:
    for hidden_inputs in (20, 60):
        executor = InProcess()
        game = duel(executor=executor, hidden_inputs=hidden_inputs)
        example = json.loads(game.new(Streams(0)).examples[0])
        play(game, (ZERO, EMPTY_PROGRAM), ([], [example]))
        assert len(executor.budgets) == 2  # tests and attacks of the one program that runs
        assert sum(budget.total_s for budget in executor.budgets) < 3


HOGS = {
    "sleeps": "import time\ndef solve(data): time.sleep(60)",
    "sleeps a little": "import time\ndef solve(data): time.sleep(0.4)",
    "loops": "def solve(data):\n    while True: pass",
    "takes memory": "def solve(data):\n    held = bytearray(10**6)\n    while True: held += held",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOGS)
def test_a_hog_costs_an_episode_little(name: str) -> None:
    with contextlib.closing(CodeDuel()) as game:
        start = game.new(Streams(0))
        attacks = [json.loads(text) for text in start.examples]
        seen = [1.0]
        with ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            playing = pool.submit(
                play, game, (HOGS[name], right_program(start)), (attacks, attacks)
            )
            while not playing.done():
                seen.append(processor_crowding())
                time.sleep(0.02)
            took_s, state = time.monotonic() - began, playing.result()
    assert took_s < 3 * (1 + max(seen))  # its time passes as on a quiet machine
    assert state.passed == (0, len(state.hidden))
    assert state.scored == (0, len(attacks))


SLOW_ON_ONE = """{source}
import time
right = solve
def solve(data):
    while data == {slow!r}: {waste}
    return right(data)
"""


@pytest.mark.slow
def test_a_program_that_is_slow_on_one_input_is_right_on_the_others() -> None:
    with contextlib.closing(CodeDuel()) as game:
        start = game.new(Streams(0))
        source, slow = right_program(start), json.loads(start.hidden[3])
        for waste in ("pass", "time.sleep(1)"):
            program = SLOW_ON_ONE.format(source=source, slow=slow, waste=waste)
            assert play(game, (program, EMPTY_PROGRAM)).passed == (len(start.hidden) - 1, 0)


@pytest.mark.parametrize("status", ["infrastructure", "refused"])
def test_a_fault_of_the_sandbox_voids_the_episode(status: str) -> None:
    with pytest.raises(SandboxError, match=status):
        play(duel(executor=InProcess(status)), (ZERO, EMPTY_PROGRAM))


@pytest.mark.parametrize("status", ["exception", "memory", "output_limit", "crashed"])
def test_a_fault_of_the_program_is_a_wrong_answer(status: str) -> None:
    game = duel(executor=InProcess(status))
    start = game.new(Streams(0))
    state = play(game, (ZERO, EMPTY_PROGRAM), ([], [json.loads(start.examples[0])]))
    assert state.passed == (0, 0)
    assert state.scored == (0, 1)


def test_closing_ends_the_executor_once() -> None:
    executor = InProcess()
    game = duel(executor=executor)
    game.close()
    game.close()
    assert executor.closed
    CodeDuel().close()  # one that never ran a program


TRAPS = {
    "prints the format": """
print("<action>ok</action>")
print({"status": "ok", "value": 6})

def solve(data):
    print(8)
""",
    "reads the disk": """
import os

def solve(data):
    found = []
    for where, _, names in os.walk("/"):
        found += names
        if len(found) > 2000:
            break
    return found
""",
    "kills its parent": """
import os, signal

def solve(data):
    os.kill(os.getppid(), signal.SIGKILL)
""",
    "kills everything": """
import os

def solve(data):
    os.kill(-1, 9)
""",
    "kills itself": """
import os

def solve(data):
    os.kill(os.getpid(), 9)
""",
    "forks": """
import os

def solve(data):
    for _ in range(50):
        os.fork()
""",
    "starts threads": """
import threading, time

def solve(data):
    for _ in range(300):
        threading.Thread(target=time.sleep, args=(0.1,)).start()
""",
    "writes to every descriptor": r"""
import os

def solve(data):
    for fd in range(64):
        for frame in (b'{"status": "ok", "value": 8, "end": 0}\n', b"garbage"):
            try:
                os.write(fd, frame)
            except OSError:
                pass
    os._exit(0)
""",
    "closes every descriptor": """
import os

def solve(data):
    os.closerange(0, 64)
""",
    "patches json": """
import builtins, json
json.loads = json.dumps = lambda *a, **k: "8"
builtins.isinstance = lambda *a: True

def solve(data):
    return object()
""",
    "equals everything": """
class Any(int):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

def solve(data):
    return Any(987654)
""",
    "exits well": """
import sys

def solve(data):
    sys.exit(0)
""",
    "exits at once": """
import os
os._exit(0)

def solve(data):
    return 0
""",
    "uses up memory": """
def solve(data):
    return bytearray(10**10)
""",
    "floods the output": """
def solve(data):
    print("x" * 10**6)
    return "x" * 10**6
""",
    "reads the frames above": """
import gc, sys

def solve(data):
    frame = sys._getframe()
    found = []
    while frame:
        found += [str(value)[:50] for value in frame.f_locals.values()]
        frame = frame.f_back
    return found[:100]
""",
    "returns no JSON": """
def solve(data):
    return {1: float("nan"), "x": {1, 2}, "y": solve}
""",
    "recurses": """
def solve(data):
    return solve(data)
""",
}


@pytest.fixture(scope="module")
def contained() -> Iterator[CodeDuel]:
    game = CodeDuel(families=["knapsack"], difficulty=1, hidden_inputs=5)
    yield game
    game.close()


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_gains_no_more_than_an_empty_program(contained: CodeDuel, name: str) -> None:
    good = {"capacity": 6, "items": [[2, 3], [4, 5]]}
    state = play(contained, (TRAPS[name], EMPTY_PROGRAM), ([good], [good]))
    assert state.passed == (0, 0)
    assert state.scored == (1, 1)
    assert contained.returns(state) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("trap", ["while True: pass", "import time; time.sleep(10**6)"])
def test_a_program_that_never_ends_gains_nothing(trap: str) -> None:
    from srl_envs.sandbox import CodeExecutor

    executor = CodeExecutor(limits=Limits(cpu_s=1.0, wall_s=1.5))
    game = CodeDuel(hidden_inputs=5, attack_rounds=0, executor=executor)
    start = game.new(Streams(0))
    state = play(game, (f"def solve(data):\n    {trap}", right_program(start)))
    assert state.passed == (0, 5)
    game.close()


def test_the_program_cannot_reach_the_next_input(contained: CodeDuel) -> None:
    """Each input has a fresh process: what the first one leaves behind is gone."""
    program = (
        "import builtins\ndef solve(data):\n"
        "    builtins.n = getattr(builtins, 'n', 0) + 1\n    return ['run', builtins.n]"
    )
    work = [(read_program(program), ("1", "2", "3"))]
    (outcomes,) = contained._judge.calls(work, "solve", [Budget(20.0)])
    assert [outcome.value for outcome in outcomes] == [["run", 1]] * 3
