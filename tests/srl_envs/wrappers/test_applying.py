"""Wrappers from plain values: what `srl_envs.make` takes, and what it refuses."""

import json
import re
from typing import Any

import pytest

import srl_envs
from srl_envs.errors import ConfigError, TranscriptError
from srl_envs.parallel import GameEnv
from srl_envs.reading.wrapper_kinds import WRAPPERS, code_named_by
from srl_envs.testing.episodes import record
from srl_envs.wrappers import HistoryWindow, PotentialShaping, TurnLimit, Wrapper

HERE = __name__
LIMIT = {"kind": "TurnLimit", "steps": 5}


class Shout(Wrapper):
    """Shows everything in capitals, after a word of the caller's."""

    def __init__(self, env: GameEnv, *, word: str) -> None:
        super().__init__(env)
        self.word = word

    def settings(self) -> dict[str, Any]:
        return {"word": self.word}


class Forgetful(Shout):
    """Does not say what it was made with."""

    def settings(self) -> dict[str, Any]:
        return {}


def size(text: str, seat: int) -> float:
    return len(text) / 1000


def test_plain_values_make_what_the_classes_make() -> None:
    values = [{"kind": "HistoryWindow", "turns": 2}, LIMIT]
    plain = srl_envs.make("connect_four-v0", wrappers=values, rows=5)
    by_hand = TurnLimit(HistoryWindow(srl_envs.make("connect_four-v0", rows=5), turns=2), steps=5)
    assert plain.options == by_hand.options
    assert record(plain, 3) == record(by_hand, 3)


@pytest.mark.parametrize(
    "values",
    [
        [LIMIT],
        [{"kind": "ObservationNoise", "rate": 0.1}, {"kind": "HistoryWindow", "turns": 1}],
        [{"kind": "PotentialShaping", "potential": f"{HERE}:size"}],
        [{"kind": f"{HERE}:Shout", "word": "HEY"}],
    ],
)
def test_what_options_say_makes_the_same_environment(values: list[dict[str, Any]]) -> None:
    env = srl_envs.make("nim-v0", wrappers=values)
    options = json.loads(json.dumps(env.options))
    again = srl_envs.make("nim-v0", **options)
    assert again.options == options
    assert record(again, 3) == record(env, 3)


def test_every_name_is_that_of_its_class() -> None:
    for kind, target in WRAPPERS.items():
        assert target.endswith(f":{kind}")
        assert kind in srl_envs.wrappers.__all__


def test_views_and_vectors_take_the_same_values() -> None:
    single = srl_envs.make_single("nim-v0", wrappers=[LIMIT])
    single.reset(seed=0)
    for _ in range(5):
        _, _, terminated, truncated, _ = single.step("no move")
        if terminated or truncated:
            break
    assert truncated or terminated
    with srl_envs.make_vec("nim-v0", 2, workers=1, wrappers=[{**LIMIT, "steps": 1}]) as vec:
        vec.reset(seed=0)
        assert vec.step(["no move"] * 2).truncations_E.all()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("TurnLimit", "expected a list"),
        (["TurnLimit"], "write `kind: NAME`"),
        ([{"steps": 3}], "write `kind: NAME`"),
        ([{"kind": "TurnLimits", "steps": 3}], "wrappers[0]: TurnLimits is not a wrapper. Did you"),
        ([{"kind": "Recording", "path": "x"}], "is not a wrapper"),
        (
            [LIMIT, {"kind": "HistoryWindow", "turn": 3}],
            "wrappers[1]: HistoryWindow: unknown argument",
        ),
        ([{"kind": "TurnLimit"}], "give steps"),
        ([{"kind": "TurnLimit", "steps": 0}], "wrappers[0]: TurnLimit: TurnLimit: steps=0"),
        ([{"kind": "nowhere.to:Be"}], "cannot be loaded"),
        ([{"kind": f"{HERE}:size"}], "is not a subclass of srl_envs.wrappers.Wrapper"),
        ([{"kind": f"{HERE}:Forgetful", "word": "x"}], "do not return word"),
        ([{"kind": "srl_envs.wrappers:Recording", "path": "x"}], "do not return path"),
        ([{"kind": "PotentialShaping", "potential": "os:nothing"}], "cannot be loaded"),
        ([{"kind": "PotentialShaping", "potential": "decimal:Decimal"}], "is not a function"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(values: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        srl_envs.make("nim-v0", wrappers=values)


def test_a_record_runs_no_code_that_it_names() -> None:
    """A file may come from a stranger: code that it names is imported only by its own author."""
    env = PotentialShaping(srl_envs.make("nim-v0"), potential=size)
    transcript = srl_envs.play(env, {0: "random", 1: "random"}, seed=1)
    assert code_named_by(transcript.options) == (f"{HERE}:size",)
    with pytest.raises(TranscriptError, match="which a record may name but not run"):
        srl_envs.replay(transcript)
    assert srl_envs.replay(transcript, env) == transcript


def test_components_have_the_names_that_were_declared() -> None:
    for env_id in ("nim-v0", "negotiation-v0"):
        env = PotentialShaping(srl_envs.make(env_id), potential=size)
        transcript = srl_envs.play(env, dict.fromkeys((0, 1), "random"), seed=2)
        for own in transcript.components:
            assert set(own) == {*env.paid_names, *env.statistic_names}
