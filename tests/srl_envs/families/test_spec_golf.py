"""Spec golf: who wins a round, and that only right programs count."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.core import Streams
from srl_envs.errors import ConfigError, SandboxError
from srl_envs.families.coding import spec_golf_bots
from srl_envs.families.coding.golf.size import program_size
from srl_envs.families.coding.known_tasks import known_task
from srl_envs.families.coding.problems import DIFFICULTIES
from srl_envs.families.coding.spec_golf import Attempt, GolfState, SpecGolf, round_winner
from srl_envs.families.coding.submissions import EMPTY_PROGRAM, read_program
from srl_envs.turns.grammar import parse_reply
from tests.srl_envs.families.in_process import InProcess

ZERO = "def solve(data):\n    return 0"


def golf(**options: Any) -> SpecGolf:
    return SpecGolf(**{"executor": InProcess(), **options})


def right_program(game: SpecGolf, state: GolfState) -> str:
    task = known_task(game.observe(state, 0))
    assert task is not None
    return task.program()


def play_bots(game: SpecGolf, names: tuple[str, str], seed: int) -> tuple[float, ...]:
    bots = [
        getattr(spec_golf_bots, f"{name}_bot")(np.random.default_rng(10 * seed + seat))
        for seat, name in enumerate(names)
    ]
    state = game.new(Streams(seed))
    while game.to_move(state):
        bodies = [
            parse_reply(bots[s](game.observe(state, s)), game.max_action_chars)[0] for s in (0, 1)
        ]
        actions = {s: game.parse(state, s, str(body)) for s, body in enumerate(bodies)}
        state = game.apply(state, actions)
    outcome = game.returns(state)
    assert outcome is not None
    return outcome


# -- rounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        ((10, True), (12, True), 0),
        ((12, True), (10, True), 1),
        ((10, True), (10, True), None),
        ((10, False), (12, True), 1),
        ((99, True), (1, False), 0),
        ((1, False), (2, False), None),
        ((1, False), (1, True), 1),
    ],
)
def test_the_smaller_right_program_wins(
    first: tuple[int, bool], second: tuple[int, bool], winner: int | None
) -> None:
    pair = Attempt(*first), Attempt(*second)
    assert round_winner(pair) == winner
    turned = None if winner is None else 1 - winner
    assert round_winner((pair[1], pair[0])) == turned


@given(
    st.lists(st.tuples(*[st.tuples(st.integers(1, 9), st.booleans())] * 2), min_size=3, max_size=3)
)
def test_outcomes_sum_to_zero_exactly_and_turn_with_the_seats(rounds: Any) -> None:
    game = golf()
    pairs = tuple((Attempt(*a), Attempt(*b)) for a, b in rounds)
    ours = game.returns(GolfState(START.tasks, pairs))
    theirs = game.returns(GolfState(START.tasks, tuple((b, a) for a, b in pairs)))
    assert ours is not None
    assert theirs is not None
    assert sum(ours) == 0.0
    assert theirs == (ours[1], ours[0])
    won = sum(round_winner(pair) == 0 for pair in pairs)
    lost = sum(round_winner(pair) == 1 for pair in pairs)
    assert ours[0] == (won - lost) / 3


START = golf().new(Streams(0))


def test_a_game_by_hand() -> None:
    game = golf()
    state = START
    longer = []
    for turn in range(3):
        right = right_program(game, state)
        longer.append(f"{right}\n\nunused = 1")
        sent = [(right, longer[-1]), (longer[-1], EMPTY_PROGRAM), (ZERO, EMPTY_PROGRAM)][turn]
        state = game.apply(state, {s: game.parse(state, s, sent[s]) for s in (0, 1)})
    assert [round_winner(pair) for pair in state.attempts] == [0, 0, None]
    assert game.returns(state) == (2 / 3, -2 / 3)
    assert game.components(state, 0)["right"] == 2 / 3
    assert game.components(state, 1)["right"] == 1 / 3
    assert "Round 1: you right" in game.observe(state, 0)
    assert "you lost" in game.observe(state, 1)
    assert game.decode(json.loads(json.dumps(game.encode(state)))) == state


def test_one_failed_test_makes_a_program_worthless() -> None:
    game = golf(rounds=1)
    state = game.new(Streams(3))
    hidden = state.tasks[0].hidden
    right = right_program(game, state).replace("def solve(", "def inner(")
    almost = (
        f"import json\n{right}\ndef solve(data):\n"
        f"    return None if json.dumps(data, sort_keys=True) == {hidden[-1]!r} else inner(data)"
    )
    state = game.apply(state, {0: almost, 1: f"{right}\nsolve = inner\n" + "x = 1\n" * 50})
    assert [attempt.right for attempt in state.attempts[0]] == [False, True]
    assert game.returns(state) == (-1.0, 1.0)


def test_a_failing_program_is_not_run_to_the_end() -> None:
    executor = InProcess()
    game = golf(executor=executor)
    game.apply(START, {0: "def solve(data):\n    return ['no']", 1: EMPTY_PROGRAM})
    assert len(executor.calls) == 3


def test_equal_programs_are_run_once() -> None:
    executor = InProcess()
    game = golf(executor=executor)
    right = right_program(game, START)
    game.apply(START, {0: right, 1: right})
    assert len(executor.calls) == 20


def test_what_runs_is_the_form_without_what_is_free() -> None:
    executor = InProcess()
    game = golf(executor=executor)
    right = right_program(game, START)
    respelled = f"# a comment\n\n{right}".replace("    ", "\t")
    sent = {0: game.parse(START, 0, right), 1: game.parse(START, 1, respelled)}
    state = game.apply(START, sent)
    assert set(executor.programs) == {sent[0]} == {sent[1]}
    assert state.attempts[0][0].right


def test_rounds_have_different_families_where_there_are_enough() -> None:
    for seed in range(4):
        tasks = golf().new(Streams(seed)).tasks
        assert len({task.family for task in tasks}) == 3
        narrow = golf(families=["knapsack"], difficulty=3).new(Streams(seed)).tasks
        assert len({task.parameters for task in narrow}) == 3


def test_what_is_hidden_shows_nowhere() -> None:
    game = golf()
    other = game.new(Streams(1))
    for seat in (0, 1):
        assert game.observe(START, seat) == game.observe(game.swap_hidden(START, seat, other), seat)
    later = game.apply(START, {0: ZERO, 1: EMPTY_PROGRAM})
    assert game.swap_hidden(later, 0, other).tasks[1].hidden == other.tasks[1].hidden
    assert "NotImplementedError" not in game.observe(later, 0)


def test_a_fault_of_the_sandbox_voids_the_episode() -> None:
    with pytest.raises(SandboxError):
        golf(executor=InProcess("infrastructure")).apply(START, {0: ZERO, 1: ZERO})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": 0}, "spec_golf: rounds=0; give a whole number from 1 to 5"),
        ({"difficulty": 6}, "difficulty=6"),
        ({"families": ["knapsak"]}, "Did you mean 'knapsack'"),
        ({"hidden_inputs": True}, "hidden_inputs=True"),
        ({"tasks": "gsm8k:x"}, '"humaneval:PATH" or "mbpp:PATH"'),
    ],
)
def test_options_are_checked_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SpecGolf(**options)
    assert words in str(caught.value)


def test_observations_fit_the_prompt() -> None:
    for difficulty in DIFFICULTIES:
        game = golf(difficulty=difficulty, rounds=5)
        for seed in range(5):
            state = game.new(Streams(seed))
            pair = (Attempt(999, True), Attempt(999, False))
            late = state._replace(attempts=(pair,) * 4)
            assert len(game.observe(late, 0)) < 3000


# -- bots --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_strong_beats_middle_beats_random_from_either_seat() -> None:
    game = golf()
    for better, worse in (("strong", "middle"), ("middle", "random"), ("strong", "random")):
        first = [play_bots(game, (better, worse), seed)[0] for seed in range(5)]
        second = [play_bots(game, (worse, better), seed)[1] for seed in range(5)]
        assert np.mean(first + second) >= 0.4, (better, worse)


def test_random_programs_are_never_right() -> None:
    game = golf(difficulty=1)
    assert {play_bots(game, ("random", "random"), seed) for seed in range(10)} == {(0.0, 0.0)}


def test_the_strong_bot_sends_the_smaller_of_two_right_programs() -> None:
    game = golf()
    for seed in range(10):
        text = game.observe(game.new(Streams(seed)), 0)
        reply = spec_golf_bots.strong_bot(np.random.default_rng(0))(text)
        body = parse_reply(reply, game.max_action_chars)[0]
        task = known_task(text)
        assert task is not None
        sizes = [program_size(task.program()), program_size(task.other_program())]
        assert program_size(read_program(str(body))) == min(sizes)
