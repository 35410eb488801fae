"""Properties of every wrapper and of stacks of wrappers."""

import contextlib
import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_envs.errors import ConfigError, TranscriptError
from srl_envs.parallel import GameEnv
from srl_envs.testing.episodes import draw_actions, record, seed_spaces
from srl_envs.wrappers import (
    HistoryWindow,
    ObservationNoise,
    PotentialShaping,
    TurnLimit,
    Wrapper,
    as_aec,
    as_single,
)
from srl_envs.wrappers.observed_text import split_text

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's own modules
    from gymnasium.utils.env_checker import check_env
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

ENVS = ["connect_four-v0", "iterated_dilemma-v0", "liars_dice-v0"]


def length(text: str, seat: int) -> float:
    return len(text) / 1000 + seat


STACKS: dict[str, Callable[[GameEnv], GameEnv]] = {
    "bare": Wrapper,
    "turn limit": lambda env: TurnLimit(env, steps=5),
    "history": lambda env: HistoryWindow(env, turns=2),
    "characters": lambda env: ObservationNoise(env, rate=0.2),
    "lines": lambda env: ObservationNoise(env, rate=0.2, level="line", seed=3),
    "shaping": lambda env: PotentialShaping(env, potential=length, gamma=0.9),
    "all": lambda env: PotentialShaping(
        HistoryWindow(ObservationNoise(TurnLimit(env, steps=8), rate=0.1), turns=3),
        potential=length,
    ),
    "all, the other way round": lambda env: TurnLimit(
        ObservationNoise(HistoryWindow(PotentialShaping(env, potential=length), turns=1), rate=0.1),
        steps=8,
    ),
}
BY_NAME = ("turn limit", "history", "characters", "lines")
"""Stacks that name no code of their own, so that a record suffices to restore them."""
EVERY = pytest.mark.parametrize("stack", STACKS)


@EVERY
@pytest.mark.parametrize("env_id", ENVS)
def test_passes_the_public_suites(env_id: str, stack: str) -> None:
    def parallel() -> Any:
        env = STACKS[stack](srl_envs.make(env_id))
        seed_spaces(env, 0)
        return env

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # they wish for arrays
        parallel_api_test(parallel(), num_cycles=60)
        parallel_seed_test(parallel, num_cycles=30)
        api_test(as_aec(parallel()), num_cycles=60)
        seed_test(lambda: as_aec(parallel()), num_cycles=30)
        check_env(as_single(parallel()))


@EVERY
@pytest.mark.parametrize("env_id", ENVS)
def test_observations_lie_in_their_space_and_the_seed_decides_them(env_id: str, stack: str) -> None:
    env, again = (STACKS[stack](srl_envs.make(env_id)) for _ in range(2))
    for seed in range(3):
        recording = record(env, seed)
        assert record(again, seed) == recording
        for results in (recording.first, *(results for _, results in recording.steps)):
            for agent, seen in results[0].items():
                assert env.observation_space(agent).contains(seen)


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("env_id", ENVS)
def test_a_state_goes_on_in_another_of_the_same_wrappers(env_id: str, stack: str) -> None:
    env, other = (STACKS[stack](srl_envs.make(env_id)) for _ in range(2))
    expected = record(env, 1)
    seen = env.reset(seed=1)[0]
    for number, (actions, _) in enumerate(expected.steps):
        state = json.loads(json.dumps(env.get_state()))
        assert other.set_state(state)[0] == seen
        assert json.loads(json.dumps(other.get_state())) == state
        for later, results in expected.steps[number:]:
            assert other.step(later) == results
        seen = env.step(actions)[0]


@EVERY
def test_a_transcript_replays_with_the_same_wrappers_and_no_others(stack: str) -> None:
    env = STACKS[stack](srl_envs.make("connect_four-v0"))
    bots: dict[int, Callable[[str], str]] = {
        seat: srl_envs.make_bot("connect_four-v0", "strong", seat) for seat in (0, 1)
    }
    if "Noise" in str(env.options):  # a bot cannot read a garbled board
        bots = dict.fromkeys((0, 1), lambda text: f"<action>{len(text) % 7 + 1}</action>")
    transcript = srl_envs.play(env, bots, seed=5)
    assert (
        srl_envs.replay(transcript, STACKS[stack](srl_envs.make("connect_four-v0"))) == transcript
    )
    if stack in BY_NAME:
        assert srl_envs.replay(transcript) == transcript
    else:
        with pytest.raises(TranscriptError, match=r"recorded through .*make the same environment"):
            srl_envs.replay(transcript)
    with pytest.raises(TranscriptError, match=r"options|recording"):
        srl_envs.replay(transcript, srl_envs.make("connect_four-v0"))


def test_states_of_other_wrappers_are_refused() -> None:
    bare = srl_envs.make("connect_four-v0")
    two = HistoryWindow(srl_envs.make("connect_four-v0"), turns=2)
    three = HistoryWindow(srl_envs.make("connect_four-v0"), turns=3)
    for env in (bare, two, three):
        env.reset(seed=0)
    for giver in (bare, two, three):
        for taker in (bare, two, three):
            if giver is not taker:
                with pytest.raises(ConfigError, match="cannot continue in connect_four-v0"):
                    taker.set_state(giver.get_state())


def test_wrappers_say_what_is_inside() -> None:
    inner = srl_envs.make("connect_four-v0", cols=5)
    env = TurnLimit(HistoryWindow(inner, turns=2), steps=4)
    assert env.options == {
        "cols": 5,
        "wrappers": [
            {"kind": "HistoryWindow", "turns": 2, "reply_chars": 300},
            {"kind": "TurnLimit", "steps": 4},
        ],
    }
    assert env.unwrapped is inner
    assert env.title.startswith("connect_four-v0 in HistoryWindow(")
    env.reset(seed=3)
    assert (env.seed, env.split, env.game, env.agents) == (3, "train", inner.game, inner.agents)
    with pytest.raises(AttributeError):
        _ = env.nothing_of_the_kind


def test_vectors_take_wrappers() -> None:
    with srl_envs.make_vec("nim-v0", 3, workers=1, wrap=two_steps) as vec:
        vec.reset(seed=0)
        vec.step(["<action>1 1</action>"] * 3)
        now = vec.step(["<action>x</action>"] * 3)
    ended = now.terminations_E | now.truncations_E
    assert ended.all()
    assert now.truncations_E.any()


def two_steps(env: GameEnv) -> GameEnv:
    return TurnLimit(env, steps=2)


@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_the_first_paragraph_of_every_environment_is_constant(env_id: str) -> None:
    """What "rules" means to the wrappers."""
    env = srl_envs.make(env_id)
    for seed in range(2):
        first, _ = env.reset(seed=seed)
        seed_spaces(env, seed)
        rules = {agent: split_text(seen["text"]).rules for agent, seen in first.items()}
        assert all(len(text) > 40 for text in rules.values())
        for _ in range(0 if ".coding." in env.env_spec.entry_point else 12):  # programs are slow
            if not env.agents:
                break
            observations = env.step(draw_actions(env))[0]
            for agent, seen in observations.items():
                assert split_text(seen["text"]).rules == rules[agent]
                assert "".join(split_text(seen["text"])) == seen["text"]
    env.close()


def test_the_notice_of_a_refused_reply_is_told_apart() -> None:
    env = srl_envs.make("connect_four-v0")
    observations, _ = env.reset(seed=0)
    agent = next(a for a, seen in observations.items() if seen["can_act"])
    before = split_text(observations[agent]["text"])
    after = split_text(env.step({agent: "no"})[0][agent]["text"])
    assert before.notice == ""
    assert after[:2] == before[:2]
    assert after.notice.endswith("Tries left for this turn: 2.")


def test_transcripts_from_before_wrappers_are_as_they_were(tmp_path: Path) -> None:
    env = srl_envs.make("nim-v0")
    bots = {seat: srl_envs.make_bot("nim-v0", "random", seat) for seat in (0, 1)}
    transcript = srl_envs.play(env, bots, seed=0)
    assert "wrappers" not in transcript.options
    transcript.save(tmp_path / "one.jsonl")
    assert srl_envs.replay(srl_envs.load_transcript(tmp_path / "one.jsonl")) == transcript
