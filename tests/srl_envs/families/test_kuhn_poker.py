import json
from collections.abc import Callable
from functools import partial
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.cards.kuhn_poker import DECKS, KuhnPoker, Table, described, showdown
from srl_envs.families.cards.kuhn_poker_bots import (
    Past,
    Spot,
    _patient,
    equilibrium,
    honest,
    leduc,
    read_past,
    read_spot,
)

Odds = Callable[[str], tuple[float, float]]


def play(game: KuhnPoker, deals: tuple[str, ...], words: str, first: int = 0) -> Table:
    state = Table(deals, first, first)
    for word in words.split():
        seat = state.mover
        state = game.apply(state, {seat: game.parse(state, seat, word)})
    return state


def random_play(game: KuhnPoker, seed: int) -> list[Table]:
    rng = np.random.default_rng(seed)
    states = [game.new(Streams(seed))]
    while game.to_move(states[-1]):
        seat = states[-1].mover
        word = game.parse(states[-1], seat, game.sample(states[-1], seat, rng))
        states.append(game.apply(states[-1], {seat: word}))
    return states


@pytest.mark.parametrize(
    ("deal", "words", "chips"),
    [
        ("KQ", "check check", 1),
        ("JQ", "check check", -1),
        ("JK", "bet fold", 1),  # a bluff that works
        ("JK", "bet call", -2),
        ("KJ", "check bet fold", -1),
        ("KJ", "check bet call", 2),
    ],
)
def test_every_end_of_a_hand_of_kuhn_pays_as_the_rules_say(
    deal: str, words: str, chips: int
) -> None:
    game = KuhnPoker(hands=1)
    state = play(game, (deal,), words)
    assert game.components(state, 0) == {"chips": chips}
    assert game.components(state, 1) == {"chips": -chips}
    assert game.returns(state) == (chips / 2, -chips / 2)


@pytest.mark.parametrize(
    ("deal", "words", "chips"),
    [
        ("KQJ", "check check check check", 1),
        ("QKQ", "check check bet call", 5),  # the pair beats the king
        ("KQQ", "bet raise call bet raise call", -13),  # 1 + 2 + 2 + 4 + 4
        ("KKJ", "bet raise call bet raise call", 0),
        ("JKQ", "bet raise fold", -3),
        ("JKQ", "check bet raise call check bet fold", -5),
        ("JQK", "bet call bet fold", 3),
    ],
)
def test_hands_of_leduc_pay_as_counted_by_hand(deal: str, words: str, chips: int) -> None:
    game = KuhnPoker(deck="leduc", hands=1)
    state = play(game, (deal,), words)
    assert state.net == chips
    assert game.returns(state) == (chips / 13, 0.0 - chips / 13)


def test_a_showdown_is_the_higher_card_unless_one_pairs() -> None:
    for deal in permutations("JJQQKK", 3):
        mine, theirs, table = deal
        ranks = ["JQK".index(c) + 9 * (c == table) for c in (mine, theirs)]
        assert showdown("".join(deal)) == np.sign(ranks[0] - ranks[1])


def test_raises_are_limited_and_a_fold_needs_a_bet() -> None:
    game = KuhnPoker(deck="leduc", hands=1)
    state = play(game, ("KQJ",), "")
    for word, legal in [
        ("bet", ["check", "bet"]),
        ("raise", ["fold", "call", "raise"]),
        ("call", ["fold", "call"]),
        ("check", ["check", "bet"]),
    ]:
        assert list(game.legal(state, state.mover)) == legal
        state = game.apply(state, {state.mover: word})
    assert state.mover == 1  # the same seat begins both rounds


def test_the_first_mover_alternates() -> None:
    game = KuhnPoker(hands=4)
    for n in range(4):
        assert play(game, ("KQ",) * 4, "check check " * n, first=1).mover == (n + 1) % 2


@given(st.sampled_from(list(DECKS)), st.integers(1, 20), st.integers(0, 2**32))
def test_hands_are_paid_as_they_end_and_the_sum_is_the_outcome(
    deck: str, hands: int, seed: int
) -> None:
    game = KuhnPoker(deck=deck, hands=hands)
    states = random_play(game, seed)
    assert len(states) - 1 <= game.max_turns
    for state, after in pairwise(states):
        assert game.returns(state) is None
        assert abs(after.net - state.net) <= game.deck.most
        assert after.hand - state.hand in (0, 1)
        assert (after.net == state.net) or after.hand > state.hand
        assert sum(game.earned(state)) == 0.0
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        for seat in (0, 1):
            assert len(game.observe(state, seat)) <= game.max_observation_chars
    assert game.returns(states[-1]) == game.earned(states[-1])


def test_the_longest_session_fits_the_observation() -> None:
    game = KuhnPoker(deck="leduc", hands=20)
    line = "check bet raise call check bet raise call " * 20
    state = play(game, ("KKJ",) * 20, line)
    assert game.returns(state) == (0.0, 0.0)
    assert max(len(game.observe(state, seat)) for seat in (0, 1)) <= game.max_observation_chars


@given(st.sampled_from(list(DECKS)), st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_seat_sees_neither_the_other_card_nor_those_to_come(
    deck: str, seed: int, other: int
) -> None:
    game = KuhnPoker(deck=deck)
    elsewhere = game.new(Streams(other)).deals
    for state in random_play(game, seed)[:-1]:
        deal, later = state.deals[state.hand], elsewhere[state.hand + 1 :]
        for seat in (0, 1):
            for rank in "JQK":
                cards = [deal[0], rank] if seat == 0 else [rank, deal[1]]
                table = deal[2:] if "/" in state.line else rank * len(deal[2:])
                changed = (*state.deals[: state.hand], "".join(cards) + table, *later)
                seen = game.observe(state._replace(deals=changed), seat)
                assert seen == game.observe(state, seat)


def test_cards_are_shown_at_a_showdown_and_only_there() -> None:
    game = KuhnPoker(hands=2)
    shown = play(game, ("KQ", "KQ"), "check check")
    assert (
        "Hand 1: your card Q, theirs K. Betting: they check, you check. Your chips: -1.\n"
        in game.observe(shown, 1)
    )
    folded = play(game, ("KQ", "KQ"), "bet fold")
    assert (
        "Hand 1: your card Q, theirs not shown. Betting: they bet, you fold. Your chips: -1.\n"
        in game.observe(folded, 1)
    )


def test_betting_is_told_from_both_sides() -> None:
    assert described("kbc", True, "") == "you check, they bet, you call"
    assert described("kbc", False, "") == "they check, you bet, they call"
    assert described("kk/", True, "Q") == "you check, they check; table card Q"
    assert described("kk/b", True, "Q") == "you check, they check; table card Q: you bet"


@pytest.mark.parametrize(
    "body",
    ["", "fold", "call", "raise", "bet 1", "check bet", "not bet", "bet or check", "x" * 16, "１"],
)
def test_words_that_are_not_possible_are_refused_with_those_that_are(body: str) -> None:
    game = KuhnPoker()
    state = game.new(Streams(0))
    with pytest.raises(IllegalMoveError, match="reply with one word: check or bet"):
        game.parse(state, state.mover, body)
    for words in ("BET", "I bet", "I will bet", "My move is bet", "action: bet"):
        assert game.parse(state, state.mover, words) == "bet"


@pytest.mark.parametrize(
    "options", [{"deck": "ledoc"}, {"deck": 3}, {"hands": 0}, {"hands": 21}, {"hands": True}]
)
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="give"):
        KuhnPoker(**options)  # type: ignore[arg-type]


def expected_chips(game: KuhnPoker, odds: tuple[Odds, Odds]) -> float:
    """Exact mean chips of seat 0 over one hand, both seats beginning equally often."""
    cards = game.deck.cards
    deals = ["".join(order) for order in permutations(cards, game._rounds + 1)]

    def value(state: Table) -> float:
        if state.hand:
            return state.net
        push, call = odds[state.mover](game.observe(state, state.mover))
        legal = game.legal(state, state.mover)
        chances = {"bet": push, "check": 1 - push} if "check" in legal else {
            "raise": push if "raise" in legal else 0.0,
            "call": min(call, 1 - push) if "raise" in legal else min(1.0, call + push),
            "fold": max(0.0, 1 - push - call),
        }  # fmt: skip
        return sum(
            chance * value(game.apply(state, {state.mover: word}))
            for word, chance in chances.items()
            if chance > 1e-12
        )

    return sum(value(Table((deal,), f, f)) for deal in deals for f in (0, 1)) / (2 * len(deals))


def kuhn_odds(bluff: float) -> Odds:
    return lambda text: equilibrium(read_spot(text), bluff)


def test_a_bot_reads_the_hand_that_is_played_and_not_those_before() -> None:
    game = KuhnPoker(deck="leduc", hands=2)
    state = play(game, ("KQJ", "JKQ"), "bet raise fold check bet")
    spot = read_spot(game.observe(state, 1))
    assert spot == Spot("K", "", ("check", "bet"), ("fold", "call", "raise"), leduc=True)
    spot = read_spot(game.observe(play(game, ("KQJ", "JKQ"), "bet fold check check"), 1))
    assert spot == Spot("K", "Q", (), ("check", "bet"), leduc=True, before=("check", "check"))
    assert (spot.strength, spot.situation) == ("K", 0)


def random_odds(text: str) -> tuple[float, float]:
    share = 1 / len(read_spot(text).possible)
    return share, share


def test_the_equilibria_of_kuhn_lose_to_nobody() -> None:
    game = KuhnPoker(hands=1)
    for bluff in (0.0, 0.2, 1 / 3):
        assert abs(expected_chips(game, (kuhn_odds(1 / 3), kuhn_odds(bluff)))) < 1e-12
    assert expected_chips(game, (kuhn_odds(1 / 3), random_odds)) == pytest.approx(1 / 6)
    always: dict[str, Odds] = {
        "bets and calls": lambda _: (1.0, 0.0) if "check" in read_spot(_).possible else (0.0, 1.0),
        "calls": lambda _: (0.0, 0.0) if "check" in read_spot(_).possible else (0.0, 1.0),
        "folds": lambda _: (0.0, 0.0),
    }
    for name, odds in always.items():
        assert expected_chips(game, (odds, kuhn_odds(1 / 3))) <= 1e-12, name


def shown(past: str, now: str, possible: str) -> str:
    """What a seat reads after the hands of ``past``, in a hand that begins as ``now``."""
    hands = "".join(
        f"Hand {n}: {hand}. Your chips: +1.\n" for n, hand in enumerate(past.split("; "), 1)
    )
    return f"{hands}Hand 6 of 9. {now}.\nYour turn. Possible: {possible}\n"


HONEST = "; ".join(
    ["your card Q, theirs J. Betting: you check, they check"] * 4
    + ["your card Q, theirs K. Betting: they bet, you call"]
)
WILD = "; ".join(["your card K, theirs J. Betting: they bet, you call"] * 3)
CALLS = "; ".join(["your card K, theirs J. Betting: you bet, they call"] * 3)
QUEEN = "Your card: Q. In the pot: you 1, they 2. Betting: they bet"
JACK = "Your card: J. In the pot: you 1, they 1. Betting: they check"


@pytest.mark.parametrize(
    ("past", "now", "possible", "word"),
    [
        (HONEST, QUEEN, "fold or call", "fold"),  # an honest bet is a king
        (HONEST, JACK, "check or bet", "bet"),  # an honest check is a queen, which may fold
        (WILD, QUEEN, "fold or call", "call"),
        (CALLS, JACK, "check or bet", "check"),  # a bluff that is called
    ],
)
def test_the_strong_bot_answers_the_style_that_past_hands_show(
    past: str, now: str, possible: str, word: str
) -> None:
    for seed in range(8):
        bot = srl_envs.make_bot("kuhn_poker-v0", "strong", seed=seed)
        assert bot(shown(past, now, possible)) == f"<action>{word}</action>"


def test_the_strong_bot_bluffs_as_an_equilibrium_where_nothing_is_known() -> None:
    bots = (srl_envs.make_bot("kuhn_poker-v0", "strong", seed=seed) for seed in range(300))
    first = KuhnPoker().observe(Table(("JQ",) * 6, 0, 0), 0)
    bets = sum(bot(first) == "<action>bet</action>" for bot in bots)
    assert 70 < bets < 130  # one in three


def test_past_hands_are_read_with_the_cards_that_may_have_been_held() -> None:
    game = KuhnPoker()
    text = game.observe(play(game, ("KQ", "JK") * 3, "check check bet fold"), 0)
    assert read_past(text) == [
        Past("K", ("Q",), ("check", "check"), begins=True),
        Past("J", ("Q", "K"), ("bet", "fold"), begins=False),
    ]


def middle_odds(text: str) -> tuple[float, float]:
    return honest(read_spot(text))


def constant(odds: tuple[float, float], text: str) -> tuple[float, float]:
    return odds


@pytest.mark.slow
def test_no_constant_does_as_well_against_the_middle_bot_as_the_strong_one() -> None:
    """Always checking or folding earns exactly 0 there, as an equilibrium does."""
    for push, call in product((0.0, 1.0), repeat=2):
        chips = expected_chips(KuhnPoker(hands=1), (partial(constant, (push, call)), middle_odds))
        assert chips <= 1e-12
    env: Any = srl_envs.make("kuhn_poker-v0")
    earned = []
    for seed in range(900):
        for seat in (0, 1):
            bots = {
                seat: srl_envs.make_bot("kuhn_poker-v0", "strong", seed=seed),
                1 - seat: srl_envs.make_bot("kuhn_poker-v0", "middle", seed=5000 + seed),
            }
            earned.append(srl_envs.play(env, bots, seed=seed).outcomes[seat])
    assert np.mean(earned) > 0.005


def patient_odds(text: str) -> tuple[float, float]:
    return _patient(read_spot(text))


LEDUC_RIVALS: dict[str, tuple[Odds, float]] = {
    "random": (random_odds, 0.5),
    "who calls": (lambda _: (0.0, 1.0 if "call" in _ else 0.0), 0.1),
    "middle": (middle_odds, 0.0),
    "held out": (patient_odds, 0.0),
}
"""Rival of the strong bot of Leduc, and the chips a hand that it wins from it at least."""


@pytest.mark.parametrize("rival", LEDUC_RIVALS)
def test_no_bot_of_leduc_wins_from_the_strong_one(rival: str) -> None:
    game = KuhnPoker(deck="leduc", hands=1)
    odds, least = LEDUC_RIVALS[rival]
    assert expected_chips(game, (lambda text: leduc(read_spot(text)), odds)) > least


def test_the_strong_bot_of_leduc_remembers_the_first_round() -> None:
    """A queen under a king on the table is worth a bet after two checks, and seldom after two raises."""
    game = KuhnPoker(deck="leduc", hands=1)
    patient, wild = (
        leduc(read_spot(game.observe(play(game, ("QJK",), words), 0)))
        for words in ("check check check bet", "check bet raise call check bet")
    )
    assert patient != wild
    assert len(read_spot(game.observe(play(game, ("QJK",), "bet raise call"), 0)).before) == 3


@pytest.mark.parametrize("deck", list(DECKS))
def test_bots_of_both_decks_play_to_the_end(deck: str) -> None:
    env = srl_envs.make("kuhn_poker-v0", deck=deck, hands=4)
    for seed, name in enumerate(srl_envs.spec("kuhn_poker-v0").bots):
        bots = {seat: srl_envs.make_bot("kuhn_poker-v0", name, seed=seat) for seat in (0, 1)}
        played = srl_envs.play(env, bots, seed=seed)
        assert not any(any(step.invalid) for step in played.steps)
