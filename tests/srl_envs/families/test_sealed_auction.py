import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams, split_of_instance
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.bargaining.sealed_auction import RESERVES, Sale, SealedAuction, settle
from srl_envs.families.bargaining.sealed_auction_bots import View, best_bid, prospect, read_view
from srl_envs.turns.grammar import action

ENV = "sealed_auction-v1"
PRIVATE = Sale(
    True, False, ((12, 3), (20, 0), (7, 9), (1, 9)), (), ((3, 2, 1, 0), (0, 1, 2, 3)), (12, 12),
    (30,) * 4,
)  # fmt: skip
SHARED = PRIVATE._replace(shared=True, truths=(10, 4))


def bid(game: SealedAuction, state: Sale, *bids: int) -> Sale:
    return game.apply(state, dict(enumerate(bids)))


def outcome(one: str | Callable[[str], str], others: str, seeds: int, **options: Any) -> float:
    """Mean outcome of ``one`` (a bot's name or a policy) among three ``others``, seats going round."""
    env = srl_envs.make(ENV, **options)
    total = 0.0
    for seed in range(seeds):
        bots: dict[int, Callable[[str], str]] = {
            seat: srl_envs.make_bot(ENV, others, seed=4 * seed + seat) for seat in range(4)
        }
        mine = srl_envs.make_bot(ENV, one, seed=4 * seed) if isinstance(one, str) else one
        bots[seed % 4] = mine
        total += srl_envs.play(env, bots, seed=seed).outcomes[seed % 4]
    return total / seeds


@pytest.mark.parametrize(
    ("bids", "reserve", "first", "second"),
    [
        ((12, 19, 15, 0), 12, (1, 19), (1, 15)),
        ((12, 19, 15, 0), 18, (1, 19), (1, 18)),
        ((12, 17, 15, 0), 18, (-1, 0), (-1, 0)),
        ((13, 0, 0, 0), 13, (0, 13), (0, 13)),
        ((0, 0, 0, 0), 12, (-1, 0), (-1, 0)),
        ((17, 17, 12, 11), 14, (1, 17), (1, 17)),
        ((14, 14, 14, 14), 14, (3, 14), (3, 14)),
    ],
)
def test_who_gets_it_and_for_how_much(
    bids: tuple[int, ...], reserve: int, first: tuple[int, int], second: tuple[int, int]
) -> None:
    assert settle(bids, (3, 2, 1, 0), True, reserve) == first
    assert settle(bids, (3, 2, 1, 0), False, reserve) == second


def test_a_sale_by_hand() -> None:
    game = SealedAuction(items=2)
    state = bid(game, PRIVATE, 10, 14, 9, 0)
    assert (state.gains, state.money) == ((0, 6, 0, 0), (30, 16, 30, 30))
    state = bid(game, state, 0, 0, 10, 11)  # the seller keeps it
    assert game.returns(state) == (0.0, 6 / 30, 0.0, 0.0)
    assert "player_3 11; nobody gets it.\n" in state.log
    state = bid(game, bid(game, PRIVATE, 10, 14, 9, 0), 0, 0, 10, 13)
    assert game.returns(state) == (0.0, 6 / 30, 0.0, -4 / 30)
    assert game.components(state, 3) == {
        "won": 0.5, "overbid": 0.5, "spent": pytest.approx(13 / 30), "distance": 2.5,
    }  # fmt: skip


def test_the_second_price_and_the_shared_value_by_hand() -> None:
    game = SealedAuction(items=2)
    state = bid(game, SHARED._replace(first_price=False), 12, 13, 9, 0)
    assert (state.gains, state.money) == ((0, 10 - 12, 0, 0), (30, 18, 30, 30))
    assert "player_1 gets it for 12; it was worth 10." in game.observe(state, 0)
    assert read_view(game.observe(state, 1)).gaps == (10 - 12,)


@given(st.integers(0, 2**32), st.integers(2, 10), st.integers(20, 60))
def test_play_keeps_the_rules(seed: int, items: int, purse: int) -> None:
    game = SealedAuction(items=items, purse=purse)
    rng = np.random.default_rng(seed)
    state = game.new(Streams(seed))
    while game.to_move(state):
        for seat in range(4):
            text = game.observe(state, seat)
            view = read_view(text)
            assert len(text) < game.max_observation_chars - 300  # and an error text
            assert (view.seat, view.money) == (seat, state.money[seat])
            assert (view.first_price, view.shared) == (state.first_price, state.shared)
            assert view.value == state.values[seat][len(state.bids)]
            assert len(view.rivals) == len(state.bids)
            legal = game.legal(state, seat)
            assert legal == tuple(map(str, range(state.money[seat] + 1)))
            assert all(game.parse(state, seat, body) == int(body) for body in legal)
        bodies = [game.sample(state, seat, rng) for seat in range(4)]
        state = game.apply(state, {s: game.parse(state, s, body) for s, body in enumerate(bodies)})
        assert min(state.money) >= 0
        assert all(-1 <= paid <= 1 for paid in game.earned(state))
    assert game.decode(json.loads(json.dumps(game.encode(state)))) == state


@given(st.integers(0, 2**32), st.integers(0, 5))
def test_a_seat_sees_no_value_but_its_own_and_no_truth_too_soon(seed: int, sold: int) -> None:
    game = SealedAuction()
    start = game.new(Streams(seed))
    for seat in range(4):
        other = start._replace(
            values=tuple(v if s == seat else (99,) * 6 for s, v in enumerate(start.values)),
            truths=start.truths and (*start.truths[:sold], *[99] * (6 - sold)),
            lots=(*start.lots[:sold], *[(0, 1, 2, 3)] * (6 - sold)),
            reserves=(*start.reserves[:sold], *[99] * (6 - sold)),
        )
        known, altered = start, other
        for _ in range(sold):
            known, altered = (bid(game, state, 1, 2, 13, 13) for state in (known, altered))
        assert game.observe(known, seat) == game.observe(altered, seat)


@pytest.mark.parametrize(
    "body",
    ["", "31", "-1", "9.5", "nine", "\uff19", "09", "9 or 10", "bid 2 12", "9" * 16],
)
def test_bodies_that_are_no_bid(body: str) -> None:
    with pytest.raises(IllegalMoveError, match="0, or 1 to 30, as you have 30 coins"):
        SealedAuction(items=2).parse(PRIVATE, 0, body)


@pytest.mark.parametrize("body", ["12", "bid 12", "I bid 12 coins", "My bid is 12", "BID: 12"])
def test_a_clear_bid_is_read_in_any_dress(body: str) -> None:
    assert SealedAuction(items=2).parse(PRIVATE, 0, body) == 12


def test_no_seat_reads_the_values_of_the_other_split() -> None:
    for game in (SealedAuction(), SealedAuction(items=2)):
        for number, split in enumerate(("train", "eval")):
            for seed in range(30):
                sale = game.new(Streams(1, 0, number, seed))
                assert {split_of_instance(sorted(values)) for values in sale.values} == {split}


def test_nobody_can_bid_what_is_spent() -> None:
    game = SealedAuction(items=2)
    state = bid(game, PRIVATE, 10, 14, 9, 0)
    assert game.parse(state, 1, "16") == 16
    with pytest.raises(IllegalMoveError, match="0, or 1 to 16"):
        game.parse(state, 1, "17")
    for money, said in ((1, "0 or 1,"), (0, "whole number: 0,")):
        poor = state._replace(money=(30, money, 30, 30))
        assert game.legal(poor, 1) == (("0", "1") if money else ("0",))
        with pytest.raises(IllegalMoveError, match=said):
            game.parse(poor, 1, "10")


def test_rules_are_drawn_evenly_or_as_asked() -> None:
    drawn = [SealedAuction().new(Streams(1, seed)) for seed in range(400)]
    kinds = [(sale.first_price, sale.shared) for sale in drawn]
    assert all(60 < kinds.count((a, b)) < 140 for a in (True, False) for b in (True, False))
    asked = SealedAuction(price="second", values="shared")
    assert not any(asked.new(Streams(1, seed)).first_price for seed in range(20))
    assert all(asked.new(Streams(1, seed)).shared for seed in range(20))


def test_estimates_surround_the_truth_and_lots_are_fair() -> None:
    sales = [SealedAuction(values="shared").new(Streams(1, seed)) for seed in range(300)]
    errors = np.array([np.array(sale.values) - np.array(sale.truths) for sale in sales])
    assert (errors.min(), errors.max()) == (-6, 6)
    assert abs(errors.mean()) < 0.15
    drawn = [reserve for sale in sales for reserve in sale.reserves]
    assert all(190 < drawn.count(reserve) < 330 for reserve in range(12, 19))
    assert {*drawn} == {*RESERVES}
    firsts = [lot[0] for sale in sales for lot in sale.lots]
    assert all(380 < firsts.count(seat) < 520 for seat in range(4))


@pytest.mark.parametrize(
    "options",
    [{"price": "third"}, {"values": "common"}, {"items": 1}, {"items": 11}, {"purse": 19},
     {"purse": 61}, {"purse": 30.0}, {"items": True}],
)  # fmt: skip
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        SealedAuction(**options)


def test_a_forfeit_leaves_the_others_their_gains() -> None:
    game = SealedAuction(items=2)
    state = bid(game, PRIVATE, 10, 14, 9, 0)
    assert game.forfeit(state, 0) == (-1.0, 6 / 30, 0.0, 0.0)


def test_fresh_chances_draw_what_is_not_yet_sold() -> None:
    game = SealedAuction()
    state = bid(game, game.new(Streams(1)), 14, 0, 0, 0)
    anew = [game.reshuffled(state, Draws(seed)) for seed in range(9)]
    assert {(sale.lots[0], sale.reserves[0]) for sale in anew} == {
        (state.lots[0], state.reserves[0])
    }
    assert len({sale.reserves for sale in anew}) > 5


def view(value: int, *, first_price: bool, shared: bool = False, money: int = 30) -> View:
    return View(0, first_price, shared, value, money, (), (), ())


@pytest.mark.parametrize("value", range(13, 21))
def test_the_best_bid_for_the_second_price_is_the_value(value: int) -> None:
    """A private value; the last item, so that no coin has another use. With 13 a tie costs nothing."""
    assert best_bid(view(value, first_price=False), ()) in (value - 1, value)
    assert best_bid(view(12, first_price=False), ()) == 0


def test_the_best_bid_for_the_first_price_is_less_than_the_value() -> None:
    bids = [best_bid(view(value, first_price=True), ()) for value in range(21)]
    assert bids == sorted(bids)
    assert bids[:13] == [0] * 13
    assert all(12 <= made < value for value, made in enumerate(bids) if made)
    assert bids[20] in (16, 17, 18)


def test_coins_are_kept_for_what_is_worth_more() -> None:
    """The purse buys one item; the next one is worth 20."""
    assert best_bid(view(15, first_price=False, money=18), (3,)) in (14, 15)
    assert best_bid(view(15, first_price=False, money=18), (20,)) < 14
    assert best_bid(view(15, first_price=False, money=60), (20,)) in (14, 15)


def test_winning_is_bad_news_about_a_shared_value() -> None:
    """A bid of 14 gains where 14 is what the item is worth to us, and loses where that is an estimate."""
    shared, private = (
        prospect(False, kind, 14).gains[3] for kind in (True, False)
    )  # 0, 12, 13, 14
    assert private > 0 > shared
    assert best_bid(view(14, first_price=False, shared=True), ()) == 0
    assert 12 <= best_bid(view(18, first_price=False, shared=True), ()) < 18


def test_who_earns_what() -> None:
    assert outcome("random", "random", 60) < -0.05
    assert outcome("strong", "random", 60) > 0.02
    assert outcome("strong", "middle", 60) > outcome("random", "middle", 60) + 0.15
    assert outcome("truthful", "truthful", 60, price="first", values="shared") < -0.04


@pytest.mark.parametrize(
    "habit",
    [
        lambda _: action(0),
        lambda text: action(read_view(text).money),
        lambda _: "I bid everything.",
        lambda text: action(12 if read_view(text).money >= 12 else 0),
    ],
    ids=["nothing", "everything", "babble", "the least bid"],
)
def test_thoughtless_habits_earn_less_than_bidding(habit: Callable[[str], str]) -> None:
    assert outcome(habit, "middle", 60) < outcome("strong", "middle", 60) - 0.02


def threshold(coins: int, least: int) -> Callable[[View], int]:
    return lambda seen: coins if seen.value >= least else 0


def share(part: float, more: int) -> Callable[[View], int]:
    return lambda seen: round(part * seen.value) + more


RINGS = {
    "9 from 9": threshold(9, 9), "12 from 14": threshold(12, 14), "14 from 16": threshold(14, 16),
    "16 from 17": threshold(16, 17), "half": share(0.5, 4), "three quarters": share(0.75, 0),
    "less 2": share(1.0, -2),
}  # fmt: skip
"""What four seats agree on without a word: name -> bid."""


@pytest.mark.parametrize("name", RINGS)
def test_no_ring_earns_clearly_more_than_strong_bots(name: str) -> None:
    """With the least bid of the first version, four seats that bid it earned 0.1 more each."""
    env, ring = srl_envs.make(ENV), RINGS[name]

    def together(make: Callable[[int], Callable[[str], str]]) -> float:
        seeds = range(60)
        played = (srl_envs.play(env, {n: make(n) for n in range(4)}, seed=s) for s in seeds)
        return float(np.mean([episode.outcomes for episode in played]))

    def member(text: str) -> str:
        seen = read_view(text)
        return action(max(0, min(ring(seen), seen.money)))

    strong = together(lambda n: srl_envs.make_bot(ENV, "strong", seed=n))
    assert together(lambda _: member) < strong + 0.02
