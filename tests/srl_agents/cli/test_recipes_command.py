"""`srl recipes`: every shipped recipe with hardware, time and what is proven, and any one of them whole."""

from __future__ import annotations

import json

import pytest

from benchmarks.learning.shipped_recipes import on_cards
from srl_agents.cli.plan.recipes import PROVEN, main
from srl_agents.recipes.loading import SHIPPED
from srl_envs.errors import ConfigError


def test_it_lists_every_shipped_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {path.stem for path in SHIPPED.glob("*.yaml")}
    assert all(row["what"] and row["games"] for row in rows.values())
    card = rows["qwen2.5-7b-80gb"]
    assert (card["device"], card["games"]) == ("a100-80gb", ["negotiation-v0"])
    assert 30 < card["memory_gib"] < 40
    assert card["hours"] < 12
    assert rows["quickstart-tiny"]["device"] == "cpu"
    assert rows["population-connect-four"]["memory_gib"] is None


def test_what_is_proven_is_what_ran() -> None:
    proven = json.loads(PROVEN.read_text("utf-8"))
    assert set(proven) <= {path.stem for path in SHIPPED.glob("*.yaml")}
    for name, row in on_cards().items():
        assert proven[name] == row
    for name, row in proven.items():
        assert row.get("on") == "cpu" or name in on_cards()


def test_one_is_printed_as_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quickstart-tiny"]) == 0
    assert capsys.readouterr().out == (SHIPPED / "quickstart-tiny.yaml").read_text("utf-8")
    with pytest.raises(ConfigError, match="quickstart-tiny"):
        main(["quickstart-tinny"])
