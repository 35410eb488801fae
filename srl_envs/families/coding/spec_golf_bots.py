"""Scripted players of spec golf; they read the observation's text and nothing else."""

from __future__ import annotations

import numpy as np

from srl_envs.families.coding.golf.size import program_size
from srl_envs.families.coding.known_tasks import (
    Bot,
    KnownTask,
    guess,
    guess_unknown,
    known_task,
    send_program,
)


def random_bot(rng: np.random.Generator) -> Bot:
    """A program that returns a constant or little more: very small, and never right."""

    def reply(text: str) -> str:
        known = known_task(text)
        return send_program(guess_unknown(rng, text) if known is None else guess(rng))

    return reply


def middle_bot(rng: np.random.Generator) -> Bot:
    """The larger of two right programs; one in two with a bug."""

    def reply(text: str) -> str:
        task = known_task(text)
        if task is None:
            return send_program(guess_unknown(rng, text))
        if rng.random() < 0.5:
            return send_program(task.with_bugs(rng, 1))
        return send_program(_by_size(task)[-1])

    return reply


def strong_bot(rng: np.random.Generator) -> Bot:
    """The smaller of two right programs."""

    def reply(text: str) -> str:
        task = known_task(text)
        return send_program(guess_unknown(rng, text) if task is None else _by_size(task)[0])

    return reply


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Either of two right programs, one in four with a bug. For ratings only."""

    def reply(text: str) -> str:
        task = known_task(text)
        if task is None:
            return send_program(guess_unknown(rng, text))
        if rng.random() < 0.25:
            return send_program(task.with_bugs(rng, 1))
        return send_program(_by_size(task)[int(rng.integers(2))])

    return reply


def _by_size(task: KnownTask) -> list[str]:
    """Two right programs, the smaller first."""
    return sorted((task.program(), task.other_program()), key=program_size)
