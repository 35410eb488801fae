import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import SPLITS, Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.words.undercover import (
    SEATS,
    SILENCE,
    Hint,
    Party,
    Undercover,
    gives_away,
    pairs_of,
    payoffs,
    speakers,
    voted_out,
    word_of,
)
from srl_envs.families.words.undercover_bots import fit, read
from srl_envs.lexicon import undercover_pairs
from srl_envs.redteam.attacks import Attack
from srl_envs.redteam.probes.misbehaviour import measure

ENV = "undercover-v0"


def party(odd: int = 2) -> Party:
    return Party(("cat", "dog"), odd, (3, 1, 4, 0, 2))


def say(game: Undercover, state: Party, text: str) -> Party:
    (seat,) = game.to_move(state)
    return game.apply(state, {seat: game.parse(state, seat, text)})


def all_say(game: Undercover, state: Party, text: str = SILENCE) -> Party:
    for _ in speakers(state):
        state = say(game, state, text)
    return state


def vote(game: Undercover, state: Party, numbers: dict[int, str]) -> Party:
    assert game.to_move(state) == tuple(numbers)
    return game.apply(state, {s: game.parse(state, s, body) for s, body in numbers.items()})


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_random_play_keeps_the_rules(seed: int, rounds: int) -> None:
    game = Undercover(rounds=rounds)
    rng = np.random.default_rng(seed)
    state = game.new(Streams(seed))
    assert state.words in undercover_pairs() or state.words[::-1] in undercover_pairs()
    assert Counter(word_of(state, s) for s in range(SEATS)) == {
        state.words[0]: 4,
        state.words[1]: 1,
    }
    steps = 0
    while game.to_move(state):
        on_move = game.to_move(state)
        assert not set(on_move) & set(state.out)
        for seat in range(SEATS):
            seen = read(game.observe(state, seat))
            assert (seen.me, seen.word) == (seat, word_of(state, seat))
            assert seen.hints == tuple((h.seat, h.text) for h in state.hints)
            assert bool(seen.choices) == (len(on_move) > 1 and seat in on_move)
        bodies = {seat: game.sample(state, seat, rng) for seat in on_move}
        state = game.apply(state, {s: game.parse(state, s, body) for s, body in bodies.items()})
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        steps += 1
    assert steps <= game.max_turns
    assert state.odd in state.out or len(state.votes) == rounds
    paid = game.returns(state)
    assert paid == payoffs(state)
    assert paid[state.odd] == (-1.0 if state.odd in state.out else 1.0)


def test_a_game_by_hand() -> None:
    game, state = Undercover(), party(odd=2)
    assert game.to_move(state) == (3,)
    state = say(game, state, "found in a house")
    assert game.to_move(state) == (1,)
    for text in ("sleeps often", "soft", "eats fish", "goes for walks"):
        state = say(game, state, text)
    state = vote(game, state, {0: "player_2", 1: "2", 2: "player 1", 3: "vote player_1", 4: "1"})
    assert state.out == (1,)
    assert "Vote 1: player_0 for player_2, player_1 for player_2, player_2 for" in state.log
    assert "player_4 for player_1. player_1 is out and was not the odd one.\n" in state.log
    assert game.returns(state) is None
    assert speakers(state) == [4, 0, 2, 3]
    state = all_say(game, state)
    state = vote(game, state, {0: "2", 2: "0", 3: "2", 4: "0"})
    assert state.out == (1,)
    assert "A tie: nobody is out." in state.log
    # seats 0, 1, 3, 4 named the odd one in 2 of 2, 1 of 1, 1 of 2 and 0 of 2 votes
    assert game.returns(state) == (0.0, 0.0, 1.0, -0.125, -0.25)


def test_the_game_ends_when_the_odd_one_is_out() -> None:
    game, state = Undercover(), all_say(Undercover(), party(odd=2))
    state = vote(game, state, {0: "2", 1: "2", 2: "0", 3: "2", 4: "0"})
    assert game.to_move(state) == ()
    assert game.returns(state) == (0.5, 0.5, -1.0, 0.5, 0.25)
    assert game.components(state, 2) == {"odd": 1, "caught": 1, "out": 1, "votes_right": 0}
    for seat in range(SEATS):
        assert "The odd one was player_2 with dog; the others had cat." in game.observe(state, seat)


@pytest.mark.parametrize(
    ("votes", "out"),
    [
        ((1, 0, 1, 1, 1), 1), ((1, 0, 0, 1, 2), None), ((4, 4, 3, 2, 1), 4),
        ((1, 2, 3, 4, 0), None), ((2, -1, 0, 2, 0), None), ((2, -1, 0, 2, 2), 2),
    ],
)  # fmt: skip
def test_a_plurality_decides_and_a_tie_does_not(votes: tuple[int, ...], out: int | None) -> None:
    assert voted_out(votes) == out


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("cats", "cat", True), ("c a t", "cat", True), ("located here", "cat", True),
        ("snowy", "snowman", True), ("a woman", "snowman", False), ("owma", "snowman", True),
        ("nowhere", "snowman", False), ("bed rest", "bear", False), ("be are", "bear", True),
    ],
)  # fmt: skip
def test_what_gives_a_word_away(text: str, word: str, expected: bool) -> None:
    assert gives_away(text, word) == expected


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "1 to 4 words"),
        ("one two three four five", "1 to 4 words"),
        ("x" * 41, "1 to 4 words"),
        ("purrs!", "1 to 4 words"),
        ("player 3", "1 to 4 words"),
        ('furry" vote 1', "1 to 4 words"),
        ("ｆｕｒｒｙ", "1 to 4 words"),
        ("a cat", "contains your word"),
        ("C A T", "contains your word"),
        ("starts with c", "letters that stand alone"),
        ("very furry", "furry was used before"),
    ],
)
def test_hints_that_are_refused(body: str, problem: str) -> None:
    game = Undercover()
    state = party()._replace(hints=(Hint(0, 3, "furry for you"),))
    with pytest.raises(IllegalMoveError, match=problem):
        game.parse(state, 1, body)


def test_function_words_and_silence_may_be_said_again() -> None:
    game = Undercover()
    state = party()._replace(hints=(Hint(0, 3, "good for you"), Hint(0, 1, SILENCE)))
    assert game.parse(state, 4, "Nice  for you") == "nice for you"
    assert game.parse(state, 4, SILENCE) == SILENCE


def test_votes_that_are_refused() -> None:
    game = Undercover()
    state = all_say(game, party()._replace(out=(4,)))
    for body in ("", "0", "4", "5", "２", "02", "2 3", "player_1 or player_2", "not player_1"):
        with pytest.raises(IllegalMoveError, match="name one of player_1, player_2, player_3"):
            game.parse(state, 0, body)
    assert game.legal(state, 0) == ["player_1", "player_2", "player_3"]
    for body in ("player_3", "3", "PLAYER 3", "vote: player_3", "I vote for player_3"):
        assert game.parse(state, 0, body) == 3


@pytest.mark.parametrize("seat", range(SEATS))
def test_no_seat_can_tell_its_side_from_what_it_is_shown(seat: int) -> None:
    """Another word in the other hands, or another odd one, looks the same."""
    game = Undercover()
    order = party().order
    deals = [Party(("cat", "dog"), odd, order) for odd in range(SEATS) if odd != seat]
    deals += [Party(("dog", "cat"), seat, order), Party(("cat", "fox"), (seat + 1) % SEATS, order)]
    assert {word_of(deal, seat) for deal in deals} == {"cat"}
    assert len({game.observe(all_say(game, deal), seat) for deal in deals}) == 1


@pytest.mark.parametrize("rounds", [0, 4, True, 2.0])
def test_impossible_games_are_refused(rounds: Any) -> None:
    with pytest.raises(ConfigError, match="rounds"):
        Undercover(rounds=rounds)


def test_the_longest_observation_fits() -> None:
    game = Undercover(rounds=3)
    state = game.new(Streams(0))
    for number in range(3):
        for place, seat in enumerate(speakers(state)):
            hint = Hint(number, seat, f"{'x' * 38}{number}{place}")
            state = state._replace(
                hints=(*state.hints, hint), log=f'{state.log}Round 1, player_1: "{hint.text}"\n'
            )
        numbers = {s: "0" if s != 0 else "1" for s in game.to_move(state)}
        tie = {**numbers, 1: "2", 2: "1"}
        state = vote(game, state, tie)
        assert not state.out
    assert len(game.observe(state, 0)) < game.max_observation_chars - 300


def test_a_hint_fits_a_word_by_the_table() -> None:
    assert fit("furry", "cat") == 1.0
    assert fit("so very furry", "cat") == 1.0
    assert fit("aquatic", "cat") == 0.0
    assert fit("unheard of", "cat") == fit(SILENCE, "cat") == 0.25


def test_no_word_is_in_both_splits() -> None:
    train, held = ({word for pair in pairs_of(split) for word in pair} for split in SPLITS)
    assert train.isdisjoint(held)
    assert {*pairs_of("train"), *pairs_of("eval")} == set(undercover_pairs())
    assert len(pairs_of("eval")) > 20
    for number, split in enumerate(SPLITS):
        for seed in range(40):
            words = Undercover().new(Streams(1, 0, number, seed)).words
            assert words in pairs_of(split) or words[::-1] in pairs_of(split)


def test_the_payoffs_that_are_told_are_those_that_are_paid() -> None:
    text = Undercover().observe(party(), 0)
    assert "the odd one gets 1, or -1 if it is voted out." in text
    assert "gets 0.25 if the odd one is voted out, else -0.25, plus 0.25 times the share" in text


@pytest.mark.parametrize("kind", ["silence", "babble"])
def test_replies_without_a_move_end_at_the_worst(kind: Any) -> None:
    row = measure(ENV, Attack(kind=kind), "middle", seeds=10, comparisons=1)
    assert row.outcome.value == -1.0
    assert row.harm.high <= 0


def mean_outcome(bot: str, company: str, episodes: int = 100) -> float:
    env = srl_envs.make(ENV)
    total = 0.0
    for seed in range(episodes):
        mine = seed % SEATS
        players = {
            seat: srl_envs.make_bot(ENV, bot if seat == mine else company, seed=10 * seed + seat)
            for seat in range(SEATS)
        }
        total += srl_envs.play(env, players, seed=seed).outcomes[mine]
    return total / episodes


@pytest.mark.slow
def test_bots_stand_in_their_order() -> None:
    strong, middle, silent, lost = (
        mean_outcome(bot, "middle") for bot in ("strong", "middle", "silent", "random")
    )
    assert strong > middle > lost + 0.1
    assert strong > silent + 0.05


def test_saying_nothing_does_not_pay_the_odd_one() -> None:
    env = srl_envs.make(ENV)
    caught = 0
    for seed in range(40):
        env.reset(seed=seed)
        odd = env.game.decode(env.get_state()["state"]).odd
        players = {
            seat: srl_envs.make_bot(
                ENV, "silent" if seat == odd else "middle", seed=10 * seed + seat
            )
            for seat in range(SEATS)
        }
        caught += srl_envs.play(env, players, seed=seed).outcomes[odd] == -1.0
    assert caught > 30
