"""Distributions of times as one SVG, drawn without a plotting library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 640, 320, 56, 44, 16
_COLOURS = ("#1f6feb", "#c2410c")


@dataclass(frozen=True)
class Curve:
    """One distribution."""

    label: str
    values_N: NDArray[np.float64]
    """(N,) seconds; what is 0 or less is drawn at the left edge."""
    weights_N: NDArray[np.float64]
    """(N,) how often each occurred."""


def quantile_figure(*curves: Curve) -> str:
    """The share of times up to x, over x on a logarithmic axis of seconds."""
    drawn = [curve for curve in curves if curve.weights_N.sum() > 0]
    positive = np.concatenate([c.values_N[c.values_N > 0] for c in drawn] or [np.ones(1)])
    low = np.floor(np.log10(positive.min(initial=1.0)))
    high = max(np.ceil(np.log10(positive.max(initial=1e-9))), low + 1)

    def x(value: float) -> float:
        share = (np.log10(max(value, 10.0**low)) - low) / (high - low)
        return float(_LEFT + share * (_WIDTH - _LEFT - 16))

    def y(share: float) -> float:
        return float(_TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM))

    parts = [*_axes(x, y, int(low), int(high))]
    for curve, colour, row in zip(drawn, _COLOURS, range(len(drawn)), strict=False):
        order = np.argsort(curve.values_N)
        shares_N = np.cumsum(curve.weights_N[order])
        shares_N = shares_N / shares_N[-1]
        grid = np.linspace(0, 1, 201)
        places = np.minimum(np.searchsorted(shares_N, grid), len(order) - 1)
        values = curve.values_N[order][places]
        points = " ".join(f"{x(v):.1f},{y(s):.1f}" for v, s in zip(values, grid, strict=True))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(
            f'<text x="{_LEFT + 12}" y="{_TOP + 16 + 18 * row}" fill="{colour}">{escape(curve.label)}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        + "".join(parts)
        + "</svg>\n"
    )


def _axes(
    x: Callable[[float], float], y: Callable[[float], float], low: int, high: int
) -> list[str]:
    lines = []
    for power in range(low, high + 1):
        at = x(10.0**power)
        lines.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y(0):.1f}" y2="{y(1):.1f}" stroke="#ddd"/>'
        )
        lines.append(
            f'<text x="{at:.1f}" y="{y(0) + 18:.1f}" text-anchor="middle">{10.0**power:g} s</text>'
        )
    for share in (0.0, 0.5, 0.99):
        lines.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 16}" y1="{y(share):.1f}" y2="{y(share):.1f}" stroke="#ddd"/>'
        )
        lines.append(
            f'<text x="{_LEFT - 6}" y="{y(share) + 4:.1f}" text-anchor="end">{share:g}</text>'
        )
    return lines
