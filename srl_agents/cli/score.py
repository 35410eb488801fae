"""`srl score FILE --rubric RUBRIC`: score a file of replies by a rubric."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, ResultOptions, meaning
from srl_agents.records import plain_json
from srl_agents.rewards.rubric_files import find_rubric
from srl_agents.yaml_files import read_yaml
from srl_envs.errors import ConfigError, file_fault, nearest
from srl_envs.rewards import Rubric, RubricScore, summary

DESCRIPTION = """Score a JSONL file of replies by a rubric.

Each line is an object with a reply (or completion), which is text or a list of chat messages, and the
fields that the rubric reads, such as {"reply": "... \\\\boxed{4}", "answer": "4"}. A rubric is a YAML
file, or a shipped one by name: math (the final answer), form-and-math (and think/answer tags),
humaneval (assert tests), program-calls (calls and what they give).

Examples:
  srl score replies.jsonl --rubric math
  srl score replies.jsonl --rubric my_rubric.yaml --out scores.jsonl
  srl score samples.jsonl --rubric humaneval --json
"""

_REPLY, _COMPLETION = "reply", "completion"
"""Field of a line, and what it is called in files of samples for HumanEval."""
_SHOWN_FAULTS = 5
NOT_JUDGED = 1
"""Exit code where some replies could not be judged by our own fault."""


@dataclass(frozen=True)
@meaning(out="Write each reply's score to this file, one line of JSON each; if absent, nowhere.")
class ScoreOptions(JSONOptions, ResultOptions):
    """Replies to score, and the rubric."""

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """JSONL file, one reply per line."""
    rubric: str
    """YAML file, or the name of a shipped rubric."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl score --help`."""
    options = read_options(ScoreOptions, command="srl score", description=DESCRIPTION, argv=argv)
    path = find_rubric(options.rubric)
    rubric = Rubric.from_config(read_yaml(path), place=path.name)
    replies, rows = read_replies(options.file, rubric.fields)
    scores = score_with_progress(rubric, replies, rows)
    if options.out is not None:
        write_scores(options.out, scores)
    result = {"file": str(options.file), "rubric": options.rubric, **summary(scores)}
    if options.json:
        print(plain_json(result, indent=2))
    else:
        show(result)
    missing = len(scores) - result["judged"]
    if missing:
        print(f"srl score: {missing} replies could not be judged (sandbox fault).", file=sys.stderr)
    return NOT_JUDGED if missing else 0


def read_replies(path: Path, fields: Sequence[str]) -> tuple[list[str], list[dict[str, Any]]]:
    """Replies and rows of a file, all checked before anything is scored.

    Raises:
        ConfigError: the file cannot be read, or lines are broken; names the first of them.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {file_fault(error, path)}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}.") from None
    replies, rows, faults = [], [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _row(line, fields)
            replies.append(_reply(row))
            rows.append(row)
        except ConfigError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        more = f" ... and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        raise ConfigError(f"{path}: {' '.join(faults[:_SHOWN_FAULTS])}{more}")
    if not rows:
        raise ConfigError(f"{path} holds no replies.")
    return replies, rows


def _row(line: str, fields: Sequence[str]) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"no JSON ({error}).") from None
    if not isinstance(row, dict):
        raise ConfigError("no JSON object.")
    reply = _COMPLETION if _COMPLETION in row and _REPLY not in row else _REPLY
    for field in (reply, *fields):
        if field not in row:
            raise ConfigError(
                f"no field {field!r}.{nearest(field, row)} Fields: {', '.join(row) or 'none'}."
            )
    return row


def _reply(row: Mapping[str, Any]) -> str:
    reply = row.get(_REPLY, row.get(_COMPLETION))
    if isinstance(reply, list) and reply and isinstance(reply[-1], dict):
        reply = reply[-1].get("content")
    if not isinstance(reply, str):
        raise ConfigError(f"{_REPLY!r} is neither text nor a list of chat messages.")
    return reply


def score_with_progress(
    rubric: Rubric, replies: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> list[RubricScore]:
    """All verdicts, with a progress bar on a terminal's standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("scoring", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(replies))
        return rubric.score_many(
            replies, rows, report=lambda done: bar.update(task, completed=done)
        )


def write_scores(path: Path, scores: Sequence[RubricScore]) -> None:
    """One JSON object per reply: ``reward``, and per part ``value`` and ``reason``.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with path.open("w", encoding="utf-8") as file:
            for score in scores:
                components = {
                    name: None if part is None else {"value": part.value, "reason": part.reason}
                    for name, part in score.components.items()
                }
                file.write(plain_json({"reward": score.reward, "components": components}) + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write {file_fault(error, path)}.") from None


def show(result: Mapping[str, Any]) -> None:
    """The summary as text."""
    reward = result["reward"]
    mean = "none" if reward is None else f"{reward:.3f}"
    print(f"{result['judged']} of {result['rows']} replies judged, mean reward {mean}")
    for name, part in result["parts"].items():
        value = "  none" if part["value"] is None else f"{part['value']:6.3f}"
        reasons = ", ".join(f"{reason} {count}" for reason, count in part["reasons"].items())
        print(f"  {name:12} {value}   {reasons}")
