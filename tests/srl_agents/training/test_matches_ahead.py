"""The trainer's side of generation: orders, waiting, and the time that each phase reports."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from srl_agents.coordination.processes import Processes
from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.settings import OpponentSettings
from srl_agents.metrics import ConsoleView
from srl_agents.models.digests import version_of
from srl_agents.recipes.loading import SHIPPED, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, WeightUpdate, WeightVersion
from srl_agents.rollouts.buffer import MatchBuffer
from srl_agents.training.ahead.demand import Demand
from srl_agents.training.ahead.orders import MatchesAhead, Taken, common_s
from srl_agents.training.ahead.shared_matches import SharedMatches
from srl_agents.training.faults.supervised import Supervised
from srl_agents.training.loop.stages import build
from srl_agents.training.parts.budgets import Budgets
from srl_agents.transports.files import FilesTransport
from srl_agents.transports.held import HeldTransport
from srl_envs.errors import ConfigError, ModelError
from tests.srl_agents.coordination.test_processes import together
from tests.srl_agents.rollouts.test_buffer import episode

UPDATES = 6


def recipe_of(*settings: str) -> LeagueRecipe:
    small = ("rollout={start_states: 1, group_size: 2}", f"updates={UPDATES}")
    return load(LeagueRecipe, SHIPPED / "quickstart-async-tiny.yaml", (*small, *settings))


class Run:
    """A run's folder with a trainer in it that only orders and takes; alice and bob learn nothing."""

    def __init__(self, folder: Path, recipe: LeagueRecipe, done: int = 0) -> None:
        self.recipe, self.buffer = recipe, MatchBuffer(folder / "generation", 2)
        files = FilesTransport(folder / "versions")
        self.transport = HeldTransport(files, self.buffer.versions)
        self.installed: dict[str, WeightUpdate] = {}
        self.league = League(
            arenas=[Arena(env_id="connect_four-v0", options={}, seats=2)],
            versions={name: self.publish(name, done) for name in recipe.learners},
            starts=dict.fromkeys(recipe.learners, "tiny"),
            opponents=OpponentSettings(),
            seed=3,
        )
        self.child = Supervised(
            "the child", [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"],
            folder / "log", patience_s=60.0, restarts=0,
        )  # fmt: skip
        self.child.start()
        self.ahead = MatchesAhead(
            recipe, self.league, buffer=self.buffer, process=self.child,
            open_update=self.transport.open, settle=self.transport.settle,
            budgets=Budgets({}, folder, game_of=str, most_replies={}, dearest={}, say=print),
            installed=self.installed, view=ConsoleView("run", UPDATES, Console(quiet=True)),
        )  # fmt: skip

    def publish(self, name: str, number: int) -> WeightVersion:
        tensors = {"a": torch.full((2,), float(number))}
        version = version_of(name, number, tensors)
        self.installed[str(version)] = self.transport.publish(version, tensors)
        return version

    def step(self, number: int) -> None:
        """Both learners step: their versions before are withdrawn."""
        for name in self.recipe.learners:
            old = self.league.versions[name]
            del self.installed[str(old)]
            self.transport.release(old)
            self.league.versions[name] = self.publish(name, number)

    def play(
        self,
        number: int,
        paid: Callable[[Episode], float] = lambda e: 0.5,
        began_s: float | None = None,
    ) -> None:
        """What generation does, at once, though it may have begun before."""
        order, played = self.buffer.find(number), self.buffer.played(number)
        assert order is not None
        self.buffer.begin(number, began_s or time.monotonic())
        while specs := Demand(order, None).left(played.episodes):
            for spec in specs:
                value = paid(episode(spec))
                self.buffer.add(number, [episode(spec, value)], time.monotonic())
            played.refresh()
        self.buffer.rest(number, time.monotonic())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def make(*settings: str, done: int = 0) -> Run:
        runs.append(Run(tmp_path, recipe_of(*settings), done))
        return runs[-1]

    yield make
    for run in runs:
        run.child.close()


def soon(run: Run, number: int, act: Callable[[], None]) -> None:
    """In another thread, as soon as an update is ordered."""

    def wait() -> None:
        while run.buffer.find(number) is None:
            time.sleep(0.001)
        act()

    threading.Thread(target=wait, daemon=True).start()


def test_matches_are_ordered_one_update_ahead_with_the_versions_that_are_live_then(
    start: Callable[..., Run],
) -> None:
    run = start()
    for number in range(1, UPDATES + 1):
        soon(run, number, lambda number=number: run.play(number))  # type: ignore[misc]
        taken = run.ahead.take(number)
        assert run.buffer.numbers()[-1] == min(number + 1, UPDATES)
        written = {WeightVersion.parse(agent).number for agent in taken.players}
        assert written == {max(0, number - 2)}
        assert [e.spec.attempt for e in taken.episodes] == [0, 1, 0, 1]
        for name in taken.players:
            assert any(name in e.spec.seats for e in taken.episodes)
        run.step(number)
        run.ahead.acknowledge(number)
        folders = {path.name for path in (run.buffer.folder.parent / "versions").iterdir()}
        assert folders == {*run.installed} | run.buffer.versions()


def test_flat_groups_are_refilled_up_to_the_limit(start: Callable[..., Run]) -> None:
    run = start("asynchronous.refill_limit=3")
    first = run.league.training_matches(0, 1, 2)[0].schedule

    def paid(e: Episode) -> float:
        """Alice's first group is flat, and her first spare, too; bob's are not."""
        spec = e.spec
        flat = spec.schedule == first or (spec.schedule == "refill/alice" and spec.number == 0)
        return 0.0 if flat else float(spec.attempt)

    soon(run, 1, lambda: run.play(1, paid))
    taken = run.ahead.take(1)
    names = [(e.spec.schedule, e.spec.number) for e in taken.episodes[::2]]
    assert names == [(first, 0), ("train/bob", 0), ("refill/alice", 0), ("refill/alice", 1)]
    assert taken.metrics["refilled"] == 2
    assert len({e.spec.seed for e in taken.episodes}) == 4


def test_matches_that_are_given_back_are_ordered_and_played_again(
    start: Callable[..., Run],
) -> None:
    run = start()
    soon(run, 1, lambda: run.play(1, lambda _: 0.5))
    assert all(e == episode(e.spec, 0.5) for e in run.ahead.take(1).episodes)
    run.ahead.give_back(1)
    soon(run, 1, lambda: run.play(1, lambda _: 0.25))
    assert all(e == episode(e.spec, 0.25) for e in run.ahead.take(1).episodes)


def test_after_a_kill_what_was_ordered_is_taken_and_what_cannot_be_finished_is_ordered_again(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    """The checkpoint holds update 1; orders 2 and 3 are there, of which the third is half played."""
    run = start()
    soon(run, 1, lambda: run.play(1))
    run.ahead.take(1)
    run.step(1)
    soon(run, 2, lambda: run.play(2))
    before = run.ahead.take(2)
    third = run.buffer.find(3)
    assert third is not None
    run.buffer.add(3, [episode(third.specs[0], 0.25)], time.monotonic())

    again = start(done=1)
    soon(again, 3, lambda: again.play(3))
    assert again.ahead.take(2).episodes == before.episodes
    again.step(2)
    taken = again.ahead.take(3)
    assert taken.episodes[0] == episode(third.specs[0], 0.25)
    assert [e.spec for e in taken.episodes] == list(third.specs)

    fourth = again.buffer.find(4)
    assert fourth is not None
    for name in fourth.versions:  # as if the folder had been cleaned up
        FilesTransport(tmp_path / "versions").release(WeightVersion.parse(name))
    late = start(done=3)
    soon(late, 5, lambda: late.play(4))
    assert {WeightVersion.parse(a).number for a in late.ahead.take(4).players} == {3}


def test_seconds_in_which_both_worked_are_those_that_the_rounds_share(
    start: Callable[..., Run],
) -> None:
    run = start()
    soon(run, 1, lambda: run.play(1))
    assert run.ahead.take(1).metrics["overlap_s"] == 0
    began = time.monotonic()
    time.sleep(0.02)
    run.play(2, began_s=began)
    metrics = run.ahead.take(2).metrics
    ended = time.monotonic()
    assert 0.02 <= metrics["overlap_s"] <= ended - began
    assert 0 <= metrics["wait_s"] < ended - began
    assert 0 <= metrics["generation_idle_s"] <= ended - began


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), max_size=5),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_seconds_in_several_rounds_at_once_count_once(
    rounds: list[tuple[int, int]], begin: int, end: int
) -> None:
    intervals = [(float(at), float(at + length)) for at, length in rounds]
    inside = [any(at <= second < at + length for at, length in rounds) for second in range(40)]
    assert common_s(intervals, (begin, end)) == sum(inside[begin : max(begin, end)])


def test_a_dead_process_ends_the_wait(start: Callable[..., Run]) -> None:
    run = start()
    run.child._command = [sys.executable, "-S", "-c", "raise SystemExit('no memory')"]
    run.child.start()
    with pytest.raises(ModelError, match="no memory"):
        run.ahead.take(1)


def test_budgets_that_only_one_of_several_processes_follows_are_refused_before_a_model_is_loaded(
    tmp_path: Path,
) -> None:
    view = ConsoleView("run", UPDATES, Console(quiet=True))
    agent = "openai:m@http://127.0.0.1:1"
    opponents = (
        f"opponents={{agents: {{'{agent}': 1}}, budgets: {{'{agent}': {{requests: 9999}}}}}}"
    )
    with ExitStack() as opened, pytest.raises(ConfigError, match="of 2 processes only the first"):
        build(recipe_of(opponents), tmp_path / "run", view, Processes(0, 2, None), opened)
    assert not (tmp_path / "run").exists()


def test_all_processes_of_a_run_take_what_the_first_one_took(start: Callable[..., Run]) -> None:
    run = start("rollout={start_states: 2, group_size: 2}")
    soon(run, 1, lambda: run.play(1, lambda e: 0.25 * e.spec.attempt))

    def take(processes: Processes) -> Taken:
        ahead = run.ahead if processes.first else None
        shared = SharedMatches(processes, ahead, max_staleness=1)
        taken = shared.take(1)
        shared.acknowledge(1)
        return taken

    first, *others = together(3, take)
    assert len(first.episodes) == 8
    assert len({episode.trajectories[0].outcome for episode in first.episodes}) == 2
    assert others == [first, first]
