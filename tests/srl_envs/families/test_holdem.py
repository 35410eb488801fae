"""Hold'em: betting, showdowns, duplicate deals, what each seat sees, and how bots fare."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import SPLITS, Streams, split_of_instance
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.cards.holdem import Deal, Holdem, Match, begun, named, showdown
from srl_envs.families.cards.holdem_bots import _bet, read, share_of_pot
from srl_envs.families.cards.poker_ranks import read_card

ENV = "holdem-v0"


def cards(text: str) -> tuple[int, ...]:
    return tuple(read_card(card) for card in text.split())


ACES = Deal((cards("Ah Ad"), cards("7c 2s")), cards("Kc 9d 4s 4h 3c"))
"""Seat 0 wins with two pair."""
START = begun(Match((ACES, ACES), 0, 0))
"""Seat 0 has the button."""


def played(*moves: str, **options: Any) -> tuple[Holdem, Match]:
    game = Holdem(**{"hands": 2, **options})
    state = START
    for move in moves:
        (seat,) = game.to_move(state)
        state = game.apply(state, {seat: game.parse(state, seat, move)})
    return game, state


# -- betting -----------------------------------------------------------------------------------


def test_the_button_begins_before_the_flop_and_the_other_after_it() -> None:
    game, state = played()
    assert (state.bets, state.mover) == ((1, 2), 0)
    game, state = played("call")
    assert (state.mover, game.fallback(state, 1)) == (1, "check")
    game, state = played("call", "check")
    assert (state.street, state.mover, state.pot) == (1, 1, (2, 2))


def test_two_checks_end_a_round_and_four_rounds_a_hand() -> None:
    game, state = played("call", "check", *["check"] * 6)
    assert (state.hand, state.net, state.button) == (1, 2, 0)
    assert state.mover == 1  # the button has moved
    assert game.returns(state) is None
    assert game.earned(state) == (2 / 80, -2 / 80)


def test_a_fold_gives_up_what_is_in() -> None:
    for moves, net in (
        (("fold",), -1),
        (("raise 6", "fold"), 2),
        (("raise 6", "raise 20", "fold"), -6),
    ):
        _, state = played(*moves)
        assert (state.hand, state.net) == (1, net)
    _, state = played("call", "check", "raise 4", "raise 10", "fold")
    assert state.net == 6


def test_a_raise_is_as_large_as_the_last_one_unless_it_is_all_in() -> None:
    game, state = played("raise 6")  # by 4
    assert game._raises(state) == (10, 40)
    game, state = played("raise 6", "raise 30")  # by 24: 54 would be due
    assert game._raises(state) == (40, 40)
    assert "Possible: fold, call (puts in 24), raise N (N is 40), all in." in game.observe(state, 0)
    game, state = played("call")
    assert game._raises(state) == (4, 40)
    game, state = played("call", "check")
    assert game._raises(state) == (2, 38)


def test_an_all_in_that_is_called_shows_all_cards() -> None:
    game, state = played("all in", "call")
    assert (state.hand, state.net) == (1, 40)
    assert "You: two pair, they: pair." in game.observe(state, 0)
    assert "Their cards: Ah Ad." in game.observe(state, 1)
    game, state = played("all in", "all in")  # no more than a call
    assert state.net == 40
    game, state = played("all in")
    assert game.legal(state, 1) == ["fold", "call"]


@pytest.mark.parametrize(
    ("body", "move"),
    [("Call", "call"), ("I call", "call"), ("raise to 6", "raise 6"), ("bet 6 chips", "raise 6"),
     ("my move: fold", "fold"), ("ALL-IN", "raise 40"), ("I'll raise 40", "raise 40")],
)  # fmt: skip
def test_moves_are_read_in_words(body: str, move: str) -> None:
    assert Holdem(hands=2).parse(START, 0, body) == move


@pytest.mark.parametrize(
    "body",
    ["", "check", "raise", "raise 3", "raise 41", "raise 04", "raise -4", "raise 4.0", "raise 4 5", "bluff",
     "call fold", "raise 99999999999", "raise ٤"],
)  # fmt: skip
def test_other_moves_are_refused_with_what_is_possible(body: str) -> None:
    with pytest.raises(IllegalMoveError, match=r"call \(puts in 1\), raise N \(N from 4 to 40\)"):
        Holdem(hands=2).parse(START, 0, body)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([4, 5, 10, 40, 200]))
def test_chips_are_neither_made_nor_lost_and_a_hand_ends(seed: int, stack: int) -> None:
    game, rng = Holdem(hands=3, stack=stack), np.random.default_rng(seed)
    state, moves = game.new(Streams(seed)), 0
    while game.to_move(state):
        (seat,) = game.to_move(state)
        body = game.sample(state, seat, rng)
        legal = game.legal(state, seat)
        assert legal is None or body in legal
        before = state.net
        state = game.apply(state, {seat: game.parse(state, seat, body)})
        moves += 1
        assert abs(state.net - before) <= stack
        assert all(0 <= state.pot[s] + state.bets[s] <= stack for s in (0, 1))
        assert len(game.observe(state, 0)) < game.max_observation_chars
    assert moves <= game.max_turns
    assert sum(game.returns(state) or (1.0,)) == 0.0


def test_the_longest_game_fits_its_text_and_its_turns() -> None:
    game = Holdem(hands=12, stack=200)
    state, moves = game.new(Streams(1)), 0
    while game.to_move(state):
        low, _ = game._raises(state) or (0, 0)
        move = f"raise {low}" if low else "call"
        state = game.apply(state, {state.mover: game.parse(state, state.mover, move)})
        moves += 1
    assert moves <= game.max_turns
    assert 10_000 < len(game.observe(state, 0)) < game.max_observation_chars


def test_equal_hands_share() -> None:
    assert showdown(Deal((cards("2c 3d"), cards("2h 3s")), cards("Ac Kc Qd Jh Th"))) == 0
    assert showdown(ACES) == 1
    assert showdown(ACES._replace(holes=(ACES.holes[1], ACES.holes[0]))) == -1


# -- deals -------------------------------------------------------------------------------------


def test_deals_are_duplicate_whatever_is_played() -> None:
    env: Any = srl_envs.make(ENV)
    deals = set()
    for first, second in (("random", "strong"), ("strong", "random"), ("caller", "caller")):
        bots = {0: srl_envs.make_bot(ENV, first, seed=1), 1: srl_envs.make_bot(ENV, second, seed=2)}
        srl_envs.play(env, bots, seed=5)
        state = env.game.decode(env.get_state()["state"])
        deals.add((state.deals, state.button))
    assert len(deals) == 1


def test_the_luck_of_the_cards_leaves_a_mirrored_pair() -> None:
    """Two callers get opposite outcomes in every pair, so the mean of a pair is 0."""
    env: Any = srl_envs.make(ENV)
    bots = {seat: srl_envs.make_bot(ENV, "caller", seed=seat) for seat in (0, 1)}
    outcomes = [srl_envs.play(env, bots, seed=seed).outcomes for seed in range(8)]
    assert any(outcomes[k][0] for k in range(8))
    assert all(first + second == 0 for first, second in outcomes)


def test_no_card_is_dealt_twice_and_hands_differ() -> None:
    game = Holdem(hands=12)
    state = game.new(Streams(4))
    for deal in state.deals:
        assert len({*deal.holes[0], *deal.holes[1], *deal.board}) == 9
    assert len(set(state.deals)) == 12


def test_a_first_deal_is_in_one_split_under_all_names_of_suits() -> None:
    for number, split in enumerate(SPLITS):
        for seed in range(12):
            deal = Holdem(hands=1).new(Streams(1, 0, number, seed)).deals[0]
            assert split_of_instance(named(deal)) == split
    first, second = (tuple(card ^ 1 for card in hole) for hole in ACES.holes)
    turned = Deal((second, first), tuple(card ^ 1 for card in reversed(ACES.board)))
    assert named(turned) == named(ACES)


# -- what each seat sees -----------------------------------------------------------------------


def test_a_seat_reads_its_own_cards_and_the_others_only_at_a_showdown() -> None:
    game, state = played("raise 6", "call")
    texts = [game.observe(state, seat) for seat in (0, 1)]
    assert "Your cards: Ah Ad. Table: Kc 9d 4s." in texts[0]
    assert "7c 2s" not in texts[0]
    assert "Ah Ad" not in texts[1]
    assert "Betting: they raise 6, you call; flop Kc 9d 4s.\nYour turn." in texts[1]
    game, state = played("raise 6", "fold")
    assert "Their cards: not shown. Your chips: +2." in game.observe(state, 0)
    assert "7c" not in game.observe(state, 0).partition("\nHand 1: ")[2].partition("\nHand 2")[0]


def test_examples_in_the_prompt_are_legal_at_the_start() -> None:
    game, state = played()
    examples = re.findall(r"<action>(.*?)</action>", game.observe(state, 0))
    assert [game.parse(state, 0, body) for body in examples] == ["call", "raise 6"]


def test_cards_that_lie_face_down_are_dealt_anew() -> None:
    game, state = played("call", "check")
    drawn = game.reshuffled(state, Draws(3))
    assert drawn.deals[0].board[:3] == ACES.board[:3]
    assert drawn.deals[0].holes == ACES.holes
    assert drawn.deals != state.deals
    assert len({*drawn.deals[0].board, *ACES.holes[0], *ACES.holes[1]}) == 9


def test_states_survive_json() -> None:
    game, state = played("raise 6", "call", "check")
    assert game.decode(json.loads(json.dumps(game.encode(state)))) == state


@pytest.mark.parametrize(
    "options", [{"hands": 0}, {"hands": 13}, {"stack": 3}, {"stack": 201}, {"stack": 9.0}]
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="holdem"):
        Holdem(**options)


# -- bots --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hole", "board", "share"),
    [
        ("Ah Ad", "", 0.852),
        ("7c 2d", "", 0.346),
        ("Ac Kc", "", 0.670),
        ("Qh Js", "Qd Qs Jh 2c 3c", 0.99),
    ],
)
def test_a_share_of_the_pot_agrees_with_the_table(hole: str, board: str, share: float) -> None:
    """Against a random hand: published tables, to three digits."""
    spot = read(Holdem(hands=2).observe(START, 0))._replace(hole=cards(hole), board=cards(board))
    found = share_of_pot(spot, np.random.default_rng(0), samples=3000)
    assert found == pytest.approx(share, abs=0.03)


def test_a_hand_that_bet_is_taken_for_a_stronger_one() -> None:
    spot = read(Holdem(hands=2).observe(START, 0))._replace(hole=cards("Jc 9d"))
    plain, strong = (share_of_pot(spot, np.random.default_rng(0), n, 1500) for n in (1, 3))
    assert strong < plain - 0.08


def test_bots_bet_within_what_is_possible() -> None:
    for moves in ((), ("call",), ("raise 6", "raise 30"), ("call", "check")):
        game, state = played(*moves)
        spot = read(game.observe(state, state.mover))
        assert spot.raises == game._raises(state)
        for share in (0.0, 0.5, 9.0):
            body = _bet(spot, share).removeprefix("<action>").removesuffix("</action>")
            assert game.parse(state, state.mover, body).startswith("raise")


def pairs(first: str, second: str, seeds: range) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Mean outcome of one bot in each mirrored pair."""
    env: Any = srl_envs.make(ENV)
    found = []
    for seed in seeds:
        a, b = (
            srl_envs.make_bot(ENV, name, seed=2 * seed + k)
            for k, name in enumerate((first, second))
        )
        there = srl_envs.play(env, {0: a, 1: b}, seed=seed).outcomes[0]
        a, b = (
            srl_envs.make_bot(ENV, name, seed=2 * seed + k)
            for k, name in enumerate((first, second))
        )
        found.append((there + srl_envs.play(env, {0: b, 1: a}, seed=seed).outcomes[1]) / 2)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("weaker", ["random", "caller"])
def test_the_strong_bot_beats_weaker_ones_over_duplicate_deals(weaker: str) -> None:
    earned = pairs("strong", weaker, range(60))
    assert earned.mean() > 2 * earned.std() / 60**0.5
