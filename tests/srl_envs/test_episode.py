import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_envs.api.episode import Recorder
from srl_envs.errors import ConfigError, PolicyError, SandboxError, TranscriptError
from srl_envs.registry import Policy


def bots(env_id: str = "connect_four-v0", name: str = "middle") -> dict[int, Policy]:
    return {seat: srl_envs.make_bot(env_id, name, seed=seat) for seat in (0, 1)}


def played(env_id: str = "connect_four-v0", **options: Any) -> srl_envs.Transcript:
    return srl_envs.play(srl_envs.make(env_id, **options), bots(env_id), seed=7)


def test_play_records_what_happened() -> None:
    env = srl_envs.make("connect_four-v0", rows=4, cols=4, k=3)
    transcript = srl_envs.play(env, bots(), seed=7, split="eval")
    assert transcript.options == {"rows": 4, "cols": 4, "k": 3}
    assert (transcript.split, transcript.seed) == ("eval", 7)
    assert transcript.outcomes == env.outcomes
    assert sum(transcript.outcomes) == 0.0
    assert transcript.rewards == pytest.approx(
        [parts["outcome"] + parts["format"] for parts in transcript.components]
    )
    assert sum(parts["pieces"] for parts in transcript.components) == len(transcript.steps)
    assert (transcript.forfeited, transcript.truncated) == ((), False)


def test_on_step_sees_what_was_answered() -> None:
    env = srl_envs.make("math_duel-v0")
    seen: list[tuple[str, str]] = []

    def on_step(observations: dict[str, dict[str, Any]], step: srl_envs.Step) -> None:
        seen.append((str(observations["player_0"]["text"]), step.replies[0]))

    transcript = srl_envs.play(env, bots("math_duel-v0"), seed=1, on_step=on_step)
    assert [reply for _, reply in seen] == [step.replies[0] for step in transcript.steps]
    assert ["Problem 1 of 5" in seen[0][0], "Problem 5 of 5" in seen[-1][0]] == [True, True]


def test_play_without_a_seed_goes_on_to_new_episodes() -> None:
    env = srl_envs.make("math_duel-v0")
    env.reset(seed=1)
    seeds = [srl_envs.play(env, bots("math_duel-v0")).seed for _ in range(3)]
    assert len(set(seeds)) == 3


def test_a_seat_without_a_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no policy for \[1\]"):
        srl_envs.play(srl_envs.make("connect_four-v0"), {0: str}, seed=0)


def test_a_policy_that_raises_is_named_and_the_environment_lives_on() -> None:
    env = srl_envs.make("connect_four-v0")

    def broken(text: str) -> str:
        raise ZeroDivisionError("my sums")

    with pytest.raises(
        PolicyError, match=r"seed 7: the policy of seat \d raised ZeroDivisionError: my sums"
    ):
        srl_envs.play(env, {**bots(), 0: broken}, seed=7)
    assert srl_envs.play(env, bots(), seed=7) == played()


def test_errors_of_ours_pass_through_a_policy() -> None:
    def stops(text: str) -> str:
        raise SandboxError("gone")

    with pytest.raises(SandboxError, match="gone"):
        srl_envs.play(srl_envs.make("math_duel-v0"), {**bots("math_duel-v0"), 1: stops}, seed=1)


@pytest.mark.parametrize("env_id", ["connect_four-v0", "math_duel-v0"])
@pytest.mark.parametrize("options", [{}, {"invalid": "random_legal"}, {"max_retries": 0}])
def test_a_transcript_survives_the_disk_and_replays(
    env_id: str, options: dict[str, Any], tmp_path: Path
) -> None:
    env = srl_envs.make(env_id, **options)
    players = bots(env_id)
    players[1] = lambda _: "\ud800 \x00 no block é"
    transcript = srl_envs.play(env, players, seed=3)
    assert {"malformed"} <= {label for step in transcript.steps for label in step.invalid}
    transcript.save(tmp_path / "episode.jsonl")
    loaded = srl_envs.load_transcript(tmp_path / "episode.jsonl")
    assert loaded == transcript
    assert srl_envs.replay(loaded) == transcript


@pytest.mark.parametrize(
    "change",
    [
        {"rewards": (9.0, -9.0)},
        {"outcomes": (1.0, 1.0)},
        {"seed": 8},
        {"split": "eval"},
        {"digest": "0"},
        {"forfeited": (0,)},
        {"components": ({}, {})},
        {"options": {"max_retries": 1}},
    ],
)
def test_a_forged_transcript_does_not_replay(change: dict[str, Any]) -> None:
    with pytest.raises(TranscriptError):
        srl_envs.replay(replace(played("math_duel-v0"), **change))


def test_replies_left_out_added_or_swapped_do_not_replay() -> None:
    transcript = played("math_duel-v0")
    first = transcript.steps[0]
    for steps in (
        transcript.steps[:-1],
        (*transcript.steps, first),
        (replace(first, replies={0: first.replies[0]}), *transcript.steps[1:]),
        (replace(first, replies={0: "x", 1: first.replies[1]}), *transcript.steps[1:]),
        (replace(first, invalid=("illegal", None)), *transcript.steps[1:]),
    ):
        with pytest.raises(TranscriptError):
            srl_envs.replay(replace(transcript, steps=steps))


def test_a_changed_rule_breaks_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = played()
    monkeypatch.setattr("srl_envs.turns.conduct.FORMAT_COST", 0.06)
    srl_envs.replay(transcript)  # no seat was charged, so nothing differs
    game = type(srl_envs.make(transcript.env_id).game)
    observe = game.observe
    monkeypatch.setattr(game, "observe", lambda *arguments: observe(*arguments).upper())
    with pytest.raises(TranscriptError, match="digest differ"):
        srl_envs.replay(transcript)


def test_files_that_are_no_transcript_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "episode.jsonl"
    played().save(path)
    lines = path.read_text().splitlines()
    header = json.loads(lines[0])
    for text in (
        "",
        "not json",
        "[]",
        "\n".join(lines[:-1]),
        "\n".join(lines[1:]),
        "\n".join([json.dumps({**header, "format": 99}), *lines[1:]]),
        "\n".join([json.dumps({**header, "extra": 1}), *lines[1:]]),
        path.read_text()[:-40],
    ):
        path.write_text(text)
        with pytest.raises(TranscriptError, match=r"episode\.jsonl"):
            srl_envs.load_transcript(path)
    with pytest.raises(TranscriptError, match="absent"):
        srl_envs.load_transcript(tmp_path / "absent.jsonl")


def test_rotating_seats_of_the_same_seed_mirrors_the_match() -> None:
    first, second = bots().values()
    assert srl_envs.rotate_seats({0: first, 1: second}) == {1: first, 0: second}
    three = srl_envs.rotate_seats({0: first, 1: second, 2: str}, by=2)
    assert three == {2: first, 0: second, 1: str}
    env = srl_envs.make("connect_four-v0")
    wins = [
        srl_envs.play(
            env,
            srl_envs.rotate_seats(
                {
                    0: srl_envs.make_bot("connect_four-v0", "strong", seed=1),
                    1: srl_envs.make_bot("connect_four-v0", "random", seed=2),
                },
                by,
            ),
            seed=5,
        ).outcomes[by]
        for by in (0, 1)
    ]
    assert wins == [1.0, 1.0]


def test_half_a_surrogate_pair_on_show_is_recorded() -> None:
    """A game may show one seat what another wrote, and models write anything."""
    env = srl_envs.make("connect_four-v0")
    seen, _ = env.reset(seed=0)
    seen["player_0"]["text"] = "it said \ud800"
    recorded = Recorder(env, seen).transcript()
    assert recorded.digest != Recorder(env, env.reset(seed=0)[0]).transcript().digest
