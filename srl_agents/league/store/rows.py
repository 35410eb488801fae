"""Conversion of match records to rows of the store and back, and checks of conflicting reports."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from typing import Any

from srl_agents.league.agents import AgentVersion
from srl_agents.records import Branch, MatchResult, MatchSpec, canonical_json
from srl_envs.errors import StoreError


def check_fit(match_id: str, spec: MatchSpec, result: MatchResult) -> None:
    """Refuse what could not be read back as it was."""
    seats = len(spec.seats)
    name = f"match {match_id}"
    if result.match_id != match_id:
        raise StoreError(f"{name}: the result belongs to match {result.match_id}.")
    learners = spec.learner_seats
    if learners and list(learners) != sorted({*learners} & {*range(seats)}):
        raise StoreError(
            f"{name}: learner_seats={learners}; give seats below {seats} in rising order."
        )
    if result.forfeited and not {*result.forfeited} <= {*range(seats)}:
        raise StoreError(f"{name}: forfeited={result.forfeited} names a seat of {seats} seats.")
    if spec.teams and len(spec.teams) != seats:
        raise StoreError(f"{name}: teams={spec.teams} for {seats} seats.")
    void = result.termination == "void"
    for column in ("outcomes", "rewards", "invalid_replies", "tokens"):
        values = getattr(result, column)
        optional = void or column in ("invalid_replies", "tokens")
        if len(values) != seats and not (optional and not values):
            raise StoreError(f"{name}: {column}={values} for {seats} seats.")
        if not all(map(math.isfinite, values)):
            raise StoreError(f"{name}: {column}={values} is not finite.")
    if result.outcomes and not (min(result.outcomes) >= -1 and max(result.outcomes) <= 1):
        raise StoreError(f"{name}: outcomes={result.outcomes}; an outcome lies in [-1, 1].")


def normal(result: MatchResult, seats: int) -> MatchResult:
    """The result as it is read back: nothing left out, plain numbers."""
    return replace(
        result,
        outcomes=tuple(float(v) for v in result.outcomes),
        rewards=tuple(float(v) for v in result.rewards),
        forfeited=tuple(sorted({*result.forfeited})),
        invalid_replies=tuple(int(v) for v in result.invalid_replies) or (0,) * seats,
        tokens=tuple(int(v) for v in result.tokens) or (0,) * seats,
    )


def seat_rows(result: MatchResult, seats: int) -> Iterator[tuple[Any, ...]]:
    """(outcome, reward, invalid, forfeited, tokens) per seat."""
    nothing = (None,) * seats
    zeros = (0,) * seats
    for k, row in enumerate(
        zip(
            result.outcomes or nothing,
            result.rewards or nothing,
            result.invalid_replies or zeros,
            result.tokens or zeros,
            strict=True,
        )
    ):
        outcome, reward, invalid, tokens = row
        yield outcome, reward, int(invalid), k in result.forfeited, int(tokens)


def match_from_rows(rows: list[tuple[Any, ...]]) -> tuple[MatchSpec, MatchResult]:
    """A match from its rows, one per seat."""
    _, env_id, options, seed, split, purpose, cluster, schedule, number, attempt = rows[0][:10]
    match_id, termination, turns, trajectory_sha256, branch = rows[0][10:15]
    agent, learner, outcome, reward, invalid, forfeited, tokens, team = zip(
        *(row[15:] for row in rows), strict=True
    )
    spec = MatchSpec(
        env_id=env_id,
        options=json.loads(options),
        seed=int(seed),
        split=split,
        seats=agent,
        learner_seats=tuple(k for k, learns in enumerate(learner) if learns),
        purpose=purpose,
        cluster=cluster,
        schedule=schedule,
        number=number,
        attempt=attempt,
        teams=() if team[0] is None else team,
        branch=None if branch is None else Branch(**json.loads(branch)),
    )
    result = MatchResult(
        match_id=match_id,
        outcomes=() if outcome[0] is None else outcome,
        rewards=() if reward[0] is None else reward,
        termination=termination,
        forfeited=tuple(k for k, gave_up in enumerate(forfeited) if gave_up),
        invalid_replies=invalid,
        turns=turns,
        tokens=tokens,
        trajectory_sha256=trajectory_sha256,
    )
    return spec, result


def refuse_other_agent(stored: AgentVersion, new: AgentVersion) -> None:
    """Raise `StoreError` unless both are one version."""
    for item in fields(AgentVersion):
        old, given = getattr(stored, item.name), getattr(new, item.name)
        if canonical_json(old) != canonical_json(given):
            raise StoreError(
                f"agent {new.agent_id!r} is already stored with {item.name}={old!r}, not {given!r}."
                " A version never changes: give the new one another id."
            )


def refuse_other_result(stored: MatchResult, new: MatchResult) -> None:
    """Raise `StoreError` unless both say the same."""
    for item in fields(MatchResult):
        old, given = getattr(stored, item.name), getattr(new, item.name)
        if old != given:
            raise StoreError(
                f"match {new.match_id} is already stored with {item.name}={old!r}, the new report"
                f" has {given!r}. One spec gave two results: something outside it decides them."
            )


def spec_to_json(spec: MatchSpec) -> str:
    """A spec as text that `spec_from_json` reads back."""
    return canonical_json(asdict(spec))


def spec_from_json(text: str) -> MatchSpec:
    """The inverse of `spec_to_json`."""
    values = json.loads(text)
    for name in ("seats", "learner_seats", "teams"):
        values[name] = tuple(values[name])
    if branch := values.get("branch"):
        values["branch"] = Branch(**branch)
    return MatchSpec(**values)
