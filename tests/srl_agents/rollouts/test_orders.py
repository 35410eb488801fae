"""Both orders of play: every match once and in its place, for any durations and failures."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.agents.players import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.engines.protocol import Capabilities, Engine, Generation, GenerationRequest
from srl_agents.engines.scripted import Deaths, Latency, ScriptedEngine, key_uniform
from srl_agents.interrupts import EventLoop
from srl_agents.records import Episode, MatchSpec, WeightUpdate, WeightVersion
from srl_agents.rollouts import Order, Rollouts
from srl_envs.errors import ConfigError, DeadlineError, ModelError
from srl_envs.registry import Policy as TextPolicy

ORDERS: tuple[Order, ...] = ("exact", "free")
EACH_ORDER = pytest.mark.parametrize("order", ORDERS)
HEAVY = Latency(kind="pareto", median_s=0.0005, tail=1.2)


def column(request: GenerationRequest) -> str:
    return f"<action>{1 + int(7 * key_uniform(request.key))}</action>"


@dataclass(frozen=True)
class Bot(ScriptedPolicy):
    """Plays at random, and calls ``seen`` first."""

    seen: Callable[[], object] = lambda: None

    def player(self, env_id: str, seed: int) -> TextPolicy:
        random = ScriptedPolicy("random").player(env_id, seed)

        def act(text: str) -> str:
            self.seen()
            return random(text)

        return act


def fails() -> None:
    raise KeyError("my table")


def pause(delays: Iterator[float]) -> None:
    threading.Event().wait(next(delays))


def match(number: int, *seats: str, env_id: str = "connect_four-v0") -> MatchSpec:
    return MatchSpec(
        env_id=env_id, seed=number // 2, split="train", seats=seats, number=number, attempt=number % 2
    )  # fmt: skip


def played(
    specs: Sequence[MatchSpec],
    order: Order,
    *,
    engine: Engine | None = None,
    concurrency: int = 4,
    finished: Callable[[Episode], None] | None = None,
    extra: dict[str, Policy] | None = None,
    **options: Any,
) -> list[Episode]:
    """Episodes of one call."""
    model = ModelPolicy(engine or ScriptedEngine(column, latency=HEAVY, capacity=3))
    policies: dict[str, Policy] = {"model": model, "bot": Bot("random"), "broken": Bot("b", fails)}
    rollouts = Rollouts(
        policies | (extra or {}), root_seed=5, order=order, concurrency=concurrency, **options
    )
    try:
        return rollouts.play(specs, finished=finished and (lambda e, _: finished(e)))
    finally:
        rollouts.close()


GAMES = st.sampled_from(["connect_four-v0", "nim-v0", "kuhn_poker-v0", "iterated_dilemma-v0"])
SEATS = st.sampled_from(["model", "bot", "model", "broken"])
SCHEDULES = st.lists(st.tuples(GAMES, SEATS, SEATS), max_size=8).map(
    lambda rows: [match(n, a, b, env_id=game) for n, (game, a, b) in enumerate(rows)]
)


@dataclass
class Live:
    """Counts matches that have begun and not ended."""

    begun: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    most: int = 0

    def policy(self, name: str) -> Policy:
        live = self

        @dataclass(frozen=True)
        class Counted(ScriptedPolicy):
            def player(self, env_id: str, seed: int) -> TextPolicy:
                live.begun.add(len(live.begun))
                live.most = max(live.most, len(live.begun) - len(live.ended))
                return ScriptedPolicy(name).player(env_id, seed)

        return Counted(name)

    def end(self, episode: Episode) -> None:
        assert episode.spec.number not in self.ended, "reported twice"
        self.ended.add(episode.spec.number)


@settings(max_examples=25, deadline=None)
@given(SCHEDULES, st.integers(1, 5), st.sampled_from(ORDERS))
def test_every_match_gets_one_episode_in_its_place(
    specs: list[MatchSpec], concurrency: int, order: Order
) -> None:
    ended: list[int] = []
    episodes = played(
        specs, order, concurrency=concurrency, finished=lambda e: ended.append(e.spec.number)
    )
    assert [episode.spec for episode in episodes] == specs
    assert sorted(ended) == [spec.number for spec in specs]
    for episode in episodes:
        # a game of few moves may end before a broken bot is on move
        assert episode.valid or ("broken" in episode.spec.seats and "KeyError" in episode.fault)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.sampled_from(ORDERS))
def test_no_more_matches_are_live_than_may_be(count: int, concurrency: int, order: Order) -> None:
    live = Live()
    specs = [match(number, "model", "counted") for number in range(count)]
    extra = {"counted": live.policy("random")}
    played(specs, order, concurrency=concurrency, finished=live.end, extra=extra)
    assert len(live.begun) == len(live.ended) == count
    assert live.most <= concurrency


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(SCHEDULES, st.integers(1, 5), st.integers(1, 5))
def test_both_orders_and_any_concurrency_give_the_same_episodes(
    specs: list[MatchSpec], few: int, many: int
) -> None:
    exact = played(specs, "exact", concurrency=few)
    assert played(specs, "exact", concurrency=few) == exact
    assert played(specs, "exact", concurrency=many) == exact
    assert played(specs, "free", concurrency=many) == exact


class Batches(ScriptedEngine):
    """Keeps the keys of every batch."""

    def __init__(self) -> None:
        super().__init__(column, latency=HEAVY, capacity=2)
        self.batches: list[list[tuple[int, ...]]] = []

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        self.batches.append([request.key for request in requests])
        return await super().generate_together(requests)


def test_batches_and_reports_of_exact_follow_from_the_specs_alone() -> None:
    """Fails where the order in which threads end decides what shares a batch or is reported first."""
    specs = [match(n, *("model", "bot") if n % 3 else ("model", "model")) for n in range(12)]
    runs = []
    for seconds in ((0.0, 0.003), (0.003, 0.0)):
        slow = Bot("random", partial(pause, iter(seconds * 1000)))
        engine, ended = Batches(), list[Episode]()
        played(
            specs, "exact", engine=engine, extra={"bot": slow},
            finished=ended.append,
        )  # fmt: skip
        runs.append((engine.batches, [episode.spec.number for episode in ended]))
    assert runs[0] == runs[1]
    assert len(runs[0][0]) < sum(map(len, runs[0][0])) / 2, "a tick is one batch"


class OneByOne:
    """An engine without batches, around a scripted one."""

    def __init__(self) -> None:
        self.inner = ScriptedEngine(column, latency=HEAVY)

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    async def generate(self, request: GenerationRequest) -> Generation:
        return await self.inner.generate(request)

    async def install(self, update: WeightUpdate) -> None:
        await self.inner.install(update)

    async def retire(self, version: WeightVersion) -> None:
        await self.inner.retire(version)

    async def sleep(self) -> None:
        await self.inner.sleep()

    async def wake(self) -> None:
        await self.inner.wake()

    async def close(self) -> None:
        await self.inner.close()


def test_exact_asks_an_engine_without_batches_for_all_replies_at_once() -> None:
    engine = OneByOne()
    specs = [match(number, "model", "bot") for number in range(6)]
    assert played(specs, "exact", engine=engine, concurrency=6) == played(specs, "free")
    assert engine.inner.load.most_in_flight == 6


@EACH_ORDER
def test_steps_of_live_matches_overlap(order: Order) -> None:
    """Two bots wait for each other; in one thread neither would ever reply."""
    meeting = threading.Barrier(2)
    bot = Bot("random", lambda: meeting.wait(20))
    specs = [match(number, "meets", "meets", env_id="kuhn_poker-v0") for number in (0, 0)]
    episodes = played(specs, order, extra={"meets": bot}, step_threads=2)
    assert all(episode.valid for episode in episodes)


@pytest.mark.slow
@EACH_ORDER
def test_a_step_that_hangs_voids_its_match_alone(order: Order) -> None:
    release = threading.Event()
    specs = [match(0, "hangs", "model"), match(1, "bot", "model")]
    extra: dict[str, Policy] = {"hangs": Bot("random", lambda: release.wait(20))}
    try:
        void, fine = played(specs, order, extra=extra, step_threads=1, step_deadline_s=0.3)
    finally:
        release.set()
    assert (void.termination, fine.termination) == ("void", "ok")
    assert void.fault.startswith("DeadlineError")


@EACH_ORDER
def test_an_engine_that_dies_ends_the_call_and_what_has_ended_is_kept(order: Order) -> None:
    specs = [match(number, "model", "bot") for number in range(12)]
    whole = played(specs, order)
    kept: list[Episode] = []
    engine = ScriptedEngine(column, latency=HEAVY, capacity=3, deaths=Deaths(at_reply=60))
    with pytest.raises(ModelError, match="has died"):
        played(specs, order, engine=engine, finished=kept.append)
    assert 0 < len(kept) < len(specs)
    left = [spec for spec in specs if spec not in [episode.spec for episode in kept]]
    again = kept + played(left, order)
    assert sorted(again, key=lambda e: e.spec.number) == whole


@EACH_ORDER
def test_an_engine_that_hangs_is_noticed(order: Order) -> None:
    engine = ScriptedEngine(column, latency=Latency(median_s=3600.0))
    with pytest.raises(DeadlineError, match="ScriptedEngine gave"):
        played([match(0, "model", "bot")], order, engine=engine, reply_deadline_s=0.2)


def test_a_bug_in_a_game_ends_the_call_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from srl_envs.families.board.connect_four import ConnectFour

    def broken(self: ConnectFour, state: object, actions: object) -> object:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(ConnectFour, "apply", broken)
    slow = ScriptedEngine(column, latency=Latency(median_s=3600.0))
    specs = [match(0, "bot", "bot"), match(1, "model", "model")]
    with pytest.raises(ZeroDivisionError, match="a bug"):
        played(specs, "free", engine=slow)


@EACH_ORDER
def test_an_interrupt_ends_the_call_and_what_has_ended_is_kept(order: Order) -> None:
    kept: list[Episode] = []

    def interrupt(episode: Episode) -> None:
        kept.append(episode)
        if len(kept) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    specs = [match(number, "model", "bot") for number in range(12)]
    with pytest.raises(KeyboardInterrupt):
        played(specs, order, concurrency=2, finished=interrupt)
    assert 2 <= len(kept) < len(specs)
    whole = played(specs, order)
    assert all(episode == whole[episode.spec.number] for episode in kept)


@EACH_ORDER
def test_a_report_that_fails_frees_an_environment_once(order: Order) -> None:
    """Twice, and the next call would play two matches in it at the same time."""

    def fails_to_show(_: int) -> None:
        raise OSError("no terminal")

    policies: dict[str, Policy] = {"bot": Bot("random")}
    with Rollouts(policies, root_seed=0, order=order) as rollouts:
        with pytest.raises(OSError, match="no terminal"):
            rollouts.play([match(0, "bot", "bot")], progress=fails_to_show)
        idle = [id(env) for envs in rollouts._envs._idle.values() for env in envs]
    assert len(idle) == len(set(idle)) == 1


def test_a_match_that_cannot_be_reported_costs_no_environment() -> None:
    def fails_to_write(*_: object) -> None:
        raise OSError("disk full")

    policies: dict[str, Policy] = {"bot": Bot("random")}
    with Rollouts(policies, root_seed=0, order="exact", concurrency=3) as rollouts:
        specs = [match(number, "bot", "bot") for number in range(3)]
        with pytest.raises(OSError, match="disk full"):
            rollouts.play(specs, finished=fails_to_write)
        idle = [id(env) for envs in rollouts._envs._idle.values() for env in envs]
    assert len(idle) == len(set(idle)) == 3


def test_one_event_loop_serves_several_rollouts() -> None:
    """As a trainer needs, which installs versions on the engine that its matches use."""
    engine = ScriptedEngine(column, capacity=2)
    version = WeightVersion("alice", 1, "0" * 16)
    specs = [match(0, "model", "bot")]
    with closing(EventLoop()) as loop:
        loop.run(engine.install(WeightUpdate(version=version, tensors=(), handle="")))
        policies: dict[str, Policy] = {"model": ModelPolicy(engine, version), "bot": Bot("random")}
        for _ in range(2):
            rollouts = Rollouts(policies, root_seed=0, loop=loop)
            (episode,) = rollouts.play(specs)
            rollouts.close()
    assert {turn.version for turn in episode.trajectories[0].turns} == {str(version)}
    assert {turn.version for turn in episode.trajectories[1].turns} == {""}


def test_an_engine_that_tells_no_tokens_trains_nobody() -> None:
    spec = MatchSpec(
        env_id="nim-v0", seed=0, split="train", seats=("model", "bot"), learner_seats=(0,)
    )
    with pytest.raises(ConfigError, match="reports no tokens"):
        played([spec], "free")


def test_impossible_settings_are_refused() -> None:
    for wrong in (
        {"order": "fast"},
        {"concurrency": 0},
        {"step_threads": 0},
        {"step_deadline_s": 0},
        {"reply_deadline_s": 0},
    ):
        (name,) = wrong
        with pytest.raises(ConfigError, match=name):
            Rollouts({}, root_seed=0, **wrong)


def test_engines_are_told_what_is_near_its_end_and_what_is_over() -> None:
    """Turns behind a match go first, and matches of a group of which others have ended."""
    asked: list[GenerationRequest] = []
    over: list[tuple[int, ...]] = []

    class Recording(ScriptedEngine):
        async def generate(self, request: GenerationRequest) -> Generation:
            asked.append(request)
            return await super().generate(request)

        async def match_over(self, match: tuple[int, ...]) -> None:
            over.append(match)

    specs = [
        MatchSpec(
            env_id="connect_four-v0", seed=0, split="train", seats=("model", "model"), cluster="0",
            number=n, attempt=n,
        )
        for n in range(2)
    ]  # fmt: skip
    with Rollouts(
        {"model": ModelPolicy(Recording(column))}, root_seed=0, order="free", concurrency=1
    ) as rollouts:
        episodes = rollouts.play(specs)
    turns = [sum(len(t.turns) for t in episode.trajectories) for episode in episodes]
    first, second = asked[: turns[0]], asked[turns[0] :]
    assert [request.priority for request in first] == [-n for n in range(turns[0])]
    assert [request.priority for request in second] == [-n - turns[0] / 2 for n in range(turns[1])]
    assert [request.turns_ahead for request in first] == [None, None, *[1] * (turns[0] - 2)]
    assert over == [first[0].key[:-2], second[0].key[:-2]]
    assert len(set(over)) == 2
