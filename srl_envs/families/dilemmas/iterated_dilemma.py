"""Iterated dilemma: two seats meet again and again in one small table of points.

Mixed payoffs, simultaneous, paid round by round. The seed draws the kind of table (prisoner's
dilemma, stag hunt, chicken, battle of the sexes, harmony), its points and which move is called A, so
a name gives nothing away: what to do follows from the numbers alone. A seat may send one line with
its move; the other reads it before the next round. Sending with the move instead of before it halves
the turns, and the words are as cheap: they come too late for this round and bind nobody.

The outcome is the mean of own points over the table's largest number, in [0, 1]. Over all kinds (200
seeds) two random bots earn 0.57 each, two tit-for-tats 0.71, two planners (`strong`) 0.87; against a
random one selfish earns 0.66, the planner 0.63; against tit for tat the planner earns 0.89, selfish
0.61. No policy is best against all: that is the game.

Eval tables are held out: which move is called A, which seat is which, and the scale of the points
make no other table.

Forfeiting costs the seat everything (-1); the other keeps what it has and is paid its security level
(what it can have against anyone) for the rounds that are left, so talking the other into nonsense
never pays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError, nearest
from srl_envs.messages import Spoken, join_body, quoted, split_body

KINDS = ("prisoner", "stag_hunt", "chicken", "battle", "harmony")
HORIZONS = ("fixed", "geometric")
MAX_ROUNDS = 20
MAX_MESSAGE_CHARS = 100
GOES_ON = 0.9
"""Chance that a game of geometric horizon has one more round."""
LARGEST_POINTS = 9

Table = tuple[tuple[int, int], ...]
"""Points of both seats in the four cells AA, AB, BA, BB (seat 0's move first)."""


class Wording(NamedTuple):
    """What follows from a table, for both seats."""

    starts: tuple[str, str]
    """Who each seat is, and the table as it reads it."""
    cells: tuple[tuple[str, str], ...]
    """Per cell of the table, what each seat reads of a round that ended there."""
    largest: int
    """Largest number in the table."""


class Meeting(NamedTuple):
    """Immutable state."""

    table: Table
    length: int
    """Rounds of this episode; hidden where the horizon is geometric."""
    wording: Wording
    histories: tuple[str, str]
    """What each seat has read: who it is, its table, and the past rounds."""
    moves: tuple[tuple[int, int], ...] = ()
    """Per round, both seats: 0 for A, 1 for B."""
    words: tuple[tuple[str, str], ...] = ()
    """Per round, what both seats said; empty for nothing."""
    points: tuple[int, int] = (0, 0)
    """Points of both seats so far."""


class Choice(NamedTuple):
    """Move of a seat in one round."""

    move: int
    message: str


_SILENT = {"A": Choice(0, ""), "B": Choice(1, "")}
_MOVE = re.compile(
    r"(?:(?:i|my|the) )?(?:(?:move|choose|play|pick|take|choice|action|option)(?: is)?[: ]+)?([ab])[.!]?",
    re.IGNORECASE,
)


def draw_table(rng: Draws, kind: str) -> Table:
    """Points from 0 to 9 in the order that makes the ``kind``; which move is called A is a coin.

    Args:
        rng: draws the numbers.
        kind: one of `KINDS`.
    """
    flip = bool(rng.integers(2))
    while True:
        low, second, third, top = sorted(rng.sample(LARGEST_POINTS + 1, 4))
        if kind == "battle":
            cells: Table = ((top, third), (low, low), (low, low), (third, top))
        else:
            swap = bool(rng.integers(2))
            both, tempted, fooled, neither = {
                "prisoner": (third, top, low, second),
                "stag_hunt": (top, third, low, second),
                "chicken": (third, top, second, low),
                "harmony": (top, third, second, low) if swap else (top, second, third, low),
            }[kind]
            cells = ((both, both), (fooled, tempted), (tempted, fooled), (neither, neither))
        if kind != "prisoner" or 2 * third > top + low:  # taking turns must not beat trust
            return cells[::-1] if flip else cells


@lru_cache(maxsize=4096)
def table_key(table: Table) -> tuple[tuple[int, int], ...]:
    """The same for tables that differ in the names of moves and seats, or in the scale of points.

    The smallest of all ways to name moves and seats, its points counted from 0 in the largest whole steps.
    """
    least = min(map(min, table))
    step = gcd(*(points - least for cell in table for points in cell)) or 1
    scaled = [tuple((points - least) // step for points in cell) for cell in table]
    named = [
        tuple(scaled[2 * (m ^ flip) + (o ^ turn)] for m, o in product((0, 1), repeat=2))
        for flip, turn in product((0, 1), repeat=2)
    ]
    swapped = [tuple(way[cell][::-1] for cell in (0, 2, 1, 3)) for way in named]
    first = min(named + swapped)
    return tuple((mine, theirs) for mine, theirs in first)


def opening(table: Table, length: int) -> Meeting:
    """The state before the first round."""
    wording = wording_of(table)
    return Meeting(table, length, wording, wording.starts)


@lru_cache(maxsize=4096)
def wording_of(table: Table) -> Wording:
    """The texts and the largest number of a table."""
    cells = tuple(
        (_cell(first, second, cell), _cell(second, first, cell[::-1]))
        for (first, second), cell in zip(product("AB", repeat=2), table, strict=True)
    )
    return Wording((table_text(table, 0), table_text(table, 1)), cells, max(map(max, table)))


def one_round(state: Meeting, both: tuple[int, int], said: tuple[str, str]) -> Meeting:
    """The state after both moves and messages of a round."""
    table, length, wording, (ours, theirs), moves, words, (first, second) = state
    place, number = 2 * both[0] + both[1], len(moves) + 1
    line, others_line = wording.cells[place]
    message, answer = said
    if message or answer:
        (sent, received), (others_sent, others_received) = _spoken(message), _spoken(answer)
        ours = f"{ours}Round {number}: {line}{sent}{others_received}"
        theirs = f"{theirs}Round {number}: {others_line}{others_sent}{received}"
    else:
        ours, theirs = f"{ours}Round {number}: {line}", f"{theirs}Round {number}: {others_line}"
    mine, other = table[place]
    points = first + mine, second + other
    return Meeting(table, length, wording, (ours, theirs), (*moves, both), (*words, said), points)


def security(table: Table, seat: int) -> int:
    """The points that a seat can have in every round, whatever the other does, by one pure move."""
    step, other = (2, 1) if seat == 0 else (1, 2)
    return max(min(table[m * step + o * other][seat] for o in (0, 1)) for m in (0, 1))


def table_text(table: Table, seat: int) -> str:
    """Who the seat is, and the table as it reads it, one line per cell."""
    lines = [f"You are {seat_name(seat)}.\n"]
    for mine in (0, 1):
        for theirs in (0, 1):
            cell = table[2 * mine + theirs] if seat == 0 else table[2 * theirs + mine]
            lines.append(
                f"You {'AB'[mine]}, other {'AB'[theirs]}: "
                f"you get {cell[seat]}, other gets {cell[1 - seat]}.\n"
            )
    return "".join(lines)


class IteratedDilemma(Game[Meeting, Choice]):
    """Observation: rules, table, past rounds. Action: ``A`` or ``B``, with an optional message above.

    Args:
        kinds: tables to draw from, out of `KINDS`; all by default.
        rounds: of a fixed horizon, 1 to 20.
        horizon: "fixed", or "geometric": after each round the game goes on with probability 0.9,
            20 rounds at most; ``rounds`` is then not used.
        talk: whether seats may send messages.

    Raises:
        ConfigError: a value is out of range or a name unknown.
    """

    mode = "mixed"
    simultaneous = True
    max_action_chars = 400

    def __init__(
        self,
        *,
        kinds: Sequence[str] | None = None,
        rounds: int = 10,
        horizon: str = "fixed",
        talk: bool = True,
    ) -> None:
        self.kinds = _checked_kinds(kinds)
        if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MAX_ROUNDS:
            raise ConfigError(f"iterated_dilemma: rounds={rounds!r}; give 1 to {MAX_ROUNDS}.")
        if horizon not in HORIZONS:
            hint = nearest(str(horizon), HORIZONS)
            raise ConfigError(f"iterated_dilemma: horizon={horizon!r} is none of {HORIZONS}.{hint}")
        if not isinstance(talk, bool):
            raise ConfigError(f"iterated_dilemma: talk={talk!r}; give true or false.")
        self.rounds, self.horizon, self.talk = rounds, horizon, talk
        self.max_turns = rounds if horizon == "fixed" else MAX_ROUNDS
        self.max_observation_chars = 1600 + self.max_turns * (330 if talk else 80)
        of = f" of {rounds}" if horizon == "fixed" else ""
        self._rounds = tuple(
            f". Round {number}{of}: choose.\n" for number in range(1, self.max_turns + 1)
        )
        self._rules = self._write_rules()

    def _write_rules(self) -> str:
        if self.horizon == "fixed":
            length = f"{self.rounds} rounds"
        else:
            length = (
                f"after every round another follows with a chance of 9 in 10, at most {MAX_ROUNDS}"
            )
        text = (
            "Two players choose A or B at the same moment, again and again by the table below: "
            f"{length}.\n"
            "Payoff: your mean points per round / the largest number in the table. What the other gets "
            "does not count for you.\n"
            "Reply with your choice, A or B, like this: <action>A</action>\n"
        )
        if self.talk:
            text += (
                f"You may add a message of at most {MAX_MESSAGE_CHARS} characters, which the other "
                "reads in the next round, on a line above the move: <action>say: your message\n"
                "A</action>\n"
            )
        return text + "\n"

    def new(self, streams: Streams) -> Meeting:
        """Draw kind, table and length."""
        rng = streams.draws("instance")
        table = streams.held(
            lambda: draw_table(rng, self.kinds[rng.integers(len(self.kinds))]), table_key
        )
        length = self.rounds
        if self.horizon == "geometric":
            length = min(MAX_ROUNDS, int(rng.generator().geometric(1 - GOES_ON)))
        return opening(table, length)

    def to_move(self, state: Meeting) -> tuple[int, ...]:
        """Both seats until the last round is played."""
        return (0, 1) if len(state.moves) < state.length else ()

    def observe(self, state: Meeting, seat: int) -> str:
        """Rules, the table from the seat's side, every past round, and the round to come."""
        _, length, _, histories, moves, _, points = state
        played = len(moves)
        status = self._rounds[played] if played < length else ". It is over.\n"
        return (
            f"{self._rules}{histories[seat]}"
            f"You have {points[seat]} points, the other {points[1 - seat]}{status}"
        )

    def parse(self, state: Meeting, seat: int, body: str) -> Choice:
        """A move, and a message where talk is on."""
        silent = _SILENT.get(body)
        if silent is not None:
            return silent
        spoken = split_body(body, MAX_MESSAGE_CHARS, example="A") if self.talk else Spoken("", body)
        if spoken.move in _SILENT:
            return Choice(_SILENT[spoken.move].move, spoken.message)
        found = _MOVE.fullmatch(spoken.move)
        if found is None:
            raise IllegalMoveError(f"{spoken.move[:20]!r} is no move; write A or B alone on a line")
        return Choice("AB".index(found.group(1).upper()), spoken.message)

    def apply(self, state: Meeting, actions: Mapping[int, Choice]) -> Meeting:
        """Both moves and messages come out together."""
        (first, said), (second, answered) = actions[0], actions[1]
        return one_round(state, (first, second), (said, answered))

    def returns(self, state: Meeting) -> tuple[float, ...] | None:
        """Mean points per round over the table's largest number."""
        return None if self.to_move(state) else self.earned(state)

    def earned(self, state: Meeting) -> tuple[float, ...]:
        """What the rounds so far add to the outcome."""
        first, second = state.points
        scale = _scale(state)
        return first / scale, second / scale

    def forfeit(self, state: Meeting, seat: int) -> tuple[float, ...]:
        """-1 for the seat; the other has its security level in the rounds that are left."""
        other = 1 - seat
        left = state.length - len(state.moves)
        kept = (state.points[other] + left * security(state.table, other)) / _scale(state)
        return (-1.0, kept) if seat == 0 else (kept, -1.0)

    def fallback(self, state: Meeting, seat: int) -> str:
        """A, without a word."""
        return "A"

    def sample(self, state: Meeting, seat: int, rng: np.random.Generator) -> str:
        """A coin, with a short message one time in four."""
        draw = int(rng.integers(8))
        message = f"I take {'AB'[draw >> 1 & 1]} next" if self.talk and draw >= 6 else ""
        return join_body(message, "AB"[draw & 1])

    def components(self, state: Meeting, seat: int) -> Mapping[str, float]:
        """``welfare``: joint points over the best joint ones. ``exploited``: points behind the other.

        ``exploited`` sums the gap over the rounds in which the seat got less, on the outcome's scale.
        ``messages`` is the share of rounds in which the seat spoke.
        """
        cells = [state.table[2 * first + second] for first, second in state.moves]
        played = max(len(cells), 1)
        best = max(sum(cell) for cell in state.table)
        behind = sum(max(0, cell[1 - seat] - cell[seat]) for cell in cells)
        return {
            "welfare": sum(map(sum, cells)) / (played * best),
            "exploited": behind / _scale(state),
            "messages": sum(bool(words[seat]) for words in state.words) / played,
        }

    def reshuffled(self, state: Meeting, draws: Draws) -> Meeting:
        """How many rounds follow, where seats do not know it."""
        if self.horizon != "geometric":
            return state
        left = int(draws.generator().geometric(1 - GOES_ON))
        return state._replace(length=min(MAX_ROUNDS, len(state.moves) + left))

    def encode(self, state: Meeting) -> Any:
        """Lists and numbers."""
        return [
            [list(cell) for cell in state.table], state.length,
            [list(both) for both in state.moves], [list(both) for both in state.words],
        ]  # fmt: skip

    def decode(self, data: Any) -> Meeting:
        """The inverse of `encode`."""
        table, length, moves, words = data
        state = opening(tuple((first, second) for first, second in table), length)
        for (first, second), (said, answered) in zip(moves, words, strict=True):
            state = one_round(state, (first, second), (said, answered))
        return state


def _cell(move: str, others: str, points: tuple[int, int]) -> str:
    """How a round ended for a seat; the first of the points are its own."""
    return f"you {move}, other {others}; you got {points[0]}, other got {points[1]}.\n"


def _spoken(message: str) -> tuple[str, str]:
    """A message as the one who sent it reads it, and as the other does; empty for no message."""
    if not message:
        return "", ""
    inside = quoted(message)
    return f"  You said: {inside}\n", f"  Other said: {inside}\n"


def _scale(state: Meeting) -> int:
    """The most points that a seat could have at the end."""
    return state.length * state.wording.largest


def _checked_kinds(kinds: Sequence[str] | None) -> tuple[str, ...]:
    chosen = KINDS if kinds is None else kinds
    names = isinstance(chosen, (list, tuple)) and all(isinstance(name, str) for name in chosen)
    if not names or not chosen or len(set(chosen)) != len(chosen):
        raise ConfigError(
            f"iterated_dilemma: kinds={kinds!r}; give a list of distinct names out of "
            f"{', '.join(KINDS)}."
        )
    for name in chosen:
        if name not in KINDS:
            hint = nearest(name, KINDS)
            raise ConfigError(
                f"iterated_dilemma: kinds: no {name!r}.{hint} Known: {', '.join(KINDS)}."
            )
    return tuple(chosen)
