"""Read the packaged word files."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources


def _bytes(name: str) -> bytes:
    return resources.files("srl_envs.lexicon").joinpath(name).read_bytes()


@lru_cache(maxsize=1)
def common_words() -> Mapping[str, int]:
    """English words of 4 or more letters a-z, each with its level.

    Returns:
        word -> 10, 20 or 35: the smaller, the more common. Alphabetical within a level.
    """
    words: dict[str, int] = {}
    for line in gzip.decompress(_bytes("words.txt.gz")).decode("ascii").splitlines():
        level, _, rest = line.partition(" ")
        words.update(dict.fromkeys(rest.split(), int(level)))
    return words


@lru_cache(maxsize=1)
def associations() -> Mapping[str, tuple[str, ...]]:
    """Which nouns a one-word clue brings to mind.

    Returns:
        clue -> its nouns, in the file's order. A clue is never one of its own nouns.
    """
    lines = _bytes("associations.txt").decode("ascii").splitlines()
    table = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {clue.strip(): tuple(nouns.split()) for clue, _, nouns in table}


@lru_cache(maxsize=1)
def undercover_pairs() -> tuple[tuple[str, str], ...]:
    """Pairs of nouns that are alike enough to be described in the same words."""
    lines = _bytes("pairs.txt").decode("ascii").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return tuple((first, second) for first, second in pairs)
