"""Ids name weights for ever; labels are what people read and write, where they are unique."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.league.agents import find_agent, labels
from srl_agents.records import WeightVersion, label_of
from srl_envs.errors import ConfigError

ALICE, OTHER = "alice@3-9f2c1a0b7d5e4c31", "alice@3-0000000000000000"


def test_tables_show_labels_and_whole_ids_where_two_read_alike() -> None:
    assert labels([ALICE, "bot:random", "tiny"]) == {
        ALICE: "alice@3", "bot:random": "bot:random", "tiny": "tiny",
    }  # fmt: skip
    assert labels([ALICE, OTHER]) == {ALICE: ALICE, OTHER: OTHER}


def test_commands_take_ids_and_unique_labels() -> None:
    assert find_agent("alice@3", [ALICE, "tiny"]) == find_agent(ALICE, [ALICE, OTHER]) == ALICE
    with pytest.raises(ConfigError, match=f"'alice@3' may be {ALICE} or {OTHER}"):
        find_agent("alice@3", [ALICE, OTHER])
    with pytest.raises(ConfigError, match=r"no agent 'alice@4'. Did you mean 'alice@3'\?"):
        find_agent("alice@4", [ALICE, "tiny"])


@given(
    st.from_regex(r"[^\W\d]\w*", fullmatch=True),
    st.integers(0, 10**9),
    st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
)
def test_a_version_is_what_its_id_says(learner: str, number: int, digest: str) -> None:
    version = WeightVersion(learner, number, digest)
    assert WeightVersion.parse(str(version)) == version
    assert label_of(str(version)) == version.label == f"{learner}@{number}"


@given(st.text())
def test_other_texts_are_no_versions(text: str) -> None:
    try:
        version = WeightVersion.parse(text)
    except ConfigError:
        assert label_of(text) == text
    else:
        assert str(version) == text
