"""Questions of public benchmarks, outside of games: one prompt and one rule for each.

A collection is a JSONL file, plain or gzipped. Games over the same rows take them with ``tasks=``
(`srl_envs.reading.task_rows`); here each row is one question, and its own rule decides whether the reply is
right.

Sources: GSM8K arXiv:2110.14168, MATH arXiv:2103.03874, HumanEval arXiv:2107.03374, MBPP arXiv:2108.07732.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srl_envs.errors import ConfigError, nearest
from srl_envs.families.reasoning.word_problems import read_gsm8k
from srl_envs.reading.task_rows import Rejected, Row, is_held_out, read_rows

_FINAL = "\n\nYou may think first. End with the final answer as \\boxed{...}."
_PROGRAM = "Reply with the whole function in one ```python block."
_CODE_LIMITS = {"cpu_s": 5.0, "memory_mib": 512}
_NAME_FOLDER = "Name the folder of its file with --data."
_FOUND_IN = ("{name}.jsonl", "{name}.jsonl.gz", "{name}/test.jsonl", "{name}/test.jsonl.gz")


@dataclass(frozen=True, slots=True)
class Question:
    """One row of a collection."""

    id: str
    text: str
    """Prompt that a model reads."""
    fields: Mapping[str, Any]
    """What the collection's rubric reads beside the reply."""
    asks: str
    """What games over the same row ask, by which they divide rows into those to train on and the others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """How rows of one format are asked and judged."""

    name: str
    read: Callable[[Row], Question | Rejected]
    rubric: Mapping[str, Any]
    """Rule of the question, for `srl_envs.rewards.Rubric.from_config`."""
    files: tuple[str, ...] = field(default=())
    """Further names that its file has where it is published, under the folder of the data."""


def collection(name: str) -> Collection:
    """A collection by name.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in COLLECTIONS:
        raise ConfigError(
            f"no collection {name!r}.{nearest(name, COLLECTIONS)} Collections: {', '.join(COLLECTIONS)}."
        )
    return COLLECTIONS[name]


def find_file(name: str, folder: Path) -> Path:
    """The file of a collection in a folder of data.

    Raises:
        ConfigError: the collection is missing; lists the names that were tried.
    """
    if not folder.is_dir():
        raise ConfigError(f"{name}: the folder {folder} does not exist. {_NAME_FOLDER}")
    places = [*collection(name).files, *(place.format(name=name) for place in _FOUND_IN)]
    for place in places:
        if (folder / place).is_file():
            return folder / place
    raise ConfigError(f"{name}: {folder} holds none of {', '.join(places)}. {_NAME_FOLDER}")


def read_questions(
    name: str, path: Path, *, held_out: bool = False
) -> tuple[list[Question], list[Rejected]]:
    """The questions of a file, and the rows that cannot be asked.

    Args:
        name: of a collection.
        path: of its file.
        held_out: only questions that no game trains on.

    Raises:
        ConfigError: no such collection or file, or a row is not of the format.
    """
    chosen = collection(name)
    asked: list[Question] = []
    rejected: list[Rejected] = []
    for row in read_rows(str(path)):
        found = chosen.read(row)
        if isinstance(found, Rejected):
            rejected.append(found)
        elif not held_out or is_held_out(found.asks):
            asked.append(found)
    return asked, rejected


def _gsm8k(row: Row) -> Question | Rejected:
    found = read_gsm8k(row)
    if isinstance(found, Rejected):
        return found
    return Question(found.id, f"{found.text}{_FINAL}", {"answer": found.reference}, found.text)


def _math(row: Row) -> Question:
    return Question(
        row.where,
        f"{row.text('problem')}{_FINAL}",
        {"answer": row.text("answer")},
        row.text("problem"),
    )


def _humaneval(row: Row) -> Question:
    prompt = row.text("prompt")
    tests = f"{row.text('test')}\ncheck({row.text('entry_point')})\n"
    text = f"Complete this Python function. {_PROGRAM}\n\n```python\n{prompt.rstrip()}\n```"
    return Question(row.text("task_id"), text, {"prompt": prompt, "tests": tests}, prompt)


def _mbpp(row: Row) -> Question:
    tests = row.texts("test_list")
    if not tests:
        row.refuse("field 'test_list' has no test")
    task = row.text("text" if "text" in row.fields else "prompt")
    setup = [
        *row.texts("test_imports", optional=True),
        str(row.fields.get("test_setup_code") or ""),
    ]
    prompt = "\n".join(line for line in setup if line)
    text = f"{task}\n{_PROGRAM} It must pass this test, among others:\n\n```python\n{tests[0]}\n```"
    return Question(
        str(row.fields.get("task_id", row.where)),
        text,
        {"prompt": prompt, "tests": "\n".join(tests)},
        task,
    )


_ANSWER = {"parts": {"answer": {"kind": "answer"}}}
_CODE = {
    "parts": {
        "code": {
            "kind": "code",
            "settings": {"tests": "asserts", "prefix": "prompt", "limits": _CODE_LIMITS},
        }
    }
}
COLLECTIONS: dict[str, Collection] = {
    found.name: found
    for found in (
        Collection(name="gsm8k", read=_gsm8k, rubric=_ANSWER),
        Collection(name="math", read=_math, rubric=_ANSWER),
        Collection(
            name="humaneval",
            read=_humaneval,
            rubric=_CODE,
            files=("HumanEval.jsonl.gz", "HumanEval.jsonl", "humaneval/HumanEval.jsonl.gz"),
        ),
        Collection(name="mbpp", read=_mbpp, rubric=_CODE, files=("sanitized-mbpp.jsonl",)),
    )
}
"""Collections by name."""
