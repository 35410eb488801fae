"""Teams are trained with and without strangers as mates, and rated as sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.standings import read_status
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import label_of
from tests.training_runs import metrics_of, train_run

SHORT = (
    "updates=1",
    "opponents={mirror: 0, live: 1, past: 1}",
    "rollout={start_states: 6, group_size: 2, max_new_tokens: 8}",
    "evaluation={every: 0, final_pairs: 1, bots: [random]}",
)


@pytest.mark.slow
def test_team_mates_are_sometimes_the_learner_itself_and_a_side_in_the_table_is_one_agent(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    train_run(load(LeagueRecipe, find_recipe("teams-auction-tiny"), SHORT), run)
    with LeagueStore(run / "league.db", mode="read") as store:
        trained = [spec for spec, _ in store.matches(split="train")]
        rated = [spec for spec, _ in store.matches(schedule=FINAL)]
        (status,) = read_status(store)
    assert {spec.teams for spec in (*trained, *rated)} == {(0, 1, 0, 1)}
    alike = {
        s.seats[seat] == s.seats[seat + 2] for s in trained for seat in s.learner_seats if seat < 2
    }
    assert alike == {True, False}
    assert all(s.seats[0] == s.seats[2] and s.seats[1] == s.seats[3] for s in rated)
    assert status.table is not None
    shown = {row.agent.split("@")[0] for row in status.table.ratings}
    assert shown == {"alice", "bob", "tiny", "bot:random"}


@pytest.mark.slow
def test_a_side_of_two_learners_is_measured_as_one_and_each_of_them_is_rated(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    own = ("seats={alice: [0, 1], bob: [2, 3]}", "evaluation.every=1", "evaluation.pairs=1")
    train_run(load(LeagueRecipe, find_recipe("teams-auction-tiny"), (*SHORT, *own)), run)
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = [spec for spec, _ in store.matches()]
        rated = [spec for spec, _ in store.matches(schedule=FINAL)]
        (status,) = read_status(store)
    for spec in matches:
        names = [label_of(name).partition("@")[0] for name in spec.seats]
        assert names[0] != "bob" != names[1]
        assert names[2] != "alice" != names[3]
    sides = {tuple(label_of(s.seats[k]).partition("@")[0] for k in (0, 2)) for s in rated}
    assert sides == {("alice", "bob"), ("tiny", "tiny"), ("bot:random", "bot:random")}
    assert status.table is not None
    ratings = {row.agent.split("@")[0]: row.elo for row in status.table.ratings}
    assert ratings.keys() == {"alice", "bob", "tiny", "bot:random"}
    assert ratings["alice"] == pytest.approx(ratings["bob"])  # they always sat side by side
    looked = metrics_of(run)[0]["learners"]
    assert looked["alice"]["score_start"] == looked["bob"]["score_start"]
