"""How many starts of the eval split also occur among starts of the train split."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report

TRAIN, EVAL = 3000, 1000
"""Starts of each split, where the budget allows."""
_RARE = 0.05
"""A line that stands in more starts than this share names no instance, such as ``Heap 1: 3``."""
_TELLING = 60
"""Characters from which a line is taken to name an instance; shorter ones repeat by chance."""
_USUAL = 0.5
"""Share of the starts from which a form of line is one of the state, and of the values that it then has."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_VALUE = re.compile(r"\d+(?:\.\d+)?|\"[^\"\n]*\"")
_EXAMPLE = re.compile(r"<action>.*?</action>")
_ITEM = re.compile(r"\n[ \t]*(?=\d+\. )")
_FEW = 60
_WORDS = 3
"""First words by which lines of several seats are taken for the same line."""


Start = tuple[str, ...]
"""First observation of each seat."""


def _starts(env: Any, split: str, count: int, allowance: Allowance | None) -> list[Start]:
    texts = []
    for seed in range(count):
        if allowance is not None and seed >= _FEW and not allowance.left():
            break
        observations, _ = env.reset(seed=seed, options={"split": split})
        texts.append(tuple(observations[agent]["text"] for agent in env.possible_agents))
    return texts


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:12]


def shares(
    env_id: str, train: int, evaluated: int, allowance: Allowance | None = None
) -> dict[str, float]:
    """Overlap of the two splits.

    Returns:
        ``starts``: share of eval starts that occur in train. ``seats``: share of those of which what some
        seat sees occurs in train for that seat. ``parts``: share of eval starts with a line that names an
        instance (long, and rare among starts) and occurs in train, such as a task's text, and with no
        long line in words that train does not have.
        ``train`` and ``eval``: how many were drawn.
    """
    with matches.opened(env_id) as env:
        most = allowance.part(0.75) if allowance is not None else None
        first = _starts(env, "train", train, most)
        second = _starts(env, "eval", evaluated, allowance)
    known = {_digest("\0".join(start)) for start in first}
    views = {(seat, _digest(text)) for start in first for seat, text in enumerate(start)}
    telling = _telling_lines(first)
    forms = {_NUMBER.sub("#", line) for start in first for line in _lines(start)}
    n = max(1, len(second))
    return {
        "starts": sum(_digest("\0".join(start)) in known for start in second) / n,
        "seats": sum(
            any((seat, _digest(text)) in views for seat, text in enumerate(start))
            for start in second
        ) / n,
        "parts": sum(
            not telling.isdisjoint(_lines(start)) and not _new_words(start, forms)
            for start in second
        ) / n,
        "train": len(first), "eval": len(second),
    }  # fmt: skip


def _telling_lines(starts: Sequence[Start]) -> set[str]:
    """Lines that name an instance: long, rare, no line of the state, and with little else to go with them.

    A line of the state differs from start to start only in its numbers, and has fewer values than there
    are starts, such as the size of a stock whose growth stands elsewhere; or most starts with it
    differ in other words, such as a forecast above a map.
    """
    beside: dict[str, list[frozenset[str]]] = {}
    forms, values = Counter[str](), Counter[str]()
    for start in starts:
        lines = _lines(start)
        others = frozenset(_VALUE.sub("#", line) for line in lines)
        for line in lines:
            beside.setdefault(line, []).append(others)
    for line, companies in beside.items():
        forms[_NUMBER.sub("#", line)] += len(companies)
        values[_NUMBER.sub("#", line)] += 1
    different = len(set(starts))

    def names(line: str, companies: list[frozenset[str]]) -> bool:
        form, count = _NUMBER.sub("#", line), len(companies)
        usual = forms[form] > _USUAL * len(starts) and values[form] < _USUAL * different
        shared = count > 1 and len(set(companies)) > _USUAL * count
        long_and_rare = len(line) >= _TELLING and count <= max(1, _RARE * len(starts))
        return long_and_rare and not (usual or shared)

    return {line for line, companies in beside.items() if names(line, companies)}


def _new_words(start: Start, known: set[str]) -> bool:
    """Whether a long line of the start is not among ``known`` forms: another task, with its own text."""
    return any(len(k) >= _TELLING and _NUMBER.sub("#", k) not in known for k in _lines(start))


def _lines(start: Start) -> set[str]:
    """Lines of all texts: items of a numbered list belong to the line above, examples of replies to none.

    A line of one seat is left out where all others have another line that begins alike, such as cards in the
    hand: it is what a single seat sees, and only all of them together are the instance.
    """
    seats = [set(_ITEM.sub(" ", _EXAMPLE.sub("", text)).splitlines()) for text in start]
    if len(seats) < 2:
        return set().union(*seats)
    begun = [{_beginning(line) for line in lines} for lines in seats]
    public = set.intersection(*seats)
    alike = set.intersection(*begun)
    return {
        line for lines in seats for line in lines if line in public or _beginning(line) not in alike
    }


def _beginning(line: str) -> str:
    """The first words of a line, without its numbers."""
    return " ".join(_NUMBER.sub("#", line).split()[:_WORDS])


def declared_held_out(env_id: str) -> bool:
    """Whether the suite declares that no eval instance occurs in train; the default is true."""
    return bool(getattr(srl_envs.spec(env_id), "held_out", True))


def probe(env_id: str, report: Report, allowance: Allowance) -> None:
    """Adds the overlap, and a finding where eval is said to be held out and is not."""
    found = shares(env_id, TRAIN, EVAL, allowance)
    allowance.spend(int(found["train"] + found["eval"]) // 100)
    report.measures["overlap"] = found["starts"]
    report.measures["overlap_seats"] = found["seats"]
    report.measures["overlap_parts"] = found["parts"]
    report.measures["held_out"] = declared_held_out(env_id)
    report.findings += _judged(env_id, found)


def _judged(env_id: str, found: dict[str, float]) -> list[Finding]:
    if not declared_held_out(env_id):
        return []
    findings = []
    for kind, share, what in (
        ("eval_starts_in_train", found["starts"], "whole starts"),
        ("eval_instances_in_train", found["parts"], "a line that names the instance"),
    ):
        if share > 0:
            seen = f"{share:.1%} of {found['eval']} eval starts are among {found['train']} of train"
            case = {"probe": "overlap", "target": env_id, "kind": kind}
            counts = {name: found[name] for name in ("train", "eval")}
            findings.append(
                Finding(
                    kind=kind,
                    target=env_id,
                    observed=f"{seen} ({what})",
                    expected="none: the split is said to be held out",
                    case={**case, **counts},
                )
            )
    return findings[:1]  # a whole start that occurs has parts that occur


def check(case: Case) -> Finding | None:
    """Draw the starts again."""
    found = shares(case["target"], case["train"], case["eval"])
    judged = [f for f in _judged(case["target"], found) if f.kind == case["kind"]]
    return judged[0] if judged else None
