"""Geometries, rooflines and what users type."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from srl_agents.caching.simulation import hardware
from srl_agents.caching.simulation.hardware import (
    SHAPES,
    device,
    model_shape,
    parse_tiers,
    tier_worth,
)
from srl_envs.errors import ConfigError


def test_the_published_geometries_have_the_published_sizes() -> None:
    """Parameters as on the model cards: 7.62 and 14.8 billion."""
    assert SHAPES["7b"].weight_bytes / 2 == pytest.approx(7.62e9, rel=0.01)
    assert SHAPES["14b"].weight_bytes / 2 == pytest.approx(14.77e9, rel=0.01)
    assert SHAPES["7b"].kv_bytes_per_token == 57_344
    assert SHAPES["14b"].kv_bytes_per_token == 196_608


def test_a_geometry_is_read_from_a_config(tmp_path: Path) -> None:
    config = {
        "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    read = model_shape(str(tmp_path))

    assert read.weight_bytes == SHAPES["7b"].weight_bytes
    assert read.kv_bytes_per_token == SHAPES["7b"].kv_bytes_per_token
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="num_attention_heads"):
        model_shape(str(tmp_path))
    for text in (
        "[" * 100_000,
        json.dumps({**config, "num_attention_heads": 0}),
        json.dumps({**config, "vocab_size": math.inf}),
        json.dumps({**config, "num_hidden_layers": -28}),
    ):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ConfigError):
            model_shape(str(tmp_path))


def test_prefill_in_parts_costs_what_it_costs_at_once() -> None:
    shape = SHAPES["7b"]

    parts = shape.prefill_flops(0, 300) + shape.prefill_flops(300, 1000)
    assert parts == pytest.approx(shape.prefill_flops(0, 1000))


def test_a_step_takes_the_longer_of_arithmetic_and_memory() -> None:
    shape, on = SHAPES["7b"], device("h100")

    lone = on.step_seconds(shape, prefill_flops=0, batch=1)
    assert lone == pytest.approx(shape.weight_bytes / 3.35e12)
    assert on.step_seconds(shape, prefill_flops=989e12) == pytest.approx(2.0)


def test_tiers_are_sorted_and_take_a_rate() -> None:
    disk, host = "disk=4TB@7GB/s", "host=512GB"

    assert parse_tiers((disk, host)) == parse_tiers((f"{host},{disk}",))
    tiers = parse_tiers((disk, host, "device=30GB"))
    assert [(t.name, t.size_bytes, t.bytes_per_s) for t in tiers] == [
        ("device", 30e9, math.inf), ("host", 512e9, 50e9), ("disk", 4e12, 7e9)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["host", "host=", "host=5", "tape=5GB", "host=0GB", "device=5GB@1GB/s", "host=1GB,host=2GB"],
)
def test_what_is_no_tier_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_tiers((text,))


def test_links_have_names_or_rates() -> None:
    assert hardware.parse_link("none") is None
    assert hardware.parse_link("rdma") == hardware.LINKS["rdma"]
    link = hardware.parse_link("12GB/s@20us")
    assert link is not None
    assert link.bytes_per_s == 12e9
    assert link.latency_s == pytest.approx(20e-6)
    with pytest.raises(ConfigError, match="infiniband"):
        hardware.parse_link("infiniband")


def test_a_tier_pays_if_fetching_is_faster_and_the_prefix_returns_often_enough() -> None:
    shape, on = SHAPES["7b"], device("h100")
    fast = tier_worth(shape, on, 50e9, 1000)
    slow = tier_worth(shape, on, 1e9, 1000)

    assert fast.pays
    assert not slow.pays
    assert slow.break_even_chance == math.inf
    # one write and p fetches cost as much as p times reading anew
    p = fast.break_even_chance
    assert fast.fetch_s + p * fast.fetch_s == pytest.approx(p * fast.recompute_s)
