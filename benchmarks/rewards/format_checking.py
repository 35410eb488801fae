r"""Format checking: our checker beside the rewards that public projects use, right and hostile replies.

    python -m benchmarks.rewards.format_checking [--json FILE]

Accuracy is on the labelled replies of our own tests that ask for one ``<think>...</think>``, then one
``<answer>...</answer>``, neither of them empty, and nothing else. Time is CPU seconds of one call on
replies of 1 KB to 1 MB that a model could write. Every contestant runs in a process of its own, which
is killed when one call takes longer than 20 s; longer replies of that kind are then left out.

The rules of open-r1 and code-r1 are written down here from their published source; TRL's is imported.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import re
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from srl_envs.rewards import FormatChecker

ROOT = Path(__file__).parents[2]
LABELLED = ROOT / "tests/srl_envs/rewards/format_completions.jsonl"
SETTINGS = ROOT / "tests/srl_envs/rewards/format_settings.json"
RESULT = ROOT / "benchmarks/results/format_checking.json"
LENGTHS = {"1 KB": 1_000, "10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000}  # characters
KILL_S = 20.0
IMPORT_S = 120.0
REPEATS, REPEAT_S = 50, 0.5  # calls per cell, and CPU seconds after which no further one starts

Accepts = Callable[[str], bool]


def ours() -> Accepts:
    """`FormatChecker` with the settings that the labels are for."""
    checker = FormatChecker.from_config(json.loads(SETTINGS.read_text())["r1"])
    return lambda reply: checker.check(reply).value == 1.0


def ours_with_every_rule() -> Accepts:
    """`FormatChecker` with all that it can check; timed only."""
    checker = FormatChecker.from_config(
        {
            "blocks": ["answer", "data"], "think": "required", "only_blocks": True, "boxed": True,
            "fence": "python", "forbidden": ["as an AI"], "max_words": 10**6, "partial": True,
            "json": {"<data>": {"items": {"pattern": "^(a+)+$"}, "uniqueItems": True}},
            "max_json_chars": 10**7, "patterns": {"<answer>": "(?s)(.*a)+"},
            "example": "<think>a</think><answer>a\n```python\n1\n```\n\\boxed{1}a</answer>"
            "<data>[1]</data>",
        }
    )  # fmt: skip
    return lambda reply: checker.check(reply).value == 1.0


def open_r1_format() -> Accepts:
    """open-r1 (huggingface/open-r1, src/open_r1/rewards.py), ``format_reward``."""
    pattern = r"^<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>$"
    return lambda reply: re.match(pattern, reply, re.DOTALL | re.MULTILINE) is not None


def open_r1_tag_count() -> Accepts:
    """open-r1, ``tag_count_reward``: a quarter for each tag that stands once; all four accept."""
    tags = ("<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>")
    return lambda reply: all(reply.count(tag) == 1 for tag in tags)


def code_r1() -> Accepts:
    """code-r1 (ganler/code-r1, verl/utils/reward_score/coder1), ``validate_response_structure``."""
    pattern = re.compile(r"<think>.*</think>.*<answer>.*</answer>$", re.DOTALL)
    return lambda reply: pattern.match(reply.strip()) is not None


def trl_think_format() -> Accepts:
    """TRL's ``think_format_reward``, as installed; it looks at the thoughts only, by design."""
    from trl.rewards import think_format_reward

    return lambda reply: bool(think_format_reward([[{"content": reply}]])[0] == 1.0)


CONTESTANTS: dict[str, Callable[[], Accepts]] = {
    "SRL": ours,
    "SRL, every rule": ours_with_every_rule,
    "open-r1 format_reward": open_r1_format,
    "open-r1 tag_count": open_r1_tag_count,
    "code-r1": code_r1,
    "TRL think_format": trl_think_format,
}


def _fill(start: str, piece: str, end: str = "") -> Callable[[int], str]:
    return lambda chars: start + piece * ((chars - len(start) - len(end)) // len(piece)) + end


_DATA = "<think>a</think>\n<answer>a\n```python\n1\n```\n\\boxed{1}a</answer>\n<data>"
HOSTILE: dict[str, Callable[[int], str]] = {
    "long right reply": _fill("<think>\n", "word ", "\n</think>\n<answer>\n7\n</answer>"),
    "answers opened, thoughts closed": _fill("<think>\n", "\n</think>\n<answer>\n"),
    "thoughts closed": _fill("<think>", "</think>"),
    "thoughts opened": _fill("", "<think>"),
    "answers": _fill("<think>\na\n</think>\n", "<answer>\n7\n</answer>\n", "x"),
    "line breaks": _fill("<think>\n", "\n", "x"),
    "boxes": _fill("<think>a</think><answer>", "\\boxed{", "</answer>"),
    "fences": _fill("<think>a</think><answer>\n", "```python\n", "\n</answer>"),
    "JSON objects": _fill(_DATA + "[", '{"a":1},', "0]</data>"),
    "JSON text": _fill(_DATA + '["', "a", '!"]</data>'),
}
"""Kinds of replies, each a function of the length in characters."""


def serve(name: str, connection: Connection) -> None:
    """Worker: build the contestant, then judge or time what is asked for."""
    accepts = CONTESTANTS[name]()
    connection.send("ready")
    while True:
        order, argument = connection.recv()
        if order == "judge":
            connection.send([accepts(reply) for reply in argument])
        else:
            connection.send(best_cpu_s(accepts, HOSTILE[argument[0]](argument[1])))


def best_cpu_s(accepts: Accepts, reply: str) -> float:
    """CPU seconds of the quickest call: a busy machine only ever slows one down."""
    best, spent = float("inf"), 0.0
    for _ in range(REPEATS):
        before = time.process_time()
        accepts(reply)
        took = time.process_time() - before
        best, spent = min(best, took), spent + took
        if spent > REPEAT_S:
            break
    return best


class Worker:
    """A contestant in a process of its own, started anew after each kill."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(self._name, theirs), daemon=True)
        self._process.start()
        if not self._connection.poll(IMPORT_S):
            raise RuntimeError(f"{self._name} was not ready after {IMPORT_S:.0f} s")
        self._connection.recv()

    def ask(self, order: str, argument: Any) -> Any:
        """The worker's answer, or None after a kill."""
        self._connection.send((order, argument))
        if self._connection.poll(KILL_S):
            return self._connection.recv()
        self.stop()
        self._start()
        return None

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()


def labelled() -> list[tuple[str, str]]:
    """Replies and reasons for the format that the public rewards are about."""
    rows = [json.loads(line) for line in LABELLED.read_text().splitlines()]
    return [(row["reply"], row["reason"]) for row in rows if row["format"] == "r1"]


def accuracy(verdicts: list[bool], reasons: list[str]) -> dict[str, int]:
    """Counts against the labels; ``think`` asks only whether the thoughts are as they should be."""
    right = [reason == "ok" for reason in reasons]
    thoughts = [not reason.startswith("think_") for reason in reasons]
    return {
        "replies": len(reasons),
        "right": sum(v == r for v, r in zip(verdicts, right, strict=True)),
        "wrongly_accepted": sum(v and not r for v, r in zip(verdicts, right, strict=True)),
        "wrongly_refused": sum(r and not v for v, r in zip(verdicts, right, strict=True)),
        "right_about_thoughts": sum(v == t for v, t in zip(verdicts, thoughts, strict=True)),
    }


def timings(worker: Worker) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Kind of reply and CPU seconds by length; None where the call was killed."""
    for kind in HOSTILE:
        seconds: dict[str, float | None] = {}
        for label, chars in LENGTHS.items():
            seconds[label] = worker.ask("time", (kind, chars))
            if seconds[label] is None:
                break
        yield kind, seconds


def growth(seconds: dict[str, float | None]) -> float | None:
    """Time at 1 MB over time at 100 KB: 10 is linear."""
    short, long = seconds.get("100 KB"), seconds.get("1 MB")
    return long / short if short and long else None


def main() -> None:
    """Print two tables and write them as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", default=str(RESULT), help="write the numbers to this file")
    options = parser.parse_args()
    replies, reasons = map(list, zip(*labelled(), strict=True))
    result: dict[str, Any] = {"accuracy": {}, "cpu_s": {}, "growth_100_kb_to_1_mb": {}}
    for name in CONTESTANTS:
        worker = Worker(name)
        if name != "SRL, every rule":
            result["accuracy"][name] = accuracy(worker.ask("judge", replies), reasons)
            print(f"{name}: {result['accuracy'][name]}", flush=True)
        result["cpu_s"][name] = dict(timings(worker))
        worker.stop()
        ratios = {kind: growth(seconds) for kind, seconds in result["cpu_s"][name].items()}
        result["growth_100_kb_to_1_mb"][name] = ratios
        for kind, seconds in result["cpu_s"][name].items():
            cells = [f"killed>{KILL_S:.0f}s" if s is None else f"{s:.6f}" for s in seconds.values()]
            ratio = f"1 MB / 100 KB = {ratios[kind]:.1f}" if ratios[kind] else ""
            print(
                f"  {name:22} {kind:32} {' '.join(f'{c:>10}' for c in cells)}  {ratio}", flush=True
            )
    packages = ("trl", "google-re2", "jsonschema")
    result["python"] = platform.python_version()
    result["versions"] = {package: metadata.version(package) for package in packages}
    Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
