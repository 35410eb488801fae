"""Read training runs from their folders: recipe, metrics per update, and the league's last table."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from srl_agents.cli.pages.report.phase_memory import phase_memory
from srl_agents.league.ratings.intervals import Interval
from srl_agents.league.standings import read_status
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics.sinks import METRICS, read_lines
from srl_agents.training.folder.layout import STORE
from srl_envs.errors import ConfigError

RECIPE, OUTSIDE, TRANSFER = "recipe.yaml", "eval/eval.json", "transfer.json"
_DECLARED = ("seed", "updates", "checkpoint_every", "keep_checkpoints")
"""Fields in which two runs of one condition may differ."""
_DIGITS = 6

Columns = dict[str, dict[str, list[float | None]]]
"""Metric -> ``x`` updates and ``y`` values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One training run."""

    label: str
    recipe: dict[str, Any]
    updates: int
    """Done so far."""
    own: Columns
    """Metrics of the run as a whole."""
    learners: dict[str, Columns]
    tables: list[dict[str, Any]]
    """Ratings per environment; empty before the first evaluation."""
    transfer: list[dict[str, Any]]
    """Gains of learners by game; empty before the end, and with one game."""
    outside: list[dict[str, Any]]
    """Rows of `srl eval --run`; empty where it was not called."""
    memory: dict[str, Any] | None
    """See `phase_memory`."""

    @property
    def env(self) -> str:
        """What is played, as the page calls it: one environment, or several."""
        games = self.recipe.get("environments") or []
        return ", ".join(g["name"] or g["env"] for g in games) or str(self.recipe.get("env", ""))

    @property
    def condition(self) -> dict[str, Any]:
        """The recipe without what differs between seeds of one experiment."""
        return {key: value for key, value in self.recipe.items() if key not in _DECLARED}


def read_run(folder: Path) -> Run:
    """Read a run's folder.

    Raises:
        ConfigError: the folder is not a run, or nothing was trained yet; the message names what is missing.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is not a folder. Give the folder of a run, as `srl train` names it."
        )
    for name, what in ((RECIPE, "the recipe"), (METRICS, "the curves")):
        if not (folder / name).is_file():
            raise ConfigError(
                f"{folder} has no {name} ({what}); is it the folder of a run of `srl train`?"
            )
    records = read_lines(folder / METRICS)
    if not records:
        raise ConfigError(f"{folder / METRICS} holds no update yet; wait for the first.")
    try:
        recipe = yaml.safe_load((folder / RECIPE).read_text(encoding="utf-8"))
        own, learners = _columns(records)
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{folder} cannot be read: {type(error).__name__}: {error}") from None
    if not isinstance(recipe, dict):
        raise ConfigError(f"{folder / RECIPE} does not hold a recipe.")
    return Run(
        label=folder.resolve().name,
        recipe=recipe,
        updates=records[-1]["update"],
        own=own,
        learners=learners,
        tables=_tables(folder / STORE),
        transfer=_rows(folder / TRANSFER, "`srl train`"),
        outside=_rows(folder / OUTSIDE, "`srl eval --run`"),
        memory=phase_memory(folder / RECIPE, records[-1]["update"]),
    )


def _rows(path: Path, writer: str) -> list[dict[str, Any]]:
    try:
        return list(json.loads(path.read_text(encoding="utf-8"))["rows"])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); {writer} writes it.") from None


def _columns(records: list[dict[str, Any]]) -> tuple[Columns, dict[str, Columns]]:
    own: Columns = {}
    learners: dict[str, Columns] = {}
    for record in records:
        _add(own, record["update"], record["run"])
        for learner, values in record["learners"].items():
            _add(learners.setdefault(learner, {}), record["update"], values)
    return own, learners


def _add(columns: Columns, update: int, values: dict[str, float]) -> None:
    for name, value in values.items():
        column = columns.setdefault(name, {"x": [], "y": []})
        column["x"].append(update)
        known = value is not None and math.isfinite(value)
        column["y"].append(float(f"{value:.{_DIGITS}g}") if known else None)


def _tables(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    with LeagueStore(path, mode="read") as store:
        found = read_status(store)
    return [
        {
            "title": status.title,
            "schedule": status.schedule,
            "rows": [
                {
                    "agent": row.agent,
                    "ranks": [row.best_rank, row.worst_rank],
                    "elo": round(row.elo, 1),
                    "half_width": round(row.half_width, 1) if math.isfinite(row.half_width) else None,
                    "games": row.games,
                    "score": round(row.field_score, 4) if math.isfinite(row.field_score) else None,
                }
                for row in (status.table.ratings if status.table else ())
            ],
            "alone": [
                {"agent": row.agent, "return": _returns(row.focal), "games": row.games}
                for row in (() if status.table else status.focal)
            ],
            "partners": [
                {
                    "agent": row.agent,
                    "zero_shot": _returns(row.held_out),
                    "cross_play": _returns(row.cross_play),
                    "self_play": _returns(row.self_play),
                }
                for row in (status.partners.ratings if status.partners else ())
            ],
            "gains": [
                {
                    "agent": agent,
                    "estimate": round(gain.estimate, 4),
                    "half_width": round(gain.half_width, 4) if math.isfinite(gain.half_width) else None,
                    "seeds": gain.clusters,
                }
                for agent, gain in status.gains.items()
            ],
        }
        for status in found
    ]  # fmt: skip


def _returns(found: Interval | None) -> list[float | None] | None:
    """Estimate and half width of a mean return."""
    if found is None:
        return None
    width = round(found.half_width, 4) if math.isfinite(found.half_width) else None
    return [round(found.estimate, 4), width]
