"""Liar's dice: two to five seats bid on dice that nobody sees whole, and call each other's bluff.

Competitive, zero-sum, paid by finishing place. A seat's outcome is the number of seats that it
outlived minus the number that outlived it, divided by 1, 2, 4 or 4 (for 2, 3, 4 or 5 seats), so
that every payment is exact in binary and the sum is exactly 0: three seats get 1, 0 and -1, four
get 0.75, 0.25, -0.25 and -0.75. A seat that forfeits comes last; the others rank as they stand.
The player who loses a round begins the next; who begins the first is drawn from the seed.

Bids only ever rise, so a round ends by itself; a game that lasts longer than ``max_turns`` (6 for
each die on the table at the start) ends there, and the seats left rank by their dice, ties sharing.

The first roll of all seats together, the dice of each in any order, is held out from the other split.
One seat's dice are not: what a seat holds would then tell what the others can hold.

Ceiling and floor (three seats, three dice, 180 games): the strong bot earns +0.97 at a table with two
random bots; the random bot earns -0.88 with two strong ones, and 0 among its like. Without a
thought, always calling earns -0.26 among random bots and -1.00 among strong ones, always bidding
as little as possible -0.15 and -0.80.
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

NAMES = tuple(map(seat_name, range(5)))
FACES = 6
CALL = "call"
_DIVISOR = {2: 1, 3: 2, 4: 4, 5: 4}
_NUMBERS = {str(n): n for n in range(1, 26)}
_CALLS = re.compile(
    r"(?:i )?(?:call|challenge)(?: (?:it )?(?:a )?(?:lie|liar|bluff|the (?:last )?(?:bid|bluff|lie)))?"
    r"|liar"
)
_TOKENS = re.compile(r"[a-z]+|[0-9]+|\S")
_WORDS = frozenset({
    "i", "will", "'", "ll", "my", "the", "a", "answer", "bid", "raise", "to", "is", "of", "there", "are",
    "at", "least", "count", "face", "value", "dice", "die", "times", "x", "that", "show", "showing",
    "with", "s", ",", ":", ";", "=",
})  # fmt: skip
"""What may stand beside the two numbers of a bid without changing what is meant."""
_FACES = {
    name: f for f, name in enumerate(("ones", "twos", "threes", "fours", "fives", "sixes"), 1)
}

Bid = tuple[int, int]
"""A count and a face; (0, 0) before the first bid. Higher tuples are higher bids."""
NO_BID: Bid = (0, 0)


class Cups(NamedTuple):
    """Immutable state: all rolls of the episode, and the round being played."""

    rolls: tuple[tuple[str, ...], ...]
    """Round, seat: faces under the cup. A seat with n dice left uses the first n."""
    dice: tuple[int, ...]
    """Dice left, per seat."""
    mover: int
    bid: Bid = NO_BID
    bidder: int = 0
    said: str = ""
    """Bids of this round, in order."""
    log: str = ""
    """Rounds that are over; all of it is public."""
    out: tuple[int, ...] = ()
    """Seats without dice, the first to lose them first."""
    round: int = 0
    turns: int = 0


def count_face(rolls: Sequence[str], face: int, *, wild: bool) -> int:
    """Dice that count for ``face`` in a bid; with ``wild``, a 6 counts as every face."""
    total = sum(roll.count(str(face)) for roll in rolls)
    return total + sum(roll.count("6") for roll in rolls) if wild and face != FACES else total


@lru_cache(maxsize=4096)
def higher_bids(bid: Bid, total: int) -> tuple[str, ...]:
    """Action bodies of every bid above ``bid`` with ``total`` dice on the table, the lowest first."""
    return tuple(
        f"{count} {face}"
        for count in range(max(1, bid[0]), total + 1)
        for face in range(1, FACES + 1)
        if (count, face) > bid
    )


class LiarsDice(Game[Cups, Bid | None]):
    """Observation: rules, past rounds, own dice, bids. Action: ``count face`` or ``call``.

    Fallback: call where there is a bid, else the lowest bid.

    Args:
        players: seats, 2 to 5.
        dice: dice of each seat at the start, 1 to 5.
        wild: a 6 counts as every face.

    Raises:
        ConfigError: an option is out of range.
    """

    mode = "competitive"
    max_action_chars = 48
    max_observation_chars = 9600

    def __init__(self, *, players: int = 3, dice: int = 3, wild: bool = False) -> None:
        for name, value, low in (("players", players, 2), ("dice", dice, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 5:
                raise ConfigError(f"liars_dice: {name}={value!r}; give {low} to 5.")
        if not isinstance(wild, bool):
            raise ConfigError(f"liars_dice: wild={wild!r}; give true or false.")
        self.seats, self.dice, self.wild = players, dice, wild
        self.max_turns = 6 * players * dice
        rules = self._write_rules()
        self._heads = tuple(f"{rules}You are {name}.\n" for name in NAMES[:players])

    def _write_rules(self) -> str:
        players, dice = self.seats, self.dice
        places = ", ".join(f"{x:g}" for x in self._payments(range(players, 0, -1)))
        wild = "A 6 is wild: it counts as every face." if self.wild else "No face is wild."
        return (
            f"Liar's dice. {players} players start with {dice} dice each, with faces 1 to 6. In every "
            "round all dice are rolled; you see only your own.\n"
            "In turn, by number, each player bids how many dice of one face there are among all dice on the "
            f"table. {wild} A bid must be higher than the last one: more dice of any face, or as many "
            "of a higher face.\n"
            "Instead of bidding you can call the last bid a lie. Then all dice are shown. If there are "
            "fewer of the face than was bid, the bidder loses a die, otherwise the caller does. The "
            "loser begins the next round. A player without dice is out.\n"
            f"The game ends when one player is left, or after {self.max_turns} turns. Players are placed "
            "by the dice they have left, those without dice by who went out later.\n"
            f"Payoff: by place, from first to last, {places}; equal places share.\n"
            "Reply with a count and a face, or with a call, like this ("
            f"{players * dice} dice that show 1): <action>{players * dice} 1</action> or "
            f"<action>{CALL}</action>\n\n"
        )

    def new(self, streams: Streams) -> Cups:
        """Roll for every round that there can be; draw who begins.

        The first roll of all seats together, the dice of each in any order, is held out. A seat's
        own dice are not: they would tell what the others can have.
        """
        draws, first = streams.draws("instance"), streams.draws("seats").integers(self.seats)
        seats, dice = self.seats, self.dice
        opening = streams.held(
            lambda: self._roll(draws, 1), key=lambda rolls: [*map(sorted, rolls[0])]
        )
        later = self._roll(draws, seats * dice - 2)
        return Cups((*opening, *later), (dice,) * seats, first)

    def _roll(self, draws: Draws, rounds: int) -> list[tuple[str, ...]]:
        """All dice of all seats, for so many rounds."""
        seats, dice = self.seats, self.dice
        cups = rounds * seats
        faces = "".join(map(str, draws.several(cups * dice, 1, FACES + 1)))
        rolled = [faces[i * dice : (i + 1) * dice] for i in range(cups)]
        return [tuple(rolled[i : i + seats]) for i in range(0, cups, seats)]

    def to_move(self, state: Cups) -> tuple[int, ...]:
        """One seat; none once one seat is left or the turns are used up."""
        return () if self._over(state) else (state.mover,)

    def _over(self, state: Cups) -> bool:
        return len(state.out) == self.seats - 1 or state.turns >= self.max_turns

    def observe(self, state: Cups, seat: int) -> str:
        """Rules, past rounds, dice counts, own dice, and the bids of this round."""
        head = self._heads[seat] + state.log
        if self._over(state):
            return f"{head}The game is over. Dice left: {_counts(state.dice)}\n"
        own = " ".join(sorted(_cup(state, seat))) or "none"
        bids = f"{state.said}." if state.said else "none yet."
        if state.mover != seat:
            status = f"Wait for {NAMES[state.mover]}."
        elif state.bid == NO_BID:
            status = "Your turn: bid."
        elif state.bid == (sum(state.dice), FACES):
            status = "Your turn: call (no bid is higher)."
        else:
            status = f"Your turn: bid higher than {state.bid[0]} {state.bid[1]}, or call."
        return (
            f"{head}Round {state.round + 1}. Dice left: {_counts(state.dice)}.\nYour dice: {own}.\n"
            f"Bids of this round: {bids}\n{status}\n"
        )

    def parse(self, state: Cups, seat: int, body: str) -> Bid | None:
        """The bid, or None for a call."""
        said = " ".join(body.lower().split())
        if _CALLS.fullmatch(said):
            if state.bid == NO_BID:
                raise IllegalMoveError("there is no bid to call yet; bid a count and a face: 1 4")
            return None
        count, face = _read_bid(said)
        if count is None or face is None:
            raise IllegalMoveError(
                f"{body!r} is no bid; write a count, then a face from 1 to 6, as in: 2 5"
            )
        if count > (total := sum(state.dice)):
            raise IllegalMoveError(f"there are only {total} dice on the table")
        if (count, face) <= state.bid:
            raise IllegalMoveError(
                f"{count} {face} is not higher than the last bid, "
                f"{state.bid[0]} {state.bid[1]}; raise the count, or the face, or call"
            )
        return count, face

    def apply(self, state: Cups, actions: Mapping[int, Bid | None]) -> Cups:
        """Raise the bid, or show the dice."""
        seat = state.mover
        bid = actions[seat]
        if bid is None:
            return self._show(state)
        comma = ", " if state.said else ""
        return state._replace(
            mover=self._next(state.dice, seat),
            bid=bid,
            bidder=seat,
            said=f"{state.said}{comma}{NAMES[seat]}: {bid[0]} {bid[1]}",
            turns=state.turns + 1,
        )

    def _show(self, state: Cups) -> Cups:
        """The caller or the bidder loses a die, and begins the next round if any is left."""
        caller, (count, face) = state.mover, state.bid
        cups = [_cup(state, seat) for seat in range(self.seats)]
        found = count_face(cups, face, wild=self.wild)
        loser = state.bidder if found < count else caller
        dice = tuple(n - (seat == loser) for seat, n in enumerate(state.dice))
        shown = ", ".join(
            f"{NAMES[s]}: {' '.join(sorted(cup))}" for s, cup in enumerate(cups) if cup
        )
        log = (
            f"{state.log}Round {state.round + 1}: {state.said}, {NAMES[caller]} called. "
            f"Dice: {shown}. {NAMES[loser]} lost a die.\n"
        )
        return Cups(
            state.rolls,
            dice,
            loser if dice[loser] else self._next(dice, loser),
            log=log,
            out=state.out if dice[loser] else (*state.out, loser),
            round=state.round + 1,
            turns=state.turns + 1,
        )

    def _next(self, dice: tuple[int, ...], seat: int) -> int:
        """The next seat with dice."""
        seat = (seat + 1) % self.seats
        while not dice[seat]:
            seat = (seat + 1) % self.seats
        return seat

    def returns(self, state: Cups) -> tuple[float, ...] | None:
        """By finishing place; see the module's first lines."""
        return self._payments(_standing(state)) if self._over(state) else None

    def forfeit(self, state: Cups, seat: int) -> tuple[float, ...]:
        """``seat`` comes last, the others as they stand."""
        standing = _standing(state)
        standing[seat] = min(standing) - 1
        return self._payments(standing)

    def _payments(self, standing: Sequence[int]) -> tuple[float, ...]:
        divisor = _DIVISOR[self.seats]
        return tuple(
            sum((mine > theirs) - (mine < theirs) for theirs in standing) / divisor
            for mine in standing
        )

    def legal(self, state: Cups, seat: int) -> Sequence[str]:
        """Every higher bid, and the call."""
        bids = higher_bids(state.bid, sum(state.dice))
        return bids if state.bid == NO_BID else (*bids, CALL)

    def fallback(self, state: Cups, seat: int) -> str:
        """Call; the lowest bid where there is nothing to call."""
        return "1 1" if state.bid == NO_BID else CALL

    def sample(self, state: Cups, seat: int, rng: np.random.Generator) -> str:
        """Call one time in three, else one of the six next higher bids."""
        return random_body(state.bid, sum(state.dice), rng)

    def components(self, state: Cups, seat: int) -> Mapping[str, float]:
        """``place``: 1 for the winner, the mean of the places for ties; ``dice`` left."""
        standing = _standing(state)
        mine = standing[seat]
        better = sum(theirs > mine for theirs in standing)
        return {
            "place": better + (standing.count(mine) + 1) / 2,
            "dice": float(state.dice[seat]),
        }

    def swap_hidden(self, state: Cups, seat: int, other: Cups) -> Cups:
        """The others' dice, and all of later rounds."""
        number, cups = state.round, other.rolls[state.round]
        own = (*cups[:seat], state.rolls[number][seat], *cups[seat + 1 :])
        return state._replace(rolls=(*other.rolls[:number], own, *other.rolls[number + 1 :]))

    def reshuffled(self, state: Cups, draws: Draws) -> Cups:
        """The rolls of later rounds."""
        played = state.rolls[: state.round + 1]
        return state._replace(rolls=(*played, *self._roll(draws, len(state.rolls) - len(played))))

    def encode(self, state: Cups) -> Any:
        """The fields in order."""
        return [*state]

    def decode(self, data: Any) -> Cups:
        """The inverse of `encode`."""
        rolls, dice, mover, bid, bidder, said, log, out, number, turns = data
        return Cups(
            tuple(map(tuple, rolls)), tuple(dice), mover, (bid[0], bid[1]), bidder, said, log,
            tuple(out), number, turns,
        )  # fmt: skip

    def render(self, state: Cups) -> str:
        """Every cup, and what was said; only past rounds once the game is over."""
        if not self.to_move(state):
            return f"{state.log}The game is over. Dice left: {_counts(state.dice)}."
        cups = ", ".join(
            f"{NAMES[s]}: {' '.join(_cup(state, s)) or 'out'}" for s in range(self.seats)
        )
        return f"{state.log}Round {state.round + 1}. Dice: {cups}. Bids: {state.said or 'none'}."


def _read_bid(said: str) -> tuple[int | None, int | None]:
    """Count and face of a bid as people write it, such as ``bid 2 fives`` or ``face 5, count 2``.

    None for a number that is not there, is out of range, or cannot be distinguished from the other.
    """
    words = _TOKENS.findall(said)
    at = [i for i, word in enumerate(words) if word.isdigit() or word in _FACES]
    if len(at) != 2 or any(w not in _WORDS for i, w in enumerate(words) if i not in at):
        return None, None
    first, second = at
    if {"face", "value"} & set(words[max(0, first - 2) : first]) or "count" in words[first:second]:
        first, second = second, first
    count, face = words[first], words[second]
    number = _FACES.get(face, _NUMBERS.get(face))
    return _NUMBERS.get(count), number if number is not None and number <= FACES else None


def random_body(bid: Bid, total: int, rng: np.random.Generator) -> str:
    """Call one time in three, else one of the six next higher bids; whatever of it is legal."""
    bids = higher_bids(bid, total)[:6]
    if bid != NO_BID and (not bids or rng.random() < 1 / 3):
        return CALL
    return bids[int(rng.integers(len(bids)))]


def _cup(state: Cups, seat: int) -> str:
    """The faces that a seat rolled in this round."""
    return state.rolls[state.round][seat][: state.dice[seat]]


def _standing(state: Cups) -> list[int]:
    """A number per seat: higher is better, equal is a tie. Dice left, or below 0 how early it left."""
    lost = {seat: order - len(state.out) for order, seat in enumerate(state.out)}
    return [lost.get(seat, left) for seat, left in enumerate(state.dice)]


def _counts(dice: Sequence[int]) -> str:
    return ", ".join(f"{NAMES[seat]}: {left}" for seat, left in enumerate(dice))
