"""Rubrics on the replies of a seat."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from recorded import episode, turn

from srl_agents.rewards.rubric_term import RubricTerm
from srl_agents.rewards.terms import Played
from srl_envs.errors import ConfigError
from srl_envs.rewards import Score

RIGHT, WRONG = "<action>1</action>", "maybe <action>1</action>"
PLAYED = episode(
    turn(RIGHT, 3),
    turn(RIGHT, 3),
    turn(WRONG, 3, "illegal"),
    turn("", 0, "malformed"),
)


class Answers:
    """1 where the reply repeats what was observed; None where it says so."""

    slow = False
    fields = ("observation", "seat")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Answers:
        return cls()

    def to_config(self) -> dict[str, Any]:
        return {}

    def score(self, reply: str, row: Mapping[str, Any]) -> Score | None:
        if reply == "fault":
            return None
        return Score(float(row["observation"] == f"before {reply}" and row["seat"] == 0), "told")


@pytest.mark.parametrize(
    ("replies", "values"),
    [
        ("each", [1 / 3, 1 / 3, 0.0, 0.0]),
        ("last", [0.0, 0.0, 0.0, 0.0]),
        ("accepted", [0.0, 1.0, 0.0, 0.0]),
    ],
)
def test_a_reply_that_nobody_wrote_is_not_judged(replies: Any, values: list[float]) -> None:
    term = RubricTerm(rubric="action-alone", replies=replies)
    assert list(term.judge(8)([Played(PLAYED, 0)])) == [pytest.approx(values)]


def test_a_scorer_reads_what_the_seat_read() -> None:
    term = RubricTerm(rubric={"parts": {"own": {"kind": f"{__name__}:Answers"}}}, replies="last")
    assert term.judge(8)([Played(PLAYED, 0)]) == [[0.0, 0.0, 1.0, 0.0]]
    fault = episode(turn("x", 2), turn("fault", 2))
    assert term.judge(8)([Played(fault, 0)]) == [[0.0, None]]


def test_a_file_becomes_part_of_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("parts: {form: {kind: format, settings: {blocks: [action]}}}")
    term = RubricTerm(rubric=str(path))
    path.write_text("parts: {}")
    assert term == RubricTerm(
        rubric={"parts": {"form": {"kind": "format", "settings": {"blocks": ["action"]}}}}
    )
    assert term.judge(8)([Played(PLAYED, 0)]) == [pytest.approx([1 / 3] * 3 + [0.0])]


@pytest.mark.parametrize(
    ("rubric", "says"),
    [
        ("math", "reads 'answer', which no game gives"),
        ("humaneval", "reads 'tests', which no game gives"),
        ("action-alon", "Did you mean 'action-alone'"),
        ({}, "give the name of a shipped one"),
        ({"part": {}}, "part"),
    ],
)
def test_a_rubric_that_no_game_can_serve_is_refused(rubric: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RubricTerm(rubric=rubric)
