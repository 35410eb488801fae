"""Which variants of the problem families are kept for the eval split.

Some families are only for eval, so that it also asks for what was never trained on. Of the others a
quarter of the variants of each difficulty is kept, at least one, chosen by hash. A variant that
belongs to two difficulties is on the same side in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import blake2b

from srl_envs.core import HELD_OUT_SHARE, Split
from srl_envs.errors import ConfigError
from srl_envs.families.coding.problems import DIFFICULTIES, FAMILIES
from srl_envs.families.coding.submissions import canonical

EVAL_FAMILIES = frozenset({"bracket_repair", "matrix_spiral", "topological_order"})
"""Families without a variant in train."""


@cache
def variants_of(family: str, difficulty: int, split: Split) -> tuple[str, ...]:
    """The family's variants of this difficulty that the split may draw, as canonical JSON texts."""
    kept = _kept_for_eval(family)
    return tuple(text for text in _texts(family, difficulty) if (text in kept) == (split == "eval"))


def families_of(names: Iterable[str], difficulty: int, split: Split) -> tuple[str, ...]:
    """Those of the families that the split can draw from.

    Raises:
        ConfigError: it is none of them.
    """
    found = tuple(name for name in names if variants_of(name, difficulty, split))
    if not found:
        both = [name for name in FAMILIES if name not in EVAL_FAMILIES]
        raise ConfigError(
            f"families={list(names)!r} has no task for split {split!r}: "
            f"{', '.join(sorted(EVAL_FAMILIES))} are kept for split 'eval'. Families with tasks in "
            f"both splits: {', '.join(both)}."
        )
    return found


@cache
def _texts(family: str, difficulty: int) -> tuple[str, ...]:
    return tuple(canonical(parameters) for parameters in FAMILIES[family].variants(difficulty))


@cache
def _kept_for_eval(family: str) -> frozenset[str]:
    """Variants for eval, over all difficulties."""
    every = [_texts(family, difficulty) for difficulty in DIFFICULTIES]
    if family in EVAL_FAMILIES:
        return frozenset(text for texts in every for text in texts)
    kept: set[str] = set()
    placed: set[str] = set()
    for texts in every:
        due = max(1, len(texts) // HELD_OUT_SHARE) - len(kept.intersection(texts))
        free = sorted(set(texts) - placed, key=lambda text: _digest(family, text))
        kept.update(free[: max(0, due)])
        placed.update(texts)
    return frozenset(kept)


def _digest(family: str, text: str) -> bytes:
    return blake2b(f"{family} {text}".encode(), digest_size=8).digest()
