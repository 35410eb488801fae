"""`srl league export RUN --out DIR`: a league store as Parquet files, for DuckDB, pandas and the like."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import ResultOptions, RunFolderOptions, meaning
from srl_agents.league.store.history import LeagueStore
from srl_envs.errors import ConfigError, StoreError, file_fault

DESCRIPTION = """Write the matches of a run as Parquet files, one row per seat of a match.

The files lie in folders env_id=.../split=..., which readers turn into columns:
  SELECT agent_id, avg(outcome) FROM read_parquet('DIR/seats/**/*.parquet', hive_partitioning=true)
  WHERE split = 'eval' GROUP BY 1 ORDER BY 2 DESC

A running league can be exported; the files show one moment of it.

Example:
  srl league export runs/quickstart-tiny-seed0 --out parquet
"""
STORE = "league.db"
SEAT_COLUMNS = {
    "match_id": "string", "options_json": "string", "purpose": "string", "schedule": "string",
    "number": "int64", "attempt": "int64", "cluster": "string", "seed": "string",
    "termination": "string", "turns": "int64", "recorded_ms": "int64", "seat": "int64",
    "agent_id": "string", "team": "int64", "learner": "int64", "outcome": "float64",
    "reward": "float64", "invalid": "int64", "forfeited": "int64", "tokens": "int64",
}  # fmt: skip
"""Column -> Arrow type; seeds are decimal text, as they may exceed 63 bits."""
ROWS = 200_000
"""Rows of one group; what is held in memory at once."""


@dataclass(frozen=True)
@meaning(out="Write the tables to this folder, absent or empty (required).")
class ExportOptions(RunFolderOptions, ResultOptions):
    """Store to export, and folder to write to, which must be absent or empty."""


def export(argv: list[str]) -> int:
    """Run the command; see `srl league export --help`."""
    options = read_options(
        ExportOptions, command="srl league export", description=DESCRIPTION, argv=argv
    )
    if options.out is None:
        raise ConfigError("give --out: the folder to write to, absent or empty.")
    path = options.run / STORE if options.run.is_dir() else options.run
    rows = write_parquet(path, options.out)
    print(f"{rows} rows of seats, and the agents, are in {options.out}")
    return 0


def write_parquet(path: Path, out: Path) -> int:
    """Write ``agents.parquet`` and ``seats/env_id=E/split=S/part-N.parquet``.

    Returns:
        Number of rows of seats.

    Raises:
        ConfigError: ``out`` holds something.
        StoreError: it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not empty; choose another folder with --out.")
    written = 0
    try:
        out.mkdir(parents=True, exist_ok=True)
        with LeagueStore(path, mode="read") as store, store.snapshot():
            agents = [
                {
                    "agent_id": a.agent_id, "contents": a.contents, "lineage": a.lineage,
                    "parent": a.parent, "role": a.role, "step": a.step,
                }
                for a in store.agents()
            ]  # fmt: skip
            pq.write_table(pa.Table.from_pylist(agents), out / "agents.parquet")
            types = pa.schema([(name, getattr(pa, kind)()) for name, kind in SEAT_COLUMNS.items()])
            for env_id, split in store.streams():
                folder = out / "seats" / f"env_id={env_id}" / f"split={split}"
                folder.mkdir(parents=True)
                rows = store.seat_rows(env_id, split, list(SEAT_COLUMNS))
                for number, chunk in enumerate(_chunks(rows)):
                    columns = dict(zip(SEAT_COLUMNS, zip(*chunk, strict=True), strict=True))
                    table = pa.table({k: list(v) for k, v in columns.items()}, schema=types)
                    pq.write_table(table, folder / f"part-{number}.parquet", compression="zstd")
                    written += table.num_rows
    except OSError as error:
        raise StoreError(f"export of {path}: {file_fault(error, out)}.") from error
    return written


def _chunks(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    while chunk := list(itertools.islice(rows, ROWS)):
        yield chunk
