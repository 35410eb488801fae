"""Choice of frozen versions that stay opponents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.league.retention import RetentionSettings, kept
from srl_envs.errors import ConfigError

THIN = RetentionSettings(thinning=True)


def pool(n: int, recent: int, settings: RetentionSettings) -> list[int]:
    """Ordinals that are kept when ``n`` versions were frozen one after the other."""
    versions: list[str] = []
    ordinals: dict[str, int] = {}
    for k in range(n):
        versions.append(f"a@{k}")
        ordinals[f"a@{k}"] = k
        versions = kept(versions, ordinals, recent, settings)
    return [ordinals[v] for v in versions]


def test_recency_alone_keeps_the_newest() -> None:
    assert pool(20, 3, RetentionSettings()) == [17, 18, 19]


def test_thinning_by_hand() -> None:
    """Recent 4; then every second up to age 8, every fourth up to 16, every eighth up to 32."""
    assert pool(33, 4, THIN) == [0, 8, 16, 20, 24, 26, 28, 29, 30, 31, 32]


@given(st.integers(1, 200), st.integers(1, 8))
def test_thinning_keeps_the_first_and_logarithmically_many(n: int, recent: int) -> None:
    stay = pool(n, recent, THIN)
    assert stay[0] == 0
    assert stay[-recent:] == list(range(max(0, n - recent), n))
    assert len(stay) <= recent * (2 + n.bit_length()) + n.bit_length()


def test_the_hard_and_the_supporting_stay() -> None:
    versions = [f"a@{k}" for k in range(6)]
    ordinals = {v: k for k, v in enumerate(versions)}
    settings = RetentionSettings(hard_below=0.4, support=True)
    stay = kept(versions, ordinals, 1, settings, hardness={"a@1": 0.3, "a@2": 0.5}, support=["a@3"])
    assert stay == ["a@1", "a@3", "a@5"]
    assert kept(versions, ordinals, 1, RetentionSettings(), support=["a@3"]) == ["a@5"]


def test_nothing_frozen_yet() -> None:
    assert kept([], {}, 3, THIN) == []
    with pytest.raises(ConfigError, match="hard_below=2"):
        RetentionSettings(hard_below=2)
