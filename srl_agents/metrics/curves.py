"""Curves for a terminal: points joined by lines, in Braille characters of 2 by 4 dots each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each dot of a character, by row and column: Unicode, block Braille Patterns."""
_BLANK = 0x2800
_LABEL = 7
"""Characters of a number beside a curve."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over updates; both of one length, which is at least 1."""

    colour: str
    """A colour of rich."""
    updates: Sequence[int]
    values: Sequence[float]


def chart(title: str, curves: Sequence[Curve], *, width: int, height: int) -> Text:
    """Curves over one pair of axes.

    Args:
        title: in the first line.
        curves: later ones lie over earlier ones; values that are not finite are left out.
        width: in characters, numbers at the side included.
        height: in lines, without the title and the updates below.

    Returns:
        ``height + 2`` lines.
    """
    columns = width - _LABEL - 1
    points = [_finite(curve) for curve in curves]
    low, high = _range([values for _, values in points])
    first, last = _range([updates for updates, _ in points])
    owners = np.full((4 * height, 2 * columns), -1)
    for number, (updates, values) in enumerate(points):
        x, y = _means(updates, 2 * columns), _means(values, 2 * columns)
        across = _scaled(x, first, last, 2 * columns - 1)
        down = 4 * height - 1 - _scaled(y, low, high, 4 * height - 1)
        _draw(owners, down, across, number)
    drawn = Text(title[:width], style="bold", no_wrap=True)
    for row in range(height):
        edge = {0: high, height - 1: low}.get(row)
        drawn.append(f"\n{'' if edge is None else short_number(edge):>{_LABEL}} ", style="not bold")
        _append_row(drawn, owners[4 * row : 4 * row + 4], [curve.colour for curve in curves])
    begin, end = f"{first:.0f}", f"{last:.0f}"
    below = begin if first == last else f"{begin}{end:>{columns - len(begin)}}"
    drawn.append(f"\n{' ' * (_LABEL + 1)}{below}", style="not bold dim")
    return drawn


def _finite(curve: Curve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    updates, values = np.asarray(curve.updates, float), np.asarray(curve.values, float)
    kept = np.isfinite(values)
    return updates[kept], values[kept]


def _range(rows: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Least and greatest value; 0 twice where there is none."""
    joined = np.concatenate([*rows, np.zeros(0)])
    return (float(joined.min()), float(joined.max())) if joined.size else (0.0, 0.0)


def _means(values_N: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """(at most `most`,) means of neighbours, where there are more values than dots."""
    if len(values_N) <= most:
        return values_N
    return np.array([part.mean() for part in np.array_split(values_N, most)])


def _scaled(
    values_N: NDArray[np.float64], low: float, high: float, top: int
) -> NDArray[np.float64]:
    """(N,) from 0 to ``top``; the middle where all values are one."""
    if high == low:
        return np.full(values_N.shape, top // 2, float)
    return (values_N - low) / (high - low) * top


def _draw(
    owners: NDArray[np.intp], down: NDArray[np.float64], across: NDArray[np.float64], number: int
) -> None:
    """Let a line from point to point own its dots."""
    if len(down) == 1:
        owners[round(down[0]), round(across[0])] = number
    for at in range(len(down) - 1):
        dots = 1 + int(max(abs(down[at + 1] - down[at]), abs(across[at + 1] - across[at])) + 1)
        rows = np.rint(np.linspace(down[at], down[at + 1], dots)).astype(int)
        owners[rows, np.rint(np.linspace(across[at], across[at + 1], dots)).astype(int)] = number


def _append_row(text: Text, owners: NDArray[np.intp], colours: Sequence[str]) -> None:
    """One line of characters; each has the colour of the last curve in it."""
    for column in range(0, owners.shape[1], 2):
        cell = owners[:, column : column + 2]
        owner = int(cell.max())
        if owner < 0:
            text.append(" ")
        else:
            sign = chr(_BLANK + int(_BITS[cell >= 0].sum()))
            text.append(sign, style=f"not bold {colours[owner]}")


def short_number(value: float) -> str:
    """A number in at most `_LABEL` characters."""
    return f"{value:.3f}" if 0.001 <= abs(value) < 100 or value == 0 else f"{value:.2g}"
