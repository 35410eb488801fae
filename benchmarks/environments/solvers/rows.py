"""What a comparison with a solver comes to, and how a bot is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from srl_envs.turns.grammar import parse_reply

Bot = Callable[[str], str]
MakeBot = Callable[[str, int], Bot]
"""Makes a bot by its name and a seed."""


@dataclass(frozen=True, kw_only=True)
class Solved:
    """One game beside its solver."""

    game: str
    """Id, and the options that make it small enough, as `k=v`."""
    measure: str
    """What the numbers are, with their unit."""
    solver: str
    """How the solution was found."""
    solution: float
    """What the solution itself scores in the measure."""
    bots: Mapping[str, float]


def move(bot: Bot, text: str) -> str:
    """What stands between the tags of a bot's reply."""
    body, reason = parse_reply(bot(text), 8192)
    if body is None:
        raise ValueError(f"a bot's reply was refused: {reason}")
    return body


def chances(bot: Bot, text: str, draws: int) -> dict[str, float]:
    """How often a bot replies what to one text, out of ``draws`` replies."""
    counts = Counter(move(bot, text) for _ in range(draws))
    return {body: count / draws for body, count in counts.items()}
