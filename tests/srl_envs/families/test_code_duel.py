"""Code duel: reading replies, payoffs, hidden information, and the bots."""

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs import make
from srl_envs.core import Split, Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.coding import code_duel_bots
from srl_envs.families.coding.code_duel import (
    ATTACKS_WEIGHT,
    TESTS_WEIGHT,
    CodeDuel,
)
from srl_envs.families.coding.code_duel_bots import held_out_bot, middle_bot, read, strong_bot
from srl_envs.families.coding.held_out import EVAL_FAMILIES, families_of, variants_of
from srl_envs.families.coding.problems import DIFFICULTIES, FAMILIES
from srl_envs.families.coding.submissions import (
    EMPTY_PROGRAM,
    canonical,
    read_attacks,
    read_program,
)
from srl_envs.reading.python_text import MAX_PROGRAM_BYTES, MAX_PROGRAM_LINES
from srl_envs.turns.grammar import action, parse_reply
from tests.srl_envs.families.code_duels import (
    ZERO,
    duel,
    play,
    play_from,
    right_program,
    streams,
    wrong_program,
)

BOTS = ["random_bot", "empty_bot", "middle_bot", "strong_bot", "held_out_bot"]


# -- reading replies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        ZERO,
        f"```python\n{ZERO}\n```",
        f"```\n{ZERO}\n```",
        f"```py\n{ZERO}```",
        f"\n\n  ```Python \n{ZERO}\n``` \n",
    ],
)
def test_a_program_may_stand_in_one_fence(body: str) -> None:
    assert read_program(body) == ZERO


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "no function solve"),
        ("Here is my code: def solve(data): return 0", "no valid Python"),
        ("def solve(data) return 0", "no valid Python"),
        ("def answer(data):\n    return 0", "no function solve"),
        ("class A:\n    def solve(self, data):\n        return 0", "no function solve"),
        ("async def solve(data):\n    return 0", "no function solve"),
        (f"```python\n{ZERO}", "never closed"),
        (f"```python\n{ZERO}\n```\nThis returns 0.", "after the code fence"),
        (f"```python\n{ZERO}\n```\n```python\n{ZERO}\n```", "no valid Python"),
        (ZERO + "#" * MAX_PROGRAM_BYTES, "bytes"),
        (ZERO + "#" + "é" * (MAX_PROGRAM_BYTES // 2), "bytes"),
        (ZERO + "\n" * MAX_PROGRAM_LINES + "x = 1", "lines"),
        (ZERO + "\x00", "Python"),
        (ZERO + "#\ud800", "Unicode"),
        ("def solve(data):\n    return " + "(" * 900 + ")" * 900, "no valid Python"),
        ("def solve(data):\n    return " + "-" * 3900 + "1", "nested too deeply"),
        ("def solve(data):\n    return data" + ".a" * 1900, "nested too deeply"),
        ("def solve(data):\n    return " + "not " * 120 + "data", "nested too deeply"),
    ],
)
def test_a_bad_program_is_refused_with_a_reason(body: str, reason: str) -> None:
    with pytest.raises(IllegalMoveError, match=reason) as caught:
        read_program(body)
    assert len(str(caught.value)) < 300


def test_code_that_python_only_warns_about_is_accepted() -> None:
    program = "import re\n\ndef solve(data):\n    return re.split('\\d', data) is 1"
    assert read_program(program) == program


@given(st.text() | st.text(alphabet="def solvatn():=\n 01`", max_size=60) | st.binary().map(repr))
@settings(deadline=None)
def test_any_text_is_a_program_or_an_illegal_move(body: str) -> None:
    for reader in (read_program, read_attacks):
        with contextlib.suppress(IllegalMoveError):
            reader(body)


def test_attacks_are_distinct_whatever_the_order_of_keys() -> None:
    assert read_attacks("[]") == ()
    assert read_attacks('[[1, 2], [1,2], {"a": 1, "b": 2}]') == ("[1, 2]", '{"a": 1, "b": 2}')
    assert read_attacks('[{"b": 2, "a": 1}, {"a": 1, "b": 2}]') == ('{"a": 1, "b": 2}',)
    assert read_attacks('[{"a": 1, "a": 2}]') == ('{"a": 2}',)
    assert read_attacks('```json\n["x"]\n```') == ('"x"',)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "no JSON"),
        ("try 5", "no JSON"),
        ("[1, 2] [3]", "no JSON"),
        ("5", "list"),
        ('{"a": 1}', "list"),
        ("[1, 2, 3, 4]", "at most 3"),
        ("[NaN]", "bad number"),
        ("[-Infinity]", "bad number"),
        ("[1e999]", "bad number"),
        ("[" + "9" * 5000 + "]", "bad number"),
        ("[" * 4000 + "]" * 4000, "nested"),
        ("[" * 12 + "]" * 12, "nested"),
    ],
)
def test_bad_attacks_are_refused_with_a_reason(body: str, reason: str) -> None:
    with pytest.raises(IllegalMoveError, match=reason):
        read_attacks(body)


def test_the_fallback_moves_are_legal_and_worth_nothing() -> None:
    game = duel()
    state = game.new(Streams(1))
    program = game.fallback(state, 0)
    state = game.apply(state, {s: game.parse(state, s, program) for s in (0, 1)})
    assert state.passed == (0, 0)
    attack = game.parse(state, 0, game.fallback(state, 0))
    assert game.returns(game.apply(state, {0: attack, 1: attack})) == (0.0, 0.0)


# -- options and instances ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"difficulty": 0}, "difficulty=0; give a whole number from 1 to 5"),
        ({"difficulty": True}, "difficulty=True"),
        ({"hidden_inputs": 4}, "hidden_inputs=4"),
        ({"hidden_inputs": 20.0}, "hidden_inputs=20.0"),
        ({"attack_rounds": 2}, "attack_rounds=2; give a whole number from 0 to 1"),
        ({"players": 3}, "players=3; give a whole number from 1 to 2"),
        ({"players": 1, "attack_rounds": 1}, "leave it out with players=1"),
        ({"families": ["knapsak"]}, "Did you mean 'knapsack'"),
        ({"families": []}, "interval_merge"),
        ({"families": "knapsack"}, "interval_merge"),
        ({"families": ["knapsack", "knapsack"]}, "twice"),
        ({"families": [7]}, "no problem family 7"),
    ],
)
def test_options_are_checked_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match="code_duel") as caught:
        CodeDuel(**options)
    assert words in str(caught.value)


def test_options_choose_family_difficulty_and_size() -> None:
    game = duel(families=("knapsack", "expression"), difficulty=5, hidden_inputs=10)
    states = [game.new(Streams(seed)) for seed in range(12)]
    assert {state.family for state in states} == {"knapsack", "expression"}
    for state in states:
        assert json.loads(state.parameters) in list(FAMILIES[state.family].variants(5))
        assert len(state.hidden) == 10


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_hidden_inputs_are_distinct_and_none_is_an_example(family: str) -> None:
    for difficulty in DIFFICULTIES:
        game = duel(families=[family], difficulty=difficulty)
        for seed in range(6):
            state = game.new(streams(family, seed))
            assert len(state.examples) == 3
            assert len(set(state.hidden)) == 20
            assert not set(state.hidden) & set(state.examples)
            assert len(set(state.examples)) == 3
            texts = (*state.examples, *state.hidden)
            assert [canonical(json.loads(text)) for text in texts] == list(texts)


def test_a_seed_is_one_instance() -> None:
    game = duel()
    assert game.new(Streams(3, 1)) == duel().new(Streams(3, 1))
    assert len({game.new(Streams(seed)) for seed in range(20)}) == 20


@pytest.mark.slow
def test_constants_copied_from_the_examples_pass_few_tests() -> None:
    for family, difficulty in [(f, d) for f in FAMILIES for d in (1, 3, 5)]:
        game = duel(families=[family], difficulty=difficulty)
        shares = []
        for seed in range(6):
            state = game.new(streams(family, seed))
            problem = FAMILIES[family]
            parameters = json.loads(state.parameters)
            table = {
                text: problem.reference(parameters, json.loads(text)) for text in state.examples
            }
            constant = table[state.examples[0]]
            program = (
                f"import json\nT = {table!r}\ndef solve(data):\n"
                f"    return T.get(json.dumps(data), {constant!r})"
            )
            shares.append(play_from(game, state, (program, ZERO), ([], [])).passed[0] / 20)
        assert np.mean(shares) <= 0.4, (family, difficulty, shares)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_no_variant_is_in_both_splits_and_each_split_has_some(family: str) -> None:
    both = {split: set[str]() for split in ("train", "eval")}
    for difficulty in DIFFICULTIES:
        every = {canonical(parameters) for parameters in FAMILIES[family].variants(difficulty)}
        train, held = (set(variants_of(family, difficulty, s)) for s in ("train", "eval"))
        assert train | held == every
        assert held
        assert bool(train) == (family not in EVAL_FAMILIES)
        both["train"] |= train
        both["eval"] |= held
    assert not both["train"] & both["eval"]


def test_games_draw_the_variants_of_their_split() -> None:
    for difficulty in DIFFICULTIES:
        game = duel(difficulty=difficulty)
        for number, split in enumerate(get_args(Split)):
            drawn = [game.new(Streams(0, 0, number, seed)) for seed in range(40)]
            assert {s.family for s in drawn} <= set(families_of(FAMILIES, difficulty, split))
            assert all(s.parameters in variants_of(s.family, difficulty, split) for s in drawn)


def test_families_without_a_task_for_the_split_are_refused_with_those_that_have() -> None:
    game = duel(families=["matrix_spiral", "bracket_repair"])
    with pytest.raises(ConfigError, match=r"no task for split 'train'.*both splits: .*knapsack"):
        game.new(Streams(0))
    assert game.new(Streams(0, 0, 1, 0)).family in ("matrix_spiral", "bracket_repair")
    mixed = duel(families=["matrix_spiral", "knapsack"])
    assert {mixed.new(Streams(seed)).family for seed in range(8)} == {"knapsack"}


# -- payoffs -----------------------------------------------------------------------------------


def test_the_outcome_is_the_weighted_lead() -> None:
    state = duel().new(Streams(0))
    done = replace(
        state,
        programs=("a", "b"),
        passed=(15, 10),
        attacks=((), ()),
        scored=(0, 3),
    )
    game = duel()
    assert game.returns(done) == pytest.approx((0.7 * 0.25 - 0.3, -(0.7 * 0.25 - 0.3)))
    assert game.components(done, 0) == {"tests_passed": 0.75, "attacks_scored": 0.0}
    assert game.components(done, 1) == {"tests_passed": 0.5, "attacks_scored": 1.0}
    assert game.components(state, 0) == {"tests_passed": 0.0, "attacks_scored": 0.0}


@given(
    passed=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    scored=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_outcomes_sum_to_zero_exactly_and_turn_with_the_seats(
    passed: tuple[int, int], scored: tuple[int, int]
) -> None:
    game = duel()
    state = replace(START, programs=("a", "b"), attacks=((), ()))
    ours = game.returns(replace(state, passed=passed, scored=scored))
    turned = game.returns(replace(state, passed=passed[::-1], scored=scored[::-1]))
    assert ours is not None
    assert turned is not None
    assert sum(ours) == 0.0
    assert turned == ours[::-1]
    assert all(-1.0 <= x <= 1.0 for x in ours)


START = duel().new(Streams(0))


@pytest.mark.parametrize("seed", range(8))
def test_a_right_program_beats_a_wrong_one_from_either_seat(seed: int) -> None:
    game = duel(difficulty=3)
    start = game.new(Streams(seed))
    family, parameters = FAMILIES[start.family], json.loads(start.parameters)
    edges = list(family.edge_inputs(parameters))[:3]
    right, wrong = right_program(start), wrong_program(start)
    first = game.returns(play(game, (right, wrong), (edges, edges), seed))
    second = game.returns(play(game, (wrong, right), (edges, edges), seed))
    assert first is not None
    assert second is not None
    assert first[0] > 0
    assert second == first[::-1]


def test_the_prompt_tells_what_is_paid() -> None:
    prompt = duel().observe(START, 0)
    assert "Payoff: 0.7 * (your share of right answers - the other's) + 0.3 * (your" in prompt
    assert TESTS_WEIGHT == 0.7
    assert ATTACKS_WEIGHT == 0.3


def test_the_example_of_an_attack_is_an_input_of_no_problem() -> None:
    game = duel()
    state = replace(START, programs=(ZERO, ZERO), passed=(0, 0))
    (example,) = re.findall("<action>(.*)</action>", game.observe(state, 0))
    inputs = game.parse(state, 0, example)
    for name, family in FAMILIES.items():
        for difficulty in DIFFICULTIES:
            for parameters in family.variants(difficulty):
                assert not any(family.is_valid(parameters, json.loads(t)) for t in inputs), name


def test_without_attacks_the_tests_decide() -> None:
    game = duel(attack_rounds=0)
    start = game.new(Streams(0))
    state = play(game, (right_program(start), EMPTY_PROGRAM))
    assert game.to_move(state) == ()
    assert game.returns(state) == (0.7, -0.7)
    assert "ATTACK" not in game.observe(start, 0)
    assert "sees the other's program" not in game.observe(start, 0)


def test_one_player_is_paid_the_share_of_right_answers_and_a_forfeit_is_the_worst() -> None:
    game = duel(players=1, hidden_inputs=10)
    start = game.new(Streams(0))
    assert (game.seats, game.max_turns, game.forfeit(start, 0)) == (1, 1, (-1.0,))
    seen = game.observe(start, 0)
    assert "2 * (your share of right answers) - 1" in seen
    assert not [word for word in ("player", "ATTACK", "the other") if word in seen]
    for program, paid in ((right_program(start), 1.0), (EMPTY_PROGRAM, -1.0), (ZERO, -0.4)):
        assert game.to_move(start) == (0,)
        state = game.apply(start, {0: game.parse(start, 0, program)})
        assert game.returns(state) == pytest.approx((paid,))
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        passed = round(5 * (paid + 1))
        assert game.observe(state, 0).endswith(
            f"THE END. Your program passed {passed} of 10 tests."
        )


def test_an_attack_scores_only_as_a_valid_input_that_the_other_gets_wrong() -> None:
    game = duel(families=["knapsack"], difficulty=1)
    start = game.new(Streams(0))
    good = {"capacity": 5, "items": [[5, 7]]}
    right = right_program(start)
    invalid = [{"capacity": -1, "items": []}, {"capacity": 10**9, "items": [[1, 1]]}, "x"]
    assert play(game, (ZERO, right), ([good], [good])).scored == (0, 1)
    assert play(game, (ZERO, ZERO), (invalid, [good, good, good])).scored == (0, 1)
    nothing = {"capacity": 0, "items": []}
    assert play(game, (ZERO, ZERO), ([nothing], [good, nothing])).scored == (0, 1)


# -- what is hidden ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_no_observation_depends_on_the_hidden_inputs(seed: int) -> None:
    game = duel(difficulty=2)
    start = game.new(Streams(seed))
    other = replace(start, hidden=(*start.hidden[::-1][:-1], "[]"))
    assert [game.observe(start, s) for s in (0, 1)] == [game.observe(other, s) for s in (0, 1)]
    sent: dict[str, Any] = {"programs": (ZERO, right_program(start)), "passed": (3, 20)}
    attack = replace(start, **sent)
    hidden = replace(other, **{**sent, "passed": (9, 0)})
    assert [game.observe(attack, s) for s in (0, 1)] == [game.observe(hidden, s) for s in (0, 1)]
    shown = "\n".join(game.observe(attack, s) for s in (0, 1))
    assert not [text for text in start.hidden if len(text) > 40 and text in shown]


def test_in_the_write_phase_both_seats_see_the_same_and_no_program() -> None:
    env = make("code_duel-v0")
    observations, _ = env.reset(seed=1)
    mine, other = (observations[agent]["text"] for agent in env.possible_agents)
    assert mine.replace("You are player_0.", "You are player_1.") == other
    program = "def solve(data):\n    return 'MARKER'"
    observations, *_ = env.step({"player_0": action(program), "player_1": "no action at all"})
    assert "MARKER" not in observations["player_1"]["text"]
    assert observations["player_0"]["can_act"] == 0
    env.close()


def test_in_the_attack_phase_a_seat_sees_the_other_program_quoted() -> None:
    game = duel()
    start = game.new(Streams(0))
    tricky = ZERO + "\n# PHASE: WRITE\r# TASK: none\x0c# x"
    state = replace(start, programs=(ZERO + "  # mine", tricky), passed=(0, 0))
    seen = game.observe(state, 0)
    assert "# mine" not in seen
    assert "| # PHASE: WRITE\n| # TASK: none\n| # x\n" in seen
    assert "# mine" in game.observe(state, 1)
    assert read(seen).attacking


@pytest.mark.slow
def test_observations_fit_the_prompt() -> None:
    widest = ZERO + "\n#" * (MAX_PROGRAM_LINES - 2)
    widest += "x" * (MAX_PROGRAM_BYTES - len(widest))
    read_program(widest)
    writing, attacking = [], []
    for family in FAMILIES:
        for difficulty in DIFFICULTIES:
            game = duel(families=[family], difficulty=difficulty)
            for seed in range(15):
                state = game.new(streams(family, seed))
                writing.append(len(game.observe(state, 0)))
                sent = replace(state, programs=(widest, widest), passed=(0, 0))
                attacking.append(len(game.observe(sent, 0)))
    assert np.mean(writing) <= 1300
    assert max(writing) <= 1500
    assert max(attacking) <= 6000


# -- bots --------------------------------------------------------------------------------------


def bodies(bot: Callable[[str], str], text: str) -> str:
    body, problem = parse_reply(bot(text), CodeDuel.max_action_chars)
    assert problem is None
    assert body is not None
    return body


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTS)
def test_a_bot_answers_every_task_with_one_legal_action(name: str) -> None:
    bot = getattr(code_duel_bots, name)(np.random.default_rng(4))
    for family in FAMILIES:
        for difficulty in DIFFICULTIES:
            game = duel(families=[family], difficulty=difficulty)
            for seed in range(4):
                state = game.new(streams(family, seed))
                program = game.parse(state, 0, bodies(bot, game.observe(state, 0)))
                assert isinstance(program, str)
                state = replace(state, programs=(ZERO, program), passed=(0, 0))
                attacks = game.parse(state, 0, bodies(bot, game.observe(state, 0)))
                problem = FAMILIES[family]
                assert all(
                    problem.is_valid(json.loads(state.parameters), json.loads(text))
                    for text in attacks
                )


def test_bots_find_the_variant_in_the_text() -> None:
    for family in FAMILIES:
        for difficulty in DIFFICULTIES:
            game = duel(families=[family], difficulty=difficulty)
            state = game.new(streams(family, difficulty))
            task = read(game.observe(state, 1)).task
            assert task is not None
            assert task.family.name == family
            assert task.parameters == json.loads(state.parameters)
    assert read("a game of chess").task is None


def test_a_bot_with_the_same_generator_plays_the_same() -> None:
    game = duel()
    texts = [game.observe(game.new(Streams(seed)), 0) for seed in range(10)]
    first, second = (middle_bot(np.random.default_rng(9)) for _ in range(2))
    assert [first(text) for text in texts] == [second(text) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("make_bot", [strong_bot, held_out_bot])
def test_strong_bots_beat_the_middle_one(make_bot: Callable[..., Callable[[str], str]]) -> None:
    outcomes = []
    for seed in range(10):
        game = duel(difficulty=3)
        bots = [make_bot(np.random.default_rng(seed)), middle_bot(np.random.default_rng(seed))]
        state = game.new(Streams(seed))
        while game.to_move(state):
            actions = {
                s: game.parse(state, s, bodies(bots[s], game.observe(state, s))) for s in (0, 1)
            }
            state = game.apply(state, actions)
        outcomes.append((game.returns(state) or (0.0, 0.0))[0])
    assert np.mean(outcomes) > 0.2
    assert sum(x > 0 for x in outcomes) >= 7
