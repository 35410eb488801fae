"""Rows of results: one line per finished run, with what it takes to play it again.

Each row has a digest of itself, and `LEDGER` lists the digests of all that were collected. So a row that is
missing, was changed, or belongs to no announced page is found by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiments.announced import HEX, ROOT, Key, Page, pages
from srl_agents.records import canonical_json, digest
from srl_envs.errors import ConfigError

RESULTS = ROOT / "benchmarks/results/experiments"
LEDGER = "ledger.json"
CHANGED = "-changed"
"""Behind the commit of a row whose code was not that of the commit."""
Row = dict[str, Any]


def key_of(row: Row) -> Key:
    """Of a row within its experiment."""
    return Key(row["arena"], row["arm"], row["seed"])


def sealed(values: Row) -> Row:
    """``values`` with the digest of all of them."""
    own = {key: value for key, value in values.items() if key != "digest"}
    return {**own, "digest": digest(own)[:HEX]}


def load(experiment: str, folder: Path = RESULTS) -> list[Row]:
    """Rows of an experiment so far."""
    path = folder / f"{experiment}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def save(experiment: str, rows: Iterable[Row], folder: Path = RESULTS) -> None:
    """Write all rows of an experiment, one a line, and replace the file at once."""
    lines = [canonical_json(row) for row in sorted(rows, key=key_of)]
    _replace(folder / f"{experiment}.jsonl", "".join(f"{line}\n" for line in lines))


def ledger(folder: Path = RESULTS) -> dict[str, str]:
    """Collected results: ``experiment/arena/arm/seed`` -> digest of the row."""
    path = folder / LEDGER
    found: dict[str, str] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def collect(source: Path, folder: Path = RESULTS, known: Sequence[Page] | None = None) -> list[str]:
    """Take over the rows of another folder, for example of the clone that runs a sweep.

    Returns:
        Names of the new rows.

    Raises:
        ConfigError: a row of the source is damaged or unregistered, or differs from one that was collected
            before.
    """
    listed, new = ledger(folder), []
    for page in pages() if known is None else known:
        fresh = load(page.name, source)
        if wrong := [*faults_of(page, fresh)]:
            raise ConfigError(f"{source}: " + " ".join(wrong))
        rows = {key_of(row): row for row in load(page.name, folder)}
        for row in fresh:
            name = f"{page.name}/{key_of(row)}"
            if listed.setdefault(name, row["digest"]) != row["digest"]:
                raise ConfigError(f"{source}: {name} was collected before, with other numbers.")
            new += [] if key_of(row) in rows else [name]
            rows[key_of(row)] = row
        if rows:
            save(page.name, rows.values(), folder)
    _replace(folder / LEDGER, json.dumps(listed, indent=1, sort_keys=True) + "\n")
    return new


def faults_of(page: Page, rows: Sequence[Row]) -> Iterator[str]:
    """What is wrong with rows by themselves, a sentence each."""
    announced = set(page.experiment.runs())
    for row in rows:
        name = f"{page.name}/{key_of(row)}"
        if sealed(row) != row:
            yield f"{name} was changed after it was measured."
        if row["registration"] != page.digest:
            yield f"{name} is unregistered: it names {row['registration']}, the page is {page.digest}."
        if row["commit"].endswith(CHANGED):
            yield f"{name} is unregistered: it was run by code that no commit has."
        if key_of(row) not in announced:
            yield f"{name} is unregistered: the page has no such arm and seed."


def faults(folder: Path = RESULTS, known: Sequence[Page] | None = None) -> list[str]:
    """What is wrong with the collected results, a sentence each that begins with the result's name."""
    found: list[str] = []
    present: dict[str, str] = {}
    for page in pages() if known is None else known:
        rows = load(page.name, folder)
        found += faults_of(page, rows)
        present |= {f"{page.name}/{key_of(row)}": row["digest"] for row in rows}
    listed = ledger(folder)
    found += [f"{name} is missing." for name in listed if name not in present]
    found += [f"{name} is in no ledger." for name in present if name not in listed]
    found += [
        f"{name} was changed after it was collected."
        for name, own in present.items()
        if listed.get(name, own) != own
    ]
    return sorted(found)


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)
