"""Features of the card and dice games."""

from __future__ import annotations

import re

from srl_envs.families.cards.hanabi_mini import COLOURS, COPIES, NAMES, RANKS, HanabiMini
from srl_envs.families.cards.hanabi_mini_bots import Table, read_table
from srl_envs.families.cards.kuhn_poker import RANKS as POKER_RANKS
from srl_envs.families.cards.kuhn_poker import KuhnPoker
from srl_envs.families.cards.kuhn_poker_bots import read_spot
from srl_envs.families.cards.liars_dice import CALL, FACES, NO_BID, LiarsDice, higher_bids
from srl_envs.families.cards.liars_dice_bots import read_cup
from srl_envs.wrappers.numeric.features import Features, Reading, floats, one_hot

_POT = re.compile(r"In the pot: you (\d+), they (\d+)\.")
_ME = re.compile(r"^You are (player_\d)\.$", re.MULTILINE)
_MOST_ACTS = 4
"""Situations in a betting round by words said before: none, check, check and bet, and a raise."""


class PokerFeatures(Features):
    """Own card, table card, words said in this betting round, raises in it, both shares of the pot.

    Cards, words and raises are one-hot; chips are shares of the most that a hand can cost. Past
    hands are left out: every hand is dealt anew.
    """

    def __init__(self, game: KuhnPoker) -> None:
        self._most, self._raises = game.deck.most, game.deck.raises + 1
        self.size = 2 * len(POKER_RANKS) + _MOST_ACTS + self._raises + 2
        more = ("raise",) if game.deck.raises > 1 else ()
        self.actions = ("check", "bet", "fold", "call", *more)

    def read(self, text: str) -> Reading:
        """Features of the decision in an observation."""
        spot, pot = read_spot(text), _POT.search(text)
        if pot is None:
            raise ValueError("the text holds no pot")
        raised = sum(word in ("bet", "raise") for word in spot.betting)
        values = [
            *one_hot(POKER_RANKS.index(spot.card), len(POKER_RANKS)),
            *one_hot(POKER_RANKS.index(spot.table) if spot.table else -1, len(POKER_RANKS)),
            *one_hot(len(spot.betting), _MOST_ACTS),
            *one_hot(raised, self._raises),
            *(int(chips) / self._most for chips in pot.groups()),
        ]
        return Reading(floats(values), self.mask(spot.possible))


class LiarsDiceFeatures(Features):
    """Own dice by face, then per seat from the own on: dice left and last bid; the bid to beat; wild.

    Counts are shares of all dice at the start; faces are one-hot. Actions: every bid from the lowest
    on, then the call.
    """

    def __init__(self, game: LiarsDice) -> None:
        self._seats, self._total = game.seats, game.seats * game.dice
        self.size = FACES + self._seats * (2 + FACES) + 1 + FACES + 1
        self.actions = (*higher_bids(NO_BID, self._total), CALL)

    def read(self, text: str) -> Reading:
        """Features of the round in an observation."""
        cup, me = read_cup(text), _ME.search(text)
        if me is None or "\nYour turn: " not in text:
            raise ValueError("the text is not for a player on move")
        names = list(cup.dice)
        at = names.index(me.group(1))
        bids = dict(cup.bids)
        values = [cup.own.count(face) / self._total for face in range(1, FACES + 1)]
        for name in names[at:] + names[:at]:
            count, face = bids.get(name, NO_BID)
            values += [cup.dice[name] / self._total, count / self._total]
            values += one_hot(face - 1, FACES)
        count, face = cup.last
        values += [count / self._total, *one_hot(face - 1, FACES), float(cup.wild)]
        legal = higher_bids(cup.last, cup.total)
        return Reading(floats(values), self.mask(legal if not cup.bids else (*legal, CALL)))


class HanabiFeatures(Features):
    """What lies open, the others' hands and what they know of them, what is known of the own hand.

    In order: points of each colour, discarded copies of each card, clue tokens and lives (all as
    shares of the most); per other player, next one first, and card: colour and rank one-hot, then
    the marks that its owner holds possible; per own card the possible marks, and whether the latest
    clue named it. Actions: play, discard, then every clue to every player by name.
    """

    def __init__(self, game: HanabiMini) -> None:
        self._marks = game.colours + RANKS
        self._cards = [colour + rank for colour in game.colours for rank in RANKS]
        self._hand, self._others, self._lives = game.hand, game.seats - 1, game.lives
        marks, cards = len(self._marks), len(self._cards)
        self.size = (
            len(game.colours) + cards + 2
            + self._others * self._hand * 2 * marks + self._hand * (marks + 1)
        )  # fmt: skip
        kinds = [f"{kind} {at + 1}" for kind in ("play", "discard") for at in range(game.hand)]
        clues = [
            f"clue {name} {COLOURS.get(trait, trait)}"
            for name in NAMES[: game.seats]
            for trait in self._marks
        ]
        self.actions = (*kinds, *clues)

    def read(self, text: str) -> Reading:
        """Features of the table in an observation."""
        table = read_table(text)
        if "\nYour turn: " not in text:
            raise ValueError("the text is not for a player on move")
        values = [rank / len(RANKS) for rank in table.piles.values()]
        values += [table.gone[card] / COPIES[card[1]] for card in self._cards]
        values += [table.clues / table.most_clues, table.lives / self._lives]
        for hand in table.others.values():
            for at in range(self._hand):
                present = at < len(hand.cards)
                values += self._marked(hand.cards[at] if present else "")
                values += self._marked(hand.known[at] if present else "")
        named = table.clued(table.me) or []
        for at in range(self._hand):
            values += self._marked(table.own[at] if at < len(table.own) else "")
            values.append(float(at in named))
        return Reading(floats(values), self.mask(self._legal(table)))

    def _marked(self, marks: str) -> list[float]:
        return [float(mark in marks) for mark in self._marks]

    def _legal(self, table: Table) -> list[str]:
        own = range(1, len(table.own) + 1)
        bodies = [f"play {at}" for at in own]
        if table.clues < table.most_clues:
            bodies += [f"discard {at}" for at in own]
        return bodies + [
            f"clue {name} {COLOURS.get(trait, trait)}"
            for name, trait, _, _ in table.possible_clues()
        ]
