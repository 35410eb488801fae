"""Search in a few documents: BM25, with ties in the order of their paths.

Source: S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", Foundations
and Trends in Information Retrieval 3(4), 2009; k1 and b are the usual ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from srl_envs.families.workflow.library.corpus import Document

HITS = 6
"""Most documents that a search lists."""
_K1, _B = 1.2, 0.75
_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> list[str]:
    """Words in small letters, numbers included."""
    return _WORD.findall(text.lower())


def search(documents: Sequence[Document], query: str) -> list[int]:
    """Places of the documents that hold a word of the query, the best first, at most `HITS`."""
    bags = [Counter(words_of(f"{d.title} {d.text}")) for d in documents]
    lengths = [sum(bag.values()) for bag in bags]
    mean = sum(lengths) / len(lengths)
    scores = [0.0] * len(bags)
    for word in dict.fromkeys(words_of(query)):
        holding = sum(word in bag for bag in bags)
        if not holding:
            continue
        rarity = math.log(1 + (len(bags) - holding + 0.5) / (holding + 0.5))
        for place, bag in enumerate(bags):
            often = bag[word]
            full = often + _K1 * (1 - _B + _B * lengths[place] / mean)
            scores[place] += rarity * often * (_K1 + 1) / full
    found = [place for place, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda place: (-round(scores[place], 9), place))[:HITS]
