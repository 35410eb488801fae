"""What a small model learns at the first rung: its levels, its comparison, its page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import srl_envs
from benchmarks.environments import first_rung, first_rung_page
from benchmarks.environments.first_rung import (
    COURSES,
    RUNGS,
    Course,
    Rung,
    play_uniformly,
    specs_of,
)

FOUND = json.loads(first_rung_page.RESULTS.read_text())
SUMS = Rung(
    options={"players": 1, "problems": 1, "difficulty": 1, "note_chars": 0},
    model="tiny",
    games=4,
    steps=8,
    tokens=4,
    episodes=3,
    draws=2,
    first=2,
)
COURSE = Course(
    bots=("random", "strong"), games=4, steps=2, updates=1, start_states=2, group_size=2, episodes=3
)
WITHOUT_PROGRAMS = ("holdem-v0", "research_room-v0", "werewolf-v0", "treaties-v0")


def test_the_page_says_what_the_results_say() -> None:
    assert first_rung_page.PAGE.read_text() == first_rung_page.page(FOUND)


def test_the_page_names_the_games_that_are_not_measured() -> None:
    assert tuple(RUNGS) == first_rung_page.GAMES
    measured, *_, other = RUNGS
    row = next(iter(FOUND["rungs"].values()))
    said = first_rung_page.summary({"rungs": {measured: row}})
    assert f"`{other}`" in said
    assert f"`{measured}`" not in said


def test_every_row_is_of_at_most_200_examples_and_of_eval_episodes() -> None:
    for env_id, row in FOUND["rungs"].items():
        assert 0 < row["examples"] <= first_rung.MOST_EXAMPLES, env_id
        returns = [row[player]["returns"] for player in ("imitated_play", "uniform")]
        assert [len(each) for each in returns] == [row["episodes"]] * 2, env_id
        assert len(row["before"]["returns"]) == row["first"], env_id


@pytest.mark.parametrize("env_id", RUNGS)
def test_a_level_can_be_made_and_its_bot_is_there(env_id: str) -> None:
    rung = RUNGS[env_id]
    srl_envs.make(env_id, **first_rung.options_of(rung)).close()
    assert rung.imitated in srl_envs.spec(env_id).bots


def test_courses_begin_below_the_best_and_are_of_measured_levels() -> None:
    for env_id, course in COURSES.items():
        assert env_id in RUNGS
        assert len(set(course.bots)) > 1
        assert set(course.bots) <= set(srl_envs.spec(env_id).bots)


@pytest.mark.parametrize("env_id", WITHOUT_PROGRAMS)
def test_the_model_changes_seats_and_uniform_moves_cost_nothing(env_id: str) -> None:
    specs = specs_of(env_id, RUNGS[env_id], 10)
    seats = len(specs[0].seats)
    assert {spec.seats.index(first_rung.MODEL) for spec in specs} == set(range(seats))
    found = play_uniformly(specs, 2)
    assert len(found.returns) == len(specs)
    assert min(found.returns) >= -1  # costs of format would lead below
    assert found.returns == play_uniformly(specs, 2).returns


def test_shares_count_an_episode_as_one_reply() -> None:
    found = first_rung_page.share([1.0] * 10)
    assert found.mean == 1
    assert found.low == pytest.approx(10 / (10 + 1.96**2))  # Wilson's at 10 of 10


def test_returns_are_compared_seed_by_seed() -> None:
    found = first_rung_page.above([1.0, 2.0, 3.0], [0.5, 1.5, 2.5])
    assert found == pytest.approx((0.5, 0.5, 0.5))
    assert first_rung_page.above([1.0, 0.0], [0.0, 0.0]).high == pytest.approx(0.5 + 1.96 * 0.5)


def test_a_gain_is_as_uncertain_as_its_seeds_of_training() -> None:
    before = [0.0] * 20
    alike = first_rung_page.gain([[0.5] * 20] * 3, before)
    assert alike == pytest.approx((0.5, 0.5, 0.5))
    apart = first_rung_page.gain([[0.0] * 20, [0.5] * 20, [1.0] * 20], before)
    assert apart.mean == pytest.approx(0.5)
    assert apart.low < 0.1 < 0.9 < apart.high


@pytest.mark.slow
def test_a_model_imitates_plays_and_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env_id = "solve_and_verify-v0"
    monkeypatch.setattr(first_rung, "RUNGS", {env_id: SUMS})
    monkeypatch.setattr(first_rung, "COURSES", {env_id: COURSE})
    row = first_rung.measure(env_id, first_rung.new_folder(tmp_path / "lora"))
    assert row["examples"] == 12  # three replies a game
    assert row["imitation"]["last"]["loss"] < row["imitation"]["first"]["loss"]
    assert len(row["imitated_play"]["returns"]) == 3
    assert all(0 <= legal <= 1 for legal in row["before"]["legal"])
    path = tmp_path / "found.json"
    first_rung.run_courses([env_id], 1, tmp_path, path)
    course = first_rung.read(path)["courses"][env_id]
    (trained,) = course["seeds"].values()
    assert len(trained["rewards"]) == 1
    assert len(trained["played"]["returns"]) == len(course["imitated_play"]["returns"]) == 3
    page = first_rung_page.page({"rungs": {env_id: row}, "courses": {env_id: course}})
    assert f"| `{env_id}` | {SUMS.model} | 12, 8 |" in page
    assert f"| `{env_id}` | random, strong |" in page


def test_two_processes_keep_each_others_rows(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    row = next(iter(FOUND["rungs"].values()))
    for env_id in ("treaties-v0", "holdem-v0"):
        with first_rung.results(path) as found:
            found["rungs"][env_id] = row
    assert list(first_rung.read(path)["rungs"]) == ["holdem-v0", "treaties-v0"]


def test_resampled_intervals_hold_the_mean() -> None:
    rng = np.random.default_rng(3)
    trained, before = rng.normal(size=(3, 30)), rng.normal(size=30)
    found = first_rung_page.gain(trained.tolist(), before.tolist())
    assert found.low < found.mean < found.high
