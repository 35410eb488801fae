"""Picture of a site for links to it in chats and feeds: the best agents over all games, with their intervals.

1200 by 630 pixels, the size that such services show whole. Text is drawn with the font that Pillow has in
it, so neither a network nor a font of the machine is needed. Source: The Open Graph protocol, ogp.me.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 1200, 630
SHOWN = 6
"""Agents."""
_GROUND, _INK, _QUIET, _LINE, _DOT = "#ffffff", "#1b1f24", "#5a6470", "#d0d7de", "#0b63c4"
_LEFT, _TOP, _BOTTOM, _SCALE = 60, 240, 600, (620, 1140)
_NUMBER = 580
"""Right end of the numbers."""
_MOST_CHARS, _TALLEST_ROW = 24, 90


def preview(overview: Mapping[str, Any]) -> bytes:
    """The picture as PNG.

    Args:
        overview: what the first page shows, from `leaderboards.pages.write.overview`.
    """
    image = Image.new("RGB", (WIDTH, HEIGHT), _GROUND)
    draw = ImageDraw.Draw(image)
    draw.text((_LEFT, 50), "SRL leaderboards", fill=_INK, font=_font(58))
    draw.text((_LEFT, 130), summary(overview), fill=_QUIET, font=_font(30))
    rows = _best(overview["all_games"]["agents"])
    if rows:
        draw.text(
            (_LEFT, 178), "Elo over all games, with 95 % intervals", fill=_QUIET, font=_font(24)
        )
    low = min((row["low"] for row in rows), default=0.0)
    high = max((row["high"] for row in rows), default=0.0)
    pitch = min(_TALLEST_ROW, (_BOTTOM - _TOP) // max(1, len(rows)))
    for place, row in enumerate(rows):
        _draw_row(draw, _TOP + place * pitch, row, (low, high))
    file = BytesIO()
    image.quantize(32).save(file, "PNG", optimize=True)
    return file.getvalue()


def summary(overview: Mapping[str, Any]) -> str:
    """One line that stands below the title, in the picture and in a link's text."""
    boards = len(overview["boards"])
    return (
        f"{overview['agents']} agents in {boards} text game{'' if boards == 1 else 's'}: "
        "who is best, how sure that is"
    )


def _best(agents: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The first agents with a rating and a finite interval."""
    rows = [dict(zip(agents["keys"], row, strict=True)) for row in agents["rows"]]
    return [row for row in rows if None not in (row["value"], row["low"], row["high"])][:SHOWN]


def _draw_row(
    draw: ImageDraw.ImageDraw, top: int, row: Mapping[str, Any], ends: tuple[float, float]
) -> None:
    name = row["agent"]
    short = name if len(name) <= _MOST_CHARS else f"{name[: _MOST_CHARS - 3]}..."
    draw.text((_LEFT, top), short, fill=_INK, font=_font(30))
    number = f"{row['value']:+.0f} ±{row['half_width']:.0f}"
    draw.text((_NUMBER, top), number, fill=_QUIET, font=_font(30), anchor="ra")
    middle = top + 20
    draw.line((_SCALE[0], middle, _SCALE[1], middle), fill=_LINE, width=2)
    low, value, high = (_across(row[key], ends) for key in ("low", "value", "high"))
    draw.line((low, middle, high, middle), fill=_DOT, width=6)
    draw.ellipse((value - 11, middle - 11, value + 11, middle + 11), fill=_DOT)


def _across(elo: float, ends: tuple[float, float]) -> float:
    """Where a rating stands from left to right."""
    low, high = ends
    share = (elo - low) / (high - low) if high > low else 0.5
    return _SCALE[0] + share * (_SCALE[1] - _SCALE[0])


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
