import json
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_envs.errors import ConfigError, TranscriptError
from srl_envs.testing.episodes import record
from srl_envs.wrappers import HistoryWindow, Recording, as_single, load_recordings


def bots() -> dict[int, Any]:
    return {seat: srl_envs.make_bot("nim-v0", "random", seat) for seat in (0, 1)}


def test_each_finished_episode_is_a_line_that_replays(tmp_path: Path) -> None:
    env = Recording(srl_envs.make("nim-v0"), tmp_path / "games.jsonl")
    played = [srl_envs.play(env, bots(), seed=seed) for seed in range(3)]
    assert load_recordings(tmp_path / "games.jsonl") == played
    assert len((tmp_path / "games.jsonl").read_text().splitlines()) == 3
    for transcript in load_recordings(tmp_path / "games.jsonl"):
        assert srl_envs.replay(transcript) == transcript


def test_what_other_wrappers_changed_is_recorded(tmp_path: Path) -> None:
    env = Recording(HistoryWindow(srl_envs.make("nim-v0"), turns=1), tmp_path / "games.jsonl")
    srl_envs.play(env, bots(), seed=0)
    (transcript,) = load_recordings(tmp_path / "games.jsonl")
    assert transcript.options["wrappers"] == [
        {"kind": "HistoryWindow", "turns": 1, "reply_chars": 300}
    ]
    assert srl_envs.replay(transcript, HistoryWindow(srl_envs.make("nim-v0"), turns=1))


def test_replies_of_any_kind_survive_the_file(tmp_path: Path) -> None:
    env = Recording(srl_envs.make("connect_four-v0"), tmp_path / "games.jsonl")
    record(env, 0)  # one reply in ten is garbage
    env.reset(seed=1)
    while env.agents:
        env.step(dict.fromkeys(env.agents, "\ud800 \u2028 é"))
    first, second = load_recordings(tmp_path / "games.jsonl")
    assert srl_envs.replay(first) == first
    assert second.forfeited
    assert "\ud800 \u2028 é" in second.steps[0].replies.values()


def test_recording_changes_nothing(tmp_path: Path) -> None:
    bare = srl_envs.make("connect_four-v0")
    env = Recording(srl_envs.make("connect_four-v0"), tmp_path / "games.jsonl")
    assert record(env, 3) == record(bare, 3)
    assert env.options == bare.options
    assert env.get_state() == bare.get_state()


def test_an_episode_that_is_cut_short_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    env = Recording(srl_envs.make("nim-v0"), path)
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, "<action>1 1</action>"))
    env.reset(seed=1)
    assert not path.exists()


def test_the_single_view_records_the_whole_table(tmp_path: Path) -> None:
    env = Recording(srl_envs.make("nim-v0"), tmp_path / "games.jsonl")
    view = as_single(env, opponents={1: "random"})
    seen, _ = view.reset(seed=0)
    over, bot = False, srl_envs.make_bot("nim-v0", "random", 0)
    while not over:
        seen, _, over, _, _ = view.step(bot(seen["text"]))
    (transcript,) = load_recordings(tmp_path / "games.jsonl")
    assert {seat for step in transcript.steps for seat in step.replies} == {0, 1}


def test_going_on_from_a_state_is_refused(tmp_path: Path) -> None:
    env = Recording(srl_envs.make("nim-v0"), tmp_path / "games.jsonl")
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="no beginning to record"):
        env.set_state(env.get_state())
    env.env.set_state(env.get_state())


def test_wrong_files_are_refused_by_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        Recording(srl_envs.make("nim-v0"), tmp_path / "none" / "games.jsonl")
    with pytest.raises(TranscriptError, match="cannot be read"):
        load_recordings(tmp_path / "none.jsonl")
    path = tmp_path / "games.jsonl"
    env = Recording(srl_envs.make("nim-v0"), path)
    srl_envs.play(env, bots(), seed=0)
    good = path.read_text()
    for bad in ("{", "[]", "{}", json.dumps({**json.loads(good), "format": 99})):
        path.write_text(good + bad + "\n")
        with pytest.raises(TranscriptError, match="line 2"):
            load_recordings(path)
