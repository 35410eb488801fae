"""Budgets of opponents are never exceeded, whatever is played and whenever the run is killed."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.league.settings import BudgetSettings
from srl_agents.records import Branch, Episode, MatchSpec, Served, Trajectory, Turn
from srl_agents.training.parts.budgets import SPENT, Budgets

AGENT = "openai:m@http://127.0.0.1:1/v1"
MOST = 4


def match(number: int, other: str = AGENT) -> MatchSpec:
    return MatchSpec(
        env_id="nim-v0", options={}, seed=number, split="train", seats=("a@0", other),
        learner_seats=(0,), purpose="agent", cluster="c", schedule="train/a", number=number,
    )  # fmt: skip


def turn(cost: float) -> Turn:
    served = Served(finish="stop", cost=cost)
    return Turn(
        turn_index=0, observation="", reply="", invalid=None, reward=0.0, components={},
        finish="served", served=served,
    )  # fmt: skip


def played(spec: MatchSpec, costs: list[float], void: bool) -> Episode:
    seats = [
        Trajectory(
            seat=seat, policy=policy, turns=tuple(map(turn, costs)) if seat else (),
            outcome=0.0, total_reward=0.0, components={},
        )
        for seat, policy in enumerate(spec.seats)
    ]  # fmt: skip
    return Episode(
        spec=spec, trajectories=tuple(seats), termination="void" if void else "ok",
        transcript_sha256="",
    )  # fmt: skip


def begun(
    folder: Path, budget: BudgetSettings, lines: list[str], *, repeatable: bool = False
) -> Budgets:
    return Budgets(
        {AGENT: budget}, folder, most_replies={"nim-v0": MOST}, first_cost={AGENT: 0.5}, say=lines.append,
        repeatable=repeatable,
    )  # fmt: skip


costs = st.lists(st.floats(0.0, 0.5), max_size=MOST - 1)
rounds = st.lists(st.tuples(st.lists(costs, max_size=4), st.booleans()), max_size=8)


@pytest.mark.slow
@given(st.integers(1, 60), st.none() | st.floats(0.1, 20), rounds)
def test_a_budget_is_never_exceeded_though_the_run_is_killed(
    requests: int, most: float | None, played_rounds: list[tuple[list[list[float]], bool]]
) -> None:
    asked, paid, lines = 0, 0.0, list[str]()
    budget = BudgetSettings(requests=requests, cost=most)
    with tempfile.TemporaryDirectory() as folder:
        for matches, killed in played_rounds:
            budgets = begun(Path(folder), budget, lines)
            specs = budgets.affordable([match(number) for number in range(len(matches))])
            budgets.take(specs)
            asked += sum(len(own) for own, _ in zip(matches, specs, strict=False))
            paid += sum(sum(own) for own, _ in zip(matches, specs, strict=False))
            if not killed:
                ended = [
                    played(spec, own, void=False) for spec, own in zip(specs, matches, strict=False)
                ]
                budgets.give_back(specs, ended)
            assert budgets.spent[AGENT].asked >= asked
    assert asked <= requests
    assert most is None or paid <= most + 1e-9
    assert all("does not play" in line for line in lines)


def test_what_was_asked_is_what_stays_counted_and_others_are_not(tmp_path: Path) -> None:
    budgets = begun(tmp_path, BudgetSettings(requests=100), [])
    specs = [match(0), match(1, "bot:random"), match(2)]
    budgets.take(specs)
    assert json.loads((tmp_path / SPENT).read_text())[AGENT]["requests"] == 2 * MOST
    ended = [played(specs[0], [0.1, 0.2], False), played(specs[2], [0.1], True)]
    budgets.give_back(specs, ended)
    assert budgets.spent[AGENT].asked == 4  # a lost match may have asked once more
    assert budgets.spent[AGENT].paid == pytest.approx(0.4)
    assert begun(tmp_path, BudgetSettings(requests=100), []).spent == budgets.spent


def branch(of: MatchSpec, alternative: int) -> MatchSpec:
    own = Branch(parent=of.match_id, decision=2, alternative=alternative, prefix="0")
    return replace(of, purpose="fork", branch=own)


def test_a_branch_is_counted_without_what_its_parent_asked(tmp_path: Path) -> None:
    budgets = begun(tmp_path, BudgetSettings(requests=100), [])
    spec = branch(match(0), 1)
    budgets.take([spec])
    ended = played(spec, [0.1, 0.2, 0.4], False)
    guest = ended.trajectories[1]
    kept = tuple(replace(turn, inherited=k < 2) for k, turn in enumerate(guest.turns))
    ended = replace(ended, trajectories=(ended.trajectories[0], replace(guest, turns=kept)))
    budgets.give_back([spec], [ended])
    assert budgets.spent[AGENT].asked == 1
    assert budgets.spent[AGENT].paid == pytest.approx(0.4)


def test_branches_that_a_budget_does_not_cover_are_left_out_and_said_once(tmp_path: Path) -> None:
    lines: list[str] = []
    budgets = begun(tmp_path, BudgetSettings(requests=3 * MOST), lines)
    budgets.take([match(0)])
    bot = branch(match(1, "bot:random"), 1)
    two, three = [[branch(match(0), k) for k in range(1, n + 1)] for n in (2, 3)]
    assert budgets.covered([bot, *two]) == [bot, *two]
    assert not lines
    assert budgets.covered([bot, *three]) == budgets.covered([*three, bot]) == [bot]
    assert len(lines) == 1
    assert f"not all decisions met with {AGENT} in nim-v0 fork any more" in lines[0]


def test_where_requests_are_written_down_a_kill_counts_what_was_sent(tmp_path: Path) -> None:
    """One of two open matches had a request under way; a reply that never came is one, too."""
    budget, specs, sent_in_vain = BudgetSettings(requests=100), [match(0), match(1)], [0]

    def life() -> Budgets:
        return Budgets(
            {AGENT: budget}, tmp_path, most_replies={"nim-v0": MOST}, first_cost={AGENT: 0.5}, say=print,
            repeatable=True, lost=lambda _: sent_in_vain[0],
        )  # fmt: skip

    life().take(specs)
    sent_in_vain[0] = 1
    again = life()
    again.take(specs)
    sent_in_vain[0] = 2
    again.give_back(specs, [played(specs[0], [0.1, 0.2], False), played(specs[1], [0.1], True)])
    assert (again.spent[AGENT].asked, life().spent[AGENT].asked) == (3 + 2, 3 + 2)
    assert again.spent[AGENT].paid == pytest.approx(0.4 + 2 * 0.5)


@settings(max_examples=40)
@given(rounds, st.integers(0, 7), st.integers(0, 7), st.integers(1, 90))
def test_a_repeatable_run_that_is_killed_decides_again_as_it_did_and_never_asks_more(
    played_rounds: list[tuple[list[list[float]], bool]], saved: int, killed: int, requests: int
) -> None:
    """Each round is an update; the run is killed within one and goes on from a checkpoint."""
    budget, lines = BudgetSettings(requests=requests), list[str]()

    def play(budgets: Budgets, updates: range, stop: int | None) -> tuple[list[int], Any]:
        decided, checkpoint = [], budgets.state()
        for number in updates:
            matches = played_rounds[number][0]
            if number == saved:
                checkpoint = budgets.state()
            specs = budgets.affordable([match(10 * number + i) for i in range(len(matches))])
            decided.append(len(specs))
            budgets.take(specs)
            if number == stop:
                break
            ended = [played(s, own, void=False) for s, own in zip(specs, matches, strict=False)]
            budgets.give_back(specs, ended)
        return decided, checkpoint

    everything = range(len(played_rounds))
    first = min(saved, killed)
    with tempfile.TemporaryDirectory() as calm, tempfile.TemporaryDirectory() as folder:
        undisturbed = begun(Path(calm), budget, lines, repeatable=True)
        expected, _ = play(undisturbed, everything, None)
        _, checkpoint = play(
            begun(Path(folder), budget, lines, repeatable=True), everything, killed
        )
        resumed = begun(Path(folder), budget, lines, repeatable=True)
        if saved <= killed:
            resumed.load_state(checkpoint)
        again = everything[first:] if saved <= killed else everything
        decided, _ = play(resumed, again, None)
        cut_off = len(played_rounds[killed][0]) if killed < len(played_rounds) else 0
        assert resumed.spent[AGENT].asked <= requests
        if decided == [expected[number] for number in again]:
            assert 0 <= resumed.spent[AGENT].asked - undisturbed.spent[AGENT].asked <= cut_off
        else:  # what a kill cut off may have been asked twice, and is missing at the end
            assert undisturbed.spent[AGENT].asked + MOST * 4 + cut_off > requests


def test_a_rest_that_is_too_small_for_a_long_game_is_spent_in_a_short_one(tmp_path: Path) -> None:
    lines: list[str] = []
    budgets = Budgets(
        {AGENT: BudgetSettings(requests=10)}, tmp_path, most_replies={"nim-v0": MOST, "long-v0": 8},
        first_cost={AGENT: 0.0}, say=lines.append,
    )  # fmt: skip
    short, long = [match(0), match(1)], [replace(match(2), env_id="long-v0")]
    assert budgets.unaffordable([*long, *short]) == [(AGENT, "long-v0")]
    assert budgets.affordable([*long, *short]) == short
    assert budgets.unaffordable(long) == []
    budgets.take(short)
    assert set(budgets.unaffordable([*long, match(3)])) == {(AGENT, "long-v0"), (AGENT, "nim-v0")}
    (line,) = lines
    assert "does not play long-v0" in line
