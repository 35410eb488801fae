"""Coverage and width of the intervals of ratings and of differences, by seeds.

    python -m benchmarks.league.interval_coverage [--fields 2500] [--out FILE]

Eight agents play mirrored round robins (`wide_fields`). An ordinary field has skills with a standard
deviation of 300 Elo. Two clumps of four, each with one of 100 Elo, lie 600 Elo (three classes of 200) or
1500 Elo apart. Fields are appended to ``--out`` as they are played, so that a later call goes on.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from benchmarks.league.wide_fields import Design, one_field, summary

SEEDS = (2, 3, 4, 8, 16)
_BLOCK = 50
"""Fields of a design between two writes."""


def designs() -> list[Design]:
    """The rows of the table."""
    found = []
    for seeds in SEEDS:
        for lucky in (False, True):
            found += [
                Design(spread=300, seeds=seeds, lucky=lucky),
                Design(spread=100, gap=600, seeds=seeds, lucky=lucky),
                Design(spread=100, gap=600, seeds=seeds, lucky=lucky, low_anchors=True),
                Design(spread=100, gap=1500, seeds=seeds, lucky=lucky),
            ]
        found.append(Design(spread=300, seeds=seeds, lucky=True, unequal=True))
    return sorted(found, key=lambda d: (d.unequal, d.gap, d.low_anchors, d.lucky, d.seeds))


def key(design: Design) -> str:
    """The name of a design in the file."""
    return json.dumps(asdict(design))


def played(out: Path) -> dict[str, list[dict[str, float]]]:
    """Fields in the file, by design."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    if out.exists():
        for line in out.read_text().splitlines():
            row = json.loads(line)
            found[row["design"]] += row["fields"]
    return found


def play(design: Design, runs: range, out: Path) -> None:
    """Play fields and append them to the file."""
    row = {"design": key(design), "fields": [one_field(design, run) for run in runs]}
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")


def show(found: dict[str, list[dict[str, float]]]) -> None:
    """Print coverage in per cent with its standard error, and half the median width in Elo."""
    print("| field | fields | single | difference | ± Elo, single | ± Elo, difference |")
    print("|---|--:|--:|--:|--:|--:|")
    for design in designs():
        if found[key(design)]:
            row = summary(found[key(design)])
            print(
                f"| {design} | {row['fields']} | {_share(row, 'coverage')} "
                f"| {_share(row, 'coverage_differences')} | {row['half_width_elo']:.0f} "
                f"| {row['difference_half_width_elo']:.0f} |"
            )


def _share(row: dict[str, float], name: str) -> str:
    return f"{100 * row[name]:.1f} ± {100 * row[name + '_se']:.1f}"


def main() -> None:
    """Play what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fields", type=int, default=2500, help="per row; 8 differences in each")
    parser.add_argument("--out", type=Path, default=Path("interval_coverage.jsonl"))
    options = parser.parse_args()
    found = played(options.out)
    for last in range(_BLOCK, options.fields + _BLOCK, _BLOCK):
        for design in designs():
            first = max(len(found[key(design)]), last - _BLOCK)
            if first < min(last, options.fields):
                play(design, range(first, min(last, options.fields)), options.out)
    show(played(options.out))


if __name__ == "__main__":
    main()
