"""Scripted parts of solve and verify; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from srl_envs.families.reasoning.math_duel_bots import mistaken, present_problem, solve
from srl_envs.families.reasoning.solve_and_verify import (
    CORRECTOR,
    DUE,
    RIGHT,
    VERIFIER,
    WRONG,
    random_reply,
)
from srl_envs.rewards.matcher.notation.number import read_number
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_SENT = re.compile(r'^The solver sent: ([^"\n]+?)(?:, ".*")?$', re.MULTILINE)
_VERDICT = re.compile(r"^The verifier sent: (right|wrong)", re.MULTILINE)


def random_bot(rng: np.random.Generator) -> Bot:
    """Small numbers, and verdicts by coin."""
    return lambda text: action(random_reply(part_of(text), rng))


def middle_bot(rng: np.random.Generator) -> Bot:
    """Every part errs three times in ten; the corrector keeps an answer that was found right."""
    return _part(rng, error_rate=0.3)


def strong_bot(rng: np.random.Generator) -> Bot:
    """Every part solves exactly, and trusts itself."""
    return _part(rng, error_rate=0.0, trusts=False)


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Every part errs one time in ten, and none trusts another. For ratings only."""
    return _part(rng, error_rate=0.1, trusts=False)


def part_of(text: str) -> int:
    """The part whose reply is due, by its line of the prompt; a refusal may stand below it."""
    lines = text.splitlines()
    return next((part for part, due in enumerate(DUE) if f"{due}." in lines), CORRECTOR)


def _part(rng: np.random.Generator, *, error_rate: float, trusts: bool = True) -> Bot:
    def reply(text: str) -> str:
        part, answer = part_of(text), solve(present_problem(text))
        sent, verdict = _SENT.search(text), _VERDICT.search(text)
        if answer is not None and rng.random() < error_rate:
            answer = mistaken(answer, rng)
        if part == VERIFIER:
            agrees = sent is not None and answer == read_number(sent.group(1))
            return action(RIGHT if agrees else WRONG)
        kept = answer is None or (trusts and verdict is not None and verdict.group(1) == RIGHT)
        if part == CORRECTOR and sent and kept:
            return action(sent.group(1))
        return action("pass" if answer is None else answer)

    return reply
