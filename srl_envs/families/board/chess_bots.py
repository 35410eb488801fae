"""Bots for chess: they read the FEN and the listed moves, as any policy does.

Strength follows from plies of search and from what a position is worth to them; see `chess_search`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from srl_envs.families.board.chess_search import (
    MATE,
    VALUES,
    best_moves,
    library,
    material,
    names,
    placement_of,
    position,
    square_worth,
    white_moves,
)
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_FEN = re.compile(r"^FEN: (.*)$", re.MULTILINE)
_LISTED = re.compile(r"^Your move; .* Moves: (.*)$", re.MULTILINE)


def random_bot(rng: np.random.Generator) -> Bot:
    """Any of the moves that count."""

    def act(text: str) -> str:
        moves = list(_open_moves(text))
        return action(moves[rng.integers(len(moves))])

    return act


def middle_bot(rng: np.random.Generator) -> Bot:
    """Takes what is worth most after its own move, without a look at the reply."""
    return _searching(rng, _greedy)


def strong_bot(rng: np.random.Generator) -> Bot:
    """Two plies of alpha-beta and captures behind them, by material and squares."""
    return _searching(rng, lambda here, among: best_moves(here, among, square_worth, 2))


def held_out_bot(rng: np.random.Generator) -> Bot:
    """One ply and captures behind it, by material and how open its pieces stand. For ratings only."""
    return _searching(rng, lambda here, among: best_moves(here, among, open_worth, 0))


def open_worth(placement: str) -> int:
    """Material, and a twentieth of a pawn for each piece (not pawn) with an empty square before it."""
    rows = [re.sub(r"\d", lambda digit: "." * int(digit[0]), row) for row in placement.split("/")]
    total = material(placement)
    for number, row in enumerate(rows):
        for column, mark in enumerate(row):
            ahead = number - 1 if mark.isupper() else number + 1
            if mark.lower() in VALUES and mark.lower() not in "pk" and 0 <= ahead < 8:
                total += (5 if mark.isupper() else -5) * (rows[ahead][column] == ".")
    return total


def _greedy(here: Any, among: Collection[int]) -> list[int]:
    """Moves that mate, or else lead to most material."""
    white = white_moves(here)

    def value(number: int) -> int:
        after = here.child(number)
        if after.is_terminal():
            return MATE if any(after.returns()) else 0
        return material(placement_of(after)) * (1 if white else -1)

    values = {number: value(number) for number in among}
    most = max(values.values())
    return [number for number, worth in values.items() if worth == most]


def _open_moves(text: str) -> dict[str, str]:
    """SAN -> UCI of the moves that count; all legal ones where none are listed."""
    every = names(_present(text))
    listed = _LISTED.search(text)
    return {san: every[san] for san in listed[1].split()} if listed else every


def _present(text: str) -> Any:
    found = _FEN.search(text)
    if found is None:
        raise ValueError("the text holds no position")
    return position(found[1])


def _searching(rng: np.random.Generator, best: Callable[[Any, Collection[int]], list[int]]) -> Bot:
    """Plays one of the moves, by their numbers, that ``best`` finds among those that count."""

    def act(text: str) -> str:
        here, moves = _present(text), _open_moves(text)
        chess, board = library().chess, here.board()
        lan = {chess.action_to_move(n, board).to_lan(): n for n in here.legal_actions()}
        numbers = {lan[uci]: san for san, uci in moves.items()}
        found = sorted(best(here, numbers))
        return action(numbers[found[rng.integers(len(found))]])

    return act
