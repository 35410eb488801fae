"""Replies made of tags and text at random, judged by a regular expression beside the format checker."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.rewards import FormatChecker, FormatSpec

TARGET = "formats"
_PIECES = (
    "<think>", "</think>", "<answer>", "</answer>", "7", "so", " ", "\n", "<answer>7</answer>",
    "<think>so</think>", "<", "</", "answer>", "```", "\\boxed{7}",
)  # fmt: skip
_THOUGHT = r"(?:(?!</?think>).)*(?!</?think>)\S(?:(?!</?think>).)*"
_BODY = r"(?:(?!</?(?:think|answer)>).)*(?!</?(?:think|answer)>)\S(?:(?!</?(?:think|answer)>).)*"
_SPECS = {
    "think and answer alone": (
        {"blocks": ("answer",), "think": "required", "only_blocks": True},
        re.compile(rf"\s*<think>{_THOUGHT}</think>\s*<answer>{_BODY}</answer>\s*", re.DOTALL),
    ),
    "answer alone, no thought": (
        {"blocks": ("answer",), "think": "forbidden", "only_blocks": True},
        re.compile(rf"\s*<answer>{_BODY}</answer>\s*", re.DOTALL),
    ),
}
"""Name -> settings of the checker, and what they mean."""


def cases(seed: int) -> Iterator[Case]:
    """Replies without end, half of them one piece away from a right one."""
    rng = np.random.default_rng([seed, 4])
    right = ["<think>", "so", "</think>", "<answer>", "7", "</answer>"]
    while True:
        for name in _SPECS:
            if rng.random() < 0.5:
                pieces = [_PIECES[i] for i in rng.integers(len(_PIECES), size=rng.integers(1, 9))]
            else:
                pieces = list(right if "think and" in name else right[3:])
                for _ in range(rng.integers(3)):
                    at = int(rng.integers(len(pieces) + 1))
                    pieces[at : at + int(rng.integers(2))] = [_PIECES[rng.integers(len(_PIECES))]]
            yield {"probe": "formats", "target": TARGET, "spec": name, "reply": "".join(pieces)}


def check(case: Case) -> Finding | None:
    """Compare the checker's verdict with the expression's."""
    settings, meaning = _SPECS[case["spec"]]
    checker = FormatChecker(FormatSpec(**settings))  # type: ignore[arg-type]
    got = checker.check(case["reply"]).value == 1.0
    due = meaning.fullmatch(case["reply"]) is not None
    if got == due:
        return None
    return Finding(
        kind="wrong_format_accepted" if got else "right_format_refused", target=TARGET, case=case,
        observed=f"{case['spec']}: {case['reply']!r}", expected="right" if due else "wrong",
    )  # fmt: skip


def probe(seed: int, report: Report, allowance: Allowance) -> None:
    """Adds the first case of each kind and specification."""
    known: dict[tuple[str, str], Finding] = {}
    tried = 0
    for case in cases(seed):
        if not allowance.left() or tried >= 4000:
            break
        tried += 1
        allowance.spend()
        found = check(case)
        if found is not None:
            known.setdefault((found.kind, case["spec"]), found)
    report.findings += known.values()
    report.measures.update(verdicts=tried, wrong=len(known))
