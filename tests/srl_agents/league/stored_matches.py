"""Agents, matches and results to put into a store."""

from __future__ import annotations

from typing import Any

from srl_agents.league.store.history import AgentVersion
from srl_agents.records import MatchResult, MatchSpec

AGENTS = ("a@1", "bot:x", "c")


def agent(name: str, **changes: Any) -> AgentVersion:
    values = {"agent_id": name, "lineage": name.partition("@")[0], "role": "frozen"}
    return AgentVersion(**(values | changes))


def spec(number: int = 0, **changes: Any) -> MatchSpec:
    values: dict[str, Any] = {
        "env_id": "duel-v0",
        "seed": 7,
        "split": "eval",
        "seats": ("a@1", "bot:x"),
        "number": number,
    }
    return MatchSpec(**(values | changes))


def result(of: MatchSpec, outcomes: tuple[float, ...] = (1.0, -1.0), **changes: Any) -> MatchResult:
    values = {
        "match_id": of.match_id,
        "outcomes": outcomes,
        "rewards": outcomes,
        "termination": "ok",
    }
    return MatchResult(**(values | changes))
