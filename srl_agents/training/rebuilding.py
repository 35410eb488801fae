"""A run's store from what is left: the damaged file, agents in checkpoints, matches in transcripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents import checkpoints
from srl_agents.league.agents import AgentVersion
from srl_agents.league.store import database
from srl_agents.league.store.history import LeagueStore
from srl_agents.league.store.salvage import salvage
from srl_agents.records import MatchResult, MatchSpec
from srl_agents.rollouts.transcripts import TRAINING_MATCHES, TRANSCRIPTS, read_results
from srl_agents.training.folder.layout import CHECKPOINTS, STORE
from srl_agents.training.loop.state import AGENTS
from srl_envs.errors import CheckpointError, StoreError

_PARTS = ("", "-wal", "-shm")
"""Ends of the names of a store's files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rebuilt:
    """What a rebuilt store holds, and what it lacks."""

    aside: Path | None
    """Present path of the damaged file."""
    agents: int
    salvaged: int
    """Matches from the damaged file."""
    transcribed: int
    """Matches from only transcripts."""
    acknowledged: int
    """Matches that the store once had, from the count in its lock."""

    @property
    def matches(self) -> int:
        """Number of matches in the rebuilt store."""
        return self.salvaged + self.transcribed


def is_whole(folder: Path) -> bool:
    """Whether the store of a run can be opened and lacks nothing.

    Raises:
        StoreError: another process writes to it.
    """
    path = folder / STORE
    if database.has_writer(_lock(path)):
        raise StoreError(
            f"{path}: another process writes to it. Wait for it or stop it, then repeat the command."
        )
    try:
        with LeagueStore(path, "continue") as store:
            return store.count() == len(store.matches())
    except StoreError:
        return False


def rebuild(folder: Path) -> Rebuilt:
    """Make the store of a run anew; the damaged one gets another name. See `is_whole`.

    Args:
        folder: of the run.

    Raises:
        StoreError: the new one cannot be written.
    """
    path = folder / STORE
    found = salvage(path)
    transcribed = [
        match for name in (TRANSCRIPTS, TRAINING_MATCHES) for match in read_results(folder / name)
    ]
    agents = {agent.agent_id: agent for agent in (*found.agents, *_agents_of_checkpoints(folder))}
    # a transcript's line is checked by its format; a number in a damaged page is not
    matches = {spec.match_id: (spec, result) for spec, result in found.matches}
    salvaged = {key for key in matches if _seated(matches[key][0], agents)}
    matches |= {spec.match_id: (spec, result) for spec, result in transcribed}
    wanted = [match for match in matches.values() if _seated(match[0], agents)]
    work = path.with_name(f"{path.name}.rebuilt")
    for part in (*(f"{work.name}{end}" for end in _PARTS), f"{work.name}.lock"):
        work.with_name(part).unlink(missing_ok=True)
    with LeagueStore(work) as store:
        for agent in agents.values():
            store.add_agent(agent)
        kept = _reported(store, wanted)
    _lock(work).unlink()
    return _take_place(path, work, len(agents), len(salvaged & kept), len(kept))


def _reported(store: LeagueStore, matches: list[tuple[MatchSpec, MatchResult]]) -> set[str]:
    """Store what the store takes; returns its ids."""
    try:
        store.report_many(matches)
        return {spec.match_id for spec, _ in matches}
    except StoreError:  # a page holds numbers that no match has
        kept = set()
        for spec, result in matches:
            with suppress(StoreError):
                store.report(spec, result)
                kept.add(spec.match_id)
        return kept


def _take_place(path: Path, work: Path, agents: int, salvaged: int, matches: int) -> Rebuilt:
    """Put the damaged store aside and the new one in its place, under the writer's lock."""
    lock = database.take_lock(_lock(path))
    try:
        acknowledged = database.acknowledged(lock)
        aside = _aside(path)
        for end in _PARTS:
            old = path.with_name(f"{path.name}{end}")
            if old.exists():
                old.rename(aside.with_name(f"{aside.name}{end}"))
        database.acknowledge(lock, matches)
        work.rename(path)
    finally:
        os.close(lock)
    return Rebuilt(
        aside=aside if aside.exists() else None,
        agents=agents,
        salvaged=salvaged,
        transcribed=matches - salvaged,
        acknowledged=acknowledged,
    )


def _aside(path: Path) -> Path:
    """Unused path beside a damaged file, to move it to."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside


def _lock(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _seated(spec: MatchSpec, agents: dict[str, AgentVersion]) -> bool:
    return all(seat in agents for seat in spec.seats)


def _agents_of_checkpoints(folder: Path) -> Iterator[AgentVersion]:
    """Agents of the newest whole checkpoint; none where no checkpoint is whole."""
    try:
        newest = checkpoints.latest(folder / CHECKPOINTS)
    except CheckpointError:
        return
    if newest is not None:
        state: dict[str, Any] = checkpoints.state_of(newest)
        for plain in state.get(AGENTS, ()):
            yield AgentVersion(**plain)
