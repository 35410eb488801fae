"""Scripted pairs: navigators pass the statement on, drivers recognise the generated tasks by it.

They read the observation's text and nothing else.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from srl_envs.families.coding.known_tasks import (
    Bot,
    KnownTask,
    all_tasks,
    guess,
    guess_unknown,
    send_program,
)
from srl_envs.families.coding.pair_programming import DONE, SILENCE, random_message
from srl_envs.messages import clean_message
from srl_envs.turns.grammar import action

_LIMIT = re.compile(r"at most (\d+) characters")
_MESSAGE = re.compile(r'^Message \d+: "(.*)"$', re.MULTILINE)
_FAILED = re.compile(r"^Exchange \d+, result: .* One that failed: (.*)$", re.MULTILINE)
_TESTS = re.compile(r"^Exchange \d+, result: (\d+) of (\d+)", re.MULTILINE)
_POLITE = "Please write this for me. "
_LEAST = 30
"""Characters by which a driver recognizes a task."""


class Briefing(NamedTuple):
    """Facts that a navigator reads from an observation."""

    statement: str
    """On one line, as a message can hold it."""
    limit: int
    """Most characters of a message."""
    passed: tuple[tuple[int, int], ...]
    """(tests passed, tests) of every program so far."""
    failed: str
    """The last test that failed; "" where there is none."""


def read_briefing(text: str) -> Briefing | None:
    """What the navigator sees; None where the text is the driver's."""
    _, found, rest = text.partition("\nTASK: ")
    if not found:
        return None
    _, _, rest = rest.partition("\n")
    statement = re.split(r"\nExamples:\n|\n\nYou are ", rest)[0]
    limit, failed = _LIMIT.search(text), _FAILED.findall(text)
    return Briefing(
        _speakable(statement),
        int(limit[1]) if limit else 0,
        tuple((int(passed), int(tests)) for passed, tests in _TESTS.findall(text)),
        failed[-1] if failed else "",
    )


def random_bot(rng: np.random.Generator) -> Bot:
    """Chatters, and programs that return a constant or little more."""

    def navigate(briefing: Briefing) -> str:
        return DONE if briefing.passed and rng.random() < 0.5 else random_message(rng)

    return _pair(rng, navigate, lambda _task, _number: guess(rng))


def middle_bot(rng: np.random.Generator) -> Bot:
    """Passes the statement on; its programs have a bug less with every message."""

    def drive(task: KnownTask, number: int) -> str:
        return task.with_bugs(rng, max(0, int(rng.integers(0, 4)) - number))

    return _pair(rng, _pass_on, drive)


def strong_bot(rng: np.random.Generator) -> Bot:
    """Passes the statement on, in parts where it must; writes the right program."""
    return _pair(rng, _pass_on, lambda task, _number: task.program())


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Asks politely, and is content with nine tests in ten; writes programs in another way.

    One first program in four has a bug. For ratings only.
    """

    def navigate(briefing: Briefing) -> str:
        if briefing.passed and 10 * briefing.passed[-1][0] >= 9 * briefing.passed[-1][1]:
            return DONE
        words = _pass_on(briefing)
        polite = words not in (DONE, SILENCE) and len(_POLITE + words) <= briefing.limit
        return _POLITE + words if polite else words

    def drive(task: KnownTask, number: int) -> str:
        return (
            task.with_bugs(rng, 1) if number == 0 and rng.random() < 0.25 else task.other_program()
        )

    return _pair(rng, navigate, drive)


def _pair(
    rng: np.random.Generator,
    navigate: Callable[[Briefing], str],
    drive: Callable[[KnownTask, int], str],
) -> Bot:
    """A bot for either seat; ``drive`` also gets how many programs it has sent."""

    def reply(text: str) -> str:
        briefing = read_briefing(text)
        if briefing is not None:
            return action(navigate(briefing))
        messages = _MESSAGE.findall(text)
        task = recognized(messages)
        if task is None:
            return send_program(guess_unknown(rng, text))
        return send_program(drive(task, len(messages) - 1))

    return reply


def _pass_on(briefing: Briefing) -> str:
    """The next part of the statement; after it what failed, as long as it may help."""
    parts = textwrap.wrap(
        briefing.statement, briefing.limit, break_on_hyphens=False, drop_whitespace=True
    )
    sent = len(briefing.passed)
    if sent < len(parts):
        return parts[sent]
    if briefing.failed:
        return _speakable(f"This fails: {briefing.failed}")[: briefing.limit]
    return SILENCE


def recognized(messages: list[str]) -> KnownTask | None:
    """The generated task that the messages state, or begin to state; None where they state none."""
    said = " ".join(messages)
    statements = _statements()
    stated = [statement for statement in statements if statement in said]
    if stated:
        return statements[max(stated, key=len)]
    start = messages[0].removeprefix(_POLITE) if messages else ""
    for length in (len(said), len(start)):
        begun = said.removeprefix(_POLITE)[:length].strip()
        for statement, task in statements.items():
            if len(begun) >= _LEAST and statement.startswith(begun):
                return task
    return None


def _speakable(text: str) -> str:
    """As a message can hold it: comparison signs, which are taken out of messages, become words."""
    return clean_message(text.replace("<", "LESS").replace(">", "MORE"), 4000)


@cache
def _statements() -> dict[str, KnownTask]:
    """Statement as a quoted message shows it -> task."""
    return {
        _speakable(statement).replace('"', "'"): task for statement, task in all_tasks().items()
    }
