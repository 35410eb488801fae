r"""Names that are more than one letter: ``\vec a``, ``\overline{AB}``, ``\angle ABC``, ``f(2)``, ``P(A)``.

A mark makes another name of a letter: the vector ``\vec a`` is not the number ``a``. A figure is
named by its points, and some orders of the points name the same figure: ``\angle ABC`` and
``\angle CBA``. A letter before brackets is a function or a factor; the letter and what stands in the
brackets decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

ACCENTS = {
    "vec": "vec", "overrightarrow": "vec", "hat": "hat", "widehat": "hat", "bar": "bar",
    "overline": "bar", "tilde": "tilde", "widetilde": "tilde", "dot": "dot", "ddot": "ddot",
    "overleftrightarrow": "line",
}  # fmt: skip
"""Commands that mark what stands below them, and the mark that they make."""
FIGURES = {"angle": "angle", "triangle": "triangle"}
"""Commands before the points of a figure."""
_POINTS = re.compile(r"[A-Z]{2,4}")
_IN_WORDS = re.compile(
    r"(?:the )?(angle|triangle|line segment|segment|side|line|ray|vector) ([A-Z]{2,3}|(?<=vector )[a-z])",
)
_COMMANDS = {
    "angle": "\\angle ", "triangle": "\\triangle ", "line segment": "\\overline", "segment":
    "\\overline", "side": "\\overline", "line": "\\overleftrightarrow", "ray": "\\overrightarrow",
    "vector": "\\overrightarrow",
}  # fmt: skip
_FUNCTION_LETTERS = frozenset(
    ("f", "g", "h", "F", "G", "H", "phi", "varphi", "Phi", "psi", "Psi", "Gamma", "zeta")
)
_NEVER_FUNCTIONS = frozenset(("i", "U"))
_DISTRIBUTIONS = frozenset(("N", "U"))


def marked_name(command: str, letters: str) -> str:
    """One name for a marked letter or a figure, whatever the order of points that names the same."""
    mark = ACCENTS.get(command) or FIGURES[command]
    if mark == "bar" and _POINTS.fullmatch(letters):
        mark = "segment"
    if mark in ("segment", "line", "triangle"):
        letters = "".join(sorted(letters))
    elif mark in ("angle", "hat"):
        letters = min(letters, letters[::-1])
    return f"\\{mark} {letters}"


def same_figure(name: str, letters: str) -> bool:
    """Whether bare ``letters`` name the figure ``name``: ``BA`` for ``\\overline{AB}``."""
    mark, _, points = name.partition(" ")
    if mark not in ("\\segment", "\\line", "\\angle", "\\triangle") or len(points) < 2:
        return False
    command = {"\\segment": "overline", "\\line": "overleftrightarrow"}.get(mark, mark[1:])
    return marked_name(command, letters) == name


def figure_in_words(text: str) -> str:
    """``triangle ABC`` as ``\\triangle ABC``; other texts as they are."""
    found = _IN_WORDS.fullmatch(text)
    if found is None:
        return text
    command = _COMMANDS[found[1]]
    return f"{command}{found[2]}" if command.endswith(" ") else f"{command}{{{found[2]}}}"


def is_function(name: str, inside: Sequence[tuple[str, str]]) -> bool:
    """Whether a name before brackets is applied to what they hold, rather than multiplied by it.

    Args:
        name: the letter, with primes and subscript.
        inside: kinds and texts of the tokens in the brackets.
    """
    letter = name.partition("_")[0]
    if not inside or letter in _NEVER_FUNCTIONS:
        return False
    if name.endswith("'") or any(text == "," for _, text in _outer(inside)):
        return True
    if len(inside) == 1:
        return inside[0][0] in ("num", "sym", "const")
    if letter not in _FUNCTION_LETTERS:
        return False
    return letter in ("f", "F") or not any(
        text in ("+", "-", "\\pm", "\\mp") for _, text in list(_outer(inside))[1:]
    )


def is_point(name: str, inside: Sequence[tuple[str, str]]) -> bool:
    """Whether ``P(3, 7)`` is a named point: a capital letter, and coordinates with a comma."""
    capital = len(name) == 1 and name.isupper() and name not in _DISTRIBUTIONS
    coordinates = any(kind == "num" for kind, _ in inside)
    return capital and coordinates and any(text == "," for _, text in _outer(inside))


def probability_name(name: str, inside: Sequence[tuple[str, str]]) -> str:
    """One name for ``P(A \\cap B)``, whatever the order of the events; empty for a product."""
    events = any(kind == "sym" and text[:1] in "ABCDEFGHXYZ\\" for kind, text in inside)
    if name not in ("P", "Pr") or not events or len(inside) == 1:
        return ""
    return f"P({'|'.join(map(_event, _split(inside, '|')))})"


def _event(tokens: Sequence[tuple[str, str]]) -> str:
    for sign in ("\\cap", "\\cup"):
        parts = ["".join(text for _, text in part) for part in _split(tokens, sign)]
        if len(parts) > 1:
            return sign.join(sorted(parts))
    return "".join(text for _, text in tokens)


def _split(tokens: Sequence[tuple[str, str]], sign: str) -> list[list[tuple[str, str]]]:
    parts: list[list[tuple[str, str]]] = [[]]
    for token in tokens:
        if token[1] == sign:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _outer(tokens: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The tokens outside of inner brackets."""
    depth, found = 0, []
    for token in tokens:
        depth -= token[1] in (")", "]", "}", "\\}")
        if depth == 0:
            found.append(token)
        depth += token[1] in ("(", "[", "{", "\\{")
    return found
