"""Rows of announced experiments: whatever is missing, changed or unregistered is found by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.experiments import announced, rows, sweep
from benchmarks.learning.child_process import commit
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
        "commit": "abc",
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


def test_a_row_of_code_that_no_commit_has_is_named(tmp_path: Path) -> None:
    rows.save("a", [row("a", 0, commit="abc-changed")], tmp_path / "clone")
    with pytest.raises(ConfigError, match="a/nim/a/0 is unregistered: it was run by code"):
        rows.collect(tmp_path / "clone", tmp_path / "here", KNOWN)


def test_every_row_was_run_by_a_commit_that_had_its_page() -> None:
    """Announced before it was run: the row's own commit holds the page with the row's digest."""
    found = [row for page in announced.pages() for row in rows.load(page.name)]
    pages = {
        (r["experiment"], r["commit"]): sweep.page_at(r["commit"], r["experiment"]) for r in found
    }
    if found and all(digest is None for digest in pages.values()):
        pytest.skip("the history of the repository is not here")
    late = [
        f"{r['experiment']}/{rows.key_of(r)}"
        for r in found
        if pages[r["experiment"], r["commit"]] not in (None, r["registration"])
    ]
    assert late == []


def test_a_page_is_looked_up_in_a_commit() -> None:
    code = commit()
    if sweep.page_at(code, "no_such_page") is None:
        pytest.skip("needs a checkout of the repository")
    assert sweep.page_at(code, "no_such_page") == ""
    assert sweep.page_at("0" * 40, "credit_by_forks") is None


def test_a_row_beside_the_ledger_is_named(collected: Path) -> None:
    ledger = {"a/nim/a/0": row("a", 0)["digest"]}
    (collected / rows.LEDGER).write_text(json.dumps(ledger))
    assert rows.faults(collected, KNOWN) == ["a/nim/b/0 is in no ledger."]
