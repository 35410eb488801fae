"""Labelled pairs of every kind, and the usual ways of writing an integer."""

import collections
import dataclasses
import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from srl_envs.rewards import MATCH_REASONS, AnswerMatcher, AnswerPolicy
from srl_envs.rewards.matcher.extraction import EXTRACTORS

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("answer_pairs.jsonl").read_text("utf-8").splitlines()
]
GSM8K = Path(__file__).parents[4] / "shared" / "data" / "gsm8k" / "test.jsonl"
KINDS = (
    "integer", "decimal", "fraction", "mixed number", "percent", "scientific", "units", "money",
    "set", "tuple", "interval", "matrix", "equation", "inequality", "expression", "constant",
    "complex", "choice", "date", "text", "list", "ratio", "tolerance", "adversarial", "function",
    "name", "invisible", "plain TeX", "word", "notation",
)  # fmt: skip
MATCHER = AnswerMatcher()


def test_every_kind_has_pairs_that_match_and_near_misses() -> None:
    counts = collections.Counter((row["kind"], row["equal"]) for row in ROWS)
    assert {kind for kind, _ in counts} == set(KINDS)
    assert min(counts[kind, equal] for kind in KINDS for equal in (True, False)) >= 3
    assert len(ROWS) >= 150


@pytest.mark.parametrize("kind", KINDS)
def test_labelled_pairs(kind: str) -> None:
    wrong = []
    for row in ROWS:
        if row["kind"] == kind:
            matcher = AnswerMatcher(AnswerPolicy(**row.get("policy", {})))
            score = matcher.compare(row["cand"], answer=row["gold"])
            if (score.value == 1.0) != row["equal"]:
                wrong.append((row["gold"], row["cand"], score.reason))
    assert wrong == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_reference_answer_matches_itself(kind: str) -> None:
    """Boxed, as a reply: what a data set holds must score 1 under its own checker."""
    golds = {row["gold"] for row in ROWS if row["kind"] == kind}
    replies = {gold: MATCHER.score(reply=f"So: \\boxed{{{gold}}}", answer=gold) for gold in golds}
    assert [gold for gold, score in replies.items() if score.value != 1.0] == []


def ways_of_writing(number: str) -> dict[str, str]:
    """Replies that all answer the integer ``number``, written without separators."""
    grouped = f"{int(number):,}"
    mantissa, exponent = f"{Decimal(number):E}".split("E")
    return {
        "plain": f"The answer is {number}",
        "grouped": f"The answer is {grouped}.",
        "grouped in LaTeX": f"\\boxed{{{grouped.replace(',', '{,}')}}}",
        "a point": f"The answer is {number}.0",
        "money": f"The answer is ${grouped}",
        "money, escaped": f"\\boxed{{\\${grouped}.00}}",
        "boxed": f"Thus $\\boxed{{{number}}}$.",
        "hashes": f"12 + 30 = 42\n#### {number}",
        "hashes, grouped": f"so\n#### {grouped}",
        "tag": f"<answer>{number}</answer>",
        "action": f"I know.\n<action>{grouped}</action>",
        "last line": f"Let me see.\n{number}",
        "bold": f"Answer: **{number}**",
        "unit word": f"The answer is {grouped} clips",
        "dollars": f"\\boxed{{{number} \\text{{ dollars}}}}",
        "scientific": f"\\boxed{{{mantissa}e{int(exponent)}}}",
        "scientific in LaTeX": f"\\boxed{{{mantissa} \\times 10^{{{int(exponent)}}}}}",
        "equation": f"\\boxed{{x = {number}}}",
        "closing remark": f"The final answer is ${number}$. I hope it is correct.",
    }


def assert_matched_in_every_way(number: str) -> None:
    wrong = {
        way: MATCHER.score(reply=reply, answer=number).reason
        for way, reply in ways_of_writing(number).items()
        if MATCHER.score(reply=reply, answer=number).value != 1.0
    }
    assert wrong == {}, number
    off_by_one = str(int(number) + 1)
    right = [
        way
        for way, reply in ways_of_writing(off_by_one).items()
        if MATCHER.score(reply=reply, answer=number).value != 0.0
    ]
    assert right == [], number


@pytest.mark.parametrize(
    "number", ["0", "7", "18", "-3", "104", "1000", "1234", "70000", "-45678", "2125000"]
)
def test_integers_match_in_every_usual_way_of_writing(number: str) -> None:
    assert_matched_in_every_way(number)


@pytest.mark.slow
@pytest.mark.skipif(not GSM8K.exists(), reason="shared/data/gsm8k/test.jsonl is not there")
def test_gsm8k_answers_match_in_every_usual_way_of_writing() -> None:
    rows = [json.loads(line)["answer"] for line in GSM8K.read_text("utf-8").splitlines()]
    golds = {solution.rpartition("####")[2].strip() for solution in rows}
    assert len(rows) == 1319
    for gold in sorted(golds):
        assert MATCHER.score(reply=f"#### {gold}", answer=gold).value == 1.0
        assert_matched_in_every_way(gold.replace(",", ""))
    assert [
        row for row in rows if MATCHER.score(reply=row, answer=row.rpartition("####")[2]).value != 1
    ] == []


def test_a_unit_word_counts_only_where_the_policy_allows() -> None:
    strict = AnswerMatcher(AnswerPolicy(unit_missing_ok=False))
    assert strict.score(reply="The answer is 72 clips", answer="72").reason == "wrong_unit"
    assert MATCHER.score(reply="The answer is 72 clips", answer="72").value == 1.0


# --- the guide ------------------------------------------------------------------------------------

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "rewards.md").read_text("utf-8")


def test_the_kinds_of_the_guide_are_judged_as_it_says() -> None:
    section = GUIDE.partition("## Answer matching")[2].partition("\n## ")[0]
    judged = []
    for line in section.splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")]
        if len(cells) == 4 and len(cells[1]) == 1:
            for value, texts in ((1.0, cells[2]), (0.0, cells[3])):
                for text in texts:
                    judged.append(MATCHER.compare(text, answer=cells[1][0]).value == value)
                    assert judged[-1], (cells[1][0], text)
    assert len(judged) > 70


def test_the_guide_lists_every_flag_reason_and_extraction() -> None:
    section = GUIDE.partition("## Answer matching")[2].partition("\n## ")[0]
    for field in dataclasses.fields(AnswerPolicy):
        assert f"| `{field.name}` |" in section
    for name in (*MATCH_REASONS, *EXTRACTORS):
        assert f"`{name}`" in section
