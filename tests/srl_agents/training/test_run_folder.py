"""A folder's run goes on with settings that compute the same, and refuses others by their keys."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from srl_agents.league.settings import EvaluationSettings, OpponentSettings
from srl_agents.recipes.population_settings import AgentSettings, PopulationRecipe
from srl_agents.recipes.sections.base_models import ModelSettings
from srl_agents.recipes.sections.rollout import RolloutSettings
from srl_agents.recipes.sections.warm_start import WarmStartSettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightVersion
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.supervised.sft_settings import SFTSettings
from srl_agents.training.folder.layout import (
    RECIPE,
    as_begun,
    changes_of,
    check_folder,
    link_label,
    snapshots_in,
    write_recipe,
)
from srl_agents.transports.settings import FilesSettings
from srl_envs.errors import ConfigError

RUN = LeagueRecipe(name="r", model="tiny", env="nim-v0")


@pytest.mark.parametrize(
    "changes",
    [
        {"updates": 40},
        {"device": "cpu"},
        {"rollout": RolloutSettings(concurrency=7, batch_rows=3)},
        {"keep_checkpoints": 5, "checkpoint_every": 1},
        {"report_to": ("trackio",)},
        {"transport": FilesSettings()},
        {"evaluation": EvaluationSettings(final_pairs=1)},
    ],
)
def test_what_is_computed_alike_may_change(changes: dict[str, Any], tmp_path: Path) -> None:
    write_recipe(RUN, tmp_path)
    check_folder(replace(RUN, **changes), tmp_path)


def test_a_run_keeps_how_it_shares_prefixes_where_the_recipe_leaves_it_open(tmp_path: Path) -> None:
    """Runs of versions whose default was false round as they did, in the warm start, too."""
    warm = WarmStartSettings(bots=("middle",), training=SFTSettings(share_prefixes=False))
    begun = replace(RUN, training=GRPOSettings(share_prefixes=False), warm_start=warm)
    here = replace(begun, training=GRPOSettings(), warm_start=replace(warm, training=SFTSettings()))
    assert as_begun(here, tmp_path) == here
    write_recipe(begun, tmp_path)
    check_folder(here, tmp_path)
    assert changes_of(here, tmp_path) == []
    assert as_begun(here, tmp_path) == begun
    asked = replace(here, training=GRPOSettings(share_prefixes=True))
    assert [change.key for change in changes_of(asked, tmp_path)] == ["training.share_prefixes"]
    assert as_begun(asked, tmp_path).training == asked.training


def test_a_run_of_several_bases_keeps_how_each_shares_prefixes(tmp_path: Path) -> None:
    bases = {
        name: ModelSettings(model="tiny", training=GRPOSettings(share_prefixes=share))
        for name, share in (("one", False), ("two", True))
    }
    left = {name: replace(own, training=GRPOSettings()) for name, own in bases.items()}
    learners = {"one": ("alice",), "two": ("bob",)}
    begun, here = (
        LeagueRecipe(
            name="r",
            env="nim-v0",
            models={name: replace(own, learners=learners[name]) for name, own in some.items()},
        )
        for some in (bases, left)
    )
    write_recipe(begun, tmp_path)
    assert as_begun(here, tmp_path) == begun
    assert changes_of(here, tmp_path) == []


def test_other_settings_are_refused_by_their_keys(tmp_path: Path) -> None:
    there = replace(RUN, training=GRPOSettings(weight_decay=0.2))
    write_recipe(there, tmp_path)
    here = replace(RUN, training=GRPOSettings(weight_decay=0.1), seed=3, updates=99)
    with pytest.raises(ConfigError) as caught:
        check_folder(here, tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} holds a run with other settings: training.weight_decay: 0.2 there, 0.1 here; "
        "seed: 0 there, 3 here. Set them back to continue it, or choose another folder with --out."
    )
    assert "delete" not in str(caught.value)


def test_a_section_that_comes_or_goes_is_named(tmp_path: Path) -> None:
    write_recipe(RUN, tmp_path)
    with pytest.raises(ConfigError, match=r"teams: \[\] there, \[0, 1\] here"):
        check_folder(replace(RUN, teams=(0, 1)), tmp_path)


def test_looks_that_samplers_read_may_not_change(tmp_path: Path) -> None:
    fewer = EvaluationSettings(every=3, pairs=2)
    for opponents, refused in (
        (OpponentSettings(prior="ratings"), True),
        (OpponentSettings(prior="even"), False),
    ):
        run = replace(RUN, opponents=opponents)
        write_recipe(run, tmp_path)
        with (
            pytest.raises(ConfigError, match=r"evaluation\.pairs: 20") if refused else nullcontext()
        ):
            check_folder(replace(run, evaluation=fewer), tmp_path)


def test_a_population_goes_on_with_more_matches_and_workers(tmp_path: Path) -> None:
    agents = (AgentSettings(agent="bot:random"), AgentSettings(agent="bot:middle"))
    population = PopulationRecipe(name="p", env="nim-v0", agents=agents)
    write_recipe(population, tmp_path)
    check_folder(replace(population, matches=9999, workers=2), tmp_path)
    with pytest.raises(ConfigError, match=r"temperature: 1\.0 there, 0\.5 here"):
        check_folder(replace(population, temperature=0.5), tmp_path)


@pytest.mark.parametrize("text", ["name: other\n", "{", "\udcff"])
def test_a_file_that_is_not_such_a_recipe_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / RECIPE).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=r"recipe\.yaml is of another recipe"):
        check_folder(RUN, tmp_path)


def test_settings_that_are_newer_than_the_folder_have_their_defaults(tmp_path: Path) -> None:
    write_recipe(RUN, tmp_path)
    path = tmp_path / RECIPE
    older = yaml.safe_load(path.read_text())
    del older["transport"]
    path.write_text(yaml.safe_dump(older))
    check_folder(RUN, tmp_path)


def test_unfinished_snapshots_are_none(tmp_path: Path) -> None:
    for name in ("bob@2-0123456789abcdef", "bob@2-0123456789abcdef.tmp", ".tmp-bob@1-0123"):
        (tmp_path / "snapshots" / name).mkdir(parents=True)
    assert snapshots_in(tmp_path) == ["bob@2-0123456789abcdef"]


def test_a_label_leads_to_the_only_snapshot_that_is_called_so(tmp_path: Path) -> None:
    first, second = (WeightVersion("bob", 2, digest * 16) for digest in "ab")
    label = tmp_path / "snapshots" / "bob@2"
    (tmp_path / "snapshots" / str(first)).mkdir(parents=True)
    link_label(tmp_path, first)
    link_label(tmp_path, first)
    assert label.resolve().name == str(first)
    assert snapshots_in(tmp_path) == [str(first)]
    (tmp_path / "snapshots" / str(second)).mkdir()
    link_label(tmp_path, second)
    assert not label.exists()
