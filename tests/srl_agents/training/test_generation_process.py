"""Orders are carried out: each match is played once, under its seed, each turn under its version."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from srl_agents.agents import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.engines.protocol import GenerationRequest
from srl_agents.engines.scripted import Deaths, Latency, ScriptedEngine, key_uniform
from srl_agents.records import Episode, MatchSpec, TensorHeader, WeightUpdate, WeightVersion
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.buffer import MatchBuffer, MatchOrder
from srl_agents.training.ahead.demand import Demand
from srl_agents.training.ahead.player import Generator
from srl_envs.errors import ModelError, UnknownVersionError


def version(number: int) -> WeightVersion:
    return WeightVersion("alice", number, f"{number:016x}")


def order(number: int, writer: int, *opponents: int, matches: int = 6) -> MatchOrder:
    """Matches of a version of alice against a bot, or against frozen versions."""
    others = [str(version(n)) for n in opponents] or ["bot:random"]
    return MatchOrder(
        number=number,
        specs=tuple(
            MatchSpec(
                env_id="connect_four-v0", seed=100 * number + k, split="train",
                seats=(str(version(writer)), others[k % len(others)]), schedule="train/alice",
                number=100 * number + k,
            )
            for k in range(matches)
        ),
        players={str(version(writer)): "alice"},
        updates=tuple(
            WeightUpdate(
                version=version(n), tensors=(TensorHeader(name="a", dtype="F32", shape=(1,)),),
                handle="nowhere",
            )
            for n in dict.fromkeys((writer, *opponents))
        ),
    )  # fmt: skip


def column(request: GenerationRequest) -> str:
    return f"<action>{1 + int(7 * key_uniform(request.key))}</action>"


def generate(
    folder: Path,
    *,
    switch: bool = False,
    deaths: Deaths | None = None,
    reply: Callable[[GenerationRequest], str] = column,
    order: str = "free",
    part_matches: int = 0,
) -> ScriptedEngine:
    """Play all that is ordered in one process's life."""

    async def life() -> ScriptedEngine:
        engine = ScriptedEngine(
            reply, latency=Latency(kind="pareto", median_s=0.001, tail=1.2), deaths=deaths
        )
        policies: dict[str, Policy] = {
            "base": ModelPolicy(engine), "bot:random": ScriptedPolicy("random"),
        }  # fmt: skip
        drawn_as: dict[str, str] = {}
        rollouts = Rollouts(policies, root_seed=7, order=order, contents=drawn_as, concurrency=4)  # type: ignore[arg-type]
        generator = Generator(
            MatchBuffer(folder, 4), lambda _: engine, rollouts, policies=policies, drawn_as=drawn_as,
            switch=switch, part_matches=part_matches,
        )  # fmt: skip
        try:
            await generator.run(until=lambda: True)
        finally:
            rollouts.close()
        return engine

    return asyncio.run(life())


def played(buffer: MatchBuffer, number: int) -> dict[str, Episode]:
    reader = buffer.played(number)
    reader.refresh()
    return reader.episodes


def writers(episode: Episode, seat: int = 0) -> list[str]:
    return [turn.version for turn in episode.trajectories[seat].turns]


@pytest.mark.parametrize(("how", "part_matches"), [("free", 0), ("exact", 0), ("exact", 2)])
def test_a_process_that_dies_is_followed_by_one_that_plays_the_rest_under_the_same_seeds(
    tmp_path: Path, how: str, part_matches: int
) -> None:
    whole, broken = MatchBuffer(tmp_path / "whole", 4), MatchBuffer(tmp_path / "broken", 4)
    orders = [order(1, 0), order(2, 0)]
    for buffer in (whole, broken):
        for each in orders:
            buffer.order(each, learned=0)
    generate(whole.folder, order=how, part_matches=part_matches)
    for at_reply in (25, 40):
        with pytest.raises(ModelError):
            generate(
                broken.folder,
                deaths=Deaths(at_reply=at_reply),
                order=how,
                part_matches=part_matches,
            )
    some = len(played(broken, 1)) + len(played(broken, 2))
    assert 0 < some < 12
    generate(broken.folder, order=how, part_matches=part_matches)
    for each in orders:
        assert not Demand(each, None).open(played(broken, each.number))
        assert played(broken, each.number) == played(whole, each.number)
        frames = (broken.folder / f"{each.number:06d}.played.frames").read_bytes()
        assert frames.count(b'"episode"') == len(each.specs)


def test_in_exact_order_a_process_plays_an_update_whole_that_another_died_in(
    tmp_path: Path,
) -> None:
    """A smaller batch would round differently."""
    asked: list[tuple[int, ...]] = []

    def recorded(request: GenerationRequest) -> str:
        asked.append(request.key)
        return column(request)

    whole, broken = MatchBuffer(tmp_path / "whole", 4), MatchBuffer(tmp_path / "broken", 4)
    for buffer in (whole, broken):
        buffer.order(order(1, 0), learned=0)
    generate(whole.folder, order="exact", reply=recorded)
    of_whole = sorted(asked)
    with pytest.raises(ModelError):
        generate(broken.folder, order="exact", deaths=Deaths(at_reply=len(of_whole) - 2))
    assert 0 < len(played(broken, 1)) < 6
    asked.clear()
    generate(broken.folder, order="exact", reply=recorded)
    assert sorted(asked) == of_whole


def test_matches_in_flight_end_under_a_newer_version_turn_by_turn(tmp_path: Path) -> None:
    """The newer order comes when alice has replied some times; a frozen alice stays what it is."""
    buffer, replies = MatchBuffer(tmp_path, 4), 0

    def counted(request: GenerationRequest) -> str:
        nonlocal replies
        replies += request.version == version(3)
        if replies == 8:
            replies += 1
            buffer.order(order(2, 4, 3, matches=2), learned=0)
        return column(request)

    first = order(1, 3, matches=40)
    buffer.order(first, learned=0)
    generate(tmp_path, switch=True, reply=counted)
    orders = [writers(episode) for episode in played(buffer, 1).values()]
    assert all(labels == sorted(labels) for labels in orders)
    assert any(len(set(labels)) == 2 for labels in orders)
    assert {label for labels in orders for label in labels} == {str(version(3)), str(version(4))}
    for episode in played(buffer, 2).values():
        assert set(writers(episode)) == {str(version(4))}
        assert set(writers(episode, seat=1)) == {str(version(3))}


def test_without_a_switch_matches_end_as_they_began(tmp_path: Path) -> None:
    buffer = MatchBuffer(tmp_path, 4)
    for each in (order(1, 3), order(2, 4)):
        buffer.order(each, learned=0)
    generate(tmp_path)
    for number, writer in ((1, 3), (2, 4)):
        labels = {label for e in played(buffer, number).values() for label in writers(e)}
        assert labels == {str(version(writer))}


def test_versions_that_no_order_needs_are_retired(tmp_path: Path) -> None:
    buffer = MatchBuffer(tmp_path, 4)
    for each in (order(1, 3), order(2, 4, 2)):
        buffer.order(each, learned=0)
    known = []
    engine = generate(tmp_path)
    for number in range(5):
        request = GenerationRequest(observation="1", version=version(number), key=(1,))
        with contextlib.suppress(UnknownVersionError):
            asyncio.run(engine.generate(request))
            known.append(number)
    assert known == [4]
