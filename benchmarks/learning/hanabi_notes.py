"""What a model that is to play small Hanabi must tell at each card: whether the card can be played.

Notes are questions to the inside of the model while it is pretrained (see
`benchmarks.tiny_model.pretraining`): a label at a place costs less to learn from than a reply that
depends on it.
"""

from __future__ import annotations

import re

from benchmarks.tiny_model.corpus import HEIGHT, LINES, URGENCY
from srl_envs.families.cards.hanabi_mini_bots import read_table

OPEN, PLAYABLE, USELESS, KNOWN = range(4)
"""Labels of a card: neither, can be played, can never score, can be played and its owner can infer it."""
_PILE = re.compile(r"^Played: \w+ (\d)", re.MULTILINE)
_THEIR_CARD = re.compile(r"^\d: \w+ (\d) \(", re.MULTILINE)
_OWN_CARD = re.compile(r"^\d: [^(\n]*(\S)$", re.MULTILINE)


def hanabi_notes(text: str) -> tuple[tuple[int, int, int], ...]:
    """(character, question, label) for the pile, each card of the partner and each own card.

    Args:
        text: an observation of two players and one colour.
    """
    table = read_table(text)
    pile = _PILE.search(text)
    if pile is None:
        raise ValueError("the text shows no pile")
    notes = [(pile.start(1), HEIGHT, int(pile.group(1)))]
    [partner] = table.others.values()
    theirs = list(_THEIR_CARD.finditer(text, pile.end()))
    for found, card, marks in zip(theirs, partner.cards, partner.known, strict=True):
        label = OPEN
        if table.playable(card):
            known = all(map(table.playable, table.could_be(marks)))
            label = KNOWN if known else PLAYABLE
        elif table.useless(card):
            label = USELESS
        notes.append((found.start(1), LINES, label))
    mine = list(_OWN_CARD.finditer(text, pile.end()))
    for found, marks in zip(mine, table.own, strict=True):
        cards = table.could_be(marks)
        label = OPEN
        if all(map(table.playable, cards)):
            label = PLAYABLE
        elif all(map(table.useless, cards)):
            label = USELESS
        notes.append((found.start(1), URGENCY, label))
    return tuple(notes)
