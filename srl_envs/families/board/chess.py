"""Chess from balanced positions: rules by OpenSpiel, short games, moves in SAN or UCI.

Competitive, zero-sum. Who is White is drawn from the seed. A game begins after a few random moves, in a
position that a search finds level to half a pawn, and ends by mate, by a draw of the rules (stalemate, three
repetitions, fifty moves, too little material) or after `plies` moves of both sides together. Then the
material decides a part: half of its difference in pawns over 39, the pieces that a side begins with.

Start positions are held out: those that differ only by who is White are one, and none of the eval split
occurs in train. Needs the extra `open-spiel` (Apache-2.0).

Levels: `moves="three"` first, where three legal moves are offered and no other counts, two of which are
random and one the best by material in one ply; then `"listed"`, all moves with a list; then `"unlisted"`.

Measured over 12 starts, each with both colors, with 95 % intervals: middle earns 0.46 (0.10) against random,
held out 0.61 (0.14) and strong 0.79 (0.11) against middle; over 8, strong 0.42 (0.23) against held out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.board.chess_search import (
    WHITE,
    library,
    material,
    names,
    placement_of,
    position,
    score,
    square_worth,
    white_moves,
)

PLIES, OPENING = 40, 6
"""Default options."""
MOVES = ("three", "listed", "unlisted")
START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
LEVEL_TO = 50
"""Hundredths of a pawn by which a start position may differ from level."""
_ARMY = 3900
"""Material of a side at the beginning, in hundredths of a pawn."""
_OFFERED = 3
_ENDING = re.compile(r"[+#!?]+$")
_NUMBERED = re.compile(r"^\d+\.+ ?")


class Chess(NamedTuple):
    """Immutable state; the position follows from it."""

    start: str
    """FEN."""
    white: int
    """Seat that is White."""
    played: tuple[str, ...] = ()
    """Moves in UCI."""


@lru_cache(maxsize=4096)
def reached(start: str, played: tuple[str, ...]) -> Any:
    """The ``pyspiel.State`` after these moves; never changed."""
    if not played:
        return position(start)
    before = reached(start, played[:-1])
    after = before.clone()
    after.apply_action(_number(before, played[-1]))
    return after


def _number(state: Any, move: str) -> int:
    chess, board = library().chess, state.board()
    for number in state.legal_actions():
        if chess.action_to_move(number, board).to_lan() == move:
            return int(number)
    raise ConfigError(f"move {move!r} is not legal in {state}.")


@lru_cache(maxsize=4096)
def legal_names(start: str, played: tuple[str, ...]) -> dict[str, str]:
    """SAN -> UCI."""
    return names(reached(start, played))


def mirrored(fen: str) -> str:
    """The same position with colors exchanged, without numbers of moves."""
    placement, mover, castling, passing = fen.split()[:4]
    flipped = "/".join(row.swapcase() for row in reversed(placement.split("/")))
    rights = "".join(sorted(castling.swapcase())) if castling != "-" else "-"
    rank = {"3": "6", "6": "3"}.get(passing[-1], "")
    passed = passing if passing == "-" else passing[0] + rank
    return f"{flipped} {'b' if mover == 'w' else 'w'} {rights} {passed}"


def start_key(fen: str) -> str:
    """Key of a start position, the same with colours exchanged."""
    return min(" ".join(fen.split()[:4]), mirrored(fen))


def draw_start(draws: Draws, moves: int) -> str:
    """A level position after so many random moves."""
    while True:
        state = position(START)
        for _ in range(moves):
            actions = state.legal_actions()
            state.apply_action(actions[draws.integers(len(actions))])
            if state.is_terminal():
                break
        else:
            if abs(score(state, square_worth, 1)) <= LEVEL_TO:
                return str(state)


class ChessGame(Game[Chess, str]):
    """Observation: rules, board, FEN, moves so far. Action: a move such as ``Nf3`` or ``g1f3``.

    Fallback: the first legal move by name.

    Args:
        plies: moves of both sides after which a game ends, 10 to 160.
        opening: random moves before it begins, 4 to 12.
        moves: ``"three"`` offers three legal moves, ``"listed"`` lists all, ``"unlisted"`` none.

    Raises:
        ConfigError: an option is impossible, or OpenSpiel is not installed.
    """

    mode = "competitive"
    max_action_chars = 24

    def __init__(
        self, *, plies: int = PLIES, opening: int = OPENING, moves: str = "listed"
    ) -> None:
        for name, value, low, high in (("plies", plies, 10, 160), ("opening", opening, 4, 12)):
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(f"chess: {name}={value!r}; give a number from {low} to {high}.")
        if moves not in MOVES:
            raise ConfigError(f"chess: moves={moves!r}; give one of {', '.join(MOVES)}.")
        library()
        self.max_turns, self.opening, self.moves = plies, opening, moves
        self._rules = (
            f"CHESS by the usual rules, from a level position. After {plies} moves of both sides together "
            "the game ends.\n"
            "Payoff: 1 for mate, -1 for being mated, 0 for a draw by the rules (stalemate, three "
            "repetitions, fifty moves, too little material); at the end of the moves (your material - the "
            "other's) / 78, with pawns 1, knights and bishops 3, rooks 5, queens 9.\n"
            "Reply with one legal move in SAN or UCI.\n\n"
        )

    def new(self, streams: Streams) -> Chess:
        """A level position of the split; who is White is a fair coin."""
        draws = streams.draws("instance")
        start = streams.held(lambda: draw_start(draws, self.opening), start_key)
        return Chess(start, streams.draws("seats").integers(2))

    def _over(self, state: Chess) -> bool:
        return (
            len(state.played) >= self.max_turns or reached(state.start, state.played).is_terminal()
        )

    def _mover(self, state: Chess) -> int:
        here = reached(state.start, state.played)
        return state.white if white_moves(here) else 1 - state.white

    def to_move(self, state: Chess) -> tuple[int, ...]:
        """The side on move, until the game is over."""
        return () if self._over(state) else (self._mover(state),)

    def _open_moves(self, state: Chess) -> dict[str, str]:
        """SAN -> UCI of the moves that count."""
        every = legal_names(state.start, state.played)
        if self.moves != "three" or len(every) <= _OFFERED:
            return every
        return _three(state.start, state.played)

    def observe(self, state: Chess, seat: int) -> str:
        """Rules, side, board, FEN, the last moves and what is on move."""
        here = reached(state.start, state.played)
        side = "White, the capital letters" if seat == state.white else "Black, the small letters"
        lines = [
            f"{self._rules}You are {seat_name(seat)} and play {side}.",
            drawing(placement_of(here)),
        ]
        lines.append(f"FEN: {here}")
        if state.played:
            lines.append(f"Moves so far: {' '.join(state.played)}")
        if self._over(state):
            lines.append("The game is over.")
        elif self._mover(state) != seat:
            lines.append("The other side is on move.")
        else:
            lines.append(self._due(state))
        return "\n".join(lines) + "\n"

    def _due(self, state: Chess) -> str:
        moves, left = self._open_moves(state), self.max_turns - len(state.played)
        many = f"{left} moves are left" if left > 1 else "it is the last one"
        listed = "" if self.moves == "unlisted" else f" Moves: {' '.join(moves)}"
        among = "one of these three" if self.moves == "three" else "it"
        return f"Your move; {many}.{listed}\nWrite {among} like this: <action>{min(moves)}</action>"

    def parse(self, state: Chess, seat: int, body: str) -> str:
        """The UCI of a legal move in SAN or UCI; signs of check and numbers of moves may stand."""
        moves = self._open_moves(state)
        text = _ENDING.sub("", _NUMBERED.sub("", body.strip()))
        plain = {_ENDING.sub("", san): uci for san, uci in moves.items()}
        castled = text.replace("0", "O") if set(text) <= set("0O-") else text
        found = plain.get(castled) or next(
            (uci for uci in moves.values() if uci == text.lower()), None
        )
        if found is None:
            among = "one of the three offered moves" if self.moves == "three" else "a legal move"
            raise IllegalMoveError(f"write {among} in SAN or UCI")
        return found

    def apply(self, state: Chess, actions: Mapping[int, str]) -> Chess:
        """The position after the move."""
        (move,) = actions.values()
        require_action(bool(move), "no move")
        return state._replace(played=(*state.played, move))

    def returns(self, state: Chess) -> tuple[float, ...] | None:
        """Mate and draws by the rules; else by material."""
        if not self._over(state):
            return None
        here = reached(state.start, state.played)
        for_white = (
            float(here.returns()[WHITE])
            if here.is_terminal()
            else material(placement_of(here)) / (2 * _ARMY)
        )
        for_white = max(-1.0, min(1.0, for_white))
        return (for_white, 0.0 - for_white) if state.white == 0 else (0.0 - for_white, for_white)

    def legal(self, state: Chess, seat: int) -> Sequence[str] | None:
        """Moves in SAN."""
        found = list(self._open_moves(state))
        return found if len(found) <= 200 else None

    def fallback(self, state: Chess, seat: int) -> str:
        """The first of the moves by name."""
        return min(self._open_moves(state))

    def sample(self, state: Chess, seat: int, rng: np.random.Generator) -> str:
        """Any of the moves that count."""
        moves = list(self._open_moves(state))
        return moves[rng.integers(len(moves))]

    def components(self, state: Chess, seat: int) -> Mapping[str, float]:
        """``material``: pawns more than the other; ``plies``: moves that were made."""
        ahead = material(placement_of(reached(state.start, state.played))) / 100
        return {
            "material": ahead if seat == state.white else 0.0 - ahead,
            "plies": float(len(state.played)),
        }

    def encode(self, state: Chess) -> Any:
        """Start, side and moves."""
        return [state.start, state.white, list(state.played)]

    def decode(self, data: Any) -> Chess:
        """The inverse of `encode`."""
        return Chess(data[0], data[1], tuple(data[2]))

    def render(self, state: Chess) -> str:
        """Board and FEN."""
        here = reached(state.start, state.played)
        return f"{drawing(placement_of(here))}\n{here}"


@lru_cache(maxsize=4096)
def _three(start: str, played: tuple[str, ...]) -> dict[str, str]:
    """Two random moves and the best by material, in the order of names."""
    here, every = reached(start, played), legal_names(start, played)
    white = white_moves(here)

    def gained(san: str) -> int:
        value = material(placement_of(reached(start, (*played, every[san]))))
        return value if white else -value

    best = max(sorted(every), key=gained)
    others = sorted(set(every) - {best})
    draws = Draws(len(played), *start.encode(), *" ".join(played).encode())
    chosen = {best, *(others[k] for k in draws.sample(len(others), _OFFERED - 1))}
    return {san: every[san] for san in sorted(chosen)}


def drawing(placement: str) -> str:
    """Eight rows with their numbers, White's first row last."""
    rows = [re.sub(r"\d", lambda digit: "." * int(digit[0]), row) for row in placement.split("/")]
    lines = [f"{8 - number} {' '.join(row)}" for number, row in enumerate(rows)]
    return "\n".join([*lines, "  a b c d e f g h"])
