"""Numbers that a player wrapped in words: what is certain is read, everything else is refused."""

from __future__ import annotations

from srl_envs.messages import whole_number

_FILLERS = frozenset(
    "i ask for take request harvest want give contribute put my the a move action choice is of "
    "unit units token tokens into pot please".split()
)
"""Words that change nothing about the number beside them."""


def one_number(text: str, low: int, high: int) -> int | None:
    """The only number of ``text``, alone or among words such as ``ask for 4 units``.

    Args:
        text: a move; digits are ASCII, without sign or leading zero.
        low: least number, 0 or more.
        high: largest number.

    Returns:
        The number; None where there is none, more than one, another word or one out of range.
    """
    alone = whole_number(text, low, high)
    if alone is not None:
        return alone
    words = text.lower().replace(":", " ").replace("=", " ").split()
    rest = [word for word in words if word not in _FILLERS]
    return whole_number(rest[0].rstrip(".,!"), low, high) if len(rest) == 1 else None
