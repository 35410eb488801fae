"""Which decisions fork, in which rounds, within which tokens."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srl_agents.checkpoints import newest_step
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.sections.fork_choice import ForkSettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.rollouts.match import Ask, Match
from srl_agents.training.parts.forking import Forking
from srl_envs.errors import ConfigError
from tests.forked_commands import start_function
from tests.training_runs import metrics_of, train_run

ALICE = "alice@0-0123456789abcdef"


def turn(index: int, step: int, surprise: float = 1.0, tokens: int = 2) -> Turn:
    return Turn(
        turn_index=index, observation=f"o{index}", reply=f"r{index}", invalid=None, reward=0.0,
        components={}, completion_ids=(5,) * tokens, logprobs=(-surprise,) * tokens, step=step,
    )  # fmt: skip


def episode(*turns: Sequence[Turn]) -> Episode:
    seats = (ALICE, "bot:middle")
    spec = MatchSpec(env_id="nim-v0", seed=0, split="train", seats=seats, learner_seats=(0,))
    own = tuple(
        Trajectory(
            seat=k, policy=seats[k], turns=tuple(mine), outcome=0.0, total_reward=0.0, components={}
        )
        for k, mine in enumerate(turns)
    )
    return Episode(spec=spec, trajectories=own, termination="ok")


PARENT = episode(
    [turn(0, 0, 0.1), turn(2, 2, 3.0), turn(4, 4, 0.2)],
    [turn(1, 1, 0.1, tokens=0), turn(3, 3, 0.1, tokens=0)],
)


class Table:
    """Plays branches as their parents, with outcomes that rise."""

    def __init__(self) -> None:
        self.rounds: list[list[MatchSpec]] = []

    def __call__(self, specs: Sequence[MatchSpec], parents: Mapping[str, Episode]) -> list[Episode]:
        self.rounds.append([*specs])
        return [self._played(spec, parents[spec.branch.parent]) for spec in specs if spec.branch]

    def _played(self, spec: MatchSpec, parent: Episode) -> Episode:
        assert spec.branch is not None
        at = spec.branch.decision
        own = tuple(
            replace(
                t,
                outcome=spec.branch.alternative / 10,
                turns=tuple(replace(x, inherited=x.turn_index < at) for x in t.turns),
            )
            for t in parent.trajectories
        )
        return replace(parent, spec=spec, trajectories=own)


def decisions(table: Table) -> list[list[int]]:
    return [[s.branch.decision for s in played if s.branch] for played in table.rounds]


def test_all_decisions_of_learners_fork_at_once() -> None:
    table = Table()
    branches = Forking(ForkSettings(alternatives=3), 0).play([PARENT], {ALICE}, table)
    assert decisions(table) == [[0, 0, 2, 2, 4, 4]]
    assert len({e.spec.match_id for e in branches}) == 6
    assert Forking(ForkSettings(), 0).play([PARENT], {"bob@0-0"}, table) == []
    assert Forking(ForkSettings(seats=(1,)), 0).play([PARENT], {ALICE}, table) == []
    lost = replace(PARENT, termination="void", fault="x")
    assert Forking(ForkSettings(), 0).play([lost], {ALICE}, table) == []


def test_entropy_chooses_the_least_expected_replies() -> None:
    table = Table()
    Forking(ForkSettings(alternatives=2, share=0.3, choose="entropy"), 0).play(
        [PARENT], {ALICE}, table
    )
    assert decisions(table) == [[2]]


def test_a_share_is_drawn_by_match_and_seed_and_repeats() -> None:
    parents = [replace(PARENT, spec=replace(PARENT.spec, seed=k)) for k in range(40)]
    found = []
    for seed in (0, 0, 1):
        table = Table()
        Forking(ForkSettings(alternatives=2, share=0.34), seed).play(parents, {ALICE}, table)
        found.append(decisions(table)[0])
    assert found[0] == found[1] != found[2]
    assert len(found[0]) == 2 * 40  # the ceiling of .34 of 3
    assert set(found[0]) == {0, 2, 4}


@pytest.mark.parametrize("path", ["sampled", "best"])
def test_a_path_goes_on_in_an_alternative_round_by_round(path: str) -> None:
    table = Table()
    settings = ForkSettings(alternatives=3, path=path)  # type: ignore[arg-type]
    branches = Forking(settings, 0).play([PARENT], {ALICE}, table)
    assert decisions(table) == [[0, 0], [2, 2], [4, 4]]
    parents = [played[0].branch.parent for played in table.rounds if played[0].branch]
    known = {PARENT.spec.match_id} | {e.spec.match_id for e in branches}
    assert parents[0] == PARENT.spec.match_id
    assert set(parents) <= known
    if path == "best":
        assert parents[1] == branches[1].spec.match_id  # alternative 2 has the highest outcome
        assert (
            parents[2] == parents[1]
        )  # nothing behind it is better, and a path stays where it is then


def test_a_sampled_path_chooses_anew_at_every_decision() -> None:
    """One that stays in its match at the first decision leaves it at the second as often as any other."""
    left = []
    for seed in range(60):
        table = Table()
        Forking(ForkSettings(alternatives=2, path="sampled"), seed).play([PARENT], {ALICE}, table)
        parents = [played[0].branch.parent for played in table.rounds if played[0].branch]
        if parents[1] == parents[0]:
            left.append(parents[2] != parents[1])
    assert 0.2 < sum(left) / len(left) < 0.8


@pytest.mark.parametrize("path", ["sampled", "best"])
def test_all_seats_that_move_together_fork_before_a_path_goes_on(path: str) -> None:
    parent = episode([turn(0, 0), turn(2, 1)], [turn(1, 0), turn(3, 1)])
    spec = replace(parent.spec, seats=(ALICE, ALICE), learner_seats=(0, 1))
    own = tuple(replace(seat, policy=ALICE) for seat in parent.trajectories)
    leading = set()
    for seed in range(20):
        table = Table()
        settings = ForkSettings(alternatives=3, path=path)  # type: ignore[arg-type]
        both = replace(parent, spec=replace(spec, seed=seed), trajectories=own)
        Forking(settings, 0).play([both], {ALICE}, table)
        assert decisions(table) == [[0, 0, 1, 1], [2, 2, 3, 3]]
        (left,) = {s.branch.parent for s in table.rounds[1] if s.branch}
        made = {s.match_id: s.branch.decision for s in table.rounds[0] if s.branch}
        leading.add(made.get(left))
    assert {0, 1} <= leading  # now one seat's alternative leads on, now another's


@pytest.mark.parametrize(("tokens", "most"), [(1, 0), (4, 1), (6, 2), (100, 3)])
def test_branches_stay_within_the_tokens_they_may_take(tokens: int, most: int) -> None:
    """The three decisions have 6, 4 and 2 reply tokens from there on."""
    table = Table()
    Forking(ForkSettings(alternatives=2, tokens=tokens), 0).play([PARENT], {ALICE}, table)
    chosen = [d for played in decisions(table) for d in played]
    assert sum({0: 6, 2: 4, 4: 2}[d] for d in chosen) <= tokens
    assert len(chosen) <= most
    assert chosen or tokens < 6


def test_joint_decisions_are_one_per_step() -> None:
    both = episode([turn(1, 0), turn(2, 1)], [turn(0, 0), turn(3, 1)])
    table = Table()
    Forking(ForkSettings(alternatives=2), 0, joint=True).play([both], {ALICE}, table)
    assert decisions(table) == [[0, 2]]
    assert all(spec.branch and spec.branch.joint for spec in table.rounds[0])


@pytest.mark.parametrize("path", ["parent", "sampled"])
def test_decisions_whose_branches_no_budget_covers_do_not_fork(path: str) -> None:
    other = replace(PARENT, spec=replace(PARENT.spec, seed=1, seats=(ALICE, "openai:m@here")))

    def covered(specs: Sequence[MatchSpec]) -> list[MatchSpec]:
        return [spec for spec in specs if "openai:m@here" not in spec.seats]

    table = Table()
    settings = ForkSettings(alternatives=3, path=path)  # type: ignore[arg-type]
    branches = Forking(settings, 0).play([other, PARENT], {ALICE}, table, covered)
    assert {spec.seed for played in table.rounds for spec in played} == {PARENT.spec.seed}
    assert len(branches) == 6
    assert Forking(settings, 0).play([other], {ALICE}, table, covered) == []


def test_as_many_decisions_fork_as_a_budget_covers_drawn_by_the_seed() -> None:
    """Room for five branches is room for two decisions of two branches each."""
    paid = [
        replace(PARENT, spec=replace(PARENT.spec, seed=k, seats=(ALICE, "openai:m@here")))
        for k in range(4)
    ]

    def covered(specs: Sequence[MatchSpec]) -> list[MatchSpec]:
        dear = [spec for spec in specs if "openai:m@here" in spec.seats]
        return [*specs] if len(dear) <= 5 else [spec for spec in specs if spec not in dear]

    found = []
    for seed in (0, 0, 1, 2):
        table = Table()
        Forking(ForkSettings(alternatives=3), seed).play([PARENT, *paid], {ALICE}, table, covered)
        (specs,) = table.rounds
        assert len([s for s in specs if s.seats == PARENT.spec.seats]) == 6
        found.append(
            [(s.seed, s.branch.decision) for s in specs if s.branch and "openai:m@here" in s.seats]
        )
        assert len(found[-1]) == 4
        assert len(set(found[-1])) == 2
    assert found[0] == found[1]
    assert found[0] != found[2] or found[0] != found[3]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"alternatives": 1}, "alternatives=1: use 2 to 64"),
        ({"share": 0}, "share=0: use more than 0"),
        ({"choose": "entropy"}, "chooses nothing where share is 1"),
        ({"path": "best", "share": 0.5}, "leave out share"),
        ({"seats": (0, 0)}, "different numbers"),
        ({"tokens": 0}, "use 1 or more"),
    ],
)
def test_impossible_settings_are_refused(section: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ForkSettings(**section)  # type: ignore[arg-type]


ENDPOINT = "openai:m@http://127.0.0.1:1/v1"
PAID = {
    "opponents": {"agents": {ENDPOINT: 1}, "budgets": {ENDPOINT: {"requests": 9999}}},
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"credit.estimator": "group"}, "compares no alternatives"),
        ({"forks.seats": [5]}, "which has 2 seats"),
        (
            {"asynchronous": {"in_flight": "switch"}},
            "forks, asynchronous.in_flight='switch': .* one version writes them all",
        ),
        ({"asynchronous": {"refill_limit": 1}}, "Leave out refill_limit"),
        (PAID | {"placement": "disaggregated"}, "no budget could hold it"),
        ({"training": {"algorithm": "ppo"}}, "ppo has no use for alternatives"),
        ({"forks": None}, "Add a section `forks`"),
        ({"forks": {"path": "best"}}, "only at_grpo"),
    ],
)
def test_a_recipe_whose_sections_do_not_fit_its_forks_is_refused(
    changes: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load(LeagueRecipe, find_recipe("forks-tiny"), changes)


LITTLE = {"updates": 2, "rollout.order": "exact", "rollout.start_states": 1, "evaluation": {"final_pairs": 1},
          "checkpoint_every": 1, "snapshot_every": 2}  # fmt: skip


def _killed(run: Path, branch: int) -> None:
    """The run, which is killed as it begins that branch."""
    whole, begun = Match._from_parent, itertools.count(1)

    def struck(match: Match) -> list[Ask]:
        if next(begun) == branch:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(match)

    forked: Any = Match
    forked._from_parent = struck  # this process is the test's
    train_run(load(LeagueRecipe, find_recipe("forks-tiny"), LITTLE), run)


@pytest.mark.slow
def test_a_run_with_forks_learns_and_goes_on_alike_after_a_kill_in_a_branch(tmp_path: Path) -> None:
    recipe = load(LeagueRecipe, find_recipe("forks-tiny"), LITTLE)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train_run(recipe, whole)
    counts = [record["run"]["forks/branches"] for record in metrics_of(whole)]
    assert min(counts) > 0
    with LeagueStore(whole / "league.db", mode="read") as store:
        branches = store.matches(purpose="fork")
        digest = store.content_digest()
    assert len(branches) == sum(counts)

    process = start_function(_killed, (killed, int(counts[0]) + 3), tmp_path / "log")
    process.join(600)
    assert process.exitcode == -signal.SIGKILL
    assert newest_step(killed / "checkpoints") == 1
    train_run(recipe, killed)

    with LeagueStore(killed / "league.db", mode="read") as store:
        assert store.content_digest() == digest
    assert metrics_of(killed) == metrics_of(whole)
    assert metrics_of(whole)[-1]["learners"]["alice"]["loss"] != 0
