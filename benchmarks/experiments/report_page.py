"""docs/report.md: `TEMPLATE`, with a table and a figure per experiment in place of its name.

The build fails with the names of results that are missing, changed or unregistered; see `rows.faults`. An arm
that has fewer seeds than its page announced is shown without a verdict, and p values are corrected for all
arms that were announced, run or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.experiments import announced, rows
from benchmarks.experiments.announced import ROOT, Page
from benchmarks.experiments.comparisons import Comparison, compare, half_width
from srl_envs.errors import ConfigError

PAGE = ROOT / "docs/report.md"
IMAGES = ROOT / "docs/images"
TEMPLATE = Path(__file__).parent / "report_template.txt"
SUMMARY = "summary"
"""Place of the table of all experiments."""
_PLACE = re.compile(r"^<<(\w+)>>$", flags=re.MULTILINE)
HEAD = (
    "| arm | seeds | last | peak | difference | 95 % | p, Holm | verdict | generated | trained | MiB "
    "| CPU s |",
    "|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|",
)


def write(results: Path = rows.RESULTS, page: Path = PAGE, images: Path = IMAGES) -> None:
    """Write the report and its figures.

    Raises:
        ConfigError: a result is missing, changed or unregistered; one line names them all.
    """
    page.write_text(text(results), encoding="utf-8")
    for own in announced.pages():
        found = rows.load(own.name, results)
        if drawn(own, found):
            draw(own, found, images / f"report_{own.name}.svg")


def text(results: Path = rows.RESULTS) -> str:
    """The report, as it must be.

    Raises:
        ConfigError: as `write` does.
    """
    if wrong := rows.faults(results):
        raise ConfigError("report: " + " ".join(wrong))
    template = TEMPLATE.read_text(encoding="utf-8")
    return _PLACE.sub(lambda place: "\n".join(_lines(place[1], results)), template)


def _lines(name: str, results: Path) -> Iterator[str]:
    return summary(results) if name == SUMMARY else part(name, results)


def summary(results: Path) -> Iterator[str]:
    """Markdown: an arena per row, with the verdicts of arms whose seeds have all been run."""
    yield "| experiment | game | against | finished arms |"
    yield "|---|---|---|---|"
    for page in announced.pages():
        found, experiment = rows.load(page.name, results), page.experiment
        for arena in experiment.arenas:
            done = [
                f"{one.arm} {one.difference:+.3f} ({one.verdict})"
                for one in comparisons(page, arena, found)
                if one.seeds == len(experiment.seeds)
            ]
            shown = "; ".join(done) or "none yet"
            yield f"| {page.name} | {arena} | {experiment.baseline} | {shown} |"


def part(name: str, results: Path) -> Iterator[str]:
    """Lines of one experiment."""
    page, found = announced.read(name), rows.load(name, results)
    hours = sum(row["cpu_s"] for row in found) / 3600
    yield (
        f"[Announced](experiments/preregistered/{name}.md) as `{page.digest}`. {len(found)} of "
        f"{len(page.experiment.runs())} runs, {hours:.2f} CPU hours of {page.experiment.cpu_hours:g} planned:"
    )
    yield f"`python -m benchmarks.experiments run {name}`."
    if not found:
        yield "\nNo run has ended yet."
        return
    for arena in page.experiment.arenas:
        own = [row for row in found if row["arena"] == arena]
        if own:
            yield f"\n**{arena}**, against `{page.experiment.baseline}`:\n"
            yield from table(page, arena, own)
    if drawn(page, found):
        yield f"\n![{page.title} Differences and 95 % intervals](images/report_{name}.svg)"


def table(page: Page, arena: str, found: Sequence[rows.Row]) -> Iterator[str]:
    """Markdown: an arm per row, in the order of the page; arms without a run are left out."""
    compared = {one.arm: one for one in comparisons(page, arena, found)}
    yield from HEAD
    for arm in page.experiment.arms_of(arena):
        own = [row for row in found if row["arm"] == arm]
        if not own:
            continue
        means = {
            name: float(np.mean([row[name] for row in own]))
            for name in ("tokens", "trained_tokens", "cpu_s")
        }
        last = [row["values"]["last"] for row in own]
        cells = [
            arm,
            str(len(own)),
            f"{np.mean(last):.3f} ± {half_width(last):.3f}" if len(own) > 1 else f"{last[0]:.3f}",
            f"{np.mean([row['values']['peak'] for row in own]):.3f}",
            *_against(compared.get(arm), len(page.experiment.seeds)),
            f"{means['tokens']:,.0f}",
            f"{means['trained_tokens']:,.0f}",
            _memory(own),
            f"{means['cpu_s']:.0f}",
        ]
        yield f"| {' | '.join(cells)} |"


def _memory(own: Sequence[rows.Row]) -> str:
    """Mean peak memory of training in MiB; empty for rows of before it was kept apart from measuring."""
    found = [row["training_mib"] for row in own if "training_mib" in row]
    return f"{np.mean(found):,.0f}" if len(found) == len(own) else ""


def comparisons(page: Page, arena: str, found: Sequence[rows.Row]) -> list[Comparison]:
    """All announced arms of an arena against the baseline, by ``last``."""
    values: dict[str, dict[int, float]] = {arm: {} for arm in page.experiment.arms_of(arena)}
    for row in found:
        if row["arena"] == arena:
            values[row["arm"]][row["seed"]] = row["values"]["last"]
    return compare(values, page.experiment.baseline, page.experiment.margin)


def _against(one: Comparison | None, seeds: int) -> list[str]:
    """Difference, interval, p and verdict; empty for the baseline and before two seeds."""
    if one is None or one.seeds < 2:
        return ["", "", "", ""]
    low, high = one.difference - one.half_width, one.difference + one.half_width
    verdict = one.verdict if one.seeds == seeds else "unfinished"
    return [f"{one.difference:+.3f}", f"[{low:+.3f}, {high:+.3f}]", f"{one.holm:.3f}", verdict]


def drawn(page: Page, found: Sequence[rows.Row]) -> dict[str, list[Comparison]]:
    """Arena -> its comparisons of at least two seeds; arenas without any are left out."""
    shown = {
        arena: [one for one in comparisons(page, arena, found) if one.seeds > 1]
        for arena in page.experiment.arenas
    }
    return {arena: own for arena, own in shown.items() if own}


def draw(page: Page, found: Sequence[rows.Row], out: Path) -> None:
    """Differences to the baseline with intervals, an axis per arena, the margin in grey."""
    arenas = drawn(page, found)
    figure, axes = plt.subplots(
        1, len(arenas), figsize=(4.6 * len(arenas) + 1, 3.4), layout="constrained", squeeze=False
    )
    for axis, (arena, shown) in zip(axes[0], arenas.items(), strict=True):
        margin: Any = page.experiment.margin
        axis.axvspan(-margin, margin, color="0.92")
        axis.axvline(0, color="0.5", linewidth=0.8)
        for place, one in enumerate(reversed(shown)):
            axis.errorbar(
                one.difference, place, xerr=one.half_width, fmt="o", color="C0", capsize=3
            )
        axis.set_yticks(range(len(shown)), [f"{one.arm} ({one.seeds})" for one in reversed(shown)])
        axis.set_title(f"{arena}: difference to {page.experiment.baseline}", fontsize=9)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": page.name}):
        figure.savefig(out, metadata={"Date": None})  # equal pictures are equal files
    plt.close(figure)
