"""`srl plan kv`: its output, and one line for each mistake."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from srl_agents.caching.simulation.traces import Request, write_trace
from srl_agents.cli.main import _run
from srl_agents.cli.plan.main import main
from srl_agents.cli.plan.run import show
from srl_agents.memory.devices import DEVICES, target_of
from srl_agents.memory.planner import plan
from srl_agents.recipes.loading import find_recipe
from srl_agents.recipes.plan_description import describe
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A prompt of three blocks asked twice, another between."""
    path = tmp_path / "trace.jsonl.gz"
    chains = [(1, 2, 3), (4, 5, 6), (1, 2, 3)]
    write_trace(path, [Request(float(n), 1500, 20, chain) for n, chain in enumerate(chains)])
    return path


def test_json_has_the_direct_count_without_a_limit(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kv", "--trace", str(trace), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)

    assert numbers["hit_rate"] == numbers["hit_rate_possible"] == pytest.approx(3 / 9)
    assert numbers["ttft_s"]["p99"] >= numbers["ttft_s"]["p50"] > 0
    assert numbers["objectives"] == {"ttft_s": 2.0, "tbt_s": 0.1}


@pytest.mark.parametrize(("policy", "expected"), [("lru", 0.0), ("oracle", 3 / 9)])
def test_a_capacity_in_tokens_limits_the_policy(
    policy: str, expected: float, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--tiers", "tokens=2000", "--policy", policy]
    assert main(["kv", "--trace", str(trace), *size, "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["hit_rate"] == pytest.approx(expected)


def test_the_table_names_every_tier(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiers = ["--tiers", "device=10GB", "disk=1TB@7GB/s"]
    assert main(["kv", "--trace", str(trace), *tiers]) == 0
    text = capsys.readouterr().out

    for word in ("device", "disk", "oracle", "first token", "between tokens", "MFU"):
        assert word in text


def test_a_node_that_dies_is_said(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kv", "--trace", str(trace), "--nodes", "2", "--fail", "0@0.01"]) == 0

    assert "started again" in capsys.readouterr().out


def test_the_plot_is_one_well_formed_picture(trace: Path, tmp_path: Path) -> None:
    figure = tmp_path / "times.svg"
    assert main(["kv", "--trace", str(trace), "--json", "--plot", str(figure)]) == 0

    root = ElementTree.fromstring(figure.read_text())
    assert root.tag.endswith("svg")
    assert len([node for node in root if node.tag.endswith("polyline")]) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kv", "--trace", "none.jsonl"], "none.jsonl"),
        (["kv", "--trace", "TRACE", "--policy", "lruu"], "'lru'"),
        (["kv", "--trace", "TRACE", "--tiers", "host=1"], "host=1"),
        (["kv", "--trace", "TRACE", "--tiers", "host=1GB", "tokens=999"], "the only cache"),
        (["kv", "--trace", "TRACE", "--tiers", "tokens=1"], "at least one block"),
        (["kv", "--trace", "TRACE", "--tiers", "tokens=0"], "expected 1 to"),
        (["kv", "--trace", "TRACE", "--tiers", "tokens=" + "9" * 400], "expected 1 to"),
        (["kv", "--trace", "TRACE", "--capacity-tokens", "9"], "write --tiers tokens=N"),
        (["kv", "--trace", "TRACE", "--model", "8b"], "model='8b'"),
        (["kv", "--trace", "TRACE", "--device", "h1000"], "'h100'"),
        (["kv", "--trace", "TRACE", "--link", "wire"], "link='wire'"),
        (["kv", "--trace", "TRACE", "--fail", "0"], "fail='0'"),
        (["kv", "--trace", "TRACE", "--plot", "a.png"], ".svg"),
        (["kv", "--trace", "TRACE", "--plot", "no/where.svg"], "where.svg"),
        (["kv", "--trace", "TRACE", "--tokens-per-block", "16"], "--tokens-per-block was removed"),
        (["kv", "--trace", "TRACE", "--mfu", "0.4"], "--mfu was removed"),
        (["kw"], "no recipe 'kw'"),
        (["quickstart-tiny", "--device", "a10"], "no such device"),
        (["population-connect-four"], "nothing to plan"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Entry:
        name = "plan"

        @staticmethod
        def load() -> object:
            return main

    given = [str(trace) if argument == "TRACE" else argument for argument in arguments]
    assert _run(Entry(), given) == 2  # type: ignore[arg-type]
    error = capsys.readouterr().err

    assert said in error
    assert error.count("\n") == 1


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    with pytest.raises(SystemExit):
        main(["kv", "--help"])

    assert "srl plan kv --trace" in capsys.readouterr().out


def test_no_plan_of_cards_prints_a_time_without_end(capsys: pytest.CaptureFixture[str]) -> None:
    """With too few cards nothing fits, so nothing is moved either."""
    main(["parallel", "--cards", "8"])
    text = capsys.readouterr().out
    assert "does not" in text
    assert not re.search(r"\b(inf|nan)\b", text)


RECIPES = sorted(path.stem for path in find_recipe("quickstart-tiny").parent.glob("*.yaml"))


def every_number(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from every_number(item)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.nightly
@pytest.mark.parametrize("name", RECIPES)
def test_every_number_of_a_plan_is_finite_and_possible(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = read_recipe(find_recipe(name))
    if not isinstance(recipe, LeagueRecipe):
        return
    for device in (*DEVICES, "cpu", "1B", "1000TB"):
        target = target_of(device)
        made = plan(describe(recipe, accelerator=target.accelerator), target)
        numbers = made.numbers()
        assert all(math.isfinite(number) and number >= 0 for number in every_number(numbers))
        assert 0 < numbers["model_flop_utilisation"] <= 1
        assert not target.accelerator or 0 < numbers["seconds_per_update"] < 86_400
        show(made)
        assert not re.search(
            r"\b(inf|nan)\b| -\d", capsys.readouterr().out.partition("Expected")[2]
        )


@pytest.mark.parametrize("size", ["1e400GB", "1e16B", "2000TB"])
def test_no_size_beyond_all_devices_is_planned(size: str) -> None:
    with pytest.raises(ConfigError, match="1000TB at most"):
        target_of(size)
