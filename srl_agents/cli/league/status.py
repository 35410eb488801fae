"""`srl league status RUN`: ratings of the agents, and the learners' gains over their start."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, RunFolderOptions
from srl_agents.league.agents import labels
from srl_agents.league.ratings.diagnostics import Diagnostics
from srl_agents.league.ratings.focal_returns import CrossPlay, FocalReturn
from srl_agents.league.ratings.tables import Interval, RatingTable
from srl_agents.league.standings import Status, gains_of, read_status
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import plain_json
from srl_agents.training.folder.layout import STORE
from srl_envs.errors import ConfigError

DESCRIPTION = """Show the ratings of a run, and how each learner does against the version it started as.

Ratings come from the final round robin on eval seeds (or, before the end, from the last look); of a
population from its evaluation matches. Cooperative games are ranked by cross-play, mixed ones show
focal returns too, teams are rated side against side; games of one seat, or scored among strangers,
show returns and no Elo.
The interval of a comparison is clustered by seed: mirrored games of one seed count as one.

Examples:
  srl league status runs/quickstart-tiny-seed0
  srl league status runs/quickstart-tiny-seed0 --diagnostics
"""
_PIPED_COLUMNS = 120
Names = dict[str, str]
"""Agent id -> what is shown."""


@dataclass(frozen=True)
class StatusOptions(RunFolderOptions, JSONOptions):
    """Which run."""

    diagnostics: bool = False
    """Show equilibrium, cyclic share and exploiters too."""


def status(argv: list[str]) -> int:
    """Run the command; see `srl league status --help`."""
    options = read_options(
        StatusOptions, command="srl league status", description=DESCRIPTION, argv=argv
    )
    path = options.run / STORE if options.run.is_dir() else options.run
    if options.json:
        with LeagueStore(path, mode="read") as store:
            statuses = read_status(store, with_diagnostics=options.diagnostics)
        _require(statuses, path)
        print(plain_json([plain(status) for status in statuses], indent=2))
    else:
        width = None if sys.stdout.isatty() else _PIPED_COLUMNS
        Console(soft_wrap=True, width=width).print(_look(path, options), highlight=False)
    return 0


def _require(statuses: list[Status], path: Path) -> None:
    if not statuses:
        raise ConfigError(f"{path} holds no evaluation matches yet; ratings come only from those.")


def _look(path: Path, options: StatusOptions) -> RenderableType:
    with LeagueStore(path, mode="read") as store:
        statuses = read_status(store, with_diagnostics=options.diagnostics)
        agents = {agent.agent_id: agent for agent in store.agents()}
        playing = len(store.leases())
    _require(statuses, path)
    parts: list[RenderableType] = []
    for found in statuses:
        parts += show(found, agents)
    if playing:
        parts.append(f"{playing} matches are being played")
    return Group(*parts)


def show(found: Status, agents: dict[str, AgentVersion]) -> list[RenderableType]:
    """Tables and lines about one environment."""
    parts: list[RenderableType] = []
    names = labels(agents)
    if found.partners is not None:  # all seats are paid alike, so Elo would mean nothing
        parts.append(_partner_table(found, found.partners, names))
    elif found.table is None:
        parts.append(_alone_table(found, names))
    else:
        parts.append(_rating_table(found, found.table, agents, names))
    if found.focal and found.table is not None:
        parts.append(_focal_table(found.focal, names))
    if found.diagnostics is not None:
        parts += _diagnostic_parts(found.diagnostics, names)
    for gain in gains_of(found, agents):
        by = gain.difference
        verdict = (
            "better than its start" if gain.better else "not shown to be better than its start"
        )
        parts.append(
            f"{names[gain.agent]} against {gain.start}: {gain.unit} difference {by.estimate:+.3f} "
            f"\\[{by.low:+.3f}, {by.high:+.3f}] over {by.clusters} seeds: {verdict}"
        )
    return parts


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in columns:
        left = name in ("agent", "", "worst partner", "exploiter", "budget")
        # the only sentence in a table may wrap
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "budget")
    return table


def _alone_table(found: Status, names: Names) -> Table:
    seats = max((row.seats for row in found.focal), default=1)
    what = "by itself, no opponents" if seats == 1 else "in one seat, strangers in the others"
    title = f"{found.title}, {found.schedule}: return {what}"
    table = _table(title, "agent", "return", "games")
    for row in found.focal:
        table.add_row(names.get(row.agent, row.agent), _interval(row.focal), str(row.games))
    return table


def _rating_table(
    found: Status, ratings: RatingTable, agents: dict[str, AgentVersion], names: Names
) -> Table:
    clean = found.without_errors
    more = ("Elo*",) if clean is not None else ()
    columns = ("rank", "agent", "", "Elo", "±95%", "games", "W/D/L", "score", *more)
    table = _table(f"{found.title}, {found.schedule}", *columns)
    if clean is not None:
        table.caption = "Elo*: without games that a forfeit ended"
    for row in ratings.ratings:
        rank = (
            f"{row.best_rank}"
            if row.best_rank == row.worst_rank
            else f"{row.best_rank}–{row.worst_rank}"
        )
        note = "before" if _is_start(row.agent, agents) else ""
        note = "after" if row.agent in found.gains else note
        cells = [
            rank, names.get(row.agent, row.agent), note, f"{row.elo:+.0f}", f"{row.half_width:.0f}",
            str(row.games), f"{row.wins}/{row.draws}/{row.losses}", f"{row.field_score:.0%}",
        ]  # fmt: skip
        if clean is not None:
            cells.append(f"{clean[row.agent].elo:+.0f}" if row.agent in clean.agents else "-")
        table.add_row(*cells)
    return table


def _partner_table(found: Status, partners: CrossPlay, names: Names) -> Table:
    title = f"{found.title}, {found.schedule}: return with strangers, and with itself"
    table = _table(
        title, "agent", "zero-shot", "cross-play", "self-play", "gap", "worst partner"
    )  # fmt: skip
    table.caption = "zero-shot: with partners that its training never met"
    for row in partners.ratings:
        gap = "-" if math.isnan(row.gap) else f"{row.gap:+.3f}"
        table.add_row(
            names[row.agent], _interval(row.held_out), _interval(row.cross_play),
            _interval(row.self_play), gap, names[row.worst_partner] if row.worst_partner else "-",
        )  # fmt: skip
    return table


def _focal_table(rows: list[FocalReturn], names: Names) -> Table:
    table = _table("returns by seats held", "agent", "seats", "own", "others'", "games")
    for row in rows:
        table.add_row(
            names[row.agent], f"{row.focal_seats} of {row.seats}", _interval(row.focal),
            _interval(row.background), str(row.games),
        )  # fmt: skip
    return table


def _diagnostic_parts(found: Diagnostics, names: Names) -> list[RenderableType]:
    table = _table(
        "diagnostics", "agent", "Nash", "in support", "loses by", "exploiter", "budget"
    )  # fmt: skip
    for k, row in enumerate(found.exploitability):
        table.add_row(
            names[row.agent], f"{found.nash_N[k]:.0%}", f"{found.nash_frequency_N[k]:.0%}",
            f"{row.bound:.2f}" if row.exploiter else "-",
            names[row.exploiter] if row.exploiter else "-", row.budget,
        )  # fmt: skip
    cyclic = f"cyclic share {found.cyclic_share:.2f}, of which chance {found.noise_share:.2f}"
    return [table, cyclic]


def _interval(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.estimate:.3f} ±{interval.half_width:.3f}"


def _is_start(agent: str, agents: dict[str, AgentVersion]) -> bool:
    return any(other.parent == agent for other in agents.values())


def plain(status: Status) -> dict[str, Any]:
    """Ratings of one environment as `--json` prints them."""
    return {
        "env_id": status.env_id,
        "options": status.options,
        "schedule": status.schedule,
        "ratings": [asdict(row) for row in status.table.ratings] if status.table else [],
        "gains": {
            agent: {"estimate": g.estimate, "low": g.low, "high": g.high, "seeds": g.clusters}
            for agent, g in status.gains.items()
        },
        "without_errors": status.without_errors
        and [asdict(row) for row in status.without_errors.ratings],
        "cross_play": status.partners and _plain_partners(status.partners),
        "focal": [asdict(row) for row in status.focal],
        "diagnostics": status.diagnostics and _plain_diagnostics(status.diagnostics),
    }


def _plain_partners(table: CrossPlay) -> dict[str, Any]:
    return {
        "ratings": [asdict(row) for row in table.ratings],
        "mean": table.mean_NN.tolist(),
        "games": table.games_NN.tolist(),
    }


def _plain_diagnostics(found: Diagnostics) -> dict[str, Any]:
    return {
        "agents": list(found.agents),
        "nash": found.nash_N.tolist(),
        "nash_frequency": found.nash_frequency_N.tolist(),
        "cyclic_share": found.cyclic_share,
        "noise_share": found.noise_share,
        "exploitability": [asdict(row) for row in found.exploitability],
    }
