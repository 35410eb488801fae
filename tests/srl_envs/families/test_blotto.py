import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.dilemmas.blotto import (
    Blotto,
    Campaign,
    Spread,
    balance,
    even_spread,
    random_spread,
    values_key,
)
from srl_envs.families.dilemmas.blotto_bots import (
    best_answer,
    fictitious_play,
    read_view,
    strong_chances,
)
from srl_envs.turns.grammar import action

ENV = "blotto-v0"
SIZES = st.tuples(st.integers(5, 50), st.integers(3, 7))


def outcome(better: str | Callable[[str], str], other: str, seeds: int) -> float:
    """Mean outcome of ``better`` (a bot's name or a policy) in alternating seats."""
    env = srl_envs.make(ENV)
    total = 0.0
    for seed in range(seeds):
        seat = seed % 2
        mine = srl_envs.make_bot(ENV, better, seed=seed) if isinstance(better, str) else better
        bots: dict[int, Callable[[str], str]] = {
            seat: mine,
            1 - seat: srl_envs.make_bot(ENV, other, seed=1000 + seed),
        }
        total += srl_envs.play(env, bots, seed=seed).outcomes[seat]
    return total / seeds


def test_a_round_by_hand() -> None:
    # wins 3, ties 1, wins 2, loses 5, loses 4
    assert balance((3, 1, 2, 5, 4), (6, 4, 5, 5, 0), (5, 4, 1, 6, 4)) == 3 + 2 - 5 - 4


def test_the_outcome_is_the_mean_share_of_all_value() -> None:
    game = Blotto(rounds=2)
    state = Campaign((1, 2, 3, 4, 5))
    state = game.apply(state, {0: (0, 0, 0, 10, 10), 1: (4, 4, 4, 4, 4)})
    assert game.returns(state) is None
    assert game.earned(state) == (3 / 30, -3 / 30)
    state = game.apply(state, {0: (0, 0, 0, 0, 20), 1: (5, 5, 5, 5, 0)})
    assert game.returns(state) == ((3 - 5) / 30, 2 / 30)
    assert game.components(state, 0) == {"fields_won": 3 / 10, "largest": 30 / 40}
    assert game.to_move(state) == ()


@given(SIZES, st.integers(0, 2**32))
def test_spreads_are_legal_and_both_seats_see_one_game(sizes: tuple[int, int], seed: int) -> None:
    soldiers, fields = sizes
    game = Blotto(soldiers=soldiers, fields=fields, rounds=5)
    rng = np.random.default_rng(seed)
    state = game.new(Streams(seed))
    assert len(state.values) == fields
    assert all(1 <= value <= 9 for value in state.values)
    while game.to_move(state):
        state = game.apply(
            state, {s: game.parse(state, s, game.sample(state, s, rng)) for s in (0, 1)}
        )
        texts = [game.observe(state, seat) for seat in (0, 1)]
        views = [read_view(text) for text in texts]
        assert max(map(len, texts)) <= game.max_observation_chars - 250  # and an error text
        assert views[0].theirs == tuple(second for _, second in state.rounds)
        assert views[1].theirs == tuple(first for first, _ in state.rounds)
        assert views[0].values == state.values
    first, second = game.returns(state) or (9, 9)
    assert first == -second
    assert abs(first) <= 1
    assert game.decode(json.loads(json.dumps(game.encode(state)))) == state


def test_every_spread_is_as_likely_as_any_other() -> None:
    rng = np.random.default_rng(0)
    counts = {s: 0 for s in itertools.product(range(4), repeat=3) if sum(s) == 3}
    for _ in range(4000):
        counts[random_spread(rng, 3, 3)] += 1
    assert len(counts) == 10
    assert all(320 < n < 480 for n in counts.values())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "0 numbers; write 5"),
        ("20", "1 numbers"),
        ("4 4 4 4", "4 numbers"),
        ("4 4 4 4 4 0", "6 numbers"),
        ("4 4 4 4 5", "sum to 21"),
        ("4 4 4 4 3", "sum to 19"),
        ("-1 6 5 5 5", "whole number"),
        ("4.0 4 4 4 4", "whole number"),
        ("４ 4 4 4 4", "whole number"),
        ("04 4 4 4 4", "whole number"),
        ("a b c d e", "whole number"),
        ("9" * 60 + " 1 1 1 1", "whole number"),
    ],
)
def test_bodies_that_are_no_spread(body: str, problem: str) -> None:
    game = Blotto()
    with pytest.raises(IllegalMoveError, match=problem):
        game.parse(game.new(Streams(0)), 0, body)


def test_clear_spreads_are_taken() -> None:
    game = Blotto()
    for body in ("20, 0,0 ,0\n0", "20/0/0/0/0", "send 20 0 0 0 0 soldiers",
                 "Field 1: 20, Field 2: 0, field 3: 0, field 4: 0, field 5: 0"):  # fmt: skip
        assert game.parse(game.new(Streams(0)), 0, body) == (20, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "options",
    [{"soldiers": 4}, {"soldiers": 51}, {"fields": 2}, {"fields": 8}, {"rounds": 0},
     {"rounds": 6}, {"rounds": True}, {"fields": 5.0}, {"values": [1, 2, 3]},
     {"values": [0, 1, 2, 3, 4]}, {"values": [1, 2, 3, 4, 10]}, {"values": "12345"}],
)  # fmt: skip
def test_impossible_sizes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Blotto(**options)


def test_values_are_drawn_or_those_given_are_shuffled() -> None:
    first = [Blotto().new(Streams(1, seed)).values[0] for seed in range(900)]
    assert all(60 < first.count(value) < 140 for value in range(1, 10))
    game = Blotto(values=[1, 2, 3, 4, 5])
    starts = [game.new(Streams(1, seed)).values for seed in range(500)]
    assert all(sorted(values) == [1, 2, 3, 4, 5] for values in starts)
    assert all(60 < [v[0] for v in starts].count(value) < 140 for value in range(1, 6))


@given(st.lists(st.integers(1, 9), min_size=3, max_size=7), st.integers(2, 4), st.randoms())
def test_order_and_scale_make_no_other_values(values: list[int], scale: int, rng: Random) -> None:
    other = [scale * value for value in values]
    rng.shuffle(other)
    assert values_key(other) == values_key(values)
    assert values_key([*values, 1]) != values_key([*values, 10])


def test_the_even_spread_by_hand() -> None:
    assert even_spread(20, 5) == (4, 4, 4, 4, 4)
    assert even_spread(22, 5) == (5, 5, 4, 4, 4)


@given(st.permutations([1, 2, 3]), st.integers(0, 2**32))
def test_the_best_answer_is_the_best_of_all(values: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    expected: dict[Spread, float] = {
        random_spread(rng, 6, 3): float(rng.integers(1, 5)) for _ in range(4)
    }

    def worth(spread: Spread) -> float:
        return sum(w * balance(values, spread, other) for other, w in expected.items())

    every = [s for s in itertools.product(range(7), repeat=3) if sum(s) == 6]
    answer = best_answer(tuple(values), 6, expected)
    assert sum(answer) == 6
    assert worth(answer) == max(map(worth, every))


def test_nobody_gains_much_against_the_near_equilibrium() -> None:
    for values in ((1, 2, 3, 4, 5), (1, 1, 1, 1, 1), (2, 5, 5, 7, 9)):
        mixture = fictitious_play(values, 20)
        answer = best_answer(values, 20, {key: float(n) for key, n in mixture.items()})
        gain = sum(n * balance(values, answer, s) for s, n in mixture.items())
        assert gain / sum(mixture.values()) / sum(values) < 0.1


@pytest.mark.slow
def test_strong_beats_the_others_and_learns_from_what_it_saw() -> None:
    assert outcome("strong", "random", 60) > 0.1
    assert outcome("middle", "random", 60) > 0.12
    assert outcome("strong", "even", 60) > 0.05
    assert outcome("strong", "middle", 60) > 0


@pytest.mark.slow
def test_who_knows_the_chances_of_strong_gains_little() -> None:
    def best(text: str) -> str:
        view, rng = read_view(text), np.random.default_rng(0)
        sent = tuple(tuple(map(int, s.split())) for s in re.findall(r"you sent ([\d ]+);", text))
        mixture, weights = strong_chances(replace(view, theirs=sent), rng)
        expected = dict(zip(mixture, weights.tolist(), strict=True))
        return action(" ".join(map(str, best_answer(view.values, view.soldiers, expected))))

    assert outcome(best, "strong", 60) < 0.1  # 0.3 where it answered guesses without drawing


@pytest.mark.slow
def test_no_fixed_habit_beats_strong() -> None:
    def copy(text: str) -> str:
        theirs = read_view(text).theirs
        return action(" ".join(map(str, theirs[-1] if theirs else even_spread(20, 5))))

    def one_field(text: str) -> str:
        values = read_view(text).values
        best = values.index(max(values))
        return action(" ".join("20" if field == best else "0" for field in range(5)))

    def top_two(text: str) -> str:
        values = read_view(text).values
        best = sorted(range(5), key=lambda field: values[field])[-2:]
        return action(" ".join("10" if field in best else "0" for field in range(5)))

    def last_answer(text: str) -> str:
        view = read_view(text)
        seen = dict.fromkeys(view.theirs, 1.0) or {even_spread(20, 5): 1.0}
        return action(" ".join(map(str, best_answer(view.values, 20, seen))))

    for habit in (copy, one_field, top_two, last_answer):
        assert outcome(habit, "strong", 40) < 0.05, habit.__name__
