"""`srl league status RUN`: who is how strong, and did the learners get better."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from srl_agents.league.ratings import Interval, RatingTable, head_to_head, rate
from srl_agents.league.store import AgentVersion, LeagueStore
from srl_envs.errors import ConfigError

DESCRIPTION = """Show the ratings of a run, and how each learner does against the version it started as.

Ratings come from the final round robin on eval seeds (or, before the end, from the last look).
The interval of a comparison is clustered by seed: mirrored games of one seed count as one.

Examples:
  srl league status runs/quickstart-tiny-seed0
  srl league status runs/quickstart-tiny-seed0 --json
"""
STORE = "league.db"


@dataclass(frozen=True)
class StatusOptions:
    """Which run."""

    run: tyro.conf.Positional[Path]
    """Folder of a run, or a league store."""
    json: bool = False
    """Print JSON instead of tables."""


@dataclass(frozen=True)
class Status:
    """Ratings of one environment of a store."""

    env_id: str
    schedule: str
    table: RatingTable
    gains: dict[str, Interval]
    """Learner's last version -> mean outcome difference to its start over mirrored pairs."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl league --help`."""
    if argv[:1] != ["status"]:
        if argv[:1] in ([], ["--help"], ["-h"]):
            print("usage: srl league status RUN [--json]\n\n" + DESCRIPTION)
            return 0
        raise ConfigError(f"no subcommand {argv[0]!r}; there is: status.")
    options = tyro.cli(
        StatusOptions, prog="srl league status", description=DESCRIPTION, args=argv[1:]
    )
    path = options.run / STORE if options.run.is_dir() else options.run
    with LeagueStore(path, mode="read") as store:
        statuses = read_status(store)
        agents = {agent.agent_id: agent for agent in store.agents()}
    if not statuses:
        raise ConfigError(f"{path} holds no evaluation matches yet; ratings come from those alone.")
    if options.json:
        print(json.dumps([_plain(status) for status in statuses], indent=2))
        return 0
    for status in statuses:
        _show(status, agents)
    return 0


def read_status(store: LeagueStore) -> list[Status]:
    """Ratings per environment, from the last evaluation schedule of each."""
    agents = store.agents()
    anchors = [a.agent_id for a in agents if a.role == "anchor"]
    statuses = []
    for env_id, options in store.environments():
        schedules = [
            spec.schedule for spec, _ in store.matches(env_id, "eval", "eval", options=options)
        ]
        if not schedules:
            continue
        schedule = schedules[-1]
        pairs = store.pairs(env_id, options=options, schedule=schedule)
        gains = {
            agent.agent_id: head_to_head(pairs, agent.agent_id, agent.parent)
            for agent in agents
            if agent.parent in pairs.agents and agent.agent_id in pairs.agents
        }
        present = [name for name in anchors if name in pairs.agents]
        statuses.append(Status(env_id, schedule, rate(pairs, anchors=present), gains))
    return statuses


def _show(status: Status, agents: dict[str, AgentVersion]) -> None:
    console = Console(soft_wrap=True)
    table = Table(title=f"{status.env_id}, {status.schedule}", title_justify="left")
    for name in ("rank", "agent", "", "Elo", "±95%", "games", "W", "D", "L", "score"):
        table.add_column(name, justify="left" if name in ("agent", "") else "right", no_wrap=True)
    for row in status.table.ratings:
        rank = (
            f"{row.best_rank}"
            if row.best_rank == row.worst_rank
            else f"{row.best_rank}–{row.worst_rank}"
        )
        note = "before" if _is_start(row.agent, agents) else ""
        note = "after" if row.agent in status.gains else note
        table.add_row(
            rank, row.agent, note, f"{row.elo:+.0f}", f"{row.half_width:.0f}", str(row.games),
            str(row.wins), str(row.draws), str(row.losses), f"{row.field_score:.0%}",
        )  # fmt: skip
    console.print(table)
    for agent, gain in status.gains.items():
        verdict = (
            "better than its start" if gain.low > 0 else "not shown to be better than its start"
        )
        console.print(
            f"{agent} against {agents[agent].parent}: score difference {gain.estimate:+.3f} "
            f"[{gain.low:+.3f}, {gain.high:+.3f}] over {gain.clusters} seeds: {verdict}",
            highlight=False,
        )


def _is_start(agent: str, agents: dict[str, AgentVersion]) -> bool:
    return any(other.parent == agent for other in agents.values())


def _plain(status: Status) -> dict[str, Any]:
    return {
        "env_id": status.env_id,
        "schedule": status.schedule,
        "ratings": [asdict(row) for row in status.table.ratings],
        "gains": {
            agent: {"estimate": g.estimate, "low": g.low, "high": g.high, "seeds": g.clusters}
            for agent, g in status.gains.items()
        },
    }
