"""Budgets of opponents are never exceeded, whatever is played and whenever the run is killed."""

from __future__ import annotations

import json
import tempfile
from dataclasses import astuple, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.league.settings import BudgetSettings
from srl_agents.records import Branch, Episode, MatchSpec, Served, Trajectory, Turn
from srl_agents.training.parts.budgets import SPENT, Budgets
from srl_agents.training.parts.spent_amounts import Amount, taken_by, total

AGENT = "openai:m@http://127.0.0.1:1/v1"
MOST = 4
GAME_OF = attrgetter("env_id")
DEAREST = {AGENT: Amount(1, 30, 0.5)}


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
        {AGENT: budget}, folder, game_of=GAME_OF, most_replies={"nim-v0": MOST}, dearest=DEAREST,
        say=lines.append, repeatable=repeatable,
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
            assert budgets.spent[AGENT].asked_in().requests >= asked
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
    assert budgets.spent[AGENT].asked_in().requests == 4  # a lost match may have asked once more
    assert budgets.spent[AGENT].asked_in().cost == pytest.approx(0.4)
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
    assert budgets.spent[AGENT].asked_in().requests == 1
    assert budgets.spent[AGENT].asked_in().cost == pytest.approx(0.4)


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
            {AGENT: budget}, tmp_path, game_of=GAME_OF, most_replies={"nim-v0": MOST}, dearest=DEAREST,
            say=print, repeatable=True, lost=lambda _: sent_in_vain[0],
        )  # fmt: skip

    life().take(specs)
    sent_in_vain[0] = 1
    again = life()
    again.take(specs)
    sent_in_vain[0] = 2
    again.give_back(specs, [played(specs[0], [0.1, 0.2], False), played(specs[1], [0.1], True)])
    assert (again.spent[AGENT].asked_in().requests, life().spent[AGENT].asked_in().requests) == (
        3 + 2,
        3 + 2,
    )
    assert again.spent[AGENT].asked_in().cost == pytest.approx(0.4 + 2 * 0.5)


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
        assert resumed.spent[AGENT].asked_in().requests <= requests
        if decided == [expected[number] for number in again]:
            assert (
                0
                <= resumed.spent[AGENT].asked_in().requests
                - undisturbed.spent[AGENT].asked_in().requests
                <= cut_off
            )
        else:  # what a kill cut off may have been asked twice, and is missing at the end
            assert undisturbed.spent[AGENT].asked_in().requests + MOST * 4 + cut_off > requests


def test_a_rest_that_is_too_small_for_a_long_game_is_spent_in_a_short_one(tmp_path: Path) -> None:
    lines: list[str] = []
    budgets = Budgets(
        {AGENT: BudgetSettings(requests=10)}, tmp_path, game_of=GAME_OF,
        most_replies={"nim-v0": MOST, "long-v0": 8}, dearest={}, say=lines.append,
    )  # fmt: skip
    short, long = [match(0), match(1)], [replace(match(2), env_id="long-v0")]
    assert budgets.unaffordable([*long, *short]) == [(AGENT, "long-v0")]
    assert budgets.affordable([*long, *short]) == short
    assert budgets.unaffordable(long) == []
    budgets.take(short)
    assert set(budgets.unaffordable([*long, match(3)])) == {(AGENT, "long-v0"), (AGENT, "nim-v0")}
    (line,) = lines
    assert "does not play long-v0" in line


def two_games(folder: Path, budget: BudgetSettings, lines: list[str]) -> Budgets:
    return Budgets(
        {AGENT: budget}, folder, game_of=GAME_OF, most_replies={"nim-v0": MOST, "long-v0": 8},
        dearest=DEAREST, say=lines.append,
    )  # fmt: skip


def reported(tokens: int, cost: float) -> Turn:
    served = Served(finish="stop", prompt_tokens=tokens - 1, completion_tokens=1, cost=cost)
    return replace(turn(cost), served=served)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(20, 200), st.floats(0.1, 1), st.floats(0.1, 1))
def test_no_game_takes_more_than_its_share_of_requests_tokens_and_money(
    seed: int, requests: int, short: float, long: float
) -> None:
    """Whatever is played and however often the run is killed; and all games together keep the whole
    budget."""
    rng, lines = np.random.default_rng(seed), list[str]()
    budget = BudgetSettings(
        requests=requests, tokens=20 * requests, cost=0.4 * requests,
        games={"nim-v0": short, "long-v0": long},
    )  # fmt: skip
    asked = {"nim-v0": Amount(), "long-v0": Amount()}
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, 60, 6):
            budgets = two_games(Path(folder), budget, lines)
            drawn = [
                replace(match(first + k), env_id=str(rng.choice(["nim-v0", "long-v0"])))
                for k in range(6)
            ]
            specs = budgets.affordable(drawn)
            budgets.take(specs)
            ended = []
            for spec in specs:
                most = MOST if spec.env_id == "nim-v0" else 8
                turns = [
                    reported(int(rng.integers(1, 31)), float(rng.uniform(0, 0.5)))
                    for _ in range(rng.integers(0, most + 1))
                ]
                for one in turns:
                    asked[spec.env_id] += taken_by(one.served, Amount())
                empty = played(spec, [], void=False)
                seats = (empty.trajectories[0], replace(empty.trajectories[1], turns=tuple(turns)))
                ended.append(replace(empty, trajectories=seats))
            if rng.random() < 0.7:  # else it is killed
                budgets.give_back(specs, ended)
                kept = json.loads((Path(folder) / SPENT).read_text())[AGENT]
                for env_id, own in asked.items():
                    assert kept["games"].get(env_id, {"requests": 0})["requests"] >= own.requests
    for own, share in (
        (asked["nim-v0"], short),
        (asked["long-v0"], long),
        (total(asked.values()), 1),
    ):
        assert own.requests <= share * requests
        assert own.tokens <= share * 20 * requests
        assert own.cost <= share * 0.4 * requests + 1e-9


def test_a_game_that_had_its_share_leaves_the_others_theirs(tmp_path: Path) -> None:
    lines: list[str] = []
    budget = BudgetSettings(requests=100, games={"nim-v0": 0.1})
    budgets = two_games(tmp_path, budget, lines)
    short, long = [match(k) for k in range(3)], [replace(match(9), env_id="long-v0")]
    assert budgets.affordable([*short[:2], *long]) == [*short[:2], *long]
    assert not lines
    assert budgets.affordable([*short, *long]) == long
    (line,) = lines
    assert "does not play nim-v0 any more: of its share of 0.1 there 0 of 10 requests" in line


def test_replies_without_a_report_of_tokens_count_as_the_longest(tmp_path: Path) -> None:
    budgets = two_games(tmp_path, BudgetSettings(requests=100, tokens=400), [])
    budgets.take([match(0)])
    budgets.give_back([match(0)], [played(match(0), [0.1, 0.2], void=False)])
    assert astuple(budgets.spent[AGENT].asked_in()) == (2, 60, pytest.approx(0.3))
    assert budgets.unaffordable([match(1), match(2), match(3)])


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_run_of_an_earlier_release_counts_on(tmp_path: Path, repeatable: bool) -> None:
    """Whose file and checkpoint had neither games nor tokens."""
    old = {"requests": 5, "cost": 0.7, "dearest": 0.5, "lost": 0}
    own = {"requests": 3, "cost": 0.4, "open": False, "before": 2, "cost_before": 0.3}
    (tmp_path / SPENT).write_text(json.dumps({AGENT: old | {"matches": {"m": own}}}))
    budgets = begun(tmp_path, BudgetSettings(requests=10), [], repeatable=repeatable)
    budgets.load_state({AGENT: {"requests": 5, "cost": 0.7, "dearest": 0.5}})
    for amount in (budgets.spent[AGENT].asked_in(), budgets.spent[AGENT].counted_in()):
        assert astuple(amount) == (5, 0, pytest.approx(0.7))
    assert len(budgets.affordable([match(1)])) == 1
    assert not budgets.affordable([match(1), match(2)])
    state = budgets.state()
    budgets.load_state(state)
    assert budgets.state() == state
