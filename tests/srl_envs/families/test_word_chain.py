import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import SPLITS, Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.words.word_chain import (
    GIVE_UP,
    Chain,
    Rules,
    WordChain,
    first_words,
    playable,
)
from srl_envs.families.words.word_chain_bots import read
from srl_envs.lexicon import common_words

RULES = Rules(link=2, letters=4, growth=5, turns=60, followers=5)
GAMES = st.fixed_dictionaries(
    {
        "link": st.integers(1, 3),
        "letters": st.integers(4, 6),
        "growth": st.sampled_from([0, 1, 3, 5]),
        "turns": st.integers(10, 30),
        "followers": st.sampled_from([1, 5, 20]),
    }
)


def playable_spelled_out(words: tuple[str, ...], rules: Rules) -> set[str]:
    """Every word of the list, every rule."""
    said = len(words) - 1

    def fits(word: str, before: str, number: int) -> bool:
        least = rules.letters + (number // rules.growth if rules.growth else 0)
        return len(word) >= least and word.startswith(before[-rules.link :])

    begun = [word for word in common_words() if fits(word, words[-1], said)]
    ends = {word[-rules.link :] for word in begun}
    live = {
        end
        for end in ends
        if sum(fits(word, end, said + 1) for word in common_words()) >= rules.followers
    }
    return {word for word in begun if word[-rules.link :] in live and word not in words}


@pytest.mark.slow
@given(GAMES, st.integers(0, 2**32))
def test_random_play_keeps_the_rules(options: dict[str, int], seed: int) -> None:
    game = WordChain(**options)
    rng = np.random.default_rng(seed)
    state = game.new(Streams(seed))
    for said in range(game.max_turns):
        word = game.sample(state, state.mover, rng)
        least = options["letters"] + (said // options["growth"] if options["growth"] else 0)
        assert word.startswith(state.words[-1][-options["link"] :])
        assert len(word) >= least
        assert word not in state.words
        seen = read(game.observe(state, state.mover))
        assert seen == (game.rules, state.words)
        before = state
        state = game.apply(state, {state.mover: game.parse(state, state.mover, word)})
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        if not game.to_move(state):
            break
        assert state.mover == 1 - before.mover
    assert game.to_move(state) == ()
    stuck = next(playable(state.words, game.rules), None) is None
    winner = 1 - state.mover
    expected = tuple(1.0 if seat == winner else -1.0 for seat in (0, 1)) if stuck else (0.0, 0.0)
    assert game.returns(state) == expected
    assert stuck or len(state.words) == game.max_turns + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("lemon",), ("struggled", "edition"), ("lemon", *["x"] * 22, "nature")]
)
@pytest.mark.parametrize("followers", [1, 5])
def test_playable_words_are_those_that_the_rules_name(
    words: tuple[str, ...], followers: int
) -> None:
    rules = RULES._replace(followers=followers)
    listed = list(playable(words, rules))
    assert set(listed) == playable_spelled_out(words, rules)
    assert len(set(listed)) == len(listed) > 0


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "not one word"),
        ("on ce", "not one word"),
        ("once!", "not one word"),
        ("onçe", "not one word"),
        ("ｏｎｃｅ", "not one word"),
        ("lemon", "does not begin with 'on'"),
        ("one", "has 3 letters; at least 4 are needed"),
        ("onion", "was said before"),
        ("onxyzzer", "is not in the list"),
        ("oncoming", "fewer than 5 common words of 4 or more letters begin with 'ng'"),
        ("x" * 40, "does not begin"),
    ],
)
def test_bodies_that_are_refused(body: str, problem: str) -> None:
    state = Chain(("onion", "lemon"), 0)
    with pytest.raises(IllegalMoveError, match=problem):
        WordChain().parse(state, 0, body)


@pytest.mark.parametrize("link", [1, 2, 3])
def test_what_begins_a_chain_is_in_one_split(link: int) -> None:
    rules = RULES._replace(link=link)
    train, held = ({word[-link:] for word in first_words(rules, split)} for split in SPLITS)
    assert train.isdisjoint(held)
    assert len(train) > len(held) >= 4
    for number, endings in enumerate((train, held)):
        starts = [WordChain(link=link).new(Streams(1, 0, number, seed)) for seed in range(40)]
        assert {start.words[0][-link:] for start in starts} <= endings


def test_a_word_is_read_in_any_dress() -> None:
    for body in ("word: once", "My word is ONCE", "once"):
        assert WordChain().parse(Chain(("lemon",), 0), 0, body) == "once"
    assert WordChain().parse(Chain(("sword",), 0), 0, "I give up") == GIVE_UP
    with pytest.raises(IllegalMoveError):
        WordChain().parse(Chain(("lemon",), 0), 0, "once or only")


def test_case_does_not_matter() -> None:
    assert WordChain().parse(Chain(("lemon",), 0), 0, "Once") == "once"
    assert WordChain().parse(Chain(("lemon",), 0), 0, "GIVE UP") == GIVE_UP


@pytest.mark.parametrize("seat", [0, 1])
def test_giving_up_loses(seat: int) -> None:
    game = WordChain()
    state = game.apply(
        Chain(("lemon",), seat), {seat: game.fallback(Chain(("lemon",), seat), seat)}
    )
    assert game.returns(state) == ((-1.0, 1.0) if seat == 0 else (1.0, -1.0))
    assert game.components(state, seat)["gave_up"] == 1
    assert game.components(state, 1 - seat)["gave_up"] == 0


def test_who_leaves_no_word_wins() -> None:
    game = WordChain(followers=1)
    rules = game.rules
    before = next(
        Chain((first, word), 0)
        for first in first_words(rules, "train")[:200]
        for word in playable((first,), rules)
        if next(playable((first, word), rules), None) is None
    )
    opening = Chain(before.words[:1], 1)
    state = game.apply(opening, {1: game.parse(opening, 1, before.words[1])})
    assert game.returns(state) == (-1.0, 1.0)
    assert game.components(state, 0)["gave_up"] == 0


def test_the_least_length_grows() -> None:
    assert [RULES.least(said) for said in (0, 4, 5, 9, 10, 59)] == [4, 4, 5, 5, 6, 15]
    assert RULES._replace(growth=0).least(59) == 4


def test_first_words_are_common_and_can_be_followed() -> None:
    for link in (1, 2, 3):
        words = first_words(RULES._replace(link=link), "train")
        assert len(words) > 500
        assert max(common_words()[word] for word in words) == 20


@pytest.mark.parametrize(
    "options",
    [{"link": 0}, {"link": 4}, {"letters": 3}, {"growth": -1}, {"turns": 9}, {"followers": 0},
     {"turns": True}, {"letters": 5.0}, {"link": "2"}],
)  # fmt: skip
def test_impossible_games_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        WordChain(**options)


def test_a_game_that_cannot_begin_is_refused() -> None:
    with pytest.raises(ConfigError, match="no word can begin"):
        WordChain(link=3, letters=8, growth=1, followers=50)


def test_the_longest_observation_fits() -> None:
    game = WordChain(turns=100, growth=0)
    words = sorted(common_words(), key=len)[-101:]
    assert len(game.observe(Chain(tuple(words), 0), 0)) < game.max_observation_chars - 500


@pytest.mark.slow
def test_bots_stand_in_their_order() -> None:
    def margin(better: str, worse: str, pairs: int) -> float:
        env = srl_envs.make("word_chain-v0")
        total = 0.0
        for seed in range(pairs):
            for seat in (0, 1):
                players = {
                    seat: srl_envs.make_bot("word_chain-v0", better, seed=seed),
                    1 - seat: srl_envs.make_bot("word_chain-v0", worse, seed=100 + seed),
                }
                total += srl_envs.play(env, players, seed=seed).outcomes[seat]
        return total / (2 * pairs)

    assert margin("random", "small_vocabulary", 10) > 0.8
    assert margin("strong", "random", 10) > 0.6
    assert margin("strong", "middle", 10) > 0.4
