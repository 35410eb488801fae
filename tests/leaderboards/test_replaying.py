"""Recorded matches replay with the options and wrappers that their specs name, and with no others."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from leaderboards.bundles.replaying import _Children, replay_all, replay_match
from leaderboards.contents.record import MatchRecord
from srl_agents.agents.players import ScriptedPolicy
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts import Rollouts
from srl_envs.api.episode import Transcript
from srl_envs.errors import SandboxError

WRAPPERS = [
    {"kind": "HistoryWindow", "turns": 1, "reply_chars": 300},
    {"kind": "TurnLimit", "steps": 9},
]


def recorded(spec: MatchSpec) -> MatchRecord:
    kept: list[tuple[Episode, Transcript]] = []
    policies = {name: ScriptedPolicy(name.removeprefix("bot:")) for name in spec.seats}
    runner = Rollouts(policies, root_seed=0)
    try:
        runner.play([spec], finished=lambda episode, transcript: kept.append((episode, transcript)))
    finally:
        runner.close()
    ((episode, transcript),) = kept
    return MatchRecord(spec=spec, result=episode.result(), transcript=transcript, tokens={})


def test_a_wrapped_match_replays_and_its_wrappers_are_part_of_the_claim() -> None:
    spec = MatchSpec(
        env_id="connect_four-v0",
        options={"rows": 5, "wrappers": WRAPPERS},
        seed=4,
        split="eval",
        seats=("bot:middle", "bot:strong"),
    )
    record = recorded(spec)
    assert record.result.termination == "truncated"
    assert replay_match(record).fault == ""
    bare = replace(spec, options={"rows": 5})
    assert bare.match_id != spec.match_id
    assert replay_match(replace(record, spec=bare)).fault
    other = {"rows": 5, "wrappers": [{**WRAPPERS[0], "turns": 2}, WRAPPERS[1]]}
    assert "options" in replay_match(replace(record, spec=replace(spec, options=other))).fault


def nim(seed: int) -> MatchRecord:
    spec = MatchSpec(
        env_id="nim-v0", options={}, seed=seed, split="eval", seats=("bot:random", "bot:strong")
    )
    return replace(recorded(spec), tokens={0: ()})


@pytest.mark.slow
def test_processes_replay_as_this_process_does_and_in_order() -> None:
    sound = [nim(seed) for seed in range(4)]
    other = replace(sound[0], transcript=sound[1].transcript)
    records = [*sound, other]
    here = list(replay_all(records, workers=0))
    assert list(replay_all(records, workers=2)) == here
    assert [bool(replay.fault) for _, replay in here] == [False] * 4 + [True]
    assert all(replay.observations[0] for _, replay in here[:4])


def test_a_reader_that_leaves_early_ends_the_processes() -> None:
    replays = replay_all([nim(seed) for seed in range(6)], workers=1)
    assert isinstance(replays, Generator)
    assert next(replays)[1].fault == ""
    replays.close()


def test_a_process_that_dies_is_no_verdict_on_a_match() -> None:
    children = _Children(1)
    try:
        children._all[0][0].kill()
        with pytest.raises(SandboxError, match="ended with exit code -9"):
            children.replay(nim(0))
    finally:
        children.close()
