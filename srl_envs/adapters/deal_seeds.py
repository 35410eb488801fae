"""Seeds by which other trainers name SRL's episodes."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

from srl_envs.errors import ConfigError


def deal_seeds(seeds: Iterable[int]) -> list[int]:
    """The seeds as files have them; numpy's numbers become Python's.

    Raises:
        ConfigError: the list is empty, or a seed is not a whole number. Without seeds every attempt of a
            group would meet another deal.
    """
    try:
        given = list(seeds)
    except TypeError:
        raise ConfigError(f"seeds={seeds!r}: give a list or a range of whole numbers.") from None
    if not given:
        raise ConfigError("no seeds: give one per row.")
    for seed in given:
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise ConfigError(f"seed={seed!r}: give a whole number >= 0.")
    return [int(seed) for seed in given]
