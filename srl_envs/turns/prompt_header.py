"""Header of every prompt: how a reply is read, and the cost of a reply without a move."""

from __future__ import annotations

from srl_envs.core import Mode
from srl_envs.turns.grammar import CLOSE, OPEN

FORMAT_COST = 0.05
"""Reward units that one malformed or illegal reply costs."""


def write_header(mode: Mode, invalid: str, attempts: int, forfeit_after: int) -> str:
    """The same for every seat and turn, so that caches of prefixes keep it.

    Args:
        mode: of the game; where seats share one outcome, a forfeit pays 0 to all.
        invalid: what follows a reply without a legal move; see `srl_envs.parallel.GameEnv`.
        attempts: replies in one turn before a move is played for the seat.
        forfeit_after: default moves that forfeit the game.
    """
    worst = "0 for all" if mode == "cooperative" else "-1"
    cost = f"A reply without a legal move costs {FORMAT_COST}"
    if invalid == "forfeit":
        rule = f"A reply without a legal move forfeits the game, which pays {worst}."
    elif invalid == "random_legal":
        rule = f"{cost}, and a random legal move is played."
    else:
        tries = "one" if attempts == 1 else f"{attempts} in one turn"
        several = "1 default move" if forfeit_after == 1 else f"{forfeit_after} default moves"
        rule = (
            f"{cost}; after {tries}, a default move is played. {several}, or no move of your own, "
            f"forfeit the game, which pays {worst}."
        )
    return f"You may think first; your last {OPEN}...{CLOSE} is your move. {rule}\n"
