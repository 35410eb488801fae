"""Scripted players of code duel: they solve generated tasks, and guess at those of a collection."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from srl_envs.families.coding.known_tasks import (
    Bot,
    KnownTask,
    guess,
    guess_unknown,
    known_task,
    send_program,
)
from srl_envs.families.coding.submissions import EMPTY_PROGRAM, MAX_ATTACKS
from srl_envs.turns.grammar import action


class Seen(NamedTuple):
    """What a bot understands of an observation."""

    task: KnownTask | None
    """None for a task of a collection."""
    attacking: bool
    """Whether inputs are asked for, not a program."""


def read(text: str) -> Seen:
    """The task and the phase."""
    return Seen(known_task(text), "\nPHASE: ATTACK" in text)


def random_bot(rng: np.random.Generator) -> Bot:
    """A program that returns a constant or little more; random inputs as attacks."""

    def reply(text: str) -> str:
        task, attacking = read(text)
        if task is None:
            return send_program(guess_unknown(rng, text))
        if attacking:
            return _send(_drawn(rng, task, int(rng.integers(MAX_ATTACKS + 1))))
        return send_program(guess(rng))

    return reply


def empty_bot(rng: np.random.Generator) -> Bot:
    """A program that is never right, and no attack."""

    def reply(text: str) -> str:
        task, attacking = read(text)
        if task is None:
            return send_program(guess_unknown(rng, text))
        return _send([]) if attacking else send_program(EMPTY_PROGRAM)

    return reply


def middle_bot(rng: np.random.Generator) -> Bot:
    """The right program with one to three bugs; random inputs as attacks."""

    def reply(text: str) -> str:
        task, attacking = read(text)
        if task is None:
            return send_program(guess_unknown(rng, text))
        if attacking:
            return _send(_drawn(rng, task, MAX_ATTACKS))
        return send_program(task.with_bugs(rng, int(rng.integers(1, 4))))

    return reply


def strong_bot(rng: np.random.Generator) -> Bot:
    """The right program; attacks on which careless programs go wrong."""

    def reply(text: str) -> str:
        task, attacking = read(text)
        if task is None:
            return send_program(guess_unknown(rng, text))
        if attacking:
            return _send(_edges(rng, task, MAX_ATTACKS))
        return send_program(task.program())

    return reply


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Programs written in another way, one in four with a bug; mixed attacks. For ratings only."""

    def reply(text: str) -> str:
        task, attacking = read(text)
        if task is None:
            return send_program(guess_unknown(rng, text))
        if attacking:
            return _send(_edges(rng, task, 2) + _drawn(rng, task, 1))
        if rng.random() < 0.25:
            return send_program(task.with_bugs(rng, 1))
        return send_program(task.other_program())

    return reply


def _send(inputs: list[Any]) -> str:
    return action(f"\n{json.dumps(inputs)}\n")


def _drawn(rng: np.random.Generator, task: KnownTask, count: int) -> list[Any]:
    return [task.family.draw_input(rng, task.parameters, "small") for _ in range(count)]


def _edges(rng: np.random.Generator, task: KnownTask, count: int) -> list[Any]:
    edges = task.family.edge_inputs(task.parameters)
    return [edges[int(k)] for k in rng.permutation(len(edges))[:count]]
