"""Transcripts go to a file while matches are played, and come back as they were."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from srl_agents.agents.players import ScriptedPolicy
from srl_agents.cli.views.recorded import watchable
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.branches import branch_spec
from srl_agents.rollouts.transcripts import TranscriptLog, read_transcripts, transcript_of
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


def test_what_another_process_played_is_recorded_by_its_replies(tmp_path: Path) -> None:
    """A branch with fresh chances in a game of cards, where a refused reply stays one."""
    seats = ("bot:random",) * 2
    spec = MatchSpec(
        env_id="hanabi_mini-v0", seed=4, split="train", seats=seats, learner_seats=(0, 1)
    )
    log = TranscriptLog(tmp_path / "t.jsonl")
    with Rollouts({"bot:random": ScriptedPolicy("random")}, root_seed=0) as runner:
        (parent,) = runner.play([spec], finished=log.add)
        fork = branch_spec(parent, 3, alternative=1, chances="fresh")
        parents = {spec.match_id: parent}
        (branch,) = runner.play([fork], finished=log.add, parents=parents)
    assert branch.reshuffles
    written = read_transcripts(tmp_path / "t.jsonl")
    for episode in (parent, branch):
        assert transcript_of(episode) == written[episode.spec.match_id]
        assert not watchable(written[episode.spec.match_id]).differs
    other = replace(branch, reshuffles=())
    with pytest.raises(TranscriptError, match="does not replay to what another process played"):
        transcript_of(other)


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


PLAYS_FOR_EVER = """
import sys
from pathlib import Path

from srl_agents.agents.players import ModelPolicy
from srl_agents.engines.scripted import Latency, ScriptedEngine, key_uniform
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.transcripts import TranscriptLog

engine = ScriptedEngine(
    lambda request: f"<action>{1 + int(7 * key_uniform(request.key))}</action>",
    latency=Latency(kind="pareto", median_s=0.0005, tail=1.2),
)
log = TranscriptLog(Path(sys.argv[1]))
specs = [
    MatchSpec(env_id="connect_four-v0", seed=seed, split="train", seats=("model", "model"))
    for seed in range(10_000)
]


def finished(episode, transcript):
    log.add(episode, transcript)
    print(episode.spec.match_id, flush=True)


rollouts = Rollouts({"model": ModelPolicy(engine)}, root_seed=0, order="free", concurrency=32)
rollouts.play(specs, finished=finished)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_every_match_that_it_finished(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", PLAYS_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process, process.stdout as printed:
        finished = [printed.readline().strip() for _ in range(40)]
        process.kill()
        finished += [line.strip() for line in printed if line.endswith("\n")]
    found = read_transcripts(path)
    assert set(finished) <= set(found)
    for match_id in finished[::10]:
        assert replay(found[match_id]) == found[match_id]
    TranscriptLog(path)
    assert path.read_bytes().count(b"\n") == len(found), "a line that was cut off goes"
