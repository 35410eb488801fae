"""Rubrics on the replies of a seat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Turn
from srl_agents.rewards.rubric_term import RubricTerm
from srl_agents.rewards.terms import Played
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build
from srl_envs.rewards import Score
from tests.srl_agents.rewards.recorded import episode, turn

RIGHT, WRONG = "<action>1</action>", "maybe <action>1</action>"
PLAYED = episode(
    turn(RIGHT, 3),
    turn(RIGHT, 3),
    turn(WRONG, 3, "illegal"),
    turn("", 0, "malformed"),
)


class Answers:
    """1 where the reply repeats what was observed; None for the reply "fault"."""

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
        return Score(float(row["observation"] == f"before {reply}" and row["seat"] == 0), "scored")


@pytest.mark.parametrize(
    ("replies", "values"),
    [
        ("each", [1 / 3, 1 / 3, 0.0, 0.0]),
        ("last", [0.0, 0.0, 0.0, 0.0]),
        ("accepted", [0.0, 1.0, 0.0, 0.0]),
    ],
)
def test_an_unwritten_reply_is_not_judged(replies: Any, values: list[float]) -> None:
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
    (given,) = term.judge(8)([Played(PLAYED, 0)])
    assert given == pytest.approx([1 / 3] * 3 + [0.0])


@pytest.mark.parametrize(
    ("rubric", "message"),
    [
        ("action-alon", "Did you mean 'action-alone'"),
        ({}, "give the name of a shipped one"),
        ({"part": {}}, "part"),
    ],
)
def test_what_is_no_rubric_is_refused(rubric: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RubricTerm(rubric=rubric)


def asked(reply: str, answer: str | None, reference: str = "42") -> Turn:
    return replace(turn(reply, 3), references={"answer": reference}, answer=answer)


@pytest.mark.parametrize(
    ("reads", "values"),
    [("reply", [0.5, 0.0, 0.0, 0.0]), ("move", [0.5, 0.0, 0.0, 0.0])],
)
def test_an_answer_is_compared_with_what_the_game_knows(reads: Any, values: list[float]) -> None:
    """The second reply is wrong, the third is unwritten, the last answers no question."""
    boxed, wrong = "\\boxed{42} <action>42; 1</action>", "\\boxed{41} <action>41; 3</action>"
    unwritten = replace(asked("", None), completion_ids=())
    seat = Played(episode(asked(boxed, "42"), asked(wrong, "41"), unwritten, turn("on", 2)), 0)
    term = RubricTerm(rubric="math", reads=reads)
    assert term.references == ("answer",)
    assert term.judge(8)([seat]) == [values]


def test_a_move_that_was_not_accepted_is_no_answer() -> None:
    seat = Played(episode(asked("\\boxed{42}", None)), 0)
    assert RubricTerm(rubric="math").judge(8)([seat]) == [[1.0]]
    assert RubricTerm(rubric="math", reads="move").judge(8)([seat]) == [[0.0]]


def test_reading_moves_is_for_rubrics_that_ask_what_is_right() -> None:
    with pytest.raises(ConfigError, match="reads='move'"):
        RubricTerm(rubric="action-alone", reads="move")


@pytest.mark.parametrize(
    ("env", "rubric", "message"),
    [
        (
            "nim-v0",
            "math",
            "reads 'answer', which this environment does not have: it has no right",
        ),
        ("math_duel-v0", "humaneval", "reads 'tests', .* it has answer"),
        ("code_duel-v0", "math", "reads 'answer', .* it has calls"),
    ],
)
def test_a_game_without_the_reference_is_refused_by_name(
    env: str, rubric: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"rewards.terms.right {message}"):
        build(LeagueRecipe, recipe(env, rubric), "recipe")
    fitting = {"math_duel-v0": "math"}.get(env)
    if fitting:
        assert build(LeagueRecipe, recipe(env, fitting), "recipe").judges_answers
    assert not build(LeagueRecipe, recipe(env, "action-alone"), "recipe").judges_answers


def recipe(env: str, rubric: str) -> dict[str, Any]:
    return {
        "name": "known",
        "model": "tiny",
        "env": env,
        "updates": 1,
        "rewards": {"terms": {"right": {"rubric": rubric}}},
    }
