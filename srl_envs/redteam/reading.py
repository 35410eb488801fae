"""What an attacker reads in a prompt: examples, lists and messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from srl_envs.turns.grammar import CLOSE, OPEN

_BLOCK = re.compile(f"{OPEN}(.*?){CLOSE}", re.DOTALL)
_LIST = re.compile(r"^([^:\n]{1,60}): *([^:\n]+(?:, [^:,\n]+)*)\.?$", re.MULTILINE)
_ANY = ("...", "\u2026", "")
_NUMBER = re.compile(r"-?\d+")
_WORD = re.compile(r"[A-Za-z]+")


def examples(text: str) -> list[str]:
    """Bodies of the action blocks that the prompt quotes; ``...`` stands for any move and is none."""
    bodies = (body.strip() for body in _BLOCK.findall(text))
    return list(dict.fromkeys(body for body in bodies if body not in _ANY))


def bodies(replies: Iterable[str] | None) -> list[str]:
    """Bodies of legal actions, which suites list as whole replies or as bodies."""
    return [reply.removeprefix(OPEN).removesuffix(CLOSE) for reply in replies or ()]


def word_lists(text: str) -> dict[str, list[str]]:
    """Lines of the form ``label: one, two, three``, by label."""
    return {label: items.split(", ") for label, items in _LIST.findall(text)}


def size_of(body: str) -> tuple[float, str]:
    """A key that orders actions by the number in them, then by their text."""
    number = _NUMBER.search(body)
    return (float(number.group()) if number else 0.0, body)


def message_form(text: str) -> tuple[str, str] | None:
    """How a seat may speak while it moves: the words before its message, and what follows it.

    Read from an example with several lines of which the first has a colon; None without.
    """
    for body in examples(text):
        first, line, rest = body.partition("\n")
        head, colon, _ = first.partition(":")
        if line and colon and "def " not in first:
            return f"{head}{colon} ", rest
    return None


def speaks_alone(text: str) -> bool:
    """Whether an example is several words of prose, so that the whole action is a message."""
    return any(len(_WORD.findall(body)) >= 3 and "def " not in body for body in examples(text))


def with_first_word(example: str, word: str, count: int) -> str:
    """``example`` with its first word replaced, and its first number by ``count``."""
    changed = _WORD.sub(lambda _: word, example, count=1)
    return _NUMBER.sub(str(count), changed, count=1)


def first_word(body: str) -> str:
    """The first word of an action, lower case; empty without."""
    found = _WORD.search(body)
    return found.group().lower() if found else ""


def program_name(text: str) -> str:
    """The function that the prompt's example program defines; empty where no program is asked for."""
    for body in examples(text):
        found = re.search(r"^def (\w+)\(", body, re.MULTILINE)
        if found:
            return found.group(1)
    return ""
