"""Puzzles of reasoning-gym: sound answers, strict reading, and keys that hold out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import islice
from typing import Any

import numpy as np
import pytest

pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed: the extra `puzzles`")

import srl_envs
from srl_agents.rewards.puzzle import PuzzleTerm
from srl_agents.rewards.terms import REWARDS, Played
from srl_envs.core import Streams, episode_entropy, split_of_instance
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.reasoning import puzzle_kinds
from srl_envs.families.reasoning.puzzle_kinds import (
    KINDS,
    STEPS,
    Puzzle,
    draw_puzzle,
    entry_of,
    is_right,
    library_score,
    near_misses,
    one_line,
    puzzle_key,
    right_answer,
)
from srl_envs.families.reasoning.puzzles import (
    CHOICES,
    Puzzles,
    Sheet,
    choices_of,
    example_of,
    score_of_body,
)
from srl_envs.families.reasoning.puzzles_bots import SOLVERS
from tests.srl_agents.rewards.recorded import episode, turn

EACH = [(kind, step) for kind in KINDS for step in range(STEPS)]


def some(kind: str, step: int, count: int = 12) -> list[Puzzle]:
    draws = Draws(3, step)
    return [draw_puzzle(draws, kind, step) for _ in range(count)]


@pytest.mark.parametrize(("kind", "step"), EACH)
def test_the_librarys_answer_and_a_search_from_the_text_are_both_right(
    kind: str, step: int
) -> None:
    for puzzle in some(kind, step):
        right = right_answer(puzzle)
        assert is_right(puzzle, right)
        assert KINDS[kind].read(one_line(right)) == right
        found = list(islice(SOLVERS[kind](entry_of(puzzle)["question"]), 3))
        assert found
        assert all(is_right(puzzle, answer) for answer in found)


@pytest.mark.parametrize(("kind", "step"), EACH)
def test_wrong_answers_of_prompts_are_wrong_and_have_the_form(kind: str, step: int) -> None:
    for puzzle in some(kind, step, 6):
        shown = KINDS[kind].read(example_of(puzzle))
        assert not is_right(puzzle, shown)
        wrong = near_misses(puzzle, 2, Draws(5))
        assert len(set(wrong)) == 2
        assert not any(is_right(puzzle, answer) for answer in wrong)
        assert sum(is_right(puzzle, answer) for answer in choices_of(puzzle)) == 1


@pytest.mark.parametrize(
    ("kind", "body", "read"),
    [
        ("spell_backward", " TAC ", "tac"),
        ("quantum_lock", "a, B→C", "A → B → C"),
        ("quantum_lock", "ABA", "A → B → A"),
        ("shortest_path", "Up, up;right.", "up up right"),
        ("kakurasu", "1 0; 0 1", "1 0\n0 1"),
        ("kakurasu", "10\n\n01\n", "1 0\n0 1"),
        ("graph_color", '{"0": 1, "1": 2}', '{"0": 1, "1": 2}'),
        ("graph_color", "0:1 1=2", '{"0": 1, "1": 2}'),
        ("knights_knaves", "Ava is a sage and Liam is an egoist.", "Ava is a sage, and Liam is an egoist"),
    ],
)  # fmt: skip
def test_answers_are_read(kind: str, body: str, read: str) -> None:
    assert KINDS[kind].read(body) == read


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("spell_backward", "tac cat"), ("spell_backward", "__import__('os')"), ("quantum_lock", "A or B"),
        ("quantum_lock", "A" * 61), ("quantum_lock", "D"), ("shortest_path", "up north"),
        ("shortest_path", "up " * 61), ("kakurasu", "1 0; 0"), ("kakurasu", "1 2; 0 1"),
        ("kakurasu", "[[1]]"),
        ("graph_color", '{"0": 1, "0": 2}'), ("graph_color", "[" * 900), ("graph_color", "0: 1 or 2"),
        ("knights_knaves", "Ava is a knight or Liam is a knave"), ("knights_knaves", "everybody lies"),
        ("knights_knaves", "Ava is a knight, and Ava is a knave"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(kind: str, body: str) -> None:
    with pytest.raises(IllegalMoveError):
        KINDS[kind].read(body)


@pytest.mark.parametrize("step", range(STEPS))
def test_a_word_with_more_behind_it_is_not_paid_in_full(step: int) -> None:
    """The library adds up a share for each letter, and nine ninths come to more than 1."""
    puzzles = some("spell_backward", step, 60)
    assert step < STEPS - 1 or 9 in {len(right_answer(puzzle)) for puzzle in puzzles}
    for puzzle in puzzles:
        assert not is_right(puzzle, right_answer(puzzle) + "x")
        assert library_score(puzzle, right_answer(puzzle) + "x") == pytest.approx(0.8)


def test_keys_forget_words_names_order_and_turns() -> None:
    key = {kind: KINDS[kind].key for kind in KINDS}
    maps = (
        [["*", "O", "#"], ["X", "O", "O"]],
        [["O", "O", "X"], ["#", "O", "*"]],
        [["#", "O"], ["O", "O"], ["*", "X"]],
    )
    assert len({key["shortest_path"]({"matrix": rows}) for rows in maps}) == 1
    assert key["shortest_path"]({"matrix": [["#", "O", "*"], ["X", "O", "O"]]}) != key[
        "shortest_path"
    ]({"matrix": maps[0]})
    sums = {"row_sums": [1, 2], "col_sums": [3, 4]}
    assert key["kakurasu"](sums) == key["kakurasu"]({"row_sums": [3, 4], "col_sums": [1, 2]})
    said = ("and", ("lying", 0), ("telling-truth", 1)), ("lying", 0), ("lying", 2)
    renamed = ("lying", 0), ("and", ("lying", 2), ("telling-truth", 1)), ("lying", 2)
    other = ("and", ("lying", 0), ("telling-truth", 2)), ("lying", 0), ("lying", 2)
    mapped = key["knights_knaves"]({"statements": said})
    assert mapped != key["knights_knaves"]({"statements": other})
    # persons 0, 1, 2 of `said` are 2, 1, 0 here
    swapped = (("lying", 0), ("lying", 2), ("and", ("lying", 2), ("telling-truth", 1)))
    assert mapped == key["knights_knaves"]({"statements": swapped})
    assert mapped != key["knights_knaves"]({"statements": renamed})


@pytest.mark.parametrize("level", [1, 3])
def test_no_puzzle_is_in_both_splits(level: int) -> None:
    game = Puzzles(level=level, puzzles=6)
    keys: dict[str, set[tuple[str, str]]] = {"train": set(), "eval": set()}
    for split in ("train", "eval"):
        for seed in range(25):
            streams = Streams(*episode_entropy("puzzles-v0", 0, split, seed))
            sheet = game.new(streams)
            keys[split] |= set(map(puzzle_key, sheet.puzzles))
            assert len({p.kind for p in sheet.puzzles}) == len(KINDS)
    assert not keys["train"] & keys["eval"]
    assert all(split_of_instance(key) == split for split, found in keys.items() for key in found)


def sheet(kind: str, *answers: str, count: int = 2) -> tuple[Puzzles, Sheet]:
    game = Puzzles(level=2, kinds=[kind], puzzles=count)
    state = Sheet(tuple(some(kind, 0, count)))
    for answer in answers:
        state = game.apply(state, {0: game.parse(state, 0, answer)})
    return game, state


def test_the_outcome_is_the_share_of_puzzles_that_are_right() -> None:
    first = right_answer(some("spell_backward", 0, 2)[0])
    game, state = sheet("spell_backward", first)
    assert game.returns(state) is None
    assert game.earned(state) == (0.5,)
    assert "Puzzle 1 (spell_backward): right." in game.observe(state, 0)
    state = game.apply(state, {0: game.parse(state, 0, "pass")})
    assert game.returns(state) == (0.5,)
    assert game.components(state, 0) == {"solved": 1.0, "partial": 0.5}
    assert "Puzzle 2 (spell_backward): passed." in game.observe(state, 0)


def test_what_the_library_pays_for_parts_is_no_outcome() -> None:
    right = right_answer(some("spell_backward", 0, 1)[0])
    game, state = sheet("spell_backward", right[:-1], count=1)
    assert game.returns(state) == (0.0,)
    assert 0.5 < game.components(state, 0)["partial"] < 1.0


def test_the_reward_kind_pays_parts_with_their_turns() -> None:
    game, state = sheet("spell_backward")
    right = right_answer(state.puzzles[0])
    reference = game.references(state, 0)["puzzle"]
    assert score_of_body(reference, right) == 1.0
    assert score_of_body(reference, "no word!") == score_of_body(reference, "") == 0.0
    assert REWARDS.find("puzzle") is PuzzleTerm
    turns = [turn("x", 3), turn("y", 3), turn("z", 3)]
    for one, answer in zip(turns, (right, right[:-1], None), strict=True):
        object.__setattr__(one, "references", {"puzzle": reference})
        object.__setattr__(one, "answer", answer)
    judge = PuzzleTerm(kind="puzzle").judge(64)
    (values,) = judge([Played(episode(*turns), 0)])
    part = library_score(state.puzzles[0], right[:-1])
    assert values == pytest.approx([1 / 3, part / 3, 0.0])


def test_letters_stand_for_the_answers_that_are_shown() -> None:
    game = Puzzles(level=1)
    state = game.new(Streams(4))
    for _ in range(3):
        puzzle = state.puzzles[len(state.answers)]
        letter = next(
            one for one, answer in zip(CHOICES, choices_of(puzzle), strict=True) if is_right(puzzle, answer)
        )  # fmt: skip
        assert score_of_body(game.references(state, 0)["puzzle"], letter) == 1.0
        state = game.apply(state, {0: game.parse(state, 0, f" {letter.lower()} ")})
    assert game.returns(state) == (1.0,)
    with pytest.raises(IllegalMoveError, match="A, B, C"):
        game.parse(game.new(Streams(4)), 0, "D")


def test_the_right_letter_is_in_no_place_more_often() -> None:
    places = [
        next(k for k, answer in enumerate(choices_of(puzzle)) if is_right(puzzle, answer))
        for kind in KINDS
        for puzzle in some(kind, 0, 40)
    ]
    assert max(np.bincount(places)) < 0.45 * len(places)


_PROGRAM = """
import json
import srl_envs
env = srl_envs.make("puzzles-v0", puzzles=6)
print(json.dumps([env.reset(seed=s)[0]["player_0"]["text"] for s in range(2)]))
"""


def test_puzzles_are_the_same_in_every_process() -> None:
    texts = set()
    for number in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        texts.add(done.stdout)
    assert len(texts) == 1


@pytest.mark.parametrize("level", [1, 3])
def test_thousands_of_hostile_replies_neither_raise_nor_pay_out_of_range(level: int) -> None:
    game = Puzzles(level=level)
    rng = np.random.default_rng(0)
    alphabet = list(
        "ABCabc01230 :=,;.{}[]\"'<>()\n→\u0663\ud800is a knight and up down __import__eval"
    )
    state, ended, longest = game.new(Streams(7)), 0, 0
    fresh = [game.new(Streams(number)) for number in range(20)]
    for number in range(4000):
        if not game.to_move(state):
            ended += 1
            (paid,) = game.returns(state) or (-1.0,)
            assert 0.0 <= paid <= 1.0
            state = fresh[number % len(fresh)]
        body = (
            "".join(rng.choice(alphabet, int(rng.integers(0, 60))))
            if number % 2
            else game.sample(state, 0, rng)
        )
        try:
            state = game.apply(state, {0: game.parse(state, 0, body)})
        except IllegalMoveError as error:
            longest = max(longest, len(str(error)))
    assert ended > 300
    assert 0 < longest < 120


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 6}, "level=6; give a whole number from 1 to 5"),
        ({"puzzles": 0}, "puzzles=0"),
        ({"kinds": ["kakurazu"]}, "Did you mean 'kakurasu'"),
        ({"kinds": []}, "different names"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        srl_envs.make("puzzles-v0", **options)


def test_without_the_library_the_game_is_listed_and_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    assert "puzzles-v0" in srl_envs.list_envs()
    with pytest.raises(ConfigError, match=r'pip install "srl-envs\[puzzles\]"') as failure:
        srl_envs.make("puzzles-v0")
    assert "\n" not in str(failure.value)


def test_listing_imports_no_library() -> None:
    program = "import sys, srl_envs; srl_envs.list_envs(); srl_envs.spec('puzzles-v0').is_installed"
    checked = f"{program}; sys.exit('reasoning_gym' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", checked], check=False).returncode == 0


def test_a_state_keeps_numbers_alone() -> None:
    game = Puzzles()
    state = game.new(Streams(2))
    data = json.loads(json.dumps(game.encode(state)))
    assert game.decode(data) == state
    assert set(data) == {"puzzles", "answers"}
    assert all(len(puzzle) == 3 for puzzle in data["puzzles"])


def test_no_checker_of_these_kinds_runs_an_answer() -> None:
    import inspect

    for kind in KINDS:
        made = puzzle_kinds._generator(kind, 0)
        source = inspect.getsource(sys.modules[type(made).__module__])
        assert "eval(" not in source
        assert "parse_expr" not in source
