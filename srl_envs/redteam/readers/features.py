"""Numbers and words of a prompt by their place, for any game.

A line without its digits is a *template*; a number is named by its line's template and its place in the
line. Of several lines with one template the last counts, so that history gives its latest entry.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

import numpy as np

_NUMBER = re.compile(r"(?<![\w.])[+-]?\d+(?:\.\d+)?")
_WORD = re.compile(r"[\w']+")
HAS = "has "
"""How features that are words begin."""
_KEY_CHARS = 60
_BOUNDS = 9
"""Thresholds that are tried per number."""
_TURNS = 3
"""Prompts of a seat from which on its turns can be counted."""
_MOST_WORDS = 24
_MOST_NUMBERS = 40


@lru_cache(maxsize=4096)
def numbers(text: str) -> Mapping[str, float]:
    """All numbers of ``text`` and the differences of neighbours in a line, by their names."""
    lines: dict[str, list[float]] = {}
    for line in text.splitlines():
        found = [float(number) for number in _NUMBER.findall(line)]
        if found:
            lines[_NUMBER.sub("#", line)[-_KEY_CHARS:]] = found
    named: dict[str, float] = {}
    for template, found in lines.items():
        named.update({f"{template} [{k}]": number for k, number in enumerate(found)})
        pairs = enumerate(pairwise(found))
        named.update({f"{template} [{k + 1}-{k}]": right - left for k, (left, right) in pairs})
    return MappingProxyType(named)


@lru_cache(maxsize=4096)
def words(text: str) -> frozenset[str]:
    """The words of a prompt."""
    return frozenset(_WORD.findall(text))


def value(feature: str, text: str) -> float | None:
    """What ``feature`` is in ``text``; None where its line is missing."""
    if feature.startswith(HAS):
        return float(feature.removeprefix(HAS) in words(text))
    return numbers(text).get(feature)


def clocks(episodes: Sequence[Sequence[str]]) -> list[str]:
    """Numbers that count turns: from each prompt of a seat to its next they move by the same step.

    Args:
        episodes: prompts of one seat, in their order.
    """
    long = [texts for texts in episodes if len(texts) >= _TURNS]
    names = dict.fromkeys(name for texts in long for name in numbers(texts[0]))
    return [name for name in names if all(_counts(name, texts) for texts in long)]


def _counts(name: str, texts: Sequence[str]) -> bool:
    values = [numbers(text).get(name) for text in texts]
    shown = [number for number in values if number is not None]
    steps = {right - left for left, right in pairwise(shown)}
    return len(shown) == len(values) and len(steps) == 1 and 0.0 not in steps


def bounds(texts: Sequence[str]) -> dict[str, list[float]]:
    """Features that vary among the prompts of one policy, with thresholds for each.

    Args:
        texts: prompts at which it acted.

    Returns:
        Feature -> quantiles of its values, without the smallest one.
    """
    values: dict[str, list[float]] = {}
    for text in texts:
        for name, number in numbers(text).items():
            values.setdefault(name, []).append(number)
    found: dict[str, list[float]] = {}
    for name, seen in sorted(values.items(), key=lambda item: -len(item[1])):
        if len(set(seen)) > 1 and len(found) < _MOST_NUMBERS:
            places = np.linspace(0, 1, _BOUNDS + 2)
            cuts = np.unique(np.quantile(seen, places, method="nearest"))[1:]
            found[name] = cuts.tolist()
    counts = Counter(word for text in texts for word in words(text) if not word.isdigit())
    mixed = [(abs(2 * n - len(texts)), word) for word, n in counts.items() if 1 < n < len(texts)]
    found.update({HAS + word: [1.0] for _, word in sorted(mixed)[:_MOST_WORDS]})
    return found
