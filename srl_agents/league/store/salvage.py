"""Recovery of readable rows from a damaged store, page by page.

A match is kept only if the spec that is read still has the id that it was stored under, a digest of it.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srl_agents.league.agents import AgentVersion
from srl_agents.league.store import schema
from srl_agents.league.store.rows import check_fit, match_from_rows
from srl_agents.own_folders import scratch
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.errors import ConfigError, StoreError

_FARTHEST_JUMP = 2**24
"""Row numbers that a search for the next readable row passes over at most."""
_PROBED = 128
"""Row numbers that are asked for one by one."""
_MOST_ROWS = 1000
"""Of one match; damaged pages may point at each other in a circle."""
_CHANGES, _VALID_FOR = slice(24, 28), slice(92, 96)
"""Two fields of a file's header. Source: sqlite.org/fileformat2.html, 1.3."""
_UNREADABLE = (sqlite3.Error, ValueError, KeyError, TypeError, IndexError, StoreError, ConfigError)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """Rows that were read from a damaged store."""

    agents: list[AgentVersion] = field(default_factory=list)
    matches: list[tuple[MatchSpec, MatchResult]] = field(default_factory=list)


def salvage(path: Path) -> Salvaged:
    """Read all that is left; the file stays as it is.

    Args:
        path: of the store; need not exist.
    """
    if not path.is_file():
        return Salvaged()
    with scratch("salvage") as folder:
        copy = folder / path.name
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        found = _read(copy)
        if not found.agents:
            _replace_first_page(copy, folder / "fresh.db")
            found = _read(copy)
        return found


def _read(path: Path) -> Salvaged:
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.text_factory = lambda raw: raw.decode(errors="replace")
            db.execute("PRAGMA writable_schema = ON")  # a file that was cut short can be opened
            agents = dict(_agents(db))
            return Salvaged([*agents.values()], list(_matches(db, agents)))
    except sqlite3.Error:
        return Salvaged()


def _agents(db: sqlite3.Connection) -> Iterator[tuple[int, AgentVersion]]:
    columns = "agent_no, agent_id, lineage, parent, role, step, spec_json"
    for number, agent_id, lineage, parent, role, step, spec in _rows(db, "agent", columns):
        with suppress(*_UNREADABLE):
            yield (
                number,
                AgentVersion(
                    agent_id=agent_id,
                    lineage=lineage,
                    parent=parent,
                    role=role,
                    step=step,
                    spec=json.loads(spec),
                ),
            )


def _matches(
    db: sqlite3.Connection, agents: dict[int, AgentVersion]
) -> Iterator[tuple[MatchSpec, MatchResult]]:
    envs = {number: rest for number, *rest in _rows(db, "env", "env_no, env_id, options_json")}
    branch, team = (
        name if name in {row[1] for row in _tried(db, f"PRAGMA table_info({table})")} else "NULL"
        for table, name in (("match", "branch"), ("seat", "team"))
    )
    columns = (
        "match_no, env_no, seed, split, purpose, cluster, schedule, number, attempt, match_id,"
        f" termination, turns, trajectory_sha256, {branch}"
    )
    seat_of = f"SELECT agent_no, learner, outcome, reward, invalid, forfeited, tokens, {team}"
    for number, env_no, *rest in _rows(db, "match", columns):
        seats = _tried(db, f"{seat_of} FROM seat WHERE match_no = ? ORDER BY seat", number)
        with suppress(*_UNREADABLE):
            spec, result = match_from_rows(
                [
                    (number, *envs[env_no], *rest, agents[agent].agent_id, *seat)
                    for agent, *seat in seats
                ]
            )
            check_fit(spec.match_id, spec, result)
            yield spec, result


def _rows(db: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """Rows of a table by their first column, the key; pages that cannot be read are passed over."""
    key = columns.partition(",")[0]
    query = f"SELECT {columns} FROM {table} WHERE {key} > ? ORDER BY {key}"
    last, jump = 0, 1
    while jump <= _FARTHEST_JUMP:
        try:
            for row in db.execute(query, (last,)):
                if not isinstance(row[0], int) or row[0] <= last:
                    raise sqlite3.DatabaseError("keys that do not rise: a page points back")
                yield row
                last, jump = row[0], 1
            return
        except sqlite3.Error:
            for number in range(last + 1, last + jump + 1) if jump <= _PROBED else ():
                found = _tried(db, f"SELECT {columns} FROM {table} WHERE {key} = ?", number)
                yield from (row for row in found if row[0] == number)
            last += jump
            jump *= 2


def _tried(db: sqlite3.Connection, query: str, *values: Any) -> list[tuple[Any, ...]]:
    try:
        return db.execute(query, values).fetchmany(_MOST_ROWS)
    except sqlite3.Error:
        return []


def _replace_first_page(path: Path, fresh: Path) -> None:
    """Give a file the first page of a new store: it holds the places of the tables, the same in every store.

    SQLite then takes the number of pages from the file's length.
    """
    with closing(sqlite3.connect(fresh, isolation_level=None)) as db:
        schema.create(db)
        size = int(db.execute("PRAGMA page_size").fetchone()[0])
    page = bytearray(fresh.read_bytes()[:size])
    page[_VALID_FOR] = bytes(value ^ 0xFF for value in page[_CHANGES])
    with path.open("r+b") as file:
        file.write(page)
    path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
