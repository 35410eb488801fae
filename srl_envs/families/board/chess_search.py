"""Positions of chess by the rules of OpenSpiel, what they are worth, and a search of captures and of plies.

Piece values are Shannon's 1, 3, 3, 5 and 9 pawns; worth by square follows from three rules (pieces towards
the centre, pawns forward, kings to the back rank as long as there are queens). All scores are in
hundredths of a pawn.

Source: C. E. Shannon, "Programming a computer for playing chess", Philosophical Magazine 41(314), 1950.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, lru_cache
from typing import Any

from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError

EXTRA = "open-spiel"
VALUES = {"p": 100, "n": 300, "b": 300, "r": 500, "q": 900, "k": 0}
MATE = 100_000
"""Score of a won position."""
_QUIET_PLIES = 6
"""Plies of captures behind the last ply of a search."""
WHITE = 1
"""Number of the white player in OpenSpiel."""
Worth = Callable[[str], int]


def library() -> Any:
    """OpenSpiel.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import pyspiel  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ConfigError(
            f"chess needs the rules of OpenSpiel: {install_command(EXTRA)} ({error}). It has no wheel for "
            "every system."
        ) from None
    return pyspiel


@cache
def _rules() -> Any:
    return library().load_game("chess")


def position(fen: str) -> Any:
    """A ``pyspiel.State`` of a FEN."""
    return _rules().new_initial_state(fen)


def placement_of(state: Any) -> str:
    """The first field of its FEN: rows from Black's side, with pieces and numbers of empty squares."""
    return str(state).partition(" ")[0]


def white_moves(state: Any) -> bool:
    """Whether White is on move; also where the game is over."""
    return " w " in str(state)


@lru_cache(maxsize=65_536)
def squares(placement: str) -> str:
    """The pieces by square, a1 to h1 first, with dots for empty squares."""
    rows = placement.translate(_DOTS).split("/")
    return "".join(reversed(rows))


_DOTS = {ord(digit): "." * int(digit) for digit in "12345678"}


def names(state: Any) -> dict[str, str]:
    """SAN -> UCI of every legal move, in OpenSpiel's order."""
    chess, board = library().chess, state.board()
    player = state.current_player()
    return {
        state.action_to_string(player, number): chess.action_to_move(number, board).to_lan()
        for number in state.legal_actions()
    }


# --- worth ---------------------------------------------------------------------------------------


def _worth_on(piece: str, square: int, queens: bool) -> int:
    """Of a white piece; squares are counted along rows from Black's side."""
    row, column = divmod(square, 8)
    centre = 6 - int(abs(row - 3.5) + abs(column - 3.5))
    if piece == "p":
        return 100 + 4 * (6 - row) + (8 if centre >= 5 else 0)
    if piece == "k":
        return -12 * (7 - row) if queens else 6 * centre
    return VALUES[piece] + {"n": 8, "b": 5, "r": 1, "q": 2}[piece] * centre


def _table(queens: bool) -> dict[str, tuple[int, ...]]:
    white = {p: tuple(_worth_on(p, square, queens) for square in range(64)) for p in VALUES}
    black = {p: tuple(-row[square ^ 56] for square in range(64)) for p, row in white.items()}
    return {**{p.upper(): row for p, row in white.items()}, **black}


_TABLES = {queens: _table(queens) for queens in (False, True)}


@lru_cache(maxsize=65_536)
def square_worth(placement: str) -> int:
    """Material and squares, White's less Black's."""
    table = _TABLES["q" in placement.lower()]
    square = total = 0
    for mark in placement:
        if mark in table:
            total += table[mark][square]
            square += 1
        elif mark != "/":
            square += int(mark)
    return total


@lru_cache(maxsize=65_536)
def material(placement: str) -> int:
    """Material alone, White's less Black's."""
    return sum(
        VALUES[mark.lower()] * (1 if mark.isupper() else -1) for mark in placement if mark.isalpha()
    )


# --- search --------------------------------------------------------------------------------------


def _ended(state: Any, white: bool) -> int:
    value = int(state.returns()[WHITE]) * MATE
    return value if white else -value


_goals: dict[tuple[bool, int], int] = {}
"""Side and number of a move -> square that it goes to."""


def _goal(state: Any, white: bool, number: int) -> int:
    found = _goals.get((white, number))
    if found is None:
        square = library().chess.action_to_move(number, state.board()).to_square
        found = _goals[white, number] = 8 * square.y + square.x
    return found


def captures_first(state: Any, white: bool) -> tuple[list[int], list[int]]:
    """Legal moves onto a piece, the most valuable first, and the others."""
    pieces = squares(placement_of(state))
    found, others = [], []
    for number in state.legal_actions():
        piece = pieces[_goal(state, white, number)]
        if piece == ".":
            others.append(number)
        else:
            found.append((-VALUES[piece.lower()], number))
    return [number for _, number in sorted(found)], others


def quiet_score(state: Any, worth: Worth, low: int, high: int, plies: int = _QUIET_PLIES) -> int:
    """Worth for the side on move after the captures that both sides like, or none."""
    white = white_moves(state)
    if state.is_terminal():
        return _ended(state, white)
    value = worth(placement_of(state))
    best = value if white else -value
    if best >= high or plies == 0:
        return best
    low = max(low, best)
    for number in captures_first(state, white)[0]:
        after = state.child(number)
        found = -quiet_score(after, worth, -high, -low, plies - 1)
        if found > best:
            best = found
            low = max(low, best)
            if best >= high:
                break
    return best


def score(state: Any, worth: Worth, plies: int, low: int = -2 * MATE, high: int = 2 * MATE) -> int:
    """Worth for the side on move after so many plies of best play, and captures behind them.

    Alpha-beta: exact between ``low`` and ``high``, a bound beyond them. A mate is worth more the sooner
    it comes.
    """
    white = white_moves(state)
    if state.is_terminal():
        return _ended(state, white) * (plies + 1)
    if plies == 0:
        return quiet_score(state, worth, low, high)
    taking, others = captures_first(state, white)
    best = -9 * MATE
    for number in (*taking, *others):
        best = max(best, -score(state.child(number), worth, plies - 1, -high, -low))
        low = max(low, best)
        if low >= high:
            break
    return best


def best_moves(state: Any, among: Collection[int], worth: Worth, plies: int) -> list[int]:
    """The moves after which the other side's best reply, so many plies on, is worth least."""
    taking, others = captures_first(state, white_moves(state))
    best, found = -9 * MATE, list[int]()
    for number in (*taking, *others):
        if number not in among:
            continue
        value = -score(state.child(number), worth, plies, high=-(best - 1))
        if value > best:
            best, found = value, []
        if value == best:
            found.append(number)
    return found
