"""Every recorded episode replays line by line: the same texts, labels and payments."""

from pathlib import Path

import pytest

import srl_envs
from tests.golden.regenerate import FOLDER, SEEDS

RECORDED = sorted(FOLDER.glob("*.jsonl"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recording_replays(path: Path) -> None:
    """If this fails, an environment changed: give it a new version, or find out why."""
    transcript = srl_envs.load_transcript(path)
    env = srl_envs.make(transcript.env_id, **transcript.options)
    srl_envs.replay(transcript, env)
    env.close()


def test_every_environment_is_recorded() -> None:
    """`python -m tests.golden.regenerate ENV` records a new one."""
    expected = {f"{env_id}.{seed}.jsonl" for env_id in srl_envs.list_envs() for seed in SEEDS}
    assert {path.name for path in RECORDED} == expected


@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_a_recording_holds_refused_replies_too(env_id: str) -> None:
    """Golden files that never leave the happy path would not notice a change of the labels."""
    steps = [
        step
        for seed in SEEDS
        for step in srl_envs.load_transcript(FOLDER / f"{env_id}.{seed}.jsonl").steps
    ]
    labels = {label for step in steps for label in step.invalid}
    assert labels >= {None, "malformed"}
