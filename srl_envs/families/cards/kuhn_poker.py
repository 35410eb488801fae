"""Kuhn poker and Leduc poker: one hidden card each, a few chips, and room to bluff.

Competitive, zero-sum, paid hand by hand: a hand pays the chips won in it, divided by the most that
one hand can cost (2 in Kuhn, 13 in Leduc) times the number of hands. Every hand is dealt from the
whole deck, so nothing is learnt by counting cards, and the first mover alternates; the seat that
begins is drawn from the seed. Cards are shown where both stay in to the end, and only there.

Ceiling and floor: Kuhn's value is -1/18 chip per hand for the first mover, so two perfect players
come out at 0 over an even number of hands. Against the random bot an equilibrium earns 1/6 chip per
hand, a best response 11/24 (outcome 0.08 and 0.23); these are exact sums over all deals. An equilibrium
earns 0 against the middle bot, and so do checking and folding always; a best response earns 0.06. The
strong bot begins with an equilibrium and then answers the style that past hands show: it earns 0.18
against the random bot and 0.015 against the middle one (1,200 mirrored sessions, 95 % intervals of 0.008
and 0.005), as much as betting and calling always does against the random bot (0.1875, exact). Luck
is large: one session of six hands has a standard deviation of about 0.3, so policies are told apart
over hundreds of mirrored sessions, not over ten.

A session begins with one card of three, so the eval split cannot be held out: `EnvSpec.held_out` is False.

Source: H. W. Kuhn, "A simplified two-person poker" (1950); arXiv:1207.1411 for Leduc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError, nearest

MAX_HANDS = 20
RANKS = "JQK"
_WORDS = {"k": "check", "b": "bet", "c": "call", "r": "raise", "f": "fold"}
_LETTERS = {word: letter for letter, word in _WORDS.items()}
_IN_WORDS = re.compile(
    r"(?:i(?: will|'ll)? |(?:my )?(?:move|action|answer)(?: is)?:? )(check|bet|call|raise|fold)"
)
"""A word in a short sentence, such as ``I call``."""


@dataclass(frozen=True, slots=True)
class Deck:
    """Settings in which the variants of poker differ."""

    cards: str
    """Every card by its rank."""
    bets: tuple[int, ...]
    """Size of a bet and of a raise in each betting round, in chips."""
    raises: int
    """Bets and raises allowed in one round."""

    @property
    def most(self) -> int:
        """Chips that a seat can lose in one hand: the ante of 1 and every bet and raise."""
        return 1 + self.raises * sum(self.bets)


DECKS = {"kuhn": Deck("JQK", (1,), 1), "leduc": Deck("JJQQKK", (2, 4), 2)}


_FREE, _BET, _RAISABLE = ("check", "bet"), ("fold", "call"), ("fold", "call", "raise")
_POSSIBLE: dict[tuple[str, ...], str] = {
    words: f"Your turn. Possible: {' or '.join(words)}" for words in (_FREE, _BET, _RAISABLE)
}
_MOST_CHIPS = MAX_HANDS * max(deck.most for deck in DECKS.values())
_SIGNED = {chips: f"{chips:+d}" for chips in range(-_MOST_CHIPS, _MOST_CHIPS + 1)}


class Table(NamedTuple):
    """Immutable state: the deals of the episode and the hand being played."""

    deals: tuple[str, ...]
    """Per hand: the card of seat 0, of seat 1, and in Leduc the table card."""
    first: int
    """The seat that begins the first hand."""
    mover: int
    logs: tuple[str, str] = ("", "")
    """Finished hands as each seat may know them."""
    hand: int = 0
    line: str = ""
    """Actions of this hand, one letter each (`_WORDS`); a slash between betting rounds."""
    pot: tuple[int, int] = (1, 1)
    """Chips of each seat in the pot."""
    raises: int = 0
    """Bets and raises of this betting round."""
    net: int = 0
    """Chips that seat 0 has won in finished hands (less than 0: lost)."""


def showdown(deal: str) -> int:
    """1 where seat 0 wins the comparison of ``deal``, -1 where seat 1 does, 0 for a tie.

    A pair with the table card (the third, if any) beats everything; else the higher card wins.
    """
    mine, theirs, table = deal[0], deal[1], deal[2:]
    if mine == theirs:
        return 0
    if theirs == table or (mine != table and RANKS.index(theirs) > RANKS.index(mine)):
        return -1
    return 1


@lru_cache(maxsize=4096)
def described(line: str, begins: bool, table: str) -> str:
    """The betting of one hand as a seat reads it.

    Args:
        line: as in `Table.line`.
        begins: whether the reader began the hand.
        table: the table card, shown where the second round starts; "" in Kuhn.
    """
    rounds = []
    for betting in line.split("/"):
        names = ("you", "they") if begins else ("they", "you")
        acts = [f"{names[i % 2]} {_WORDS[letter]}" for i, letter in enumerate(betting)]
        rounds.append(", ".join(acts))
    return f"; table card {table}: ".join(rounds).rstrip(": ")


class KuhnPoker(Game[Table, str]):
    """Observation: rules, past hands, own card, the betting so far. Action: one word, as ``call``.

    Fallback: check where it is free, else fold.

    Args:
        deck: "kuhn" (J, Q, K; one round, one bet of 1) or "leduc" (two of each; two rounds with
            bets of 2 and 4 and one raise each, and a table card before the second).
        hands: hands per episode, 1 to 20.

    Raises:
        ConfigError: an option is unknown or out of range.
    """

    mode = "competitive"
    max_action_chars = 48
    max_observation_chars = 5000

    def __init__(self, *, deck: str = "kuhn", hands: int = 6) -> None:
        if not isinstance(deck, str) or deck not in DECKS:
            raise ConfigError(
                f"kuhn_poker: deck={deck!r}; give one of {', '.join(DECKS)}."
                f"{nearest(str(deck), DECKS)}"
            )
        if isinstance(hands, bool) or not isinstance(hands, int) or not 1 <= hands <= MAX_HANDS:
            raise ConfigError(f"kuhn_poker: hands={hands!r}; give 1 to {MAX_HANDS}.")
        self.deck, self.hands = DECKS[deck], hands
        self._rounds = len(self.deck.bets)
        self._scale = self.deck.most * hands
        self.max_turns = hands * self._rounds * (self.deck.raises + 2)
        rules = _rules(deck, hands, self._scale)
        self._heads = tuple(f"{rules}You are {seat_name(seat)}.\n" for seat in (0, 1))
        self._waits = tuple(f"Wait for {seat_name(1 - seat)}." for seat in (0, 1))
        self._deals = tuple(map("".join, permutations(self.deck.cards, 1 + self._rounds)))

    def new(self, streams: Streams) -> Table:
        """Deal every hand from the whole deck; who begins is a fair coin."""
        drawn = streams.draws("instance").several(self.hands, 0, len(self._deals))
        deals = tuple([self._deals[number] for number in drawn])
        first = streams.draws("seats").integers(2)
        return Table(deals, first, first)

    def to_move(self, state: Table) -> tuple[int, ...]:
        """One seat, or none once all hands are played."""
        return (state.mover,) if state.hand < self.hands else ()

    def observe(self, state: Table, seat: int) -> str:
        """Rules, past hands, and this hand without the other's card."""
        deals, first, mover, logs, hand, line, pot, _, chips = state
        head, past = self._heads[seat], logs[seat]
        own = _SIGNED[chips if seat == 0 else -chips]
        if hand == self.hands:
            return f"{head}{past}Your chips in all: {own}\nThe game is over.\n"
        deal = deals[hand]
        betting = described(line, (first + hand) % 2 == seat, deal[2:]) or "nothing yet"
        status = _POSSIBLE[self._legal(state)] if mover == seat else self._waits[seat]
        table = f" Table card: {deal[2]}." if "/" in line else ""
        return (
            f"{head}{past}Your chips in all: {own}\n"
            f"Hand {hand + 1} of {self.hands}. Your card: {deal[seat]}.{table} "
            f"In the pot: you {pot[seat]}, they {pot[1 - seat]}. Betting: {betting}.\n{status}\n"
        )

    def _legal(self, state: Table) -> tuple[str, ...]:
        if state.pot[0] == state.pot[1]:
            return _FREE
        return _RAISABLE if state.raises < self.deck.raises else _BET

    def parse(self, state: Table, seat: int, body: str) -> str:
        """One of the words that are possible now, in any case."""
        word, legal = body.lower(), self._legal(state)
        if word not in legal and (sentence := _IN_WORDS.fullmatch(" ".join(word.split()))):
            word = sentence[1]
        if word not in legal:
            raise IllegalMoveError(
                f"{body!r} is not possible now; reply with one word: {' or '.join(legal)}"
            )
        return word

    def apply(self, state: Table, actions: Mapping[int, str]) -> Table:
        """Take the word; end the betting round or the hand where it ends it."""
        deals, starts, seat, logs, hand, line, pot, raises, net = state
        word = actions[seat]
        line += _LETTERS[word]
        if word == "fold":
            return self._settle(state, line, pot[seat] * (2 * seat - 1), shown=False)
        if word != "check":
            mine = pot[1 - seat]
            if word != "call":
                mine, raises = mine + self.deck.bets[line.count("/")], raises + 1
            pot = (mine, pot[1]) if seat == 0 else (pot[0], mine)
        # a call, or a check that answers a check
        if word != "call" and not line.endswith("kk"):
            return Table(deals, starts, 1 - seat, logs, hand, line, pot, raises, net)
        if line.count("/") + 1 < self._rounds:
            return Table(deals, starts, (starts + hand) % 2, logs, hand, line + "/", pot, 0, net)
        return self._settle(state, line, showdown(deals[hand]) * pot[0], shown=True)

    def _settle(self, state: Table, line: str, won: int, *, shown: bool) -> Table:
        """The next hand, after seat 0 won ``won`` chips in this one."""
        deals, starts, _, (ours, theirs), hand, _, _, _, net = state
        deal, first = deals[hand], (starts + hand) % 2
        table = deal[2:] if "/" in line else ""
        first_card, second_card = (deal[0], deal[1]) if shown else ("not shown", "not shown")
        logs = (
            f"{ours}Hand {hand + 1}: your card {deal[0]}, theirs {second_card}. Betting: "
            f"{described(line, first == 0, table)}. Your chips: {_SIGNED[won]}.\n",
            f"{theirs}Hand {hand + 1}: your card {deal[1]}, theirs {first_card}. Betting: "
            f"{described(line, first == 1, table)}. Your chips: {_SIGNED[-won]}.\n",
        )
        return Table(deals, starts, 1 - first, logs, hand + 1, net=net + won)

    def returns(self, state: Table) -> tuple[float, ...] | None:
        """Net chips as a share of the most that could be lost."""
        return self.earned(state) if state.hand == self.hands else None

    def earned(self, state: Table) -> tuple[float, ...]:
        """The same, over the hands that are finished."""
        share = state.net / self._scale
        return share, 0.0 - share

    def legal(self, state: Table, seat: int) -> Sequence[str]:
        """The possible words."""
        return self._legal(state)

    def fallback(self, state: Table, seat: int) -> str:
        """Check, or fold where there is a bet."""
        return self._legal(state)[0]

    def sample(self, state: Table, seat: int, rng: np.random.Generator) -> str:
        """Any possible word."""
        words = self._legal(state)
        return words[int(rng.integers(len(words)))]

    def components(self, state: Table, seat: int) -> Mapping[str, float]:
        """``chips``: what the seat won in all finished hands."""
        return {"chips": float(state.net if seat == 0 else 0 - state.net)}

    def swap_hidden(self, state: Table, seat: int, other: Table) -> Table:
        """The other's cards, and whatever is dealt later."""
        hand, own, new = state.hand, state.deals[state.hand], other.deals[state.hand]
        cards = own[0] + new[1] if seat == 0 else new[0] + own[1]
        table = own[2:] if "/" in state.line else new[2:]
        deals = (*other.deals[:hand], cards + table, *other.deals[hand + 1 :])
        logs = (state.logs[0], other.logs[1]) if seat == 0 else (other.logs[0], state.logs[1])
        return state._replace(deals=deals, logs=logs)

    def reshuffled(self, state: Table, draws: Draws) -> Table:
        """Later hands, and this hand's table card as long as it lies face down."""
        hand, own = state.hand, state.deals[state.hand]
        later = draws.several(self.hands - hand - 1, 0, len(self._deals))
        if "/" not in state.line:
            alike = [deal for deal in self._deals if deal[:2] == own[:2]]
            own = alike[draws.integers(len(alike))]
        dealt = (*state.deals[:hand], own, *[self._deals[number] for number in later])
        return state._replace(deals=dealt)

    def encode(self, state: Table) -> Any:
        """The fields in order."""
        return [*state]

    def decode(self, data: Any) -> Table:
        """The inverse of `encode`."""
        deals, first, mover, logs, hand, line, pot, raises, net = data
        return Table(
            tuple(deals),
            first,
            mover,
            (logs[0], logs[1]),
            hand,
            line,
            (pot[0], pot[1]),
            raises,
            net,
        )


def _rules(deck: str, hands: int, scale: int) -> str:
    turns = "1 hand" if hands == 1 else f"{hands} hands and take turns to begin"
    opening = (
        f"Two players play {turns}. In each hand both put 1 chip into the pot and get one card of"
    )
    end = (
        "After a fold both cards stay hidden. Every hand is dealt from the whole deck.\n"
        f"Payoff: the chips that you won less those that you lost, divided by {scale}: "
        "from -1 to 1.\n"
        "Reply with one of the possible words, like this: <action>fold</action>\n\n"
    )
    if deck == "kuhn":
        return (
            f"Kuhn poker. {opening} J, Q, K (K is highest).\n"
            "check: add nothing. bet: add 1 chip. After a bet, call: add 1 chip, too, or fold: give up "
            "the pot. After a call or two checks the higher card takes the pot.\n" + end
        )
    return (
        f"Leduc poker. {opening} J, J, Q, Q, K, K (K is highest).\n"
        "There are two betting rounds; before the second, one table card is shown. "
        "A card that pairs with the table card wins, else the higher card; equal cards share.\n"
        "check: add nothing. bet: add 2 chips (4 in the second round). After a bet, call: add as much, "
        "raise: add that much and the same again (once per round), or fold: give up the pot.\n"
        + end
    )
