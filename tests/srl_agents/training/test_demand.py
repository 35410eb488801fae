"""An order demands its matches, then its branches: alike for all readers, whatever they saw when."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from srl_agents.recipes.sections.fork_choice import ForkSettings
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts.buffer import MatchOrder
from srl_agents.rollouts.leases import Part
from srl_agents.training.ahead.demand import Demand
from srl_agents.training.parts.forking import Forking, parents_of
from tests.srl_agents.training.test_forking import ALICE, PARENT, Table

GROUPS, ATTEMPTS = 3, 2
ORDER = MatchOrder(
    number=7,
    specs=tuple(
        MatchSpec(
            env_id="nim-v0", seed=group, split="train", seats=(ALICE, "bot:middle"), learner_seats=(0,),
            schedule="train/alice", number=group, attempt=attempt,
        )
        for group in range(GROUPS)
        for attempt in range(ATTEMPTS)
    ),
    players={ALICE: "alice"},
)  # fmt: skip
PATHS = pytest.mark.parametrize(
    "settings",
    [
        ForkSettings(alternatives=3),
        ForkSettings(alternatives=3, share=0.5, tokens=20),
        ForkSettings(alternatives=3, path="sampled"),
    ],
    ids=["at once", "few tokens", "in rounds"],
)


def whole(spec: MatchSpec) -> Episode:
    return Episode(spec=spec, trajectories=PARENT.trajectories, termination="ok")


def playing(specs: Sequence[MatchSpec], known: Mapping[str, Episode]) -> list[Episode]:
    """Matches as `PARENT`, branches as their parents."""
    return [
        whole(spec)
        if spec.branch is None
        else Table()([spec], {spec.branch.parent: known[spec.branch.parent]})[0]
        for spec in specs
    ]


def finish(demand: Demand, known: dict[str, Episode], most: int) -> list[MatchSpec]:
    """Play what it demands, at most so many at once and in any order; returns what was played."""
    played: list[MatchSpec] = []
    while left := demand.left(known):
        some = random.Random(len(played)).sample(left, min(most, len(left)))
        known |= {episode.spec.match_id: episode for episode in playing(some, known)}
        played += some
    return played


@PATHS
def test_an_order_demands_what_its_forks_would_play_here(settings: ForkSettings) -> None:
    forking, known = Forking(settings, 0), dict[str, Episode]()
    demand = Demand(ORDER, forking)
    played = finish(demand, known, 2)
    here = forking.play([whole(spec) for spec in ORDER.specs], {ALICE}, Table())
    assert here
    assert demand.matches(known) == [*ORDER.specs]
    assert demand.branches(known) == [episode.spec for episode in here]
    assert len(played) == len({spec.match_id for spec in played}) == len(ORDER.specs) + len(here)
    assert [spec for spec in played[: len(ORDER.specs)] if spec.branch] == []


@PATHS
def test_readers_who_come_at_any_moment_find_the_same_branches_and_parts(
    settings: ForkSettings,
) -> None:
    forking, known = Forking(settings, 0), dict[str, Episode]()
    first, parts = Demand(ORDER, forking, 2), dict[tuple[int, int], Part]()
    news: list[Part] = []
    while due := first.due(known):
        late = Demand(ORDER, forking, 2)
        assert late.due(known) == late.newly_due(known) == due
        news += first.newly_due(known)
        assert late.counts(known) == first.counts(known)
        assert first.counts(known)[1] == len(first.left(known)) == len(late.left(known))
        assert late.branches(known) == first.branches(known)
        for part in due:
            assert parts.setdefault(part.key, part) == part
            assert len({(spec.schedule, spec.number) for spec in part.specs}) == 1
        now = due[0].specs[:1] if len(due[0].specs) > 1 else due[0].specs
        known |= {e.spec.match_id: e for e in playing(now, known)}
        assert due[0] in first.due(known) or now == due[0].specs  # begun, it is due whole
        known |= {e.spec.match_id: e for e in playing(due[0].specs, known)}
    specs = [spec for part in parts.values() for spec in part.specs]
    assert {s.match_id for s in specs} == known.keys()
    assert len(specs) == len(known)
    assert news == [*parts.values()]
    assert not first.open(known)


def test_without_a_size_the_matches_are_one_part_and_each_round_another() -> None:
    demand, known = Demand(ORDER, Forking(ForkSettings(path="sampled"), 0)), dict[str, Episode]()
    sizes: list[int] = []
    while due := demand.due(known):
        (part,) = due
        assert part.key == (7, len(sizes))
        sizes.append(len(part.specs))
        known |= {e.spec.match_id: e for e in playing(part.specs, known)}
    assert sizes == [6, 18, 18, 18]
    assert parents_of(demand.branches(known), known).keys() <= known.keys()


def test_without_forks_an_order_demands_its_matches() -> None:
    demand, known = Demand(ORDER, None), dict[str, Episode]()
    assert finish(demand, known, 3)
    assert not demand.branches(known)
    assert known.keys() == set(ORDER.match_ids)
