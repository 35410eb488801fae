"""A recipe's ``engine`` section reaches the loop."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.engines.settings import ENGINE, EngineSite
from srl_agents.engines.vllm.settings import VLLMSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError

ASK = GenerationRequest(observation="rock, paper, scissors " * 20, version=None, key=(1,))


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "http://me:secret@h:8000", "http://h:8000?key=secret", "ftp://secret@h"],
)
def test_an_address_of_vllm_holds_no_key(url: str) -> None:
    with pytest.raises(ConfigError, match="give an address such as") as caught:
        VLLMSettings(url=url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "kept"),
    [
        ({}, True),
        ({"cache_gib": 0}, False),
        ({"cache_gib": 0, "host_gib": 0.01, "eviction": "learned"}, True),
        ({"cache_gib": 0, "disk_gib": 0.01}, True),
        ({"cache_type": "int8"}, True),
        ({"cache_gib": 0, "disk_gib": 0.01, "cache_type": "int8"}, True),
    ],
)
def test_a_section_decides_what_is_kept(
    base: BaseModel, tmp_path: Path, section: dict[str, Any], kept: bool
) -> None:
    site = EngineSite(
        base=base,
        sampling=SamplingSettings(max_new_tokens=2),
        batch_rows=4,
        open_update=lambda _: {},
        folder=tmp_path,
    )
    engine = ENGINE.convert({"kind": "transformers", **section}, "engine").make_engine(site)
    first, second = (asyncio.run(engine.generate(ASK)) for _ in range(2))
    assert first.cached_tokens == 0
    assert (second.cached_tokens > 0) == kept
    assert second.token_ids == first.token_ids
    assert any(path.is_file() for path in tmp_path.rglob("*")) == ("disk_gib" in section)
    asyncio.run(engine.close())
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "wrong",
    [{"cache_gib": -1}, {"live_gib": 0}, {"step_tokens": 0}, {"read_in_place": 0}, {"eviction": "fifo"},
     {"host_gib": -1}, {"disk_gib": float("inf")}, {"cache_type": "int4"}],
)  # fmt: skip
def test_an_impossible_value_is_refused_without_a_model(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"engine: {name}"):
        ENGINE.convert(wrong, "engine")


def test_a_run_that_repeats_bit_for_bit_keeps_nothing_in_8_bits() -> None:
    eight = ["engine.cache_type=int8"]
    quickstart = find_recipe("quickstart-tiny")
    load(LeagueRecipe, quickstart, [*eight, "rollout.order=free"])
    with pytest.raises(ConfigError, match=r"cache_type='int8', rollout.order='exact'"):
        load(LeagueRecipe, quickstart, [*eight, "rollout.order=exact"])


def test_a_run_with_more_versions_than_a_server_holds_is_refused_with_its_recipe() -> None:
    """Two learners, each with its present version and three of its past."""
    run = ["updates=9", "snapshot_every=2", "opponents.past_limit=3", "engine.kind=vllm"]
    quickstart = find_recipe("quickstart-tiny")
    load(LeagueRecipe, quickstart, [*run, "engine.max_versions=8"])
    with pytest.raises(ConfigError, match="max_versions=7: this run plays 8 versions at once"):
        load(LeagueRecipe, quickstart, [*run, "engine.max_versions=7"])
