"""Scripted players of small Hanabi; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from srl_envs.families.cards.hanabi_mini import COLOURS, COPIES, RANKS, narrowed
from srl_envs.turns.grammar import action

_ME = re.compile(r"^You are (player_\d)\.\n.* lives (\d), clue tokens (\d), ", re.MULTILINE)
_MOST_CLUES = re.compile(r"with (\d) clue tokens, the most")
_PLAYED = re.compile(r"^Played: (.*)\.$", re.MULTILINE)
_GONE = re.compile(r"^Discarded: (.*)\.$", re.MULTILINE)
_HANDS = re.compile(r"^(player_\d)'s cards, .*:\n((?:\d: .*\n)+)", re.MULTILINE)
_OWN = re.compile(r"^Your cards, .*:\n((?:\d: .*\n)+)", re.MULTILINE)
_CARD = re.compile(r"^\d: (\w+ \d) \(known: (.*)\)$", re.MULTILINE)
_CLUE = re.compile(r"^player_\d: clue (player_\d) \w+ \(cards ([\d, ]+)\)$")
_SHORT = {word: letter for letter, word in COLOURS.items()}


@dataclass(frozen=True, slots=True)
class Hand:
    """Another player's cards."""

    cards: tuple[str, ...]
    known: tuple[str, ...]
    """What the player can infer about each of its cards."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a bot reads from an observation."""

    me: str
    lives: int
    clues: int
    most_clues: int
    piles: dict[str, int]
    gone: Counter[str]
    others: dict[str, Hand]
    """Other players by name, the next one to move first."""
    own: tuple[str, ...]
    log: tuple[str, ...]

    def playable(self, card: str) -> bool:
        """Whether ``card`` is the next of its colour."""
        return int(card[1]) == self.piles[card[0]] + 1

    def useless(self, card: str) -> bool:
        """Whether ``card`` can never score: it is played, or one below it is gone for good."""
        below = [
            f"{card[0]}{rank}" for rank in RANKS if self.piles[card[0]] < int(rank) < int(card[1])
        ]
        played = int(card[1]) <= self.piles[card[0]]
        return played or any(self.gone[c] == COPIES[c[1]] for c in below)

    def could_be(self, marks: str) -> list[str]:
        """Cards that fit ``marks`` and of which not every copy is seen elsewhere."""
        seen = self.gone + Counter(card for hand in self.others.values() for card in hand.cards)
        fits = ["".join(pair) for pair in product(self.piles, RANKS) if set(pair) <= set(marks)]
        left = [c for c in fits if seen[c] + (int(c[1]) <= self.piles[c[0]]) < COPIES[c[1]]]
        return left or fits

    def clued(self, name: str) -> list[int] | None:
        """Indices of the cards named by the latest clue to ``name`` since its last move, if any."""
        for line in reversed(self.log):
            if line.startswith(f"{name}:"):
                return None
            clue = _CLUE.match(line)
            if clue and clue.group(1) == name:
                return [int(number) - 1 for number in clue.group(2).split(", ")]
        return None

    def possible_clues(self) -> Iterator[tuple[str, str, list[int], tuple[str, ...]]]:
        """Name, colour or rank, indices that it names, what the player can infer after it."""
        for name, hand in self.others.items() if self.clues else ():
            for trait in sorted({mark for card in hand.cards for mark in card}):
                named = [i for i, card in enumerate(hand.cards) if trait in card]
                yield name, trait, named, narrowed(hand.cards, hand.known, trait)


def read_table(text: str) -> Table:
    """The position of an observation."""
    me, most, played, gone, own = (
        pattern.search(text) for pattern in (_ME, _MOST_CLUES, _PLAYED, _GONE, _OWN)
    )
    if me is None or most is None or played is None or gone is None or own is None:
        raise ValueError("the text holds no table of Hanabi")
    discarded = gone.group(1).split(", ") if gone.group(1) != "none" else []
    return Table(
        me=me.group(1),
        lives=int(me.group(2)),
        clues=int(me.group(3)),
        most_clues=int(most.group(1)),
        piles={_card(pile)[0]: int(pile[-1]) for pile in played.group(1).split(", ")},
        gone=Counter(map(_card, discarded)),
        others={
            name: Hand(*zip(*((_card(c), _marks(k)) for c, k in _CARD.findall(lines)), strict=True))
            for name, lines in _HANDS.findall(text)
        },
        own=tuple(_marks(line[3:]) for line in own.group(1).splitlines()),
        log=tuple(text.partition("Latest moves:\n")[2].splitlines()[:-1]),
    )


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any move that can be made."""

    def act(text: str) -> str:
        table = read_table(text)
        moves = [f"play {i + 1}" for i in range(len(table.own))]
        if table.clues < table.most_clues:
            moves += [f"discard {i + 1}" for i in range(len(table.own))]
        moves += [_clue(name, trait) for name, trait, _, _ in table.possible_clues()]
        return action(moves[int(rng.integers(len(moves)))])

    return act


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Plays what is certain, clues cards that can be played, reads nothing between the lines."""

    def act(text: str) -> str:
        table = read_table(text)
        certain = _certain(table)
        if certain is not None:
            return action(f"play {certain + 1}")
        helpful = [
            _clue(name, trait)
            for name, trait, named, after in table.possible_clues()
            if any(
                table.playable(table.others[name].cards[i])
                and after[i] != table.others[name].known[i]
                for i in named
            )
        ]
        if helpful:
            return action(helpful[int(rng.integers(len(helpful)))])
        return action(_discard(table) or _quiet_clue(table, newest=True))

    return act


def strong_bot(rng: np.random.Generator) -> Callable[[str], str]:  # noqa: ARG001 - as all factories
    """Convention: the newest card that a clue names can be played at once."""
    return _convention(newest=True)


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:  # noqa: ARG001 - as all factories
    """The opposite convention, the oldest card that a clue names; an unfamiliar partner for rating."""
    return _convention(newest=False)


def _convention(*, newest: bool) -> Callable[[str], str]:
    def act(text: str) -> str:
        table = read_table(text)
        named = table.clued(table.me)
        if named is not None:
            focus = max(named) if newest else min(named)
            if any(map(table.playable, table.could_be(table.own[focus]))):
                return action(f"play {focus + 1}")
        certain = _certain(table)
        if certain is not None:
            return action(f"play {certain + 1}")
        return action(
            _play_clue(table, newest=newest) or _discard(table) or _quiet_clue(table, newest=newest)
        )

    return act


def _certain(table: Table) -> int | None:
    """Index of an own card that can be played whatever it is."""
    for index, marks in enumerate(table.own):
        if all(map(table.playable, table.could_be(marks))):
            return index
    return None


def _play_clue(table: Table, *, newest: bool) -> str | None:
    """A clue that makes a player play a card, the one that names most; "" where there is none."""
    best, most = None, 0
    for name, trait, named, after in table.possible_clues():
        hand = table.others[name]
        focus = max(named) if newest else min(named)
        waiting = table.clued(name) is not None
        if waiting or not table.playable(hand.cards[focus]) or _sure(table, hand.known[focus]):
            continue
        if _promised(table, hand.cards[focus]):
            continue
        gain = sum(len(old) - len(new) for old, new in zip(hand.known, after, strict=True)) + 1
        if gain > most:
            best, most = _clue(name, trait), gain
    return best


def _promised(table: Table, card: str) -> bool:
    """Whether another player just got a clue to the same card, and will play it."""
    for name, hand in table.others.items():
        named = table.clued(name)
        if named is not None and any(hand.cards[i] == card for i in named if i < len(hand.cards)):
            return True
    return False


def _sure(table: Table, marks: str) -> bool:
    """Whether ``marks`` suffice to show that a card can be played."""
    fits = ["".join(pair) for pair in product(table.piles, RANKS) if set(pair) <= set(marks)]
    return all(map(table.playable, fits))


def _discard(table: Table) -> str | None:
    """Discard what is useless, else the oldest card of which least is known; None at all tokens."""
    if table.clues == table.most_clues:
        return None
    for index, marks in enumerate(table.own):
        if all(map(table.useless, table.could_be(marks))):
            return f"discard {index + 1}"
    widths = [len(marks) for marks in table.own]
    return f"discard {widths.index(max(widths)) + 1}"


def _quiet_clue(table: Table, *, newest: bool) -> str:
    """A clue after which the card it points at cannot be taken for one to play, if there is one."""
    clues = list(table.possible_clues())
    for name, trait, named, after in clues:
        focus = max(named) if newest else min(named)
        fits = [c for c in map("".join, product(table.piles, RANKS)) if set(c) <= set(after[focus])]
        if not any(map(table.playable, fits)):
            return _clue(name, trait)
    return _clue(clues[0][0], clues[0][1])


def _clue(name: str, trait: str) -> str:
    return f"clue {name} {COLOURS.get(trait, trait)}"


def _card(words: str) -> str:
    """``R1`` from ``red 1``."""
    colour, rank = words.split(" ")
    return _SHORT[colour] + rank


def _marks(words: str) -> str:
    """``RG13`` from ``red or green, 1 or 3``."""
    words = words.replace("any colour", " or ".join(COLOURS)).replace(
        "any rank", " or ".join(RANKS)
    )
    return "".join(_SHORT.get(word, word) for word in words.replace(",", " or").split(" or "))
