import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import SPLITS, Split, Streams, episode_entropy
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.cards.liars_dice import (
    NO_BID,
    Cups,
    LiarsDice,
    count_face,
    higher_bids,
)
from srl_envs.families.cards.liars_dice_bots import Cup, at_least, bid_chance, read_cup

GAMES = st.builds(LiarsDice, players=st.integers(2, 5), dice=st.integers(1, 5), wild=st.booleans())


def random_play(game: LiarsDice, seed: int) -> list[Cups]:
    rng = np.random.default_rng(seed)
    states = [game.new(Streams(seed))]
    while game.to_move(states[-1]):
        seat = states[-1].mover
        bid = game.parse(states[-1], seat, game.sample(states[-1], seat, rng))
        states.append(game.apply(states[-1], {seat: bid}))
    return states


def play(game: LiarsDice, rolls: list[str], words: str, first: int = 0) -> Cups:
    """Every round is rolled as ``rolls``."""
    rounds = game.seats * game.dice - 1
    state = Cups((tuple(rolls),) * rounds, (game.dice,) * game.seats, first)
    for word in words.split(", "):
        state = game.apply(state, {state.mover: game.parse(state, state.mover, word)})
    return state


def test_faces_are_counted_with_and_without_wild_sixes() -> None:
    assert count_face(["366", "63", "1"], 3, wild=False) == 2
    assert count_face(["366", "63", "1"], 3, wild=True) == 5
    assert count_face(["366", "63", "1"], 6, wild=True) == 3


@pytest.mark.parametrize(
    ("words", "loser"),
    [
        ("1 3, call", 1),  # true: the caller loses
        ("3 3, call", 0),  # two threes only: the bidder loses
        ("2 3, call", 1),  # exactly as many as bid is true
        ("1 2, 3 6, call", 1),  # two sixes only
        ("1 2, 1 5, 4 4, call", 2),
    ],
)
def test_the_one_who_was_wrong_loses_a_die_and_begins(words: str, loser: int) -> None:
    state = play(LiarsDice(), ["136", "236", "222"], words)
    assert state.dice == tuple(3 - (seat == loser) for seat in range(3))
    assert (state.mover, state.round, state.bid) == (loser, 1, NO_BID)


def test_a_wild_six_makes_a_bid_true() -> None:
    for wild, loser in ((False, 0), (True, 1)):
        state = play(LiarsDice(wild=wild), ["136", "236", "222"], "4 3, call")
        assert state.dice[loser] == 2


def test_who_is_out_is_passed_over_and_places_are_paid() -> None:
    game = LiarsDice(dice=1)
    state = play(game, ["1", "2", "3"], "3 3, call")  # player_0 lied and is out; player_1 is next
    assert (state.out, state.mover) == ((0,), 1)
    assert game.returns(state) is None
    state = play(game, ["1", "2", "3"], "3 3, call, 1 2, call")  # player_1 did not lie
    assert game.returns(state) == (-1.0, 1.0, 0.0)
    assert [game.components(state, s)["place"] for s in range(3)] == [3.0, 1.0, 2.0]


@given(st.integers(2, 5), st.data())
def test_payments_rank_as_the_dice_do_and_cancel_to_the_last_bit(
    players: int, data: st.DataObject
) -> None:
    game = LiarsDice(players=players)
    dice = data.draw(st.lists(st.integers(0, 3), min_size=players, max_size=players))
    out = data.draw(st.permutations([s for s, n in enumerate(dice) if not n]))
    state = Cups((), tuple(dice), 0, out=tuple(out), turns=game.max_turns)
    paid = game.returns(state)
    assert paid is not None
    key = [n or out.index(s) - 9 for s, n in enumerate(dice)]
    for a, b in product(range(players), repeat=2):
        assert (paid[a] > paid[b]) == (key[a] > key[b])
        assert abs(paid[a]) <= 1.0
    assert sum(paid) == 0.0
    for seat in range(players):
        forfeited = game.forfeit(state, seat)
        assert sum(forfeited) == 0.0
        assert forfeited[seat] == min(forfeited)
        assert forfeited.count(min(forfeited)) == 1


@given(GAMES, st.integers(0, 2**32))
def test_play_keeps_to_the_rules(game: LiarsDice, seed: int) -> None:
    states = random_play(game, seed)
    for state in states:
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        assert max(len(game.observe(state, s)) for s in range(game.seats)) <= (
            game.max_observation_chars
        )
        assert sum(state.dice) == game.seats * game.dice - state.round
        assert all((n == 0) == (s in state.out) for s, n in enumerate(state.dice))
    for state in states[:-1]:
        legal = game.legal(state, state.mover)
        assert 0 < len(legal) == len(set(legal)) <= 200
        assert state.dice[state.mover] > 0
        for body in legal:
            game.parse(state, state.mover, body)
        for count, face in product(range(1, sum(state.dice) + 2), range(1, 7)):
            body = f"{count} {face}"
            if body not in legal:
                with pytest.raises(IllegalMoveError):
                    game.parse(state, state.mover, body)
    over = states[-1]
    assert sum(n > 0 for n in over.dice) == 1 or over.turns == game.max_turns
    assert sum(game.returns(over) or (1.0,)) == 0.0


def test_the_longest_game_fits_the_observation() -> None:
    """Five seats with five dice who bid as often as they can and call on the last turns."""
    game = LiarsDice(players=5, dice=5)
    state = game.new(Streams(3))
    while game.to_move(state):
        late = state.turns >= game.max_turns - 20 or state.round < 20
        body = game.legal(state, state.mover)[0]
        if late and state.bid != NO_BID:
            body = "call"
        state = game.apply(state, {state.mover: game.parse(state, state.mover, body)})
    assert len(game.observe(state, 0)) <= game.max_observation_chars


@pytest.mark.slow
@given(GAMES, st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_seat_sees_no_die_of_another_before_the_call(
    game: LiarsDice, seed: int, other: int
) -> None:
    elsewhere = game.new(Streams(other)).rolls
    for state in random_play(game, seed):
        for seat in range(game.seats):
            rolls = [
                tuple(
                    mine if s == seat and number == state.round else theirs
                    for s, (mine, theirs) in enumerate(zip(*rows, strict=True))
                )
                for number, rows in enumerate(zip(state.rolls, elsewhere, strict=True))
            ]
            changed = state._replace(rolls=tuple(rolls))
            assert game.observe(changed, seat) == game.observe(state, seat)


def test_called_dice_are_shown_to_all() -> None:
    state = play(LiarsDice(), ["136", "236", "222"], "1 3, 2 5, call")
    line = (
        "Round 1: player_0: 1 3, player_1: 2 5, player_2 called. Dice: player_0: 1 3 6, "
        "player_1: 2 3 6, player_2: 2 2 2. player_1 lost a die.\n"
    )
    for seat in range(3):
        assert line in LiarsDice().observe(state, seat)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "no bid"),
        ("lie", "no bid"),
        ("2", "no bid"),
        ("2 7", "no bid"),
        ("0 3", "no bid"),
        ("99 3", "no bid"),
        ("25", "no bid"),
        ("call 2 5", "no bid"),
        ("2 3 or 2 5", "no bid"),
        ("fives fives", "no bid"),
        ("not 2 5", "no bid"),
        ("2.5", "no bid"),
        ("bid -2 5", "no bid"),
        ("２ ５", "no bid"),
        ("10 3", "only 9 dice"),
        ("2 3", "not higher than the last bid, 2 3"),
        ("1 6", "not higher"),
    ],
)
def test_bodies_that_are_no_bid_are_refused_with_the_reason(body: str, reason: str) -> None:
    game = LiarsDice()
    state = play(game, ["136", "236", "222"], "2 3")
    with pytest.raises(IllegalMoveError, match=reason):
        game.parse(state, state.mover, body)
    assert game.parse(state, state.mover, "CALL") is None


@pytest.mark.parametrize(
    "body",
    ["2 5", "2, 5", "2x5", "bid 2 5", "I bid: 2 5", "2 fives", "2 5s", "bid 2 dice of 5",
     "2 dice that show 5", "Count 2 face 5", "raise to 2 fives", "face 5, count 2",
     "face: 5; count: 2", "I'll bid 2 fives"],
)  # fmt: skip
def test_a_bid_may_be_made_in_words(body: str) -> None:
    game = LiarsDice()
    assert game.parse(play(game, ["136", "236", "222"], "2 3"), 1, body) == (2, 5)


@pytest.mark.parametrize("body", ["call", "Call", "I call", "call a lie", "call the bluff", "liar"])
def test_a_call_may_be_made_in_words(body: str) -> None:
    game = LiarsDice()
    assert game.parse(play(game, ["136", "236", "222"], "2 3"), 1, body) is None


def test_no_first_roll_of_eval_occurs_in_train() -> None:
    """The dice of each seat in any order; only one seat can hold the same in both."""

    def starts(split: Split, seeds: int) -> set[tuple[str, ...]]:
        entropies = [episode_entropy("liars_dice", 0, split, seed) for seed in range(seeds)]
        rolls = [LiarsDice(dice=2).new(Streams(*entropy)).rolls[0] for entropy in entropies]
        return {tuple("".join(sorted(cup)) for cup in roll) for roll in rolls}

    evaluated = starts("eval", 1000)
    assert not starts("train", 3000) & evaluated
    assert len(evaluated) > 500


def test_dice_of_both_splits_are_fair_to_a_seat_that_knows_its_own() -> None:
    """Holding out must not tell what the others have: every face is as likely as ever."""
    for split in SPLITS:
        entropies = [episode_entropy("liars_dice", 0, split, seed) for seed in range(3000)]
        rolls = [LiarsDice().new(Streams(*entropy)).rolls[0] for entropy in entropies]
        with_a_one = [others for own, *others in rolls if "1" in own]
        faces = "".join(cup for others in with_a_one for cup in others)
        assert all(abs(faces.count(str(f)) / len(faces) - 1 / 6) < 0.02 for f in range(1, 7))


def test_nothing_can_be_called_before_the_first_bid() -> None:
    game = LiarsDice()
    state = game.new(Streams(0))
    assert game.fallback(state, state.mover) == "1 1"
    with pytest.raises(IllegalMoveError, match="no bid to call yet"):
        game.parse(state, state.mover, "call")


@pytest.mark.parametrize(
    "options",
    [{"players": 1}, {"players": 6}, {"dice": 0}, {"dice": 6}, {"wild": 1}, {"dice": 2.0}],
)
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="give"):
        LiarsDice(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_every_view_and_bot_follows_the_number_of_players(players: int) -> None:
    env_id = "liars_dice-v0"
    env = srl_envs.make(env_id, players=players, dice=1)
    assert env.possible_agents == [f"player_{seat}" for seat in range(players)]
    assert len(srl_envs.make_aec(env_id, players=players).possible_agents) == players
    single = srl_envs.make_single(
        env_id, seat=players - 1, opponents={0: "strong"}, players=players
    )
    assert f"You are player_{players - 1}." in single.reset(seed=1)[0]["text"]
    for name in srl_envs.spec(env_id).bots:
        bots = {s: srl_envs.make_bot(env_id, name, seed=s) for s in range(players)}
        played = srl_envs.play(env, bots, seed=1)
        assert len(played.outcomes) == players
        assert sum(played.outcomes) == 0.0
        srl_envs.replay(played)


def test_chances_are_those_of_dice() -> None:
    assert at_least(1, 2, 1 / 6) == pytest.approx(11 / 36)
    assert at_least(0, 0, 1 / 6) == 1.0
    assert at_least(3, 2, 1 / 6) == 0.0
    cup = Cup((3, 3, 6), {"player_0": 3, "player_1": 2}, (("player_1", (1, 3)),), wild=False)
    assert bid_chance(cup, (3, 3), trust=0.0) == pytest.approx(11 / 36)
    # B has one such die with chance 1/6 + 1/2 * 5/6 = 7/12, the other with 1/6
    assert bid_chance(cup, (3, 3), trust=0.5) == pytest.approx(1 - 5 / 12 * 5 / 6)
    assert higher_bids((2, 5), 3) == ("2 6", "3 1", "3 2", "3 3", "3 4", "3 5", "3 6")


def test_a_bot_reads_what_is_told() -> None:
    game = LiarsDice(wild=True)
    state = play(game, ["136", "236", "222"], "1 3, 3 5, call, 1 2")
    cup = read_cup(game.observe(state, 2))
    left = {"player_0": 3, "player_1": 2, "player_2": 3}
    assert cup == Cup((2, 2, 2), left, (("player_1", (1, 2)),), wild=True)


def test_bots_stand_in_their_order() -> None:
    def margin(better: str, worse: str, games: int) -> float:
        env = srl_envs.make("liars_dice-v0")
        total = 0.0
        for seed in range(games):
            seeds = range(9 * seed, 9 * seed + 3)
            players = {i % 9: srl_envs.make_bot("liars_dice-v0", worse, seed=i) for i in seeds}
            players[seed % 3] = srl_envs.make_bot("liars_dice-v0", better, seed=seed)
            total += srl_envs.play(env, players, seed=seed).outcomes[seed % 3]
        return total / games

    assert margin("middle", "random", 20) > 0.7
    assert margin("strong", "random", 20) > 0.7
    assert margin("strong", "middle", 30) > 0.2
