"""Reader of a league store: matches, agents, and results in the shapes that ratings take."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.league.agents import AgentVersion
from srl_agents.league.ratings.focal_returns import SeatedResult
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.tables import TeamResult
from srl_agents.league.store.database import end, readable
from srl_agents.league.store.rows import match_from_rows, spec_from_json
from srl_agents.league.store.schema import TIE
from srl_agents.records import MatchResult, MatchSpec, canonical_json

PLAYED = "termination IN ('ok', 'truncated', 'forfeit')"
_WITHOUT_ERRORS = "termination IN ('ok', 'truncated')"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A match that a player has leased at the moment."""

    spec: MatchSpec
    owner: str
    until_ms: int
    """Milliseconds since 1970; later the match may be issued again."""
    issued: int
    """Number of times it was issued, this time included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairCount:
    """Results of one pair in one stream, as ``agent`` sees them."""

    env_id: str
    options: str
    """Options of the environment, as canonical JSON."""
    split: str
    purpose: str
    agent: str
    opponent: str
    wins: int
    ties: int
    losses: int
    forfeits: int
    """Games among them that ended in a forfeit."""


class StoreReader:
    """The queries of a store on an open connection."""

    path: Path
    _db: sqlite3.Connection

    def agents(self) -> list[AgentVersion]:
        """All versions, in the order they were added."""
        return list(self._agents())

    def playing(self, ids: Iterable[str]) -> list[AgentVersion]:
        """Versions that may sit in later matches: these, and all that never learn."""
        return list(
            self._agents(
                "WHERE role IN ('anchor', 'heldout', 'frozen', 'partner')"
                " OR agent_id IN (SELECT value FROM json_each(?))",
                json.dumps([*ids]),
            )
        )

    def environments(self) -> list[tuple[str, dict[str, Any]]]:
        """Each (env_id, options) that has a match, sorted; plain options first."""
        rows = self._db.execute(
            "SELECT env_id, options_json FROM env ORDER BY env_id, length(options_json), options_json"
        )
        with readable(self.path):
            return [(env_id, json.loads(options)) for env_id, options in rows]

    def matches(
        self,
        env_id: str | None = None,
        split: str | None = None,
        purpose: str | None = None,
        schedule: str | None = None,
        *,
        options: dict[str, Any] | None = None,
    ) -> list[tuple[MatchSpec, MatchResult]]:
        """Matches with these properties (None: any), void ones included, in the order of arrival."""
        where, values = _where(env_id, split, purpose, schedule, options)
        return list(self._records(where, values))

    def count(
        self,
        env_id: str | None = None,
        split: str | None = None,
        purpose: str | None = None,
        schedule: str | None = None,
        *,
        options: dict[str, Any] | None = None,
    ) -> int:
        """Number of matches that `matches` would return."""
        where, values = _where(env_id, split, purpose, schedule, options)
        query = f"SELECT count(*) FROM match NATURAL JOIN env {where}"
        return int(self._db.execute(query, values).fetchone()[0])

    def schedules(self) -> list[str]:
        """Schedules of all evaluation matches."""
        rows = self._db.execute(
            "SELECT DISTINCT schedule FROM match WHERE split = 'eval' AND purpose = 'eval' ORDER BY schedule"
        )
        return [str(row[0]) for row in rows]

    def last_schedule(self, env_id: str, options: dict[str, Any]) -> str | None:
        """The schedule of the last evaluation match that arrived, None without one."""
        where, values = _where(env_id, "eval", "eval", None, options)
        row = self._db.execute(
            f"SELECT schedule FROM match NATURAL JOIN env {where} ORDER BY match_no DESC LIMIT 1",
            values,
        ).fetchone()
        return None if row is None else str(row[0])

    def pairs(
        self,
        env_id: str,
        *,
        options: dict[str, Any] | None = None,
        split: str = "eval",
        purpose: str | None = "eval",
        schedule: str | None = None,
        errors: bool = True,
    ) -> Pairs:
        """Results between agents, as `ratings.rate` takes them; void matches are left out.

        The defaults select what may feed a published rating: no training match, and no gate match
        (a gate's winner was selected on them). A match with more than two seats gives one row per
        pair of seats; two seats of one agent or of one team give none. Rows are ordered by match
        id, so that equal contents give equal arrays.

        Args:
            env_id: environment.
            options: of the environment; any by default.
            split: which stream.
            purpose: which matches of it.
            schedule: which schedule; any by default.
            errors: with matches that a forfeit ended. Without them the rating shows only strength, and not
                how many broken replies of others an agent met.
        """
        where, values = _where(env_id, split, purpose, schedule, options)
        rows = self._db.execute(
            "SELECT a.agent_id, b.agent_id,"
            f" CASE WHEN {TIE} THEN 0.5 ELSE p.outcome > q.outcome END,"
            " CASE cluster WHEN '' THEN 'seed ' || seed ELSE cluster END"
            " FROM match NATURAL JOIN env"
            " JOIN seat p USING(match_no) JOIN seat q USING(match_no)"
            " JOIN agent a ON a.agent_no = p.agent_no JOIN agent b ON b.agent_no = q.agent_no"
            f" {where} AND {PLAYED if errors else _WITHOUT_ERRORS}"
            " AND p.seat < q.seat AND p.agent_no <> q.agent_no"
            " AND (p.team IS NULL OR p.team <> q.team)"
            " ORDER BY match_id, p.seat, q.seat",
            values,
        )
        with readable(self.path):
            return Pairs.of(rows)

    def seated(
        self,
        env_id: str,
        *,
        options: dict[str, Any] | None = None,
        schedule: str | None = None,
    ) -> list[SeatedResult]:
        """Who sat where in evaluation and got what, for `returns`; arguments as in `pairs`, void left out."""
        found = self.matches(env_id, "eval", "eval", schedule, options=options)
        played = [(spec, result) for spec, result in found if result.termination != "void"]
        return [
            SeatedResult(spec.seats, result.outcomes, spec.cluster or f"seed {spec.seed}")
            for spec, result in sorted(played, key=lambda match: match[1].match_id)
        ]

    def met(self, env_id: str) -> dict[str, set[str]]:
        """Lineage of each learner -> the lineages that sat beside it while it was trained in this game.

        Whatever options the game had: a curriculum trains on levels that the evaluation does not use.
        """
        where, values = _where(env_id, "train", None, None, None)
        rows = self._db.execute(
            "SELECT DISTINCT a.lineage, b.lineage FROM match NATURAL JOIN env"
            " JOIN seat p USING(match_no) JOIN seat q USING(match_no)"
            " JOIN agent a ON a.agent_no = p.agent_no JOIN agent b ON b.agent_no = q.agent_no"
            f" {where} AND p.learner = 1 AND p.seat <> q.seat",
            values,
        )
        found: dict[str, set[str]] = defaultdict(set)
        with readable(self.path):
            for agent, other in rows:
                found[agent].add(other)
        return dict(found)

    def team_results(
        self,
        env_id: str,
        *,
        options: dict[str, Any] | None = None,
        schedule: str | None = None,
    ) -> list[TeamResult]:
        """Side against side in evaluation, by the mean of a side's outcomes, for `ratings.rate_teams`.

        Matches without teams give none.
        """
        rows: list[TeamResult] = []
        for spec, result in self.matches(env_id, "eval", "eval", schedule, options=options):
            if not spec.teams or result.termination == "void":
                continue
            sides: dict[int, list[int]] = defaultdict(list)
            for seat, team in enumerate(spec.teams):
                sides[team].append(seat)
            for one, other in itertools.combinations(sorted(sides), 2):
                first, second = sides[one], sides[other]
                own, others = (
                    math.fsum(result.outcomes[k] for k in side) / len(side)
                    for side in (first, second)
                )
                difference = own - others
                points = 0.5 if abs(difference) < 1e-9 else float(difference > 0)
                names = [tuple(spec.seats[k] for k in side) for side in (first, second)]
                rows.append((names[0], names[1], points, spec.cluster or f"seed {spec.seed}"))
        return rows

    def streams(self) -> list[tuple[str, str]]:
        """Each (env_id, split) that has a match, sorted."""
        rows = self._db.execute("SELECT DISTINCT env_id, split FROM match NATURAL JOIN env")
        return sorted((env_id, split) for env_id, split in rows)

    def seat_rows(
        self, env_id: str, split: str, columns: Sequence[str]
    ) -> Iterator[tuple[Any, ...]]:
        """One row per seat of every match, void ones included, in the order of arrival.

        Args:
            env_id: environment.
            split: which stream.
            columns: of the tables match, env, seat and agent.
        """
        where, values = _where(env_id, split, None, None, None)
        yield from self._db.execute(
            f"SELECT {', '.join(columns)} FROM match NATURAL JOIN env JOIN seat USING(match_no)"
            f" JOIN agent USING(agent_no) {where} ORDER BY match_no, seat",
            values,
        )

    def pair_counts(self, split: str | None = None) -> list[PairCount]:
        """Results per pair, each pair once; a viewer's quick answer."""
        where, values = _where(None, split, None, None, None)
        rows = self._db.execute(
            "SELECT env_id, options_json, split, purpose, a.agent_id, b.agent_id, wins, ties,"
            " losses, forfeits FROM pair_count NATURAL JOIN env"
            " JOIN agent a ON a.agent_no = pair_count.a JOIN agent b ON b.agent_no = pair_count.b"
            f" {where} ORDER BY 1, 2, 3, 4, 5, 6",
            values,
        )
        names = PairCount.__dataclass_fields__
        return [PairCount(**dict(zip(names, row, strict=True))) for row in rows]

    def content_digest(self) -> str:
        """SHA-256 over everything but wall-clock times and the order of arrival.

        Two runs that played the same matches with the same results have the same digest.
        """
        hashed = hashlib.sha256()
        queries = (
            "SELECT agent_id, lineage, parent, role, step, spec_json FROM agent ORDER BY agent_id",
            "SELECT match_id, env_id, options_json, split, purpose, schedule, number, attempt,"
            " cluster, seed, termination, turns, trajectory_sha256, seat, agent_id, learner,"
            " outcome, reward, invalid, forfeited, tokens, team, branch"
            " FROM match NATURAL JOIN env JOIN seat USING(match_no) JOIN agent USING(agent_no)"
            " ORDER BY match_id, termination = 'void', seat",
        )
        with self.snapshot():
            for query in queries:
                for row in self._db.execute(query):
                    hashed.update(canonical_json(_without_empty_end(row)).encode() + b"\n")
        return hashed.hexdigest()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside sees one moment, whatever the writer adds meanwhile."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN")
        try:
            yield
        finally:  # nothing was written
            end(self._db)

    def leases(self) -> list[Lease]:
        """All of them, expired ones too, by schedule and number."""
        rows = self._db.execute(
            "SELECT spec_json, owner, until_ms, issued FROM lease ORDER BY schedule, number, match_id"
        )
        with readable(self.path):
            return [
                Lease(spec=spec_from_json(spec), owner=owner, until_ms=until, issued=issued)
                for spec, owner, until, issued in rows
            ]

    def _agents(self, where: str = "", *values: str) -> Iterator[AgentVersion]:
        rows = self._db.execute(
            "SELECT agent_id, lineage, parent, role, step, spec_json FROM agent"
            f" {where} ORDER BY agent_no",
            values,
        )
        for agent_id, lineage, parent, role, step, spec in rows:
            with readable(self.path):
                agent = AgentVersion(
                    agent_id=agent_id,
                    lineage=lineage,
                    parent=parent,
                    role=role,
                    step=step,
                    spec=json.loads(spec),
                )
            yield agent

    def _records(
        self, where: str, values: Iterable[Any]
    ) -> Iterator[tuple[MatchSpec, MatchResult]]:
        rows = self._db.execute(
            "SELECT match_no, env_id, options_json, seed, split, purpose, cluster, schedule, number,"
            " attempt, match_id, termination, turns, trajectory_sha256, branch,"
            " agent_id, learner, outcome, reward, invalid, forfeited, tokens, team"
            " FROM match NATURAL JOIN env JOIN seat USING(match_no) JOIN agent USING(agent_no)"
            f" {where} ORDER BY match_no, seat",
            tuple(values),
        )
        for _, seats in itertools.groupby(rows, key=lambda row: row[0]):
            with readable(self.path):
                match = match_from_rows(list(seats))
            yield match


def _without_empty_end(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without branch and team where there are none: a store from before there were any has this digest."""
    while row[-1] is None:
        row = row[:-1]
    return row


def _where(
    env_id: str | None,
    split: str | None,
    purpose: str | None,
    schedule: str | None,
    options: dict[str, Any] | None,
) -> tuple[str, list[str]]:
    wanted = {
        "env_id": env_id,
        "split": split,
        "purpose": purpose,
        "schedule": schedule,
        "options_json": None if options is None else canonical_json(options),
    }
    given = {column: value for column, value in wanted.items() if value is not None}
    clauses = [f"{column} = ?" for column in given]
    return "WHERE " + " AND ".join(clauses or ["1"]), list(given.values())
