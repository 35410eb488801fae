import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams, split_of_instance
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
    clues_left,
    left_to_find,
    open_words,
    too_close,
)
from srl_envs.families.words.codewords_duet_bots import read
from srl_envs.lexicon import associations
from srl_envs.turns.grammar import action

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


def clue(state: Board, fits: int = 1, also: str = TARGET) -> tuple[str, list[str]]:
    """A clue that fits so many targets of the giver at least and a word of kind ``also``; the targets."""
    targets = [state.words[i] for i in left_to_find(state, state.giver)]
    for word in clues_left(state):
        fitting = [target for target in targets if target in associations()[word]]
        others = set(named(state, state.giver, also)).intersection(associations()[word])
        if len(fitting) >= fits and others:
            return word, fitting
    raise AssertionError("no clue fits so many")


def unfitting(state: Board, word: str, mark: str) -> str:
    """A word that the clue does not fit, of some kind in the giver's key."""
    marked = named(state, state.giver, mark)
    return next(other for other in marked if other not in associations()[word])


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
        assert seen.words == tuple(state.words[i] for i in state.orders[seat])
        assert sorted(seen.deadly) == sorted(named(state, seat, DEADLY))
        assert sorted(seen.targets) == sorted(state.words[i] for i in left_to_find(state, seat))
        assert seen.closed == {state.words[i] for i in state.found | state.missed[1 - seat]}
        if state.guessing:
            assert list(seen.open) == [state.words[i] for i in open_words(state, seat)]
            assert (seen.clue, seen.number) == (state.turns[-1].clue, state.turns[-1].number)
        else:
            assert (*seen.clues, PASS) == game.legal(state, seat)
            assert all(game.parse(state, seat, body) for body in seen.clues)
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
        and state.words[guess] in associations()[turn.clue]
    }
    dead = any(
        state.keys[turn.giver][guess] == DEADLY
        for turn in state.turns
        for guess in turn.guesses or ()
    )
    assert (set(state.found), state.dead) == (found, dead)
    expected = len(found) / 15 * (0.25 if dead else 1.0)
    assert game.returns(state) == (expected, expected)
    assert dead or len(found) == 15 or len(state.turns) == turns


def test_guesses_count_by_the_key_of_the_one_who_gave_the_clue_and_stop_at_the_first_miss() -> None:
    game, state = opening(3)
    giver = state.giver
    word, targets = clue(state, fits=2, also=NEUTRAL)
    fitting = [w for w in associations()[word] if w in named(state, giver, NEUTRAL)]
    state = step(game, state, word)
    assert state.turns[-1].number == len(targets)
    with pytest.raises(IllegalMoveError, match=f"at most {len(targets)}"):
        game.parse(state, 1 - giver, ", ".join(state.words[: len(targets) + 1]))
    state = step(game, state, f"{targets[0]}, {fitting[0]}")
    assert {state.words[i] for i in state.found} == {targets[0]}
    assert {state.words[i] for i in state.missed[1 - giver]} == {fitting[0]}
    assert state.missed[giver] == frozenset()
    assert state.giver == 1 - giver
    assert not state.over
    state = step(game, state, PASS)
    state = step(game, state, clue(state)[0])
    for closed in (targets[0], fitting[0]):
        with pytest.raises(IllegalMoveError, match="not open"):
            game.parse(state, 1 - giver, closed)
    game.parse(state, 1 - giver, targets[1])


def test_a_guess_that_the_clue_does_not_fit_finds_nothing_and_tells_nothing() -> None:
    game, start = opening()
    word, targets = clue(start, fits=2)
    for mark in (TARGET, NEUTRAL):
        other = unfitting(start, word, mark)
        state = step(game, step(game, start, word), f"{other}, {targets[0]}")
        assert (state.found, state.dead) == (frozenset(), False)
        assert state.missed == (frozenset(), frozenset())
        assert f"guessed: {other} (does not fit the clue).\n" in state.log
    deadly = step(game, step(game, start, word), unfitting(start, word, DEADLY))
    assert deadly.dead


def test_a_deadly_guess_ends_the_game_at_a_quarter() -> None:
    game, state = opening()
    word, targets = clue(state, fits=2)
    giver, number = state.giver, len(targets)
    state = step(game, state, word)
    deadly = named(state, giver, DEADLY)
    state = step(game, state, ", ".join([*targets[: number - 1], deadly[0]]))
    assert game.to_move(state) == ()
    expected = (number - 1) / 15 / 4
    assert game.returns(state) == pytest.approx((expected, expected))
    assert game.components(state, 0) == {"found": number - 1, "deadly": 1.0, "clues": 1.0}


def test_perfect_partners_find_everything_and_a_seat_with_nothing_left_gives_no_clue() -> None:
    game, state = opening(turns=15)
    givers = []
    while not state.over:
        givers.append(state.giver)
        word, targets = clue(state)
        if givers.count(0) % 2:  # one seat is done long before the other
            targets = targets[: 9 if state.giver else 1]
        other = 1 - state.giver
        state = step(game, step(game, state, word), ", ".join(targets))
        assert state.over or state.giver == (other if left_to_find(state, other) else 1 - other)
    assert game.returns(state) == (1.0, 1.0)
    assert any(a == b for a, b in pairwise(givers))


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
        ("", "write one clue"), ("2", "write one clue"), ("zig zag 2", "write one clue"),
        ("2 zigzag", "write one clue"), ("ocean two", "write one clue"),
        ("xqzzy", "not in the list"), ("<action>", "write one clue"),
    ],
)  # fmt: skip
def test_clues_that_are_refused(body: str, problem: str) -> None:
    game, state = opening()
    with pytest.raises(IllegalMoveError, match=problem):
        game.parse(state, state.giver, body)


def test_a_clue_must_fit_a_target_that_is_left_and_be_unlike_the_board() -> None:
    game, state = opening()
    targets = set(named(state, state.giver, TARGET))
    allowed = set(game.legal(state, state.giver) or ()) - {PASS}
    for word, nouns in associations().items():
        near = any(too_close(word, other) for other in state.words)
        assert (word in allowed) == (bool(targets.intersection(nouns)) and not near)
        if word not in allowed:
            with pytest.raises(IllegalMoveError, match="too much like" if near else "fits none"):
                game.parse(state, state.giver, word)


def test_clear_clues_and_guesses_are_read_in_any_dress() -> None:
    game, state = opening()
    word, targets = clue(state, fits=2)
    for body in (word.upper(), f"clue: {word}", f"My clue is {word}", f"{word} 2"):
        assert game.parse(state, state.giver, body) == word
    state = step(game, state, word)
    places = tuple(map(state.words.index, targets[:2]))
    a, b = targets[:2]
    for body in (
        f"{a}, {b}", f"{a},{b}.", f" {a.upper()}   {b}", f"{a} and {b},", f"Guesses: {a}, and {b}",
    ):  # fmt: skip
        assert game.parse(state, 1 - state.giver, body) == places


def test_guesses_that_are_refused() -> None:
    game, state = opening()
    word, targets = clue(state, fits=2)
    state = step(game, state, word)
    (seat,) = game.to_move(state)
    a, b = state.words[:2]
    many = ", ".join(state.words[: len(targets) + 1])
    for body, problem in [
        (many, f"at most {len(targets)}"), (f"{a}, {a}", "twice"), (f"{a}+{b}", "not open"),
        ("", "not open"), ("quux", "not open"), ("," * 250, "not open"), ("x " * 100, "too many"),
    ]:  # fmt: skip
        with pytest.raises(IllegalMoveError, match=problem):
            game.parse(state, seat, body)


@pytest.mark.parametrize("turns", [2, 16, True, 9.0])
def test_impossible_games_are_refused(turns: Any) -> None:
    with pytest.raises(ConfigError, match="turns"):
        CodewordsDuet(turns=turns)


def test_there_are_enough_nouns() -> None:
    assert len(board_nouns()) > 400


def test_the_longest_observation_fits() -> None:
    game = CodewordsDuet(turns=15)
    longest = 0
    for seed in range(40):
        state, rng = game.new(Streams(seed)), np.random.default_rng(seed)
        while not state.over:
            longest = max(longest, *(len(game.observe(state, seat)) for seat in (0, 1)))
            state = step(game, state, game.sample(state, game.to_move(state)[0], rng))
            state = state._replace(over=False) if len(state.turns) < 15 else state
            state = state._replace(dead=False)
    assert longest < game.max_observation_chars - 1000


def test_no_board_is_in_both_splits() -> None:
    env = srl_envs.make(ENV)

    def boards(split: str, count: int) -> set[frozenset[str]]:
        starts = (env.reset(seed=n, options={"split": split})[0] for n in range(count))
        return {frozenset(read(start["player_0"]["text"]).words) for start in starts}

    assert boards("train", 60).isdisjoint(boards("eval", 60))
    game = CodewordsDuet()
    words = [sorted(game.new(Streams(1, 0, split, 5)).words) for split in (0, 1)]
    assert [split_of_instance(board) for board in words] == ["train", "eval"]


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
    assert mean_outcome("random", "random", 40) < 0.05
    assert 0.4 < mean_outcome("middle", "middle") < 0.68
    assert mean_outcome("strong", "strong") > 0.68
    assert mean_outcome("strong", "held_out") > 0.6


def code_order(clue: str, words: Sequence[str]) -> list[str]:
    """What partners may have agreed on beforehand: a fixed order of the words for every clue."""
    return sorted(words, key=lambda word: hashlib.md5(f"{clue} {word}".encode()).digest())


def coder(text: str) -> str:
    """Both sides of a code without meaning: the clue of which the first words are targets."""
    seen = read(text)
    if seen.open:
        return action(", ".join(code_order(seen.clue, seen.open)[: seen.number]))
    free = [word for word in seen.words if word not in seen.closed]

    def worth(clue: str) -> int:
        named = code_order(clue, free)
        wrong = [n for n, word in enumerate(named) if word not in seen.targets]
        return min([*wrong, sum(word in seen.targets for word in associations()[clue])])

    return action(max(seen.clues, key=worth, default=PASS))


def test_a_code_without_meaning_finds_next_to_nothing() -> None:
    env = srl_envs.make(ENV)
    pair: dict[int, Callable[[str], str]] = {0: coder, 1: coder}
    coded = [srl_envs.play(env, pair, seed=seed).outcomes[0] for seed in range(12)]
    assert np.mean(coded) < 0.1


def test_bots_answer_every_clue() -> None:
    game, state = opening()
    for word in (game.legal(state, state.giver) or ())[:-1]:
        after = step(game, state, word)
        (seat,) = game.to_move(after)
        for bot in srl_envs.spec(ENV).bots:
            reply = srl_envs.make_bot(ENV, bot)(game.observe(after, seat))
            game.parse(after, seat, reply.removeprefix("<action>").removesuffix("</action>"))
