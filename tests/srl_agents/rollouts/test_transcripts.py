"""Transcripts go to a file while matches are played, and come back as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from srl_agents.agents.players import ScriptedPolicy
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.transcripts import TranscriptLog, read_transcripts
from srl_envs import replay
from srl_envs.errors import TranscriptError


def played(path: Path, seeds: int = 3) -> list:
    runner = Rollouts({"bot:random": ScriptedPolicy("random")}, root_seed=0)
    specs = [
        MatchSpec(env_id="nim-v0", seed=seed, split="eval", seats=("bot:random",) * 2)
        for seed in range(seeds)
    ]
    try:
        return runner.play(specs, finished=TranscriptLog(path).add)
    finally:
        runner.close()


def test_every_match_comes_back_and_replays(tmp_path: Path) -> None:
    episodes = played(tmp_path / "t.jsonl")
    found = read_transcripts(tmp_path / "t.jsonl")
    assert set(found) == {e.spec.match_id for e in episodes}
    for episode in episodes:
        transcript = found[episode.spec.match_id]
        assert transcript.digest == episode.transcript_sha256
        assert replay(transcript) == transcript


def test_only_wanted_ones_are_read(tmp_path: Path) -> None:
    first, *_ = played(tmp_path / "t.jsonl")
    wanted = {first.spec.match_id}
    assert set(read_transcripts(tmp_path / "t.jsonl", wanted)) == wanted
    assert read_transcripts(tmp_path / "absent.jsonl") == {}


def test_a_line_cut_off_by_a_crash_is_left_out_and_played_again(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    played(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert len(read_transcripts(path)) == 2
    played(path)  # the same matches again, after the torn line
    assert len(read_transcripts(path)) == 3


def test_a_line_that_is_no_transcript_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"match_id": "0"}\n')
    with pytest.raises(TranscriptError, match="line 1"):
        read_transcripts(path)
