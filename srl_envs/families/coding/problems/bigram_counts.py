"""Bigram counts: how often pairs of letters or words occur in a text."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from srl_envs.families.coding.problems.family import (
    Bug,
    Parameters,
    ProblemFamily,
    Size,
    integer,
    is_text,
    pick,
    sentences,
    text,
)

_LONGEST = 120
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_WORDS = ("a", "an", "ant", "A", "be", "Be", "cat", "no", "on")


def _variant(
    unit: str, answer: str, top: int = 0, fold: bool = False, distance: int = 1
) -> Parameters:
    return {"unit": unit, "answer": answer, "top": top, "fold": fold, "distance": distance}


def _variants(difficulty: int) -> list[Parameters]:
    answers = ("object", "best", "distinct")
    if difficulty == 1:
        return [_variant("plain", answer) for answer in answers]
    if difficulty == 2:
        return [_variant("letters", answer, 0, True) for answer in answers]
    if difficulty == 3:
        return [
            _variant("letters", "top", top, fold) for top in (2, 3, 4) for fold in (True, False)
        ]
    if difficulty == 4:
        kinds = [("object", 0), ("best", 0), ("top", 2), ("top", 3)]
        return [_variant("words", kind, top, fold) for kind, top in kinds for fold in (True, False)]
    kinds = [("object", 0), ("best", 0), ("top", 2), ("top", 3)]
    return [
        _variant(unit, kind, top, True, distance)
        for unit in ("letters", "words")
        for kind, top in kinds
        for distance in (2, 3)
    ]


def _statement(p: Parameters) -> str:
    words = p["unit"] == "words"
    unit = "word" if words else "character"
    pair = f"{'words' if words else 'characters'} i and i+{p['distance']}"
    answers = {
        "object": "Return an object from each pair that occurs to its count.",
        "best": 'Return the pair with the highest count, the first in sorted order if tied, "" if none.',
        "distinct": "Return how many different pairs occur.",
        "top": f"Return a list of [pair, count] for the {p['top']} highest counts (fewer if there "
        "are fewer), highest first, ties in sorted order of the pairs.",
    }
    task = sentences(
        "Turn the text to lower case first." if p["fold"] else "",
        f"Count the pairs made of {pair} of the text, for every i.",
        "Words are separated by one or more spaces; a pair is written with one space between."
        if words
        else "",
        "Skip pairs that contain a space." if p["unit"] == "letters" else "",
        answers[p["answer"]],
    ).replace("Count the pairs made of", f"Count the {unit} pairs made of")
    letters = "letters a-z" if p["unit"] == "plain" else "letters a-z, A-Z and spaces"
    return f"{task}\nInput: a string of 0 to {_LONGEST} {letters}."


def _reference(p: Parameters, data: Any) -> Any:
    folded = data.lower() if p["fold"] else data
    units = [w for w in folded.split(" ") if w] if p["unit"] == "words" else list(folded)
    glue = " " if p["unit"] == "words" else ""
    counts = Counter(
        first + glue + second
        for first, second in zip(units, units[p["distance"] :], strict=False)
        if " " not in (first, second)
    )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    answers: dict[str, Any] = {
        "object": dict(ranked),
        "best": ranked[0][0] if ranked else "",
        "distinct": len(ranked),
        "top": [[pair, count] for pair, count in ranked[: p["top"]]],
    }
    return answers[p["answer"]]


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    small = size == "small"
    if p["unit"] == "plain":
        return text(rng, "abc", integer(rng, 3, 8) if small else integer(rng, 90, _LONGEST))
    count = integer(rng, 3, 7) if small else integer(rng, 35, 45)
    if p["unit"] == "words":
        gaps = [" " if rng.random() < 0.9 else "  " for _ in range(count)]
        drawn = "".join(pick(rng, _WORDS[:6]) + gap for gap in gaps)
    else:
        drawn = " ".join(text(rng, "abAB", integer(rng, 1, 3)) for _ in range(count // 2 + 1))
    return drawn[: 40 if small else _LONGEST - 1].strip() + (" " if rng.random() < 0.1 else "")


def _is_valid(p: Parameters, data: Any) -> bool:
    letters = _LOWER if p["unit"] == "plain" else _LOWER + _LOWER.upper() + " "
    return is_text(data, letters, _LONGEST)


def _edge_inputs(p: Parameters) -> list[Any]:
    if p["unit"] == "plain":
        return ["", "z", "aaa", "aaaa", "baab", "zyab", "abab", "abba"]
    if p["unit"] == "words":
        return [
            "",
            " ",
            "cat",
            "a  b",
            " a b a b",
            "on no ON no on",
            "b a b a c",
            "x y z x y Z",
            "a a a a",
        ]
    return ["", " ", "aA", "aaaa", "a b", "zb ab Ab", "ba ba ab AB", " ab", "abcabd", "B A b a"]


_TEMPLATE = """
def solve(data):
    units = $units
    counts = {}
    for i in range(len(units) - $distance):
        first, second = units[i], units[i + $distance]
$skip        pair = first + $glue + second
        counts[pair] = counts.get(pair, 0) + 1
    ranked = sorted(counts, key=lambda pair: (-counts[pair], pair))
    return $answer
"""

_PLAIN = """
def solve(data):
    units = $units
    counts = {}
    for i in range(len(units) - $distance):
        first, second = units[i], units[i + $distance]
$skip        pair = first + $glue + second
        counts[pair] = counts.get(pair, 0) + 1
    return $answer
"""

_OTHER = """
def solve(data):
    units = $units
    pairs = [$glue.join(pair) for pair in zip(units, units[$distance:]) if " " not in pair]
    counts = {pair: pairs.count(pair) for pair in sorted(pairs)}
    ranked = sorted(counts, key=counts.get, reverse=True)
    return $answer
"""

_SKIP = """        if first == " " or second == " ":
            continue
"""


def _fields(p: Parameters) -> dict[str, Any]:
    units = "data.lower()" if p["fold"] else "data"
    return {
        "units": units + (".split()" if p["unit"] == "words" else ""),
        "raw": "data" + (".split()" if p["unit"] == "words" else ""),
        "distance": p["distance"],
        "skip": _SKIP if p["unit"] == "letters" else "",
        "glue": '" "' if p["unit"] == "words" else '""',
        "answer": {
            "object": "counts",
            "best": 'ranked[0] if ranked else ""',
            "distinct": "len(counts)",
            "top": f"[[pair, counts[pair]] for pair in ranked[:{p['top']}]]",
        }[p["answer"]],
    }


FAMILY = ProblemFamily(
    name="bigram_counts",
    title=lambda p: "Pair counts",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=lambda p: _TEMPLATE if p["answer"] in ("best", "top") else _PLAIN,
    fields=_fields,
    bugs=(
        Bug(
            "last pair lost",
            "in range(len(units) - $distance):",
            "in range(len(units) - $distance - 1):",
        ),
        Bug(
            "pairs do not overlap",
            "in range(len(units) - $distance):",
            "in range(0, len(units) - $distance, 2):",
        ),
        Bug(
            "order of a pair ignored",
            "pair = first + $glue + second",
            "pair = min(first, second) + $glue + max(first, second)",
        ),
        Bug("ties as they come", "(-counts[pair], pair)", "-counts[pair]"),
        Bug("case kept", "units = $units", "units = $raw", lambda p: p["fold"]),
        Bug("spaces kept", "$skip", "", lambda p: p["unit"] == "letters"),
        Bug("neighbours only", "units[i + $distance]", "units[i + 1]", lambda p: p["distance"] > 1),
    ),
    alternative=lambda p: _OTHER,
)
