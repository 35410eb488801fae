"""Idiomatic tests over the types that programs return: a right program, its tests, a wrong program.

The wrong program is the right one with one text replaced, so that no entry can pass in vain.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.srl_envs.sandbox.idioms.classes import CLASSES, DATACLASSES, ENUMS, RECORDS
from tests.srl_envs.sandbox.idioms.functions import ARGUMENTS, ASYNC, FUNCTIONS, OWN_FUNCTIONS
from tests.srl_envs.sandbox.idioms.library import COLLECTIONS, NUMPY, TIMES
from tests.srl_envs.sandbox.idioms.programs import CHECKS, PROGRAMS


class Idiom(NamedTuple):
    """One entry: ``old`` in the program becomes ``new``, and the program is wrong."""

    program: str
    tests: str
    old: str
    new: str


def _entries(*groups: dict[str, tuple[str, str, str, str]]) -> dict[str, Idiom]:
    return {name: Idiom(*entry) for group in groups for name, entry in group.items()}


IDIOMS = _entries(
    RECORDS,
    ENUMS,
    COLLECTIONS,
    TIMES,
    DATACLASSES,
    ARGUMENTS,
    FUNCTIONS,
    ASYNC,
    CLASSES,
    NUMPY,
    CHECKS,
    PROGRAMS,
    OWN_FUNCTIONS,
)
