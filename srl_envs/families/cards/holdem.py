"""Hold'em: heads-up no-limit Texas hold'em, with every card dealt before the first bet.

Competitive, zero-sum, paid hand by hand: a hand pays the chips won in it, divided by a stack times the
number of hands. Each hand begins with full stacks; the button puts in 1 chip, the other seat 2, and the
button alternates.

Deals are duplicate: the cards and the button of a seed do not depend on what is played. So the same seed
with the policies exchanged gives each the cards that the other had, and the luck of the cards leaves the
mean of the two. Leagues and boards play such pairs. A hand is not dealt twice within an episode: a policy
that remembers the first showing would know the other's cards.

Deals that differ in names of suits, or in who holds which cards, are one instance of a split.

Levels: `stack=4, hands=1` first, where nearly every decision is to put all in or to fold; then stacks of
10, 40 and up to 200 chips, and more hands.

Known strength, in big blinds per hand over 150 mirrored pairs of four hands, with 95 % intervals: the
strong bot wins 1.00 (0.35 either way) from the random one, 2.75 (0.32) from the caller, 0.25 (0.19) from
the middle one, and -0.18 (0.31) from the held-out one, so these two are about as good. It exploits no
one: beside the random bot, whose raises mean nothing, always calling earns 0.16 in outcome and strong 0.03.
The mean of a mirrored pair has a standard deviation of 0.10 in outcome between strong and caller, where two
sessions with deals of their own have 0.17.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.cards.poker_ranks import CARDS, canonical, in_words, strength, written
from srl_envs.messages import whole_number

HANDS, STACK = 4, 40
"""Default options."""
SMALL_BLIND, BIG_BLIND = 1, 2
STREETS = ("", "flop", "turn", "river")
_SHOWN = (0, 3, 4, 5)
"""Cards on the table in each betting round."""
_DEALT = 9
"""Cards of a hand: two of each seat, and five for the table."""
_MOST_LISTED = 200
_RAISE = re.compile(r"(?:raise|bet)(?: to)?:? ([0-9]{1,4})(?: chips)?")
_WORDS = {"check": "check", "call": "call", "fold": "fold", "all in": "all in", "all-in": "all in"}
_SENTENCE = re.compile(r"(?:i(?: will|'ll)? |(?:my )?(?:move|action|answer)(?: is)?:? )")


class Deal(NamedTuple):
    """Cards of one hand, as numbers; see `poker_ranks`."""

    holes: tuple[tuple[int, ...], tuple[int, ...]]
    board: tuple[int, ...]


class Match(NamedTuple):
    """Immutable state."""

    deals: tuple[Deal, ...]
    button: int
    """Seat that is on the button in the first hand."""
    mover: int
    hand: int = 0
    street: int = 0
    """Betting round of this hand, 0 to 3."""
    bets: tuple[int, int] = (0, 0)
    """Chips of each seat in this betting round."""
    pot: tuple[int, int] = (0, 0)
    """Chips of each seat from the rounds before."""
    step: int = BIG_BLIND
    """Least amount of the next raise."""
    acted: int = 0
    """Moves in this betting round."""
    line: tuple[str, ...] = ()
    """Moves of this hand as ``seat move``, and the names of betting rounds."""
    logs: tuple[str, str] = ("", "")
    """Finished hands as each seat may know them."""
    net: int = 0
    """Chips that seat 0 has won in finished hands (less than 0: lost)."""


def button_of(match: Match) -> int:
    """The seat on the button in this hand."""
    return (match.button + match.hand) % 2


def showdown(deal: Deal) -> int:
    """1 where seat 0 has the better hand, -1 where seat 1 has, 0 where they share."""
    first, second = (strength((*hole, *deal.board)) for hole in deal.holes)
    return (first > second) - (first < second)


def begun(match: Match) -> Match:
    """The next hand with its blinds in."""
    button = button_of(match)
    bets = (SMALL_BLIND, BIG_BLIND) if button == 0 else (BIG_BLIND, SMALL_BLIND)
    return match._replace(
        mover=button, street=0, bets=bets, pot=(0, 0), step=BIG_BLIND, acted=0, line=()
    )


class Holdem(Game[Match, str]):
    """Observation: rules, past hands, own cards, table, bets. Action: ``call``, ``raise 6``, and so on.

    Fallback: check where it is free, else fold.

    Args:
        hands: per episode, 1 to 12.
        stack: chips of each seat at the start of every hand, 4 to 200; the big blind is 2.

    Raises:
        ConfigError: an option is out of range.
    """

    mode = "competitive"
    max_action_chars = 48
    max_observation_chars = 28_672

    def __init__(self, *, hands: int = HANDS, stack: int = STACK) -> None:
        for name, value, low, high in (("hands", hands, 1, 12), ("stack", stack, 4, 200)):
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(f"holdem: {name}={value!r}; give a number from {low} to {high}.")
        self.hands, self.stack = hands, stack
        # each round: two checks, or bets that put in at least the big blind more each, and a call
        self.max_turns = hands * (len(STREETS) * 3 + stack // BIG_BLIND)
        self._rules = _rules(hands, stack)

    def new(self, streams: Streams) -> Match:
        """Deal every hand from a whole deck; who has the button first is a fair coin."""
        draws = streams.draws("instance")
        first = streams.held(lambda: _dealt(draws), named)
        deals = (first, *(_dealt(draws) for _ in range(self.hands - 1)))
        return begun(Match(deals, streams.draws("seats").integers(2), 0))

    def to_move(self, state: Match) -> tuple[int, ...]:
        """One seat, or none once all hands are played."""
        return (state.mover,) if state.hand < self.hands else ()

    # --- what is seen ---

    def observe(self, state: Match, seat: int) -> str:
        """Rules, past hands, and this hand without the other's cards."""
        own = state.net if seat == 0 else -state.net
        head = f"{self._rules}You are {seat_name(seat)}.\n{state.logs[seat]}Your chips in all: {own:+d}.\n"
        if state.hand == self.hands:
            return f"{head}The game is over.\n"
        deal = state.deals[state.hand]
        where = "on the button" if button_of(state) == seat else "in the big blind"
        table = _cards(deal.board[: _SHOWN[state.street]]) or "none yet"
        put = [state.pot[s] + state.bets[s] for s in (seat, 1 - seat)]
        return (
            f"{head}Hand {state.hand + 1} of {self.hands}. You are {where}. Your cards: "
            f"{_cards(deal.holes[seat])}. Table: {table}.\n"
            f"In the pot: you {put[0]}, they {put[1]}. Left: you {self.stack - put[0]}, they "
            f"{self.stack - put[1]}. Betting: {described(state.line, seat) or 'only the blinds'}.\n"
            f"{self._status(state, seat)}\n"
        )

    def _status(self, state: Match, seat: int) -> str:
        if state.mover != seat:
            return f"Wait for {seat_name(1 - seat)}."
        mine, theirs = state.bets[seat], state.bets[1 - seat]
        words = ["check"] if mine == theirs else ["fold", f"call (puts in {self._to_call(state)})"]
        if least := self._raises(state):
            low, high = least
            amount = f"N is {low}" if low == high else f"N from {low} to {high}"
            words += [f"raise N ({amount})", "all in"]
        return f"Your turn. Possible: {', '.join(words)}."

    def _left(self, state: Match, seat: int) -> int:
        return self.stack - state.pot[seat] - state.bets[seat]

    def _to_call(self, state: Match) -> int:
        seat = state.mover
        return state.bets[1 - seat] - state.bets[seat]

    def _raises(self, state: Match) -> tuple[int, int] | None:
        """Smallest and largest bet of this round that a raise leads to; None where none is allowed."""
        seat, other = state.mover, 1 - state.mover
        high = state.bets[seat] + self._left(state, seat)
        if state.bets[other] == high:  # it is all in
            return None
        return min(high, state.bets[other] + state.step), high

    # --- moves ---

    def parse(self, state: Match, seat: int, body: str) -> str:
        """A word, or ``raise N`` with the seat's bet in this round after it."""
        text = " ".join(body.lower().split())
        if opening := _SENTENCE.match(text):
            text = text[opening.end() :]
        raises, free = self._raises(state), state.bets[0] == state.bets[1]
        word = _WORDS.get(text)
        if word == "all in" and raises:
            return f"raise {raises[1]}"
        if word == "all in" and not free and self._to_call(state) == self._left(state, seat):
            return "call"
        if word in (("check",) if free else ("fold", "call")):
            return str(word)
        to = _RAISE.fullmatch(text)
        if to and raises:
            amount = whole_number(to[1], *raises)
            if amount is not None:
                return f"raise {amount}"
        possible = self._status(state, seat).partition("Possible: ")[2]
        raise IllegalMoveError(f"{body[:40]!r} is not possible now; possible: {possible}")

    def apply(self, state: Match, actions: Mapping[int, str]) -> Match:
        """Take the move; end the betting round or the hand where it ends it."""
        seat = state.mover
        move = actions[seat]
        state = state._replace(line=(*state.line, f"{seat} {move}"), acted=state.acted + 1)
        if move == "fold":
            lost = state.pot[seat] + state.bets[seat]
            return self._settled(state, lost if seat else -lost, shown=False)
        if move.startswith("raise"):
            amount = int(move.removeprefix("raise "))
            step = max(state.step, amount - state.bets[1 - seat])
            return state._replace(bets=_with(state.bets, seat, amount), step=step, mover=1 - seat)
        if move == "call":
            state = state._replace(bets=_with(state.bets, seat, state.bets[1 - seat]))
        if state.acted < 2:  # the other seat may still bet, as the big blind may before the flop
            return state._replace(mover=1 - seat)
        return self._next_round(state)

    def _next_round(self, state: Match) -> Match:
        """The betting round after one in which the bets are level, or the showdown."""
        pot = (state.pot[0] + state.bets[0], state.pot[1] + state.bets[1])
        state = state._replace(pot=pot, bets=(0, 0))
        if state.street == len(STREETS) - 1 or pot[0] == self.stack:
            return self._settled(state, showdown(state.deals[state.hand]) * pot[0], shown=True)
        street = state.street + 1
        board = state.deals[state.hand].board[: _SHOWN[street]]
        return state._replace(
            street=street, step=BIG_BLIND, acted=0, mover=1 - button_of(state),
            line=(*state.line, f"{STREETS[street]} {_cards(board)}"),
        )  # fmt: skip

    def _settled(self, state: Match, won: int, *, shown: bool) -> Match:
        """The next hand, after seat 0 won ``won`` chips in this one."""
        deal, logs = state.deals[state.hand], list(state.logs)
        board = deal.board if shown else deal.board[: _SHOWN[state.street]]
        for seat in (0, 1):
            mine, theirs = deal.holes[seat], deal.holes[1 - seat]
            end = f"Table: {_cards(board) or 'none'}. Their cards: not shown."
            if shown:
                made = [in_words((*hole, *board)) for hole in (mine, theirs)]
                end = (
                    f"Table: {_cards(board)}. Their cards: {_cards(theirs)}. You: {made[0]}, "
                    f"they: {made[1]}."
                )
            chips = won if seat == 0 else -won
            logs[seat] += (
                f"Hand {state.hand + 1}: your cards {_cards(mine)}. Betting: "
                f"{described(state.line, seat)}. {end} Your chips: {chips:+d}.\n"
            )
        after = state._replace(hand=state.hand + 1, net=state.net + won, logs=(logs[0], logs[1]))
        return begun(after)

    def returns(self, state: Match) -> tuple[float, ...] | None:
        """Net chips as a share of all stacks."""
        return self.earned(state) if state.hand == self.hands else None

    def earned(self, state: Match) -> tuple[float, ...]:
        """The same, over the hands that are finished."""
        share = state.net / (self.stack * self.hands)
        return share, 0.0 - share

    def legal(self, state: Match, seat: int) -> Sequence[str] | None:
        """Every move, where they are few enough to list."""
        words = ["check"] if state.bets[0] == state.bets[1] else ["fold", "call"]
        low, high = self._raises(state) or (1, 0)
        if len(words) + high - low + 1 > _MOST_LISTED:
            return None
        return [*words, *(f"raise {amount}" for amount in range(low, high + 1))]

    def fallback(self, state: Match, seat: int) -> str:
        """Check, or fold where there is a bet."""
        return "check" if state.bets[0] == state.bets[1] else "fold"

    def sample(self, state: Match, seat: int, rng: np.random.Generator) -> str:
        """Any kind of move, and then any amount."""
        words = ["check"] if state.bets[0] == state.bets[1] else ["fold", "call"]
        raises = self._raises(state)
        if raises and rng.integers(len(words) + 1) == 0:
            return f"raise {rng.integers(raises[0], raises[1] + 1)}"
        return words[int(rng.integers(len(words)))]

    def components(self, state: Match, seat: int) -> Mapping[str, float]:
        """``chips``: what the seat won in all finished hands."""
        return {"chips": float(state.net if seat == 0 else 0 - state.net)}

    def swap_hidden(self, state: Match, seat: int, other: Match) -> Match:
        """The other's cards, and whatever is dealt later."""
        if state.hand == self.hands:
            return state
        hand, own, new = state.hand, state.deals[state.hand], other.deals[state.hand]
        known = (*own.holes[seat], *own.board[: _SHOWN[state.street]])
        spare = [
            card for card in (*new.holes[1 - seat], *new.board, *range(CARDS)) if card not in known
        ]
        fresh = list(dict.fromkeys(spare))
        shown = own.board[: _SHOWN[state.street]]
        theirs, board = tuple(fresh[:2]), (*shown, *fresh[2 : 7 - len(shown)])
        holes = (own.holes[0], theirs) if seat == 0 else (theirs, own.holes[1])
        deals = (*other.deals[:hand], Deal(holes, board), *other.deals[hand + 1 :])
        logs = (state.logs[0], other.logs[1]) if seat == 0 else (other.logs[0], state.logs[1])
        return state._replace(deals=deals, logs=logs)

    def reshuffled(self, state: Match, draws: Draws) -> Match:
        """Later hands, and this hand's table cards that lie face down."""
        if state.hand == self.hands:
            return state
        own = state.deals[state.hand]
        shown = own.board[: _SHOWN[state.street]]
        known = {*own.holes[0], *own.holes[1], *shown}
        deck = [card for card in draws.permutation(CARDS) if card not in known]
        deal = own._replace(board=(*shown, *deck[: 5 - len(shown)]))
        later = (_dealt(draws) for _ in range(self.hands - state.hand - 1))
        return state._replace(deals=(*state.deals[: state.hand], deal, *later))

    def encode(self, state: Match) -> Any:
        """The fields in order, as lists."""
        return [_listed(value) for value in state]

    def decode(self, data: Any) -> Match:
        """The inverse of `encode`."""
        fields = Match(*map(_frozen, data))
        return fields._replace(deals=tuple(Deal(*deal) for deal in fields.deals))


def named(deal: Deal) -> object:
    """The same for deals that differ in names of suits, or in which seat has which cards."""
    first, second = deal.holes
    return min(canonical([first, second, deal.board]), canonical([second, first, deal.board]))


def described(line: Sequence[str], seat: int) -> str:
    """The betting of one hand as a seat reads it."""
    rounds: list[str] = []
    moves: list[str] = []
    for item in line:
        head, _, move = item.partition(" ")
        if head in ("0", "1"):
            moves.append(f"{'you' if int(head) == seat else 'they'} {move}")
        else:
            rounds.append(", ".join(moves))
            moves = [item]
    rounds.append(", ".join(moves))
    return "; ".join(rounds)


def _dealt(draws: Draws) -> Deal:
    cards = draws.sample(CARDS, _DEALT)
    return Deal((tuple(cards[:2]), tuple(cards[2:4])), tuple(cards[4:]))


def _cards(cards: Sequence[int]) -> str:
    return " ".join(map(written, cards))


def _with(pair: tuple[int, int], seat: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if seat == 0 else (pair[0], value)


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _rules(hands: int, stack: int) -> str:
    several = "1 hand" if hands == 1 else f"{hands} hands"
    return (
        f"HOLD'EM. Two players play {several} of no-limit Texas hold'em. In each hand both begin with "
        f"{stack} chips. The button, who changes from hand to hand, puts in {SMALL_BLIND}; the other, the "
        f"big blind, puts in {BIG_BLIND}. Each gets two cards; five more come on the table for both: three "
        "(flop), one (turn), one (river). A card is rank and suit, as Th, the ten of hearts; ranks 2 to 9, "
        "T, J, Q, K, A; suits c, d, h, s.\n"
        "The button begins the betting before the flop, the other after flop, turn and river. check: add "
        "nothing. call: match their bet. raise N: make your bet of this betting round N chips in all. all "
        "in: raise by all that you have. fold: give up the pot. A raise adds at least as much as the last "
        "one, and at least 2, unless it is all in.\n"
        "The best five of a player's two cards and the table's five take the pot: straight flush, four of "
        "a kind, full house, flush, straight, three of a kind, two pair, pair, high card; equal hands "
        "share.\n"
        f"Payoff: the chips that you won less those that you lost, divided by {stack * hands}: from -1 to "
        "1.\n"
        "Reply with one of the possible moves, like this: <action>call</action> or "
        "<action>raise 6</action>\n\n"
    )
