"""Parts of orders are played once each, even if workers are lost."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.records import Episode, MatchSpec, Trajectory
from srl_agents.rollouts.buffer import MatchOrder
from srl_agents.rollouts.leases import Leases, Part, Wanted, parts_of
from srl_envs.errors import ModelError

ROOT = Path(__file__).parents[3]


def spec(schedule: str, number: int, attempt: int) -> MatchSpec:
    return MatchSpec(
        env_id="connect_four-v0", seed=number, split="train", seats=("a", "b"),
        schedule=f"{schedule}/alice", number=number, attempt=attempt,
    )  # fmt: skip


def groups(schedule: str, sizes: list[int]) -> tuple[MatchSpec, ...]:
    return tuple(spec(schedule, n, k) for n, size in enumerate(sizes) for k in range(size))


def part(number: int, place: int) -> Part:
    return Part(key=(number, place), specs=(spec("train", number, place),))


@given(
    st.lists(st.integers(1, 5), max_size=8), st.lists(st.integers(1, 3), max_size=3),
    st.integers(1, 9),
)  # fmt: skip
def test_parts_hold_whole_groups_in_order_and_each_match_once(
    sizes: list[int], spares: list[int], size: int
) -> None:
    order = MatchOrder(number=7, specs=groups("train", sizes), spares=groups("refill", spares))
    parts = parts_of(order, size)
    assert [s for p in parts for s in p.specs] == [*order.specs, *order.spares]
    assert [p.key for p in parts] == [(7, place) for place in range(len(parts))]
    homes: dict[tuple[str, int], set[int]] = {}
    for place, each in enumerate(parts):
        starts = {(s.schedule, s.number) for s in each.specs}
        assert len(each.specs) <= size or len(starts) == 1
        for start in starts:
            homes.setdefault(start, set()).add(place)
    assert all(len(places) == 1 for places in homes.values())


def paid(match: MatchSpec, reward: float) -> Episode:
    own = Trajectory(
        seat=0, policy="a", turns=(), outcome=reward, total_reward=reward, components={}
    )
    return Episode(spec=match, trajectories=(own, own), termination="ok")


@settings(max_examples=40)
@given(st.data())
def test_what_is_due_follows_from_what_was_played_whoever_looks_when(data: st.DataObject) -> None:
    """Two learners' groups end in any order; one reader looks now and then, others come anew."""
    groups_of_learner = {
        learner: (data.draw(st.integers(1, 4)), data.draw(st.integers(0, 4))) for learner in "xy"
    }
    made: dict[str, list[MatchSpec]] = {"train": [], "refill": []}
    for at in range(4):
        for learner, (many, spares) in groups_of_learner.items():
            for schedule, most in (("train", many), ("refill", spares)):
                if at < most:
                    made[schedule] += [
                        replace(
                            spec(schedule, at, attempt),
                            schedule=f"{schedule}/{learner}",
                            learner_seats=(0,),
                        )
                        for attempt in range(2)
                    ]
    order = MatchOrder(number=7, specs=tuple(made["train"]), spares=tuple(made["refill"]))
    flat = {
        (each.schedule, each.number): data.draw(st.booleans())
        for each in (*order.specs, *order.spares)
    }
    size, place = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 3))
    first, played, news = Wanted(order, size, place), dict[str, Episode](), list[Part]()
    while True:
        late = Wanted(order, size, place)
        late.see(played)
        if data.draw(st.booleans()) or not late.left:
            first.see(played)
            news += first.newly_due()
            assert all(each in news for each in first.due())
            assert (first.matches, first.left) == (late.matches, late.left)
            assert first.specs() == late.specs()
            assert first.due() == late.due() == late.newly_due()
        wanted = expected(order, flat, played)
        assert late.specs() == wanted
        left = [each for each in wanted if each.match_id not in played]
        assert (late.matches, late.left) == (len(wanted), len(left))
        assert late.due() == [
            each for each in parts_of(order, size, place) if any(own in left for own in each.specs)
        ]
        if not left:
            break
        match = data.draw(st.sampled_from(left))
        won = 0.0 if flat[match.schedule, match.number] else float(match.attempt)
        played[match.match_id] = paid(match, won)
    assert len({each.key for each in news}) == len(news)
    assert {own.match_id for each in news for own in each.specs} <= played.keys()


def expected(
    order: MatchOrder, flat: Mapping[tuple[str, int], bool], played: Mapping[str, Episode]
) -> list[MatchSpec]:
    """Counted anew: of each learner's spares one more as long as fewer are chosen than groups are flat."""

    def owed(chosen: list[MatchSpec], learner: str) -> int:
        known = [each for each in chosen if each.schedule.endswith(learner) and each.attempt == 0]
        return sum(
            flat[each.schedule, each.number]
            and all(replace(each, attempt=attempt).match_id in played for attempt in range(2))
            for each in known
        )

    chosen = list(order.specs)
    for at in range(0, len(order.spares), 2):
        learner = order.spares[at].schedule[-1]
        spent = sum(each.schedule == f"refill/{learner}" for each in chosen) // 2
        if spent < owed(chosen, learner):
            chosen += order.spares[at : at + 2]
    return chosen


@given(st.data())
def test_every_part_is_done_once_whoever_dies_or_is_late(data: st.DataObject) -> None:
    """Workers die, expire and finish in any order; parts are wanted again and again meanwhile."""
    parts = [part(1 + place // 4, place) for place in range(data.draw(st.integers(1, 9)))]
    leases, done, now_s = Leases(lease_s=5.0, deaths=10_000), [], 0.0
    for _ in range(data.draw(st.integers(0, 60))):
        worker = data.draw(st.integers(0, 3))
        event = data.draw(st.sampled_from(["take", "done", "lost", "late", "want"]))
        now_s += 1.0
        if event == "take" and leases.held(worker) is None:
            leases.take(worker, now_s)
        elif event == "done" and (ended := leases.done(worker)) is not None:
            done.append(ended.key)
        elif event == "lost":
            leases.lost(worker, "killed")
        elif event == "late":
            for late in leases.expired(now_s):
                leases.lost(late, "late")
        elif event == "want":
            leases.want([p for p in parts if p.key not in done])
        held = [p.key for w in range(4) if (p := leases.held(w)) is not None]
        assert len(set(held)) == len(held)
        assert not set(held) & set(done)
        waiting = leases.waiting + len(held)
        assert any(leases.busy_with(number) for number in (1, 2, 3)) == (waiting > 0)
    leases.want([p for p in parts if p.key not in done])
    for worker in range(4):
        leases.lost(worker, "over")
    while (last := leases.take(0, now_s)) is not None:
        done.append(last.key)
        leases.done(0)
    assert sorted(done) == sorted(p.key for p in parts)


def test_a_lease_ends_at_its_time_and_the_oldest_part_goes_first() -> None:
    leases = Leases(lease_s=5.0, deaths=3)
    leases.want([part(2, 0), part(1, 1), part(1, 0)])
    taken = [leases.take(worker, now_s=float(worker)) for worker in range(3)]
    assert [p.key for p in taken if p] == [(1, 0), (1, 1), (2, 0)]
    assert leases.expired(4.9) == []
    assert leases.expired(6.0) == [0, 1]
    leases.lost(1, "late")
    assert leases.busy_with(1)
    assert (leases.waiting, leases.reissued) == (1, 1)
    again = leases.take(1, 7.0)
    assert again is not None
    assert again.key == (1, 1)


def test_a_part_that_ends_its_workers_ends_the_run() -> None:
    leases = Leases(lease_s=5.0, deaths=2)
    leases.want([part(3, 4)])
    for worker in range(2):
        leases.take(worker, 0.0)
        leases.lost(worker, "killed by the system")
    leases.take(2, 0.0)
    with pytest.raises(ModelError, match="part 4 of update 3; the last one: killed by the system"):
        leases.lost(2, "killed by the system")


def test_what_the_trainer_dropped_is_not_played_again() -> None:
    leases = Leases(lease_s=5.0, deaths=2)
    leases.want([part(1, 0), part(1, 1), part(2, 0)])
    leases.take(0, 0.0)
    leases.drop([1])
    assert leases.waiting == 1
    assert leases.done(0) is not None
    following = leases.take(0, 0.0)
    assert following is not None
    assert following.key == (2, 0)


def test_few_modules_import_ray_and_others_import_them_only_when_asked_for_it() -> None:
    ours = {f"srl_agents.training.cluster.{name}" for name in ("roles", "dispatch", "trainer")}
    ours |= {"srl_envs.wrappers.numeric.rllib"}
    for package in ("srl_envs", "srl_agents", "leaderboards"):
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            text = path.read_text()
            if (
                module not in ours and "ray" not in text and "cluster" not in text
            ):  # parsing all files takes seconds
                continue
            tree = ast.parse(text)
            rays = {name for name in _imported(ast.walk(tree)) if name.partition(".")[0] == "ray"}
            assert bool(rays) == (module in ours), path
            at_once = {name.rpartition(".")[0] for name in _imported(tree.body)}
            assert module in ours or not at_once & ours, path


def _imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Names of import statements."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names
