import json
import re
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import SPLITS, Split, Streams, episode_entropy
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.board.nim import Heaps, Nim, is_won
from srl_envs.families.board.nim_bots import exact_move, read_heaps


@cache
def forced_win(heaps: tuple[int, ...], misere: bool) -> bool:
    """The rules played out: every move, every answer."""
    if not any(heaps):
        return misere  # the other took the last object
    moves = [(i, n) for i, left in enumerate(heaps) for n in range(1, left + 1)]
    return any(
        not forced_win(tuple(sorted(h - n * (i == j) for j, h in enumerate(heaps))), misere)
        for i, n in moves
    )


SMALL = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


@given(SMALL, st.booleans())
def test_the_theory_agrees_with_playing_everything_out(
    heaps: tuple[int, ...], misere: bool
) -> None:
    assert is_won(heaps, misere=misere) == forced_win(tuple(sorted(heaps)), misere)


@given(st.booleans(), st.integers(0, 2**32))
def test_play_keeps_to_the_rules(misere: bool, seed: int) -> None:
    game, rng = Nim(misere=misere), np.random.default_rng(seed)
    state = game.new(Streams(seed))
    objects, last = sum(state.heaps), -1
    while game.to_move(state):
        seat = state.mover
        body = game.sample(state, seat, rng)
        assert body in game.legal(state, seat)
        after = game.apply(state, {seat: game.parse(state, seat, body)})
        taken = [a - b for a, b in zip(state.heaps, after.heaps, strict=True)]
        assert sum(n > 0 for n in taken) == 1
        assert min(taken) == 0
        assert game.decode(json.loads(json.dumps(game.encode(after)))) == after
        assert after.mover == 1 - seat
        assert len(game.observe(after, 0)) <= game.max_observation_chars
        objects -= sum(taken)
        assert game.returns(after) is None or objects == 0
        state, last = after, seat
    winner = 1 - last if misere else last
    assert game.returns(state) == ((1.0, -1.0) if winner == 0 else (-1.0, 1.0))
    assert len(game.legal(state, 0)) == 0


def test_half_of_the_instances_are_won_for_the_first_mover() -> None:
    for options in ({}, {"misere": True}, {"heaps": 2}, {"heaps": 5, "largest": 3}):
        game = Nim(**options)
        states = [game.new(Streams(1, seed)) for seed in range(400)]
        won = sum(is_won(state.heaps, misere=game.misere) for state in states)
        assert 160 < won < 240
        assert 160 < sum(state.mover for state in states) < 240
        assert {len(s.heaps) for s in states} == ({game.heaps} if game.heaps else {3, 4, 5})
        assert all(1 <= n <= game.largest for state in states for n in state.heaps)


def test_a_move_that_gives_away_a_won_position_is_counted() -> None:
    game = Nim()
    state = Heaps((3, 5), 0)
    bad = game.apply(state, {0: (1, 5)})  # leaves 3, which the other takes whole
    assert game.components(bad, 0) == {"regret": 1.0}
    good = game.apply(state, {0: (1, 2)})
    assert game.components(good, 0) == {"regret": 0.0}
    lost = game.apply(Heaps((3, 3), 1), {1: (0, 1)})  # nothing to give away
    assert game.components(lost, 1) == {"regret": 0.0}


def test_both_seats_read_the_same_heaps() -> None:
    game = Nim(misere=True)
    state = game.apply(Heaps((3, 0, 5), 0), {0: (2, 4)})
    for seat in (0, 1):
        assert read_heaps(game.observe(state, seat)) == ([3, 0, 1], True)
    assert "You took 4 from heap 3." in game.observe(state, 0)
    assert "player_0 took 4 from heap 3." in game.observe(state, 1)
    assert "last object loses" in game.observe(state, 0)
    assert "last object wins" in Nim().observe(state, 0)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "no move"),
        ("2", "no move"),
        ("1 2 3", "no move"),
        ("0 1", "no move"),
        ("1 0", "no move"),
        ("1 -1", "no move"),
        ("１ １", "no move"),
        ("1 1.0", "no move"),
        ("take 1 3", "no move"),
        ("heap 1 heap 3", "no move"),
        ("1 1 and win", "no move"),
        ("4 1", "only heaps 1 to 3"),
        ("2 1", "heap 2 holds 0"),
        ("1 4", "heap 1 holds 3"),
    ],
)
def test_bodies_that_are_no_move_are_refused_with_the_reason(body: str, reason: str) -> None:
    with pytest.raises(IllegalMoveError, match=reason):
        Nim().parse(Heaps((3, 0, 5), 0), 0, body)


@pytest.mark.parametrize(
    "body",
    ["3 2", "3, 2", "3: 2", "take 2 from heap 3", "Heap 3: 2", "I take 2 objects from heap number 3",
     "heap 3, take 2", "2 from pile #3"],
)  # fmt: skip
def test_a_move_may_be_told_in_words(body: str) -> None:
    assert Nim().parse(Heaps((3, 0, 5), 0), 0, body) == (2, 2)


def test_heaps_of_eval_are_in_no_order_a_start_of_train() -> None:
    def starts(split: Split, seeds: int) -> set[tuple[int, ...]]:
        entropies = [episode_entropy("nim", 0, split, seed) for seed in range(seeds)]
        return {tuple(sorted(Nim().new(Streams(*entropy)).heaps)) for entropy in entropies}

    train, evaluated = starts("train", 3000), starts("eval", 1000)
    assert not train & evaluated
    assert len(evaluated) > 150


def test_every_size_of_game_has_starts_in_both_splits() -> None:
    for count, largest, misere, split in product(
        (None, 2, 3, 4, 5), (3, 4, 5, 9), (False, True), SPLITS
    ):
        if count == 3 and largest < 5 and not misere:
            with pytest.raises(ConfigError, match="give largest=5"):
                Nim(heaps=count, largest=largest)
            continue
        game = Nim(heaps=count, largest=largest, misere=misere)
        for seed in range(8):
            game.new(Streams(*episode_entropy("nim", 0, split, seed)))


def test_the_fallback_takes_one_from_the_first_heap_that_is_left() -> None:
    assert Nim().fallback(Heaps((0, 2, 5), 0), 0) == "2 1"


@pytest.mark.parametrize(
    "options",
    [{"heaps": 1}, {"heaps": 6}, {"largest": 2}, {"largest": 10}, {"misere": 1}, {"heaps": True}],
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="give"):
        Nim(**options)


@given(SMALL.filter(any), st.booleans(), st.integers(0, 99))
def test_the_exact_move_wins_where_a_win_exists(
    heaps: tuple[int, ...], misere: bool, seed: int
) -> None:
    index, taken = exact_move(list(heaps), misere=misere, rng=np.random.default_rng(seed))
    assert 1 <= taken <= heaps[index]
    after = tuple(n - taken * (i == index) for i, n in enumerate(heaps))
    if is_won(heaps, misere=misere):
        assert not forced_win(tuple(sorted(after)), misere)


@pytest.mark.parametrize("misere", [False, True])
def test_bots_stand_in_their_order(misere: bool) -> None:
    def margin(better: str, worse: str, pairs: int) -> float:
        env = srl_envs.make("nim-v0", misere=misere)
        total = 0.0
        for seed in range(pairs):
            for seat in (0, 1):
                players = {
                    seat: srl_envs.make_bot("nim-v0", better, seed=seed),
                    1 - seat: srl_envs.make_bot("nim-v0", worse, seed=100 + seed),
                }
                total += srl_envs.play(env, players, seed=seed).outcomes[seat]
        return total / (2 * pairs)

    assert margin("strong", "random", 20) > 0.9
    assert margin("strong", "middle", 20) > 0.7
    assert margin("middle", "random", 40) > 0.3
    assert margin("strong", "strong", 10) == 0.0  # the instance decides, and mirrors cancel


WORDS = st.sampled_from(
    ["heap", "1", "2", "3", "take", "from", "objects", ",", ":", "or", "not", "-", ".", "12"]
)


@given(st.lists(WORDS, max_size=7), st.sampled_from([" ", ""]))
def test_what_is_read_as_a_move_names_its_heap_or_is_two_bare_numbers(
    words: list[str], space: str
) -> None:
    body = space.join(words)
    try:
        heap, taken = Nim().parse(Heaps((9, 9, 9), 0), 0, body)
    except IllegalMoveError:
        return
    numbers = re.findall(r"[0-9]+", body)
    assert sorted(map(int, numbers)) == sorted([heap + 1, taken])
    assert not re.search(r"or|not|-|\.", body)
    if re.search(r"[a-z]", body):
        assert re.search(rf"heap[ :]*{heap + 1}(?![0-9])", body)
    else:
        assert numbers == [str(heap + 1), str(taken)]
