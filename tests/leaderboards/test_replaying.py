"""Recorded matches replay with the options and wrappers that their specs name, and with no others."""

from __future__ import annotations

from dataclasses import replace

from leaderboards.record import MatchRecord
from leaderboards.replaying import replay_match
from srl_agents.agents.players import ScriptedPolicy
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts import Rollouts
from srl_envs.episode import Transcript

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
