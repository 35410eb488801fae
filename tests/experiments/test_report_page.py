"""docs/report.md is what its rows say, and cannot be built from rows that are not."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.experiments import announced, report_page, rows
from srl_envs.errors import ConfigError
from tests.experiments.test_announced import PAGE

KNOWN = announced.parse("a", PAGE)


def row(arm: str, seed: int, last: float) -> dict[str, Any]:
    return {
        "arena": "nim", "arm": arm, "seed": seed, "tokens": 100 + seed, "trained_tokens": 50,
        "cpu_s": 36.0, "values": {"last": last, "peak": last + 0.01},
    }  # fmt: skip


def test_the_report_is_that_of_the_committed_rows() -> None:
    assert report_page.PAGE.read_text() == report_page.text(), (
        "run python -m benchmarks.experiments report"
    )


def test_the_build_fails_by_the_name_of_a_result(tmp_path: Path) -> None:
    name = announced.names()[0]
    page = announced.read(name)
    key = page.experiment.runs()[0]
    values = {**key._asdict(), "registration": page.digest, "cpu_s": 1.0, "commit": "abc"}
    rows.save(name, [rows.sealed(values)], tmp_path)
    with pytest.raises(ConfigError, match=f"report: {name}/{key} is in no ledger."):
        report_page.text(tmp_path)
    rows.collect(tmp_path, tmp_path)
    rows.save(name, [rows.sealed({**values, "registration": "another"})], tmp_path)
    with pytest.raises(ConfigError, match=f"{name}/{key} is unregistered: it names another"):
        report_page.write(tmp_path, tmp_path / "report.md", tmp_path)
    assert not (tmp_path / "report.md").exists()


def test_a_finished_arm_has_a_verdict_and_an_unfinished_one_has_none() -> None:
    whole = [row("a", 0, 0.5), row("a", 1, 0.6), row("b", 0, 0.7), row("b", 1, 0.8)]
    lines = [*report_page.table(KNOWN, "nim", whole)]
    assert lines[2] == "| a | 2 | 0.550 ± 0.635 | 0.560 |  |  |  |  | 100 | 50 |  | 36 |"
    assert lines[3] == (
        "| b | 2 | 0.750 ± 0.635 | 0.760 | +0.200 | [+0.200, +0.200] | 0.000 | better | 100 | 50 |  | 36 |"
    )
    apart = [one | {"training_mib": 700 + one["seed"]} for one in whole[:2]]
    assert "| 100 | 50 | 700 | 36 |" in [*report_page.table(KNOWN, "nim", apart)][2]
    (other,) = [*report_page.table(KNOWN, "nim", whole[:1])][2:]
    assert other.startswith("| a | 1 | 0.500 | 0.510 |  |  |  |  |")
    three = announced.parse("a", PAGE.replace("[0, 1]", "[0, 1, 2]"))
    assert "| unfinished |" in [*report_page.table(three, "nim", whole)][3]


def test_the_summary_names_finished_arms_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announced, "pages", lambda: iter([KNOWN]))
    values = [row("a", 0, 0.5), row("a", 1, 0.6), row("b", 0, 0.7)]
    rows.save("a", values, tmp_path)
    assert [*report_page.summary(tmp_path)][2:] == ["| a | nim | a | none yet |"]
    rows.save("a", [*values, row("b", 1, 0.8)], tmp_path)
    assert [*report_page.summary(tmp_path)][2:] == ["| a | nim | a | b +0.200 (better) |"]


def test_arms_without_a_run_count_as_comparisons() -> None:
    """Of two arms one has not run: the other's p is doubled."""
    values = [row("a", s, 0.1 * s) for s in (0, 1)] + [row("b", s, 0.3 * s + 0.1) for s in (0, 1)]
    (one,) = report_page.comparisons(KNOWN, "nim", values)
    more = announced.parse("a", PAGE.replace("arms: {a: {},", "arms: {a: {}, c: {model: x},"))
    two = {found.arm: found for found in report_page.comparisons(more, "nim", values)}
    assert one.p == two["b"].p == one.holm
    assert two["b"].holm == pytest.approx(2 * one.p)


def test_a_figure_has_every_arena_that_has_rows(tmp_path: Path) -> None:
    whole = [row(arm, seed, 0.5 + 0.1 * seed) for arm in "ab" for seed in (0, 1)]
    report_page.draw(KNOWN, whole, tmp_path / "a.svg")
    assert "nim: difference to a" in (tmp_path / "a.svg").read_text()
