import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.errors import ConfigError
from srl_envs.wrappers import ObservationNoise
from srl_envs.wrappers.noise import garble_characters, garble_lines
from srl_envs.wrappers.observed_text import split_text


def opening(env: ObservationNoise, seed: int = 0, agent: str = "player_0") -> str:
    return env.reset(seed=seed)[0][agent]["text"]


def noisy(**settings: object) -> ObservationNoise:
    return ObservationNoise(srl_envs.make("connect_four-v0"), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", ["character", "line"])
def test_rules_and_notices_stay_and_the_position_is_garbled(level: str) -> None:
    clean = srl_envs.make("connect_four-v0")
    env = noisy(rate=0.9, level=level)
    plain, garbled = clean.reset(seed=0)[0], env.reset(seed=0)[0]
    (agent,) = (a for a, seen in plain.items() if seen["can_act"])
    for _ in range(2):  # before and after a refused reply
        mine, theirs = (split_text(seen[agent]["text"]) for seen in (plain, garbled))
        assert theirs.rules == mine.rules
        assert theirs.notice == mine.notice
        assert theirs.position != mine.position
        plain, garbled = clean.step({agent: "no"})[0], env.step({agent: "no"})[0]


def test_without_noise_nothing_changes() -> None:
    clean = srl_envs.make("connect_four-v0").reset(seed=0)
    assert noisy(rate=0).reset(seed=0) == clean
    assert noisy(rate=0.0, level="line").reset(seed=0) == clean


def test_noise_follows_from_its_seed_and_the_episode() -> None:
    once = opening(noisy(rate=0.5))
    assert opening(noisy(rate=0.5)) == once
    assert opening(noisy(rate=0.5, seed=1)) != once
    assert opening(noisy(rate=0.5), seed=1) != once


def test_seats_that_see_the_same_text_read_it_differently() -> None:
    clean = srl_envs.make("iterated_dilemma-v0", kinds=["prisoner"])
    position = slice(-150, None)  # the end, which does not name the seat
    first, second = (seen["text"][position] for seen in clean.reset(seed=0)[0].values())
    assert first == second
    garbled, _ = ObservationNoise(clean, rate=0.3).reset(seed=0)
    assert garbled["player_0"]["text"][position] != garbled["player_1"]["text"][position]


def test_asking_again_shows_the_same_noise() -> None:
    """A retry must not be a second look."""
    env = noisy(rate=0.5)
    observations, _ = env.reset(seed=0)
    (agent,) = (a for a, seen in observations.items() if seen["can_act"])
    again = env.step({agent: "no"})[0][agent]["text"]
    assert split_text(again).position == split_text(observations[agent]["text"]).position


def test_the_share_of_garbled_characters_is_the_rate() -> None:
    text = "ab" * 20_000
    changed = garble_characters(text, 0.2, np.random.default_rng(0))
    share = sum(a != b for a, b in zip(text, changed, strict=True)) / len(text)
    assert 0.09 < share < 0.11, "half of the draws give the same letter again"


@given(st.text(), st.floats(0, 1))
def test_line_breaks_and_length_are_kept(text: str, rate: float) -> None:
    characters = garble_characters(text, rate, np.random.default_rng(0))
    lines = garble_lines(text, rate, np.random.default_rng(0))
    assert len(characters) == len(text) >= len(lines)
    breaks = [at for at, letter in enumerate(text) if letter == "\n"]
    assert [at for at, letter in enumerate(characters) if letter == "\n"] == breaks
    assert set(characters) <= set(text)
    assert lines.count("\n") == text.count("\n")
    for before, after in zip(text.split("\n"), lines.split("\n"), strict=True):
        assert after in (before, "..."[: len(before)])


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"rate": 1.5}, "rate=1.5"),
        ({"rate": -0.1}, "rate=-0.1"),
        ({"rate": float("nan")}, "rate=nan"),
        ({"rate": 0.1, "level": "lines"}, "Did you mean 'line'"),
        ({"rate": 0.1, "seed": -1}, "seed=-1"),
    ],
)
def test_impossible_noise_is_refused(settings: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        noisy(**settings)
