import json
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import SPLITS, Split, Streams, episode_entropy
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.cards.hanabi_mini import (
    HanabiMini,
    Show,
    narrowed,
    points_so_far,
    possible,
)
from srl_envs.families.cards.hanabi_mini_bots import read_table

ALL = "RYG1234"
GAMES = st.builds(
    HanabiMini,
    players=st.integers(2, 4),
    colours=st.integers(2, 3),
    hand=st.integers(2, 3),
    clues=st.integers(1, 8),
    lives=st.integers(1, 5),
)


def deal(game: HanabiMini, top: str) -> Show:
    """``top`` are the first cards; the rest follow in any order."""
    cards = top.split()
    rest = Counter(game._cards) - Counter(cards)
    return game.deal([*cards, *rest.elements()], 0)


def play(game: HanabiMini, state: Show, moves: str) -> Show:
    for body in moves.split(", "):
        state = game.apply(state, {state.mover: game.parse(state, state.mover, body)})
    return state


def random_play(game: HanabiMini, seed: int) -> list[Show]:
    rng = np.random.default_rng(seed)
    states = [game.new(Streams(seed))]
    while game.to_move(states[-1]):
        seat = states[-1].mover
        move = game.parse(states[-1], seat, game.sample(states[-1], seat, rng))
        states.append(game.apply(states[-1], {seat: move}))
    return states


def test_a_card_scores_where_it_is_the_next_of_its_colour_and_costs_a_life_where_not() -> None:
    game = HanabiMini()
    start = deal(game, "R1 R2 Y2 G3 R2 Y1 G1 G2 Y4")
    state = play(game, start, "play 1")
    assert (state.piles, state.lives, state.discards) == ((1, 0, 0), 3, ())
    assert state.hands[0] == ("R2", "Y2", "G3", "Y4")  # the others move down, the new one is last
    state = play(game, state, "play 4")  # green 2 on nothing
    assert (state.piles, state.lives, state.discards) == ((1, 0, 0), 2, ("G2",))
    state = play(game, state, "play 1, play 1")  # red 2, then red 2 again
    assert (state.piles, state.lives, state.discards) == ((2, 0, 0), 1, ("G2", "R2"))


def test_clues_cost_a_token_and_discards_and_fours_bring_one_back() -> None:
    game = HanabiMini()
    state = deal(game, "R1 R2 R3 R4 R1 Y1 G1 G2")
    state = play(game, state, "clue player_1 1, clue player_0 red")
    assert state.clues == 4
    assert play(game, state, "discard 1").clues == 5
    state = play(
        game, state, "play 1, clue player_0 2, play 1, clue player_0 3, play 1, clue player_0 4"
    )
    assert (state.piles[0], state.clues) == (3, 1)
    assert play(game, state, "play 1").clues == 2
    full = HanabiMini(clues=6)
    state = deal(full, "R1 R2 R3 R4 Y1 Y2 Y3 Y4")._replace(piles=(3, 0, 0))
    assert play(full, state, "play 4").clues == 6  # never more than at the start


def test_a_clue_tells_which_cards_are_and_which_are_not() -> None:
    assert narrowed(("R1", "Y1"), (ALL, ALL), "R") == ("R1234", "YG1234")
    assert narrowed(("R1", "Y2"), ("R1234", ALL), "2") == ("R134", "RYG2")
    assert possible("R134", 3) == "red, 1 or 3 or 4"
    assert possible(ALL, 3) == "any colour, any rank"
    assert possible("RY12", 2) == "any colour, 1 or 2"
    assert possible("R1234", 1) == "red, any rank"


@given(GAMES, st.integers(0, 2**32))
def test_play_keeps_to_the_rules(game: HanabiMini, seed: int) -> None:
    states = random_play(game, seed)
    assert len(states) - 1 <= game.max_turns
    for state in states:
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        piles = zip(game.colours, state.piles, strict=True)
        scored = [f"{colour}{rank}" for colour, top in piles for rank in range(1, top + 1)]
        held = [card for hand in state.hands for card in hand]
        assert Counter([*state.deck, *held, *scored, *state.discards]) == Counter(game._cards)
        assert 0 <= state.clues <= game.clues
        for hand, known in zip(state.hands, state.known, strict=True):
            assert all(set(card) <= set(marks) for card, marks in zip(hand, known, strict=True))
        for seat in range(game.seats):
            assert len(game.observe(state, seat)) <= game.max_observation_chars
    for state in states[:-1]:
        assert game.returns(state) is None
        legal = game.legal(state, state.mover)
        assert 0 < len(legal) == len(set(legal)) <= 200
        assert game.fallback(state, state.mover) in legal
        for body in game._bodies:
            allowed = {move.lower() for move in legal}
            if body not in allowed:
                with pytest.raises(IllegalMoveError):
                    game.parse(state, state.mover, body)
            else:
                game.parse(state, state.mover, body)
    over = states[-1]
    assert over.lives == 0 or over.left == 0 or sum(over.piles) == game.points
    value = sum(over.piles) / game.points / (1 if over.lives else 2)
    assert game.returns(over) == (value,) * game.seats


def test_after_the_last_card_everyone_moves_once_more() -> None:
    game = HanabiMini(colours=2, hand=5, clues=8)
    state = deal(game, "R2 R2 R3 R3 R4 Y2 Y2 Y3 Y3 Y4")
    while state.deck:
        state = play(
            game, state, "clue player_1 yellow" if state.mover == 0 and state.clues else "discard 1"
        )
    assert state.left == 2
    state = play(game, state, "clue player_1 red")
    assert (state.mover, state.left) == (1, 1)
    state = play(game, state, "discard 1")
    assert len(state.hands[1]) == 4  # nothing left to draw
    assert game.to_move(state) == ()
    assert game.returns(state) == (0.0, 0.0)


def test_the_last_life_ends_the_game_and_halves_the_points() -> None:
    game = HanabiMini(lives=2)
    state = deal(game, "R1 R3 R3 R4 Y2 Y4 Y2 G2")
    state = play(game, state, "play 1, play 1, play 1")
    assert game.returns(state) == (0.5 / 12, 0.5 / 12)
    assert game.components(state, 0) == {"points": 1.0, "lives": 0.0}


@given(GAMES, st.integers(0, 10_000))
def test_the_potential_is_the_share_of_points_that_a_seat_reads(
    game: HanabiMini, seed: int
) -> None:
    for state in random_play(game, seed)[:-1]:
        text = game.observe(state, state.mover)
        assert points_so_far(text, state.mover) == sum(state.piles) / game.points
    assert points_so_far("no table", 0) == 0


def test_all_points_end_the_game_at_once() -> None:
    game = HanabiMini(colours=1, hand=2)
    state = game.deal(["R1", "R2", "R3", "R4", "R1", "R1", "R2", "R3"], 0)
    state = play(game, state._replace(piles=(2,)), "clue player_1 4, clue player_0 1")
    state = play(game, state._replace(hands=(("R3", "R1"), state.hands[1])), "play 1, play 2")
    assert game.returns(state) == (1.0, 1.0)


@given(GAMES, st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_seat_sees_neither_its_own_cards_nor_the_deck(
    game: HanabiMini, seed: int, other: int
) -> None:
    elsewhere = game.new(Streams(other))
    for state in random_play(game, seed):
        for seat in range(game.seats):
            own = elsewhere.hands[0][: len(state.hands[seat])]
            hands = (*state.hands[:seat], own, *state.hands[seat + 1 :])
            changed = state._replace(hands=hands, deck=elsewhere.deck[: len(state.deck)])
            if len(changed.deck) == len(state.deck):
                assert game.observe(changed, seat) == game.observe(state, seat)


def test_a_seat_sees_the_others_and_what_they_know() -> None:
    game = HanabiMini(players=3)
    state = play(game, deal(game, "R1 R2 R3 R4 Y1 Y1 Y2 Y4 G1 G2 G3 G4"), "clue player_1 1")
    text = game.observe(state, 2)
    assert (
        "player_0's cards, and what player_0 knows of them:\n"
        "1: red 1 (known: any colour, any rank)\n" in text
    )
    assert "3: yellow 2 (known: any colour, 2 or 3 or 4)\n" in text
    assert "player_0: clue player_1 1 (cards 1, 2)\n" in text
    assert "green 1" not in text
    assert "Wait for player_1." in text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "no move"),
        ("play", "no move"),
        ("play 0", "no move"),
        ("play 5", "no move"),
        ("play １", "no move"),
        ("clue player_2 red", "no move"),
        ("clue 1 1 2", "no move"),
        ("clue red", "no move"),
        ("play 1 or 2", "no move"),
        ("play player_1", "no move"),
        ("clue player_1 blue", "no move"),
        ("clue player_1 5", "no move"),
        ("clue player_0 red", "to yourself"),
        ("clue player_1 green", "player_1 has no such card"),
        ("discard 1", "all 6 clue tokens are there"),
    ],
)
def test_bodies_that_are_no_move_are_refused_with_the_reason(body: str, reason: str) -> None:
    game = HanabiMini()
    state = deal(game, "R1 R2 R3 R4 Y1 Y1 Y2 Y4")
    with pytest.raises(IllegalMoveError, match=reason):
        game.parse(state, 0, body)
    with pytest.raises(IllegalMoveError, match="no clue token is left"):
        game.parse(state._replace(clues=0), 0, "clue player_1 1")
    with pytest.raises(IllegalMoveError, match="only 3 cards"):
        game.parse(state._replace(hands=(("R1", "R2", "R3"), state.hands[1])), 0, "play 4")


@pytest.mark.parametrize(
    ("body", "canonical"),
    [
        ("PLAY card 2", "play 2"),
        ("I play my card 2", "play 2"),
        ("play #2", "play 2"),
        ("discard card number 3", "discard 3"),
        ("CLUE player_1  Yellow", "clue player_1 yellow"),
        ("clue 1 yellow", "clue player_1 yellow"),
        ("clue 1 2", "clue player_1 2"),
        ("clue player 1: rank 2", "clue player_1 2"),
        ("tell player_1 about yellow", "clue player_1 yellow"),
        ("clue player_1 the colour yellow", "clue player_1 yellow"),
        ("give rank 2 to player_1", "clue player_1 2"),
    ],
)
def test_a_move_may_be_told_in_other_words(body: str, canonical: str) -> None:
    game = HanabiMini(clues=6)
    state = deal(game, "R1 R2 R3 R4 Y1 Y1 Y2 Y4")._replace(clues=5)
    assert game.parse(state, 0, body) == game.parse(state, 0, canonical)


def test_no_seat_reads_a_start_of_eval_in_train() -> None:
    env = srl_envs.make("hanabi_mini-v0")

    def views(split: Split, seeds: int) -> set[str]:
        found = set()
        for seed in range(seeds):
            observations, _ = env.reset(seed=seed, options={"split": split})
            for agent in env.possible_agents:  # without who is on move
                found.add(observations[agent]["text"].partition("Latest moves:")[0])
        return found

    assert not views("train", 1500) & views("eval", 500)


def test_every_size_of_game_has_deals_in_both_splits() -> None:
    for players, colours, hand, split in product((2, 3, 4), (1, 2, 3), (2, 3, 4, 5), SPLITS):
        if players * hand >= 8 * colours:
            continue
        game = HanabiMini(players=players, colours=colours, hand=hand)
        for seed in range(4):
            game.new(Streams(*episode_entropy("hanabi_mini", 0, split, seed)))


@pytest.mark.parametrize(
    "options",
    [
        {"players": 1},
        {"players": 5},
        {"colours": 4},
        {"hand": 1},
        {"clues": 0},
        {"lives": 6},
        {"lives": True},
        {"players": 4, "colours": 2},  # 16 cards for 4 hands of 4
    ],
)
def test_impossible_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="give"):
        HanabiMini(**options)


def test_a_bot_reads_what_is_told() -> None:
    game = HanabiMini()
    state = deal(game, "R1 R2 R3 R4 Y1 Y1 Y2 Y4")
    table = read_table(
        game.observe(play(game, state, "clue player_1 1, clue player_0 4, discard 1"), 1)
    )
    assert (table.me, table.lives, table.clues, table.most_clues) == ("player_1", 3, 5, 6)
    assert table.piles == {"R": 0, "Y": 0, "G": 0}
    assert table.gone == Counter({"R1": 1})
    assert table.others["player_0"].cards[:3] == ("R2", "R3", "R4")
    assert table.others["player_0"].known == ("RYG123", "RYG123", "RYG4", ALL)
    assert table.own == ("RYG1", "RYG1", "RYG234", "RYG234")
    assert table.clued("player_1") is None  # it has moved since
    assert read_table(game.observe(play(game, state, "clue player_1 1"), 1)).clued("player_1") == [
        0,
        1,
    ]


@pytest.mark.parametrize("players", [2, 3, 4])
def test_bots_of_every_size_of_team_stand_in_their_order(players: int) -> None:
    def mean(name: str, games: int) -> float:
        env = srl_envs.make("hanabi_mini-v0", players=players)
        total = 0.0
        for seed in range(games):
            bots = {
                seat: srl_envs.make_bot("hanabi_mini-v0", name, seed=9 * seed + seat)
                for seat in range(players)
            }
            total += srl_envs.play(env, bots, seed=seed).outcomes[0]
        return total / games

    assert mean("random", 20) < 0.2
    assert mean("middle", 10) > 0.4
    assert mean("strong", 20) > (0.8 if players == 2 else 0.6)


def test_a_partner_with_another_convention_is_worse_than_ones_own() -> None:
    env = srl_envs.make("hanabi_mini-v0")

    def mean(*names: str) -> float:
        total = 0.0
        for seed in range(15):
            bots = {i: srl_envs.make_bot("hanabi_mini-v0", name) for i, name in enumerate(names)}
            total += srl_envs.play(env, bots, seed=seed).outcomes[0]
        return total / 15

    assert mean("strong", "held_out") < mean("strong", "strong") - 0.1
