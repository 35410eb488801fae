import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.words.codewords_duet import (
    BOARD,
    DEADLY,
    NEUTRAL,
    PASS,
    TARGET,
    Board,
    CodewordsDuet,
    board_nouns,
    clue_words,
    left_to_find,
    open_words,
    too_close,
)
from srl_envs.families.words.codewords_duet_bots import read

ENV = "codewords_duet-v0"
WORD = st.text("abc", max_size=5)


def edits(word: str) -> set[str]:
    """Every text one letter away."""
    letters = "abc"
    left_out = {word[:i] + word[i + 1 :] for i in range(len(word))}
    changed = {word[:i] + a + word[i + 1 :] for i in range(len(word)) for a in letters}
    added = {word[:i] + a + word[i:] for i in range(len(word) + 1) for a in letters}
    return left_out | changed | added


@given(WORD, WORD)
def test_too_close_agrees_with_the_rule_spelled_out(word: str, other: str) -> None:
    expected = word in other or other in word or other in edits(word)
    assert too_close(word, other) == too_close(other, word) == expected


def opening(seed: int = 0, **options: int) -> tuple[CodewordsDuet, Board]:
    game = CodewordsDuet(**options)
    return game, game.new(Streams(seed))


def step(game: CodewordsDuet, state: Board, body: str) -> Board:
    (seat,) = game.to_move(state)
    return game.apply(state, {seat: game.parse(state, seat, body)})


def clue(state: Board) -> str:
    """A word that fits any board."""
    return next(
        w for w in ("zigzag", "quiz", "jumbo") if not any(too_close(w, o) for o in state.words)
    )


def named(state: Board, giver: int, mark: str) -> list[str]:
    return [w for w, m in zip(state.words, state.keys[giver], strict=True) if m == mark]


@given(st.integers(0, 2**32))
def test_keys_have_the_right_numbers(seed: int) -> None:
    _, state = opening(seed)
    pairs = Counter(zip(*state.keys, strict=True))
    assert pairs == {
        (TARGET, TARGET): 3, (TARGET, NEUTRAL): 5, (TARGET, DEADLY): 1, (NEUTRAL, TARGET): 5,
        (DEADLY, TARGET): 1, (DEADLY, DEADLY): 1, (DEADLY, NEUTRAL): 1, (NEUTRAL, DEADLY): 1,
        (NEUTRAL, NEUTRAL): 7,
    }  # fmt: skip
    for key in state.keys:
        assert Counter(key) == {TARGET: 9, DEADLY: 3, NEUTRAL: 13}
    assert len(set(state.words)) == BOARD
    assert not any(too_close(a, b) for a in state.words for b in state.words if a != b)


@given(st.integers(0, 2**32), st.integers(3, 9))
def test_random_play_keeps_the_rules(seed: int, turns: int) -> None:
    game, state = opening(seed, turns=turns)
    rng = np.random.default_rng(seed)
    for _ in range(game.max_turns):
        (seat,) = game.to_move(state)
        seen = read(game.observe(state, seat))
        assert seen.words == state.words
        assert list(seen.deadly) == named(state, seat, DEADLY)
        if state.guessing:
            assert list(seen.open) == [state.words[i] for i in open_words(state, seat)]
        else:
            assert list(seen.targets) == [state.words[i] for i in left_to_find(state, seat)]
        state = step(game, state, game.sample(state, seat, rng))
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        if state.over:
            break
    assert game.to_move(state) == ()
    found = {
        guess
        for turn in state.turns
        for guess in turn.guesses or ()
        if state.keys[turn.giver][guess] == TARGET
    }
    dead = any(
        state.keys[turn.giver][guess] == DEADLY
        for turn in state.turns
        for guess in turn.guesses or ()
    )
    assert (state.found, state.dead) == (found, dead)
    expected = len(found) / 15 * (0.25 if dead else 1.0)
    assert game.returns(state) == (expected, expected)
    assert dead or len(found) == 15 or len(state.turns) == turns


def test_guesses_count_by_the_key_of_the_one_who_gave_the_clue_and_stop_at_the_first_miss() -> None:
    game, state = opening()
    giver = state.giver
    state = step(game, state, f"{clue(state)} 3")
    targets = named(state, giver, TARGET)
    neutral = named(state, giver, NEUTRAL)
    state = step(game, state, f"{targets[0]}, {neutral[0]}, {targets[1]}")
    assert {state.words[i] for i in state.found} == {targets[0]}
    assert {state.words[i] for i in state.missed[1 - giver]} == {neutral[0]}
    assert state.missed[giver] == frozenset()
    assert state.giver == 1 - giver
    assert not state.over
    state = step(game, state, PASS)
    state = step(game, state, f"{clue(state)} 1")
    for word in (targets[0], neutral[0]):
        with pytest.raises(IllegalMoveError, match="not open"):
            game.parse(state, 1 - giver, word)
    game.parse(state, 1 - giver, targets[1])


def test_a_deadly_guess_ends_the_game_at_a_quarter() -> None:
    game, state = opening()
    giver = state.giver
    state = step(game, state, f"{clue(state)} 4")
    targets, deadly = named(state, giver, TARGET), named(state, giver, DEADLY)
    state = step(game, state, ", ".join([*targets[:3], deadly[0]]))
    assert game.to_move(state) == ()
    assert game.returns(state) == (0.05, 0.05)  # 3 / 15 / 4
    assert game.components(state, 0) == {"found": 3.0, "deadly": 1.0, "clues": 1.0}


def test_two_perfect_clues_find_everything_and_end_the_game() -> None:
    game, state = opening(turns=9)
    for _ in range(2):
        words = [state.words[i] for i in left_to_find(state, state.giver)]
        state = step(game, state, f"{clue(state)} 9")
        state = step(game, state, ", ".join(words))
    assert game.returns(state) == (1.0, 1.0)
    assert game.components(state, 0)["clues"] == 2


def test_a_seat_with_nothing_left_gives_no_clue() -> None:
    game, state = opening()
    giver = state.giver
    state = step(game, state, f"{clue(state)} 9")
    state = step(game, state, ", ".join(named(state, giver, TARGET)))
    state = step(game, state, PASS)
    assert state.giver == 1 - giver
    assert not left_to_find(state, giver)


def test_a_team_that_passes_earns_nothing() -> None:
    game, state = opening()
    for _ in range(9):
        state = step(game, state, game.fallback(state, state.giver))
    assert game.returns(state) == (0.0, 0.0)


def test_nobody_sees_the_key_of_the_other() -> None:
    game, state = opening()
    for seat in (0, 1):
        other = state.keys[1 - seat]
        swapped = other[::-1]
        keys = (swapped, state.keys[1]) if seat == 1 else (state.keys[0], swapped)
        assert game.observe(state._replace(keys=keys), seat) == game.observe(state, seat)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "one word and a number"),
        ("zigzag", "one word and a number"),
        ("zigzag 0", "one word and a number"),
        ("zigzag 10", "one word and a number"),
        ("zigzag ２", "one word and a number"),
        ("zigzag two", "one word and a number"),
        ("zig zag 2", "one word and a number"),
        ("2 zigzag", "one word and a number"),
        ("xqzzy 2", "not in the list"),
        ("<action> 2", "not in the list"),
    ],
)
def test_clues_that_are_refused(body: str, problem: str) -> None:
    game, state = opening()
    with pytest.raises(IllegalMoveError, match=problem):
        game.parse(state, state.giver, body)


def test_clues_like_a_word_on_the_board_are_refused() -> None:
    game, state = opening()
    refused = [word for word in clue_words() if any(too_close(word, w) for w in state.words)]
    assert set(state.words) <= set(refused)
    for word in refused[:200]:
        with pytest.raises(IllegalMoveError, match="too much like"):
            game.parse(state, state.giver, f"{word} 1")


def test_guesses_that_are_refused() -> None:
    game, state = opening()
    state = step(game, state, f"{clue(state)} 1")
    (seat,) = game.to_move(state)
    a, b, c = state.words[:3]
    for body, problem in [
        (f"{a}, {b}, {c}", "at most 2"), (f"{a}, {a}", "twice"), (f"{a} {b}", "not open"),
        ("", "not open"), (f"{a},", "not open"), ("quux", "not open"), ("," * 250, "too many"),
    ]:  # fmt: skip
        with pytest.raises(IllegalMoveError, match=problem):
            game.parse(state, seat, body)
    assert game.parse(state, seat, f" {a.upper()} ,  {b}") == (0, 1)


@pytest.mark.parametrize("turns", [2, 16, True, 9.0])
def test_impossible_games_are_refused(turns: object) -> None:
    with pytest.raises(ConfigError, match="turns"):
        CodewordsDuet(turns=turns)


def test_there_are_enough_nouns() -> None:
    assert len(board_nouns()) > 400


def test_the_longest_observation_fits() -> None:
    game, state = opening(turns=15)
    long = max(board_nouns(), key=len)
    state = state._replace(words=tuple(f"{long}{i:02}" for i in range(BOARD)))
    for _ in range(15):
        guesses = [state.words[i] for i in left_to_find(state, state.giver)[:1]]
        guesses += [state.words[i] for i in open_words(state, 1 - state.giver)][-1:]
        state = step(game, state, f"{max(clue_words(), key=len)} 9")
        state = step(game, state, ", ".join(dict.fromkeys(guesses)))
        if state.over:
            break
    assert len(game.observe(state, 0)) < game.max_observation_chars - 1000


def mean_outcome(first: str, second: str, episodes: int = 12) -> float:
    env = srl_envs.make(ENV)
    total = 0.0
    for seed in range(episodes):
        players = {
            0: srl_envs.make_bot(ENV, first, seed=seed),
            1: srl_envs.make_bot(ENV, second, seed=100 + seed),
        }
        total += srl_envs.play(env, players, seed=seed).outcomes[0]
    return total / episodes


def test_bots_stand_in_their_order() -> None:
    assert mean_outcome("random", "random", 40) < 0.12
    assert 0.4 < mean_outcome("middle", "middle") < 0.68
    assert mean_outcome("strong", "strong") > 0.68
    assert mean_outcome("strong", "held_out") > 0.6


def test_bots_answer_a_clue_that_they_do_not_know() -> None:
    game, state = opening()
    state = step(game, state, "zigzag 3")
    (seat,) = game.to_move(state)
    for bot in srl_envs.spec(ENV).bots:
        reply = srl_envs.make_bot(ENV, bot)(game.observe(state, seat))
        game.parse(state, seat, reply.removeprefix("<action>").removesuffix("</action>"))
