"""Rows of announced experiments: whatever is missing, changed or unregistered is found by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.experiments import announced, rows
from srl_envs.errors import ConfigError
from tests.experiments.test_announced import PAGE

KNOWN = [announced.parse("a", PAGE)]


def row(arm: str, seed: int, **changes: Any) -> rows.Row:
    values = {
        "arena": "nim",
        "arm": arm,
        "seed": seed,
        "registration": KNOWN[0].digest,
        "cpu_s": 1.5,
    }
    return rows.sealed({**values, **changes})


@pytest.fixture
def collected(tmp_path: Path) -> Path:
    rows.save("a", [row("a", 0), row("b", 0)], tmp_path / "clone")
    new = rows.collect(tmp_path / "clone", tmp_path / "here", KNOWN)
    assert new == ["a/nim/a/0", "a/nim/b/0"]
    return tmp_path / "here"


def test_the_results_of_the_repository_are_as_they_were_collected() -> None:
    assert rows.faults() == []


def test_collecting_again_adds_only_what_is_new(collected: Path, tmp_path: Path) -> None:
    rows.save("a", [row("a", 0), row("a", 1), row("b", 0)], tmp_path / "clone")
    assert rows.collect(tmp_path / "clone", collected, KNOWN) == ["a/nim/a/1"]
    assert rows.faults(collected, KNOWN) == []
    assert len(rows.load("a", collected)) == 3


def test_a_missing_row_is_named(collected: Path) -> None:
    rows.save("a", [row("a", 0)], collected)
    assert rows.faults(collected, KNOWN) == ["a/nim/b/0 is missing."]


def test_a_changed_row_is_named(collected: Path) -> None:
    path = collected / "a.jsonl"
    path.write_text(path.read_text().replace('"cpu_s":1.5', '"cpu_s":0.5', 1))
    assert rows.faults(collected, KNOWN) == ["a/nim/a/0 was changed after it was measured."]


def test_a_row_that_was_measured_again_is_named(collected: Path, tmp_path: Path) -> None:
    rows.save("a", [row("a", 0, cpu_s=9.0), row("b", 0)], collected)
    assert rows.faults(collected, KNOWN) == ["a/nim/a/0 was changed after it was collected."]
    rows.save("a", [row("a", 0, cpu_s=7.0)], tmp_path / "clone")
    with pytest.raises(ConfigError, match="a/nim/a/0 was collected before"):
        rows.collect(tmp_path / "clone", collected, KNOWN)


def test_an_unregistered_row_is_named(collected: Path, tmp_path: Path) -> None:
    changed = [announced.parse("a", PAGE.replace("A title", "A better question"))]
    assert [fault.partition(":")[0] for fault in rows.faults(collected, changed)] == [
        "a/nim/a/0 is unregistered",
        "a/nim/b/0 is unregistered",
    ]
    rows.save("a", [row("c", 0), row("a", 900)], tmp_path / "clone")
    with pytest.raises(
        ConfigError, match=r"a/nim/a/900 is unregistered.*a/nim/c/0 is unregistered"
    ):
        rows.collect(tmp_path / "clone", collected, KNOWN)


def test_a_row_beside_the_ledger_is_named(collected: Path) -> None:
    ledger = {"a/nim/a/0": row("a", 0)["digest"]}
    (collected / rows.LEDGER).write_text(json.dumps(ledger))
    assert rows.faults(collected, KNOWN) == ["a/nim/b/0 is in no ledger."]
