"""Small Hanabi: everyone sees the others' cards but not their own, and clues are few.

Cooperative: all seats get points / maximum, in [0, 1]; losing the last life ends the game and halves
it, so that daring pays more than throwing the game and less than finishing it. Three colours with
ranks 1 to 4 (three 1s, two 2s, two 3s, one 4 of each), hands of four, six clue tokens, three lives.
What a seat can infer from the clues about each own card is worked out for it; what a clue *means*
beyond that is for the players to agree on. Chance is in the deal only; who begins is drawn from the
seed.

The hands of the first two seats are held out from the other split, so no seat reads a start of eval in
train. Cards are shuffled as ever, and the deck is not part of it.

Ceiling and floor (two seats, 200 games): 1.0 is the most, and cannot be reached from every deal; the
strong bot, which plays by a convention, gets 0.91 with its like and 0.65 with the held-out bot, whose
convention is another; the random bot 0.07, always playing the first card 0.08, never playing 0. Rate by
play with unseen partners: a convention that a team agrees on in training is worth less with others.

Source: arXiv:1902.00506.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError

NAMES = tuple(map(seat_name, range(4)))
COLOURS = {"R": "red", "Y": "yellow", "G": "green"}
COPIES = {"1": 3, "2": 2, "3": 2, "4": 1}
RANKS = "".join(COPIES)
_LETTERS = {word: letter for letter, word in COLOURS.items()}
_POINTS = re.compile(r"\bPoints (\d+) of (\d+), ")
_I = r"(?:i |i'll |i will )?"
_MARK = r"(?:(?:colour|color|rank|number)s? )?(red|yellow|green|[1-4])s?"
_USE = re.compile(rf"{_I}(play|discard)(?: my| the)?(?: card)?(?: number)?[ #:]*([1-5])")
_CLUE = re.compile(
    rf"{_I}(?:clue|tell|hint)(?: to)?:? (?:player[ _]?)?([0-3])(?:,|:| about| the| with)* {_MARK}"
)
_CLUE_TO = re.compile(rf"{_I}(?:clue|give|hint)(?: the)? {_MARK} to (?:player[ _]?)?([0-3])")
_LIMITS = {"players": (2, 4), "colours": (1, 3), "hand": (2, 5), "clues": (1, 8), "lives": (1, 5)}


class Move(NamedTuple):
    """An action."""

    kind: str
    """"play", "discard" or "clue"."""
    at: int
    """Index of an own card, or the seat that gets the clue."""
    trait: str = ""
    """Letter of a colour, or a rank."""


class Show(NamedTuple):
    """Immutable state."""

    deck: tuple[str, ...]
    """Cards to draw, such as ``R1``, the next one first."""
    hands: tuple[tuple[str, ...], ...]
    known: tuple[tuple[str, ...], ...]
    """Seat, card: what the seat can infer from clues, as the colours and ranks that are possible."""
    mover: int
    clues: int
    lives: int
    piles: tuple[int, ...]
    """Highest rank played, per colour."""
    discards: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    """Moves so far, all of them public."""
    left: int = -1
    """Turns left once the deck is empty; -1 before."""


def points_so_far(text: str, seat: int) -> float:  # noqa: ARG001 - potentials get the seat
    """The share of points that the team has when a seat reads ``text``.

    A potential for credit turn by turn: a turn's return is then what the team still gains. 0 where the
    text holds no points.
    """
    points = _POINTS.search(text)
    return int(points[1]) / int(points[2]) if points else 0.0


@lru_cache(maxsize=1024)
def possible(known: str, colours: int) -> str:
    """``known`` in words: ``red or green, 1 or 3``; ``any rank`` where all are possible.

    Args:
        known: letters of the possible colours, then the possible ranks.
        colours: how many colours the game has.
    """
    words = [word for letter, word in COLOURS.items() if letter in known]
    ranks = [rank for rank in RANKS if rank in known]
    colour = " or ".join(words) if len(words) < colours or colours == 1 else "any colour"
    return f"{colour}, {' or '.join(ranks) if len(ranks) < len(RANKS) else 'any rank'}"


@lru_cache(maxsize=64)
def card_name(card: str) -> str:
    """``R1`` in words: ``red 1``."""
    return f"{COLOURS[card[0]]} {card[1]}"


@lru_cache(maxsize=8192)
def narrowed(hand: tuple[str, ...], known: tuple[str, ...], trait: str) -> tuple[str, ...]:
    """What is known of ``hand`` after a clue names all its cards with ``trait``."""
    kind = RANKS if trait in RANKS else "".join(COLOURS)
    return tuple(
        "".join(mark for mark in marks if mark not in kind or mark == trait)
        if trait in card
        else marks.replace(trait, "")
        for card, marks in zip(hand, known, strict=True)
    )


class HanabiMini(Game[Show, Move]):
    """Observation: rules, table, the others' cards, what is known of the own. Action: one move.

    Bodies: ``play 2``, ``discard 2``, ``clue player_1 red``, ``clue player_1 3``; a clue may name the
    seat by only its number, as in ``clue 1 red``. Fallback: discard the oldest card, or with all clue
    tokens there the first possible clue.

    Args:
        players: seats, 2 to 4.
        colours: 1 to 3.
        hand: cards of each seat, 2 to 5.
        clues: clue tokens, 1 to 8.
        lives: 1 to 5.

    Raises:
        ConfigError: an option is out of range, or the cards do not go round.
    """

    mode = "cooperative"
    max_action_chars = 48
    max_observation_chars = 4800

    def __init__(
        self, *, players: int = 2, colours: int = 3, hand: int = 4, clues: int = 6, lives: int = 3
    ) -> None:
        given = {
            "players": players,
            "colours": colours,
            "hand": hand,
            "clues": clues,
            "lives": lives,
        }
        for name, value in given.items():
            low, high = _LIMITS[name]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"hanabi_mini: {name}={value!r}; give {low} to {high}.")
        self.colours = "".join(COLOURS)[:colours]
        self._cards = tuple(
            colour + rank for colour in self.colours for rank in RANKS for _ in range(COPIES[rank])
        )
        drawn = len(self._cards) - players * hand
        if drawn < 1:
            raise ConfigError(
                f"hanabi_mini: {players} hands of {hand} use up all {len(self._cards)} cards; "
                "give fewer players, smaller hands or more colours."
            )
        self.seats, self.hand, self.clues, self.lives = players, hand, clues, lives
        self.points = len(RANKS) * colours
        # each play or discard draws, or is one of the last turns; clues come from tokens
        self.max_turns = 2 * (drawn + players) + clues + colours
        self._bodies = {
            f"{kind} {i + 1}": Move(kind, i) for kind in ("play", "discard") for i in range(hand)
        } | {
            f"clue {name} {COLOURS.get(trait, trait)}": Move("clue", seat, trait)
            for seat, name in enumerate(NAMES[:players])
            for trait in self.colours + RANKS
        }
        self._plays, self._discards = (
            [f"{kind} {i + 1}" for i in range(hand)] for kind in ("play", "discard")
        )
        rules = self._write_rules()
        self._heads = tuple(rules + self._write_form(seat) for seat in range(players))

    def _write_rules(self) -> str:
        words = [COLOURS[letter] for letter in self.colours]
        copies = " ".join(rank for rank in RANKS for _ in range(COPIES[rank]))
        return (
            f"Hanabi. {self.seats} players play together. You see the others' cards, but not your own.\n"
            f"Colours: {', '.join(words)}. Cards of each colour: {copies}. Each colour is played in the "
            "order 1 2 3 4.\n"
            "On your turn do one of these:\n"
            "- play one of your cards: if it is the next of its colour, it scores a point; if not, it is "
            "discarded and a life is lost. A 4 that scores brings back a clue token.\n"
            "- discard one of your cards: brings back a clue token. Not possible with "
            f"{self.clues} clue tokens, the most there are.\n"
            "- clue: pay a clue token and name a player and a colour or rank that is in that player's "
            "hand. That player is told which of its cards have it, and so which do not.\n"
            "After you play or discard a card, the cards behind it move down by one number, and the card "
            "that you draw gets the highest number.\n"
            f"The game ends with {self.points} points, with the last of {self.lives} lives lost, or when "
            "each player had one more turn after the last card was drawn.\n"
            f"Payoff: points divided by {self.points}, the same for all; half of it if no life is left.\n"
        )

    def _write_form(self, seat: int) -> str:
        partner = NAMES[(seat + 1) % self.seats]
        moves = (
            "play 2",
            "discard 2",
            f"clue {partner} {COLOURS[self.colours[0]]}",
            f"clue {partner} 3",
        )
        shown = ", ".join(f"<action>{move}</action>" for move in moves[:-1])
        return (
            f"Reply with one move, like one of these: {shown} or <action>{moves[-1]}</action>\n\n"
            f"You are {NAMES[seat]}.\n"
        )

    def new(self, streams: Streams) -> Show:
        """Shuffle and deal; draw who begins.

        The first two hands are held out, so whatever a seat sees at the start of an eval episode, at
        least one hand of it is dealt to that seat in no train episode.
        """
        permutation, size = streams.draws("instance").permutation, self.hand
        first = streams.draws("seats").integers(self.seats)

        def shuffle() -> list[str]:
            return [self._cards[i] for i in permutation(len(self._cards))]

        def deal() -> list[str]:
            return streams.held(shuffle, key=lambda cards: cards[:size])

        return self.deal(streams.held(deal, key=lambda cards: cards[size : 2 * size]), first)

    def deal(self, cards: Sequence[str], first: int) -> Show:
        """The first state with ``cards`` in this order: seat by seat, then the deck."""
        size = self.hand
        hands = tuple(tuple(cards[i * size : (i + 1) * size]) for i in range(self.seats))
        return Show(
            deck=tuple(cards[self.seats * size :]),
            hands=hands,
            known=((self.colours + RANKS,) * size,) * self.seats,
            mover=first,
            clues=self.clues,
            lives=self.lives,
            piles=(0,) * len(self.colours),
        )

    def to_move(self, state: Show) -> tuple[int, ...]:
        """One seat, or none at the end."""
        return () if self._over(state) else (state.mover,)

    def _over(self, state: Show) -> bool:
        return state.lives == 0 or state.left == 0 or sum(state.piles) == self.points

    def observe(self, state: Show, seat: int) -> str:
        """Rules, table, the others' cards, what is known of the own, and the latest moves."""
        hands, known, seats = state.hands, state.known, self.seats
        colours = len(self.colours)
        others = [(seat + step) % seats for step in range(1, seats)]
        shown = "".join([_shown(NAMES[s], hands[s], known[s], colours) for s in others])
        latest = "\n".join(state.log[-2 * seats :]) or "none yet"
        return (
            f"{self._heads[seat]}Points {sum(state.piles)} of {self.points}, lives {state.lives}, "
            f"clue tokens {state.clues}, cards in the deck {len(state.deck)}.\n"
            f"{_table(state.piles, state.discards)}{shown}"
            f"Your cards, as far as you know:\n{_own(known[seat], colours)}"
            f"Latest moves:\n{latest}\n{self._status(state, seat)}\n"
        )

    def _status(self, state: Show, seat: int) -> str:
        if self._over(state):
            return "The game is over."
        if state.mover != seat:
            return f"Wait for {NAMES[state.mover]}."
        last = f" Turns left for all: {state.left}." if state.left > 0 else ""
        if state.clues == 0:
            return f"Your turn: play or discard (no clue token is left).{last}"
        if state.clues == self.clues:
            return f"Your turn: play or clue (no discarding, all clue tokens are there).{last}"
        return f"Your turn: play, discard or clue.{last}"

    def parse(self, state: Show, seat: int, body: str) -> Move:
        """The move, if it can be made now."""
        move = self._bodies.get(body) or self._bodies.get(_plain(body))
        if move is None:
            raise IllegalMoveError(
                f"{body!r} is no move; write one like: play 1, discard 1, "
                f"clue {NAMES[(seat + 1) % self.seats]} {COLOURS[self.colours[0]]}"
            )
        problem = self._problem(state, seat, move)
        if problem:
            raise IllegalMoveError(problem)
        return move

    def _problem(self, state: Show, seat: int, move: Move) -> str:
        """Why ``move`` cannot be made now; "" where it can."""
        if move.kind != "clue":
            if move.at >= len(state.hands[seat]):
                return f"you have only {len(state.hands[seat])} cards"
            if move.kind == "discard" and state.clues == self.clues:
                return f"all {self.clues} clue tokens are there, so nothing can be discarded"
            return ""
        if move.at == seat:
            return "you cannot give a clue to yourself"
        if state.clues == 0:
            return "no clue token is left; play or discard"
        if not any(move.trait in card for card in state.hands[move.at]):
            return f"{NAMES[move.at]} has no such card, and a clue must name at least one"
        return ""

    def apply(self, state: Show, actions: Mapping[int, Move]) -> Show:
        """Make the move; count down the last turns."""
        seat = state.mover
        move = actions[seat]
        after = self._clue(state, move) if move.kind == "clue" else self._use(state, move)
        left = state.left - 1 if state.left > 0 else self.seats if not after.deck else -1
        return after._replace(mover=(seat + 1) % self.seats, left=left)

    def _clue(self, state: Show, move: Move) -> Show:
        hand, seat = state.hands[move.at], move.at
        marks = narrowed(hand, state.known[seat], move.trait)
        numbers = ", ".join(str(i) for i, card in enumerate(hand, 1) if move.trait in card)
        what = COLOURS.get(move.trait, move.trait)
        line = f"{NAMES[state.mover]}: clue {NAMES[seat]} {what} (cards {numbers})"
        return state._replace(
            known=(*state.known[:seat], marks, *state.known[seat + 1 :]),
            clues=state.clues - 1,
            log=(*state.log, line),
        )

    def _use(self, state: Show, move: Move) -> Show:
        """Play or discard, and draw."""
        seat, at = state.mover, move.at
        hand, marks = state.hands[seat], state.known[seat]
        card, drawn = hand[at], state.deck[:1]
        colour, rank = self.colours.index(card[0]), int(card[1])
        piles, lives, clues, discards = state.piles, state.lives, state.clues, state.discards
        done = ""
        if move.kind == "discard":
            clues, discards = clues + 1, (*discards, card)
        elif rank == piles[colour] + 1:
            done = ", a point"
            piles = (*piles[:colour], rank, *piles[colour + 1 :])
            clues = min(self.clues, clues + (rank == len(RANKS)))
        else:
            done = ", a life lost"
            lives, discards = lives - 1, (*discards, card)
        fresh = (self.colours + RANKS,) * len(drawn)
        return state._replace(
            deck=state.deck[1:],
            hands=(
                *state.hands[:seat],
                (*hand[:at], *hand[at + 1 :], *drawn),
                *state.hands[seat + 1 :],
            ),
            known=(
                *state.known[:seat],
                (*marks[:at], *marks[at + 1 :], *fresh),
                *state.known[seat + 1 :],
            ),
            clues=clues,
            lives=lives,
            piles=piles,
            discards=discards,
            log=(*state.log, f"{NAMES[seat]}: {move.kind} {at + 1} ({card_name(card)}{done})"),
        )

    def returns(self, state: Show) -> tuple[float, ...] | None:
        """Points as a share of the maximum, halved where all lives are lost; the same for all."""
        if not self._over(state):
            return None
        share = sum(state.piles) / self.points
        return (share if state.lives else share / 2,) * self.seats

    def legal(self, state: Show, seat: int) -> Sequence[str]:
        """Every move that can be made now."""
        own = len(state.hands[seat])
        bodies = self._plays[:own]
        if state.clues < self.clues:
            bodies += self._discards[:own]
        if state.clues:
            for step in range(1, self.seats):
                other = (seat + step) % self.seats
                bodies += _clue_bodies(NAMES[other], state.hands[other])
        return bodies

    def fallback(self, state: Show, seat: int) -> str:
        """Discard the oldest card; with all clue tokens there, the first possible clue."""
        if state.clues < self.clues:
            return "discard 1"
        other = (seat + 1) % self.seats
        return _clue_bodies(NAMES[other], state.hands[other])[0]

    def sample(self, state: Show, seat: int, rng: np.random.Generator) -> str:
        """Any move that can be made now."""
        bodies = self.legal(state, seat)
        return bodies[int(rng.integers(len(bodies)))]

    def components(self, state: Show, seat: int) -> Mapping[str, float]:
        """``points`` before halving, and ``lives`` left."""
        return {"points": float(sum(state.piles)), "lives": float(state.lives)}

    def swap_hidden(self, state: Show, seat: int, other: Show) -> Show:
        """The own cards, and the deck."""
        cards = other.hands[seat][: len(state.hands[seat])]
        hands = (*state.hands[:seat], cards, *state.hands[seat + 1 :])
        return state._replace(deck=other.deck[: len(state.deck)], hands=hands)

    def reshuffled(self, state: Show, draws: Draws) -> Show:
        """The deck in another order."""
        order = draws.permutation(len(state.deck))
        return state._replace(deck=tuple([state.deck[place] for place in order]))

    def encode(self, state: Show) -> Any:
        """The fields in order."""
        return [*state]

    def decode(self, data: Any) -> Show:
        """The inverse of `encode`."""
        deck, hands, known, mover, clues, lives, piles, discards, log, left = data
        return Show(
            tuple(deck), tuple(map(tuple, hands)), tuple(map(tuple, known)), mover, clues, lives,
            tuple(piles), tuple(discards), tuple(log), left,
        )  # fmt: skip


def _plain(body: str) -> str:
    """``clue player_1 red`` from ``Clue player 1: red``; "" where the body is not a move in other words."""
    said = " ".join(body.lower().split())
    if found := _USE.fullmatch(said):
        return f"{found[1]} {found[2]}"
    if found := _CLUE.fullmatch(said):
        return f"clue {NAMES[int(found[1])]} {found[2]}"
    if found := _CLUE_TO.fullmatch(said):
        return f"clue {NAMES[int(found[2])]} {found[1]}"
    return ""


@lru_cache(maxsize=8192)
def _table(piles: tuple[int, ...], discards: tuple[str, ...]) -> str:
    """The part of the observation that all seats see."""
    played = ", ".join(
        f"{word} {rank}" for word, rank in zip(COLOURS.values(), piles, strict=False)
    )
    gone = ", ".join(map(card_name, sorted(discards))) or "none"
    return f"Played: {played}.\nDiscarded: {gone}.\n"


@lru_cache(maxsize=8192)
def _own(known: tuple[str, ...], colours: int) -> str:
    """A hand with what its owner can infer."""
    return "".join(f"{i}: {possible(marks, colours)}\n" for i, marks in enumerate(known, 1))


@lru_cache(maxsize=8192)
def _shown(name: str, hand: tuple[str, ...], known: tuple[str, ...], colours: int) -> str:
    """Another player's cards, with what is known of them there."""
    lines = [
        f"{i}: {card_name(card)} (known: {possible(marks, colours)})\n"
        for i, (card, marks) in enumerate(zip(hand, known, strict=True), 1)
    ]
    return f"{name}'s cards, and what {name} knows of them:\n{''.join(lines)}"


@lru_cache(maxsize=8192)
def _clue_bodies(name: str, hand: tuple[str, ...]) -> list[str]:
    """Every clue about ``hand``: colours, then ranks."""
    marks = {mark for card in hand for mark in card}
    return [
        f"clue {name} {COLOURS.get(trait, trait)}" for trait in [*COLOURS, *RANKS] if trait in marks
    ]
