"""Build a site from a league store or a published board: `board_data` computes, `write_site` writes.

Only played evaluation matches count. Training matches, gate matches and void ones never move a
published number: training opponents are chosen adaptively, and a gate's winner was selected on
its own matches.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leaderboards.boards.archive import Merged, SetAside, merged_store, read_board
from leaderboards.boards.publishing import attempts
from leaderboards.contents.bases import base_label
from leaderboards.contents.served import ServedTurns
from leaderboards.exploits.evidence import Exploited, budget_text, exploiter_text, read_exploits
from leaderboards.pages.all_games import RatedBoard, all_games
from leaderboards.pages.curves import curves, starts, versus_start
from leaderboards.pages.entries import described_entries, usage_of
from leaderboards.pages.episodes import PER_BOARD, Match, choose, listed, viewer_episodes
from leaderboards.pages.game_tables import GameTables, game_tables
from leaderboards.pages.hackability import hackability
from leaderboards.pages.matrices import (
    DIAGNOSED_AGENTS,
    MATRIX_AGENTS,
    compared,
    diagnostics,
    partner_cells,
    win_cells,
)
from leaderboards.pages.standings import METRICS, Scope, described, finite, played, standings
from leaderboards.pages.write import write_site
from leaderboards.registration.ticket_log import registrations
from srl_agents.league.ratings.focal_returns import FocalReturn
from srl_agents.league.ratings.tables import Interval, RatingTable, rate
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import canonical_json, digest
from srl_agents.rollouts.transcripts import read_transcripts
from srl_envs import spec as env_spec
from srl_envs.api.episode import Transcript
from srl_envs.errors import StoreError, UnknownEnvironmentError

NEVER_MOVED = "it never made a move that the game takes: see its prompt, its stop text and a replay"
__all__ = ["board_data", "board_site", "boards_of_store", "site_data", "store_site", "write_site"]

SCHEMA = 5
"""Version of the format of ``data.json``."""


def board_data(
    store: LeagueStore, command: str = "", schedule: str | None = None
) -> dict[str, Any]:
    """Everything that the site of one store shows, as JSON values; a function of the store's content.

    Args:
        store: open for reading or writing.
        command: the command line that builds the site again.
        schedule: count the matches of this schedule only; all evaluation matches by default.
    """
    with store.snapshot():
        boards = boards_of_store(store, schedule=schedule)
        return site_data(boards, command=command, content_sha256=store.content_digest())


def store_site(
    store: LeagueStore,
    transcripts: Path,
    *,
    command: str = "",
    schedule: str | None = None,
    per_board: int = PER_BOARD,
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The data of a store's site, and its episodes for `write_site`.

    Args:
        store: as in `board_data`, as are ``command`` and ``schedule``.
        transcripts: what a `TranscriptLog` wrote; without that file the page has no replays.
        per_board: most episodes of one board.
    """
    data = board_data(store, command, schedule)
    known = read_transcripts(transcripts) if per_board else {}
    parts = []
    for board in data["boards"] if known else ():
        options = json.loads(board["options"] or "{}")
        matches = [
            match
            for match in store.matches(board["env_id"], "eval", "eval", schedule, options=options)
            if match[0].match_id in known and match[1].termination != "void"
        ]
        chosen = choose(matches, [row["agent"] for row in board["agents"]], per_board)
        board["episodes"] = [listed(match, known[match[0].match_id]) for match in chosen]
        parts.append(viewer_episodes(board["slug"], chosen, known))
    return data, itertools.chain.from_iterable(parts)


def board_site(
    board: Path,
    *,
    command: str = "",
    per_board: int = PER_BOARD,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The data of a published board's site, and its episodes for `write_site`.

    Args:
        board: folder with verified bundles, see `leaderboards.boards.archive`.
        command: the command line that builds the site again.
        per_board: most episodes of one environment.
        progress: called with a task's name, its finished part and its whole.

    Raises:
        StoreError: no bundle of the board counts.
    """
    found, registered = read_board(board), attempts(registrations(board))
    boards: list[RatedBoard] = []
    roots, parts, set_aside = [], [], list(found.set_aside)
    exploits, wrong = read_exploits(board, found.groups)
    set_aside += wrong
    for done, group in enumerate(found.groups, 1):
        with (
            tempfile.TemporaryDirectory() as folder,
            merged_store(group, Path(folder) / "board.db") as merged,
        ):
            shown = boards_of_store(
                merged.store,
                levels=merged.levels,
                bases=found.bases,
                entries=described_entries(merged.entries, registered, usage_of(merged.entries)),
                references=group.protocol.references,
                mistakes=merged.mistakes,
                moves=merged.moves,
            )
            matches = [match for match in merged.store.matches() if match[1].termination != "void"]
        for data in (rated.data for rated in shown):
            data["protocol"] = group.protocol.name
            data["earlier"] = [asdict(part) for part in merged.earlier]
            for row in data["agents"]:
                known = exploits.get((group.protocol.name, row["agent"]))
                row["exploited"] = None if known is None else _exploited(known)
            chosen, transcripts, served = _published_episodes(merged, matches, data, per_board)
            data["episodes"] = [listed(match, transcripts[match[0].match_id]) for match in chosen]
            parts.append(viewer_episodes(data["slug"], chosen, transcripts, served))
        boards += shown
        if progress is not None:
            progress("environments", done, len(found.groups))
        roots += [entry.bundle.root for entry in merged.entries]
        set_aside += merged.set_aside
    if not boards:
        raise _nothing_counts(board, set_aside)
    data = site_data(
        boards,
        command=command,
        content_sha256=combined_digest(
            [*sorted(roots), *sorted(known.best.data["root"] for known in exploits.values())]
        ),
        changes=found.changes[::-1],
        set_aside=set_aside,
        fingerprint=found.fingerprint,
    )
    return data, itertools.chain.from_iterable(parts)


def _exploited(known: Exploited) -> dict[str, Any]:
    """How far an agent can be beaten, at least."""
    return {
        **{key: finite(getattr(known.gain, key), 4) for key in ("mean", "low", "high")},
        "seeds": known.gain.scores,
        "exploiter": exploiter_text(known.best),
        "budget": budget_text(known),
        "searches": known.searches,
        "when": known.best.data["when"],
    }


def _nothing_counts(board: Path, set_aside: Sequence[SetAside]) -> StoreError:
    if set_aside:
        first = set_aside[0]
        return StoreError(
            f"{board} holds no bundle that counts; set aside: {len(set_aside)}, the first is "
            f"{first.bundle}: {first.reason}"
        )
    return StoreError(f"{board} holds no bundle: put some there with `srl leaderboard publish`.")


def _published_episodes(
    merged: Merged, matches: Sequence[Match], board: Mapping[str, Any], most: int
) -> tuple[list[Match], dict[str, Transcript], dict[str, ServedTurns]]:
    """Some of a group's matches, with their transcripts and reports, which lie in its bundles."""
    chosen = choose(matches, [row["agent"] for row in board["agents"]], most)
    wanted, transcripts, served = {match[0].match_id for match in chosen}, {}, {}
    for entry in merged.entries:
        last = max(
            (k for k, s in enumerate(entry.bundle.specs) if s.match_id in wanted), default=-1
        )
        # all records were checked when the matches were merged; those behind the last are not needed
        for record in itertools.islice(entry.bundle.records(), last + 1):
            if record.spec.match_id in wanted:
                transcripts[record.spec.match_id] = record.transcript
                served[record.spec.match_id] = record.served
    return chosen, transcripts, served


def site_data(
    boards: Sequence[RatedBoard],
    *,
    command: str,
    content_sha256: str,
    changes: Sequence[Mapping[str, Any]] = (),
    set_aside: Sequence[SetAside] = (),
    fingerprint: str = "",
) -> dict[str, Any]:
    """Boards, those with a table first, with where they came from.

    Args:
        boards: from `boards_of_store`.
        command: the command line that builds the site again.
        content_sha256: of all that the numbers are made of.
        changes: lines of a board's changelog, newest first.
        set_aside: bundles that do not count: ``bundle`` and ``reason`` of each.
        fingerprint: of the key that signs for the board; empty for an unsigned board.
    """
    return {
        "schema": SCHEMA,
        "command": command,
        "content_sha256": content_sha256,
        "fingerprint": fingerprint,
        "changes": list(changes),
        "set_aside": [asdict(part) for part in set_aside],
        "all_games": all_games(boards),
        "boards": sorted((b.data for b in boards), key=lambda board: not board["agents"]),
    }


def boards_of_store(
    store: LeagueStore,
    *,
    schedule: str | None = None,
    levels: Mapping[str, Mapping[str, int]] | None = None,
    bases: Mapping[str, str] | None = None,
    entries: Mapping[str, Mapping[str, Any]] | None = None,
    references: Collection[str] = (),
    mistakes: Mapping[str, Mapping[str, int]] | None = None,
    moves: Mapping[str, int] | None = None,
) -> list[RatedBoard]:
    """One board per environment and options.

    Args:
        store: the matches.
        schedule: as in `board_data`.
        levels: agent -> level -> matches that were verified so far, if any.
        bases: what a board calls base models, by the hash of their weights.
        entries: agent -> how it came in, where it came in as a bundle.
        references: of the board's protocol; see `Scope.references`.
        mistakes: agent -> kind -> refused replies; unknown by default.
        moves: agent -> replies that were taken as moves; unknown by default.
    """
    agents = {agent.agent_id: agent for agent in store.agents()}
    boards = []
    for env_id, options in store.environments():
        mode, summary, one_seat = _described_environment(env_id)
        scope = Scope(
            env_id=env_id,
            options=options,
            schedule=schedule,
            mode=mode,
            references=frozenset(references),
            one_seat=one_seat,
        )
        board, tables = _board(store, agents, scope)
        for row in board["agents"]:
            reached = dict((levels or {}).get(row["agent"], {}))
            row["level"], row["levels"] = min(reached, default=None), reached
            row["base"] = base_label(agents[row["agent"]].spec, bases)
            row["entry"] = (entries or {}).get(row["agent"])
            row["mistakes"] = None if mistakes is None else dict(mistakes.get(row["agent"], {}))
            if moves is not None and not moves.get(row["agent"]):
                row["provisional"].append(NEVER_MOVED)
        attacked = None if options else hackability(env_id)  # of the default options
        data = {**board, "summary": summary, "hackability": attacked}
        boards.append(RatedBoard(data, tables))
    return boards


def _described_environment(env_id: str) -> tuple[str, str, bool]:
    """Mode, summary, and whether it is scored among strangers; a store may come from elsewhere."""
    try:
        known = env_spec(env_id)
    except UnknownEnvironmentError:
        return "competitive", "", False
    return known.mode, known.summary, known.strangers


def _board(
    store: LeagueStore, agents: dict[str, AgentVersion], scope: Scope
) -> tuple[dict[str, Any], GameTables]:
    options = canonical_json(scope.options) if scope.options else ""
    count = played(store, scope)
    total = store.count(scope.env_id, options=scope.options)
    board: dict[str, Any] = {
        "slug": slug(scope.env_id, options),
        "env_id": scope.env_id,
        "options": options,
        "mode": scope.mode,
        "metric": METRICS[scope.mode],
        "schedule": scope.schedule or "",
        "matches": count.matches,
        "void": count.void,
        "not_rated": total - count.matches - count.void,
        "clusters": 0,
        "resolution": None,
        "anchors": [],
        "agents": [],
        "matrix": None,
        "cross_play": None,
        "focal": [],
        "curves": [],
        "versus_start": [],
        "diagnostics": None,
        "episodes": [],
        "earlier": [],
    }
    pairs = scope.pairs(store)
    found = standings(store, scope, pairs, agents)
    if found is None:
        return board, GameTables()
    forfeits = any(did.clean < did.matches for did in count.conduct.values())
    rows = described(found.rows, agents, count.conduct)
    order = [row["agent"] for row in rows]
    board |= {
        "clusters": found.clusters,
        "resolution": finite(
            found.resolution if found.clusters > 1 else math.nan,  # one seed shows no spread
            METRICS[scope.mode]["digits"] + 1,
        ),
        "agents": rows,
        "cross_play": partner_cells(found.partners) if found.partners else None,
        "focal": [_focal(row) for row in found.focal],
    }
    if scope.mode == "competitive":
        elo = {row["agent"]: row["value"] for row in rows}
        steps = {name: agent.step for name, agent in agents.items()}
        anchors = [name for name in order if agents[name].role == "anchor"]
        tie_nu = found.table.tie_nu if found.table else 0.0
        board |= {
            "anchors": anchors,
            "matrix": win_cells(pairs, compared(order, anchors, MATRIX_AGENTS), elo, tie_nu),
            "diagnostics": diagnostics(pairs, compared(order, anchors, DIAGNOSED_AGENTS), steps),
            "curves": _curves(store, agents, scope, found.table),
            "versus_start": versus_start(pairs, order, agents),
        }
    return board, game_tables(store, scope, found, agents, forfeits=forfeits)


def _curves(
    store: LeagueStore,
    agents: dict[str, AgentVersion],
    scope: Scope,
    table: RatingTable | None,
) -> list[dict[str, Any]]:
    """Over all evaluation matches: a table of one schedule holds few versions."""
    if table is None or not starts(agents, table.agents):
        return []
    if scope.schedule:
        anchors = [name for name, agent in agents.items() if agent.role == "anchor"]
        table = rate(store.pairs(scope.env_id, options=scope.options), anchors=anchors)
    return curves(agents, table)


def _focal(row: FocalReturn) -> dict[str, Any]:
    return {**asdict(row), "focal": _interval(row.focal), "background": _interval(row.background)}


def _interval(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {
        "estimate": finite(interval.estimate, 4),
        "half_width": finite(interval.half_width, 4),
        "clusters": interval.clusters,
    }


def slug(env_id: str, options: str) -> str:
    """A file name for a board: readable where the id is plain, and different for each board."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", env_id)[:80]
    if plain == env_id and not options and not plain.startswith("."):
        return plain
    return f"{plain.lstrip('.')}-{digest([env_id, options])[:8]}"


def combined_digest(parts: Iterable[str]) -> str:
    """One content digest of several, in order."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
