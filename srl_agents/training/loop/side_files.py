"""Files that a run adds to beside its checkpoints: where they are cut when a run goes on from one of them.

What an interrupted attempt added after the checkpoint is made again, so it goes: then every line stands there
once, as in a run that was never interrupted. Each file that grows has an entry in one of the tables below; a
test lists the growing files of real runs and fails for one without.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from srl_agents.engines.endpoint.reply_journal import REPLIES
from srl_agents.engines.endpoint.sent_requests import SENT
from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.store.history import LeagueStore
from srl_agents.memory.phase_manager import TRACE
from srl_agents.metrics.sinks import EVENT_FILES, METRICS, TENSORBOARD
from srl_agents.rollouts.request_trace import REQUESTS
from srl_agents.rollouts.transcripts import TRAINING_MATCHES, TRANSCRIPTS
from srl_agents.training.faults.survival import EVENTS
from srl_agents.training.folder.changes import CHANGES
from srl_agents.training.folder.layout import BUFFER, REPLIES_AHEAD, STORE

BY_LENGTH = (REQUESTS, TRAINING_MATCHES, f"{TENSORBOARD}/{EVENT_FILES}")
"""Patterns of files that are cut at the length that the checkpoint holds."""
BY_UPDATE = (METRICS, TRACE)
"""JSON lines with an ``update``: those of later updates go."""
BY_MATCH = (TRANSCRIPTS,)
"""JSON lines with a ``match_id``, of the final round robin: those of matches that the store lacks go."""
ENDED = "ended.json"
"""The same lengths behind the final round robin, and the update behind which it was played."""
NEVER_CUT: Mapping[str, str] = {
    STORE: "history of matches; one that is played again is recognised",
    f"{STORE}-wal": "part of the store",
    f"{STORE}-shm": "part of the store",
    f"{STORE}.lock": "part of the store",
    REPLIES: "what was paid for; a request that comes again is answered from here",
    REPLIES_AHEAD: "likewise",
    SENT: "what was sent, undone work included; budgets count it",
    EVENTS: "what happened to the run; an update that is made again adds no line again",
    CHANGES: "what was done to the run",
    f"{BUFFER}/*": "matches played ahead; those that were learned from go with the next checkpoint",
    "*.log": "output of processes",
    ENDED: "replaced as a whole when the run comes to its end",
}
"""Patterns of files that stay as they are, and why."""


def lengths(folder: Path) -> dict[str, int]:
    """File -> bytes, of the files that are cut by length.

    Args:
        folder: of the run.
    """
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for pattern in BY_LENGTH
        for path in sorted(folder.glob(pattern))
    }


def keep_ended(folder: Path, done: int) -> None:
    """Remember that all of these files belongs to a run that came to its end after this update."""
    work = folder / f"{ENDED}.tmp"
    work.write_text(json.dumps({"done": done, "lengths": lengths(folder)}))
    work.replace(folder / ENDED)


def _since_ended(folder: Path, done: int, known: Mapping[str, int]) -> Mapping[str, int]:
    """The lengths at the end of the run, if it ended after this update; otherwise those that are known."""
    path = folder / ENDED
    if not path.is_file():
        return known
    ended = json.loads(path.read_text())
    lengths_then: dict[str, int] = ended["lengths"]
    return lengths_then if ended["done"] == done else known


def cut(
    folder: Path,
    done: int,
    known: Mapping[str, int],
    store: LeagueStore,
    say: Callable[[str], object],
) -> None:
    """Bring the files of a run back to where its checkpoint was written.

    Args:
        folder: of the run.
        done: updates that the checkpoint holds.
        known: `lengths` as it was then; empty without a checkpoint.
        store: of the run.
        say: shows a line when a file is shorter than it was.
    """
    known = _since_ended(folder, done, known)
    for pattern in BY_LENGTH:
        for path in sorted(folder.glob(pattern)):
            _cut_to(path, known.get(str(path.relative_to(folder)), 0), say)
    for name in BY_UPDATE:
        _keep(folder / name, lambda line: line["update"] <= done)
    for name in BY_MATCH:
        if (folder / name).is_file():
            played = _played(store)
            _keep(folder / name, _first_of(played))


def _cut_to(path: Path, length: int, say: Callable[[str], object]) -> None:
    there = path.stat().st_size
    if there < length:
        say(
            f"{path} has {there} bytes of the {length} that the checkpoint counts on: the rest is lost"
        )
    elif length:
        os.truncate(path, length)
    else:
        path.unlink()


def _keep(path: Path, wanted: Callable[[Mapping[str, Any]], bool]) -> None:
    """Keep the lines of a file that are wanted, byte for byte; damaged ones go with a warning."""
    if not path.is_file():
        return
    *lines, torn = path.read_bytes().split(b"\n")
    kept, damaged = [], []
    for number, line in enumerate(lines, 1):
        try:
            if wanted(json.loads(line)):
                kept.append(line + b"\n")
        except (ValueError, KeyError, TypeError, RecursionError):
            damaged.append(str(number))
    if damaged:
        named = f"line{'s' * (len(damaged) > 1)} {', '.join(damaged)}"
        warnings.warn(f"{path} is damaged: left out {named}.", stacklevel=2)
    if torn or len(kept) < len(lines):
        work = path.with_name(f"{path.name}.tmp")
        work.write_bytes(b"".join(kept))
        work.replace(path)


def _played(store: LeagueStore) -> Collection[str]:
    """Ids of the matches of final round robins that the store has."""
    return {
        spec.match_id
        for spec, result in store.matches(schedule=FINAL)
        if result.termination != "void"
    }


def _first_of(played: Collection[str]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a line is the first one of a match that is in the store."""
    left = set(played)

    def is_first(line: Mapping[str, Any]) -> bool:
        known = line["match_id"] in left
        left.discard(line["match_id"])
        return known

    return is_first
