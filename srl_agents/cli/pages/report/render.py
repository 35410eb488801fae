"""One self-contained HTML file: styles, scripts, the plotting library and the numbers inside.

Names of runs and agents come from anywhere. They travel as data and reach the page as text nodes, and
the content policy admits exactly the scripts and styles that ship with this package.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

from srl_agents.cli.pages.report.panels import arranged, meaning
from srl_agents.cli.pages.report.runs import Run
from srl_agents.cli.pages.shared import embedded_json, shared_files
from srl_agents.league.settings import LIMITS

_HERE = files("srl_agents.cli.pages.report")
_OPTIMISER_FIELDS = ("algorithm", "variant", "learning_rate", "kl_coef", "loss_type", "optimizer")


def page(runs: Sequence[Run], command: str) -> str:
    """The HTML of a report.

    Args:
        runs: at least one.
        command: the command line that makes it again.
    """
    loaded = [*shared_files().loaded, _HERE / "report.css", _HERE / "report.js"]
    texts = {file.name: file.read_text(encoding="utf-8") for file in loaded}
    styles = [text for name, text in texts.items() if name.endswith(".css")]
    scripts = [text for name, text in texts.items() if name.endswith(".js")]
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src {' '.join(map(_source, styles))}; script-src {' '.join(map(_source, scripts))}"
    )
    return Template((_HERE / "report.html").read_text(encoding="utf-8")).substitute(
        policy=policy,
        styles="\n".join(f"<style>{text}</style>" for text in styles),
        scripts="\n".join(f"<script>{text}</script>" for text in scripts),
        data=embedded_json(report_data(runs, command)),
    )


def report_data(runs: Sequence[Run], command: str) -> dict[str, Any]:
    """What the page draws: runs, and per environment its sections of charts.

    Runs whose recipes differ only in their seed are one condition: drawn in one colour, each thin,
    with their mean.
    """
    conditions: list[dict[str, Any]] = []
    for run in runs:
        if run.condition not in conditions:
            conditions.append(run.condition)
    environments = list(dict.fromkeys(run.env for run in runs))
    return {
        "command": command,
        "runs": [
            {
                "label": run.label,
                "condition": conditions.index(run.condition),
                "env": run.env,
                "facts": _facts(run),
                "roles": {
                    name: run.recipe.get("roles", {}).get(name, "main") for name in run.learners
                },
                "own": run.own,
                "learners": run.learners,
                "tables": run.tables,
                "transfer": run.transfer,
                "outside": run.outside,
                "memory": run.memory,
            }
            for run in runs
        ],
        "environments": [
            {
                "env": env,
                "sections": [
                    {
                        "heading": heading,
                        "charts": [
                            {"metric": metric, "spread": spread, "help": meaning(metric)}
                            for metric, spread in charts
                        ],
                    }
                    for heading, charts in arranged(
                        metric
                        for run in runs
                        if run.env == env
                        for columns in (run.own, *run.learners.values())
                        for metric in columns
                    )
                ],
            }
            for env in environments
        ],
    }


def _facts(run: Run) -> list[tuple[str, str]]:
    """Facts about a run, in the order in which the page shows them."""
    recipe, training = run.recipe, run.recipe.get("training") or {}
    facts = {
        "recipe": recipe.get("name"),
        "model": recipe.get("model"),
        "seed": recipe.get("seed", 0),
        "updates": f"{run.updates} of {recipe.get('updates', run.updates)}",
        "learners": ", ".join(run.learners),
        "credit": (recipe.get("credit") or {}).get("mode"),
        "coordination": (recipe.get("coordination") or {}).get("kind"),
        **{name: training.get(name) for name in _OPTIMISER_FIELDS},
        "spent": _spent(run),
    }
    return [(name, str(value)) for name, value in facts.items() if value is not None]


def _spent(run: Run) -> str | None:
    """All that the run spent up to its last update, with the limit where its recipe has one."""
    limits = run.recipe.get("stop") or {}
    spent = {name: run.own.get(f"spent/{name}") for name in LIMITS}
    parts = [
        f"{name} {values['y'][-1]:,.0f}" + (f" of {limits[name]:,.0f}" if limits.get(name) else "")
        for name, values in spent.items()
        if values and values["y"][-1] is not None
    ]
    return ", ".join(parts) or None


def _source(text: str) -> str:
    """A content-policy source that matches exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
