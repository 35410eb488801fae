"""Grouping of metrics on the report page, with headings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from srl_agents.metrics.names import MEANINGS


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: a metric, and metrics that bound it."""

    metric: str
    spread: str = ""
    """Metric that is drawn as a band of plus and minus itself."""


SECTIONS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Reward",
        (
            Panel("reward", spread="reward/std"), Panel("reward/min"), Panel("reward/max"),
            Panel("outcome"), Panel("format"), Panel("invalid_share"), Panel("flat_groups"),
        ),
    ),
    ("Reward by component", (Panel("reward/*"),)),
    (
        "Against the start and bots",
        (
            Panel("score_start"), Panel("score_bot:*"), Panel("eval_format"),
            Panel("start_format"),
        ),
    ),
    ("By game", (Panel("game/*/share"), Panel("game/*/level"), Panel("game/*/*"))),
    (
        "By seat",
        (Panel("seat*/reward/mean", spread="seat*/reward/std"), Panel("seat*/reward/min"),
            Panel("seat*/reward/max"), Panel("seat*/invalid_share")),
    ),
    (
        "Policy",
        (
            Panel("kl"), Panel("kl/max"), Panel("entropy"), Panel("clip_fraction"), Panel("sampler_kl"),
            Panel("loss"), Panel("grad_norm"), Panel("learning_rate"),
        ),
    ),
    ("Value", (Panel("value/loss"), Panel("value/explained_var"), Panel("baseline"))),
    (
        "Credit and coordination",
        (
            Panel("beta"), Panel("gamma"), Panel("own_term"), Panel("team_term"), Panel("rival_term"),
            Panel("importance_weight"), Panel("gradient_agreement"), Panel("sign_share"),
            Panel("stepped"), Panel("merge_weight"), Panel("merge_gap"), Panel("factor_gap"),
            Panel("staleness"), Panel("teacher_kl"),
        ),
    ),
    (
        "Generation beside training",
        (
            Panel("overlap_s"), Panel("wait_s"), Panel("generation_idle_s"), Panel("version_lag"),
            Panel("version_lag/max"), Panel("rows_lag:*"), Panel("rows_too_old"), Panel("refilled"),
        ),
    ),
    (
        "Throughput and memory",
        (
            Panel("tokens_per_s"), Panel("memory/allocated_gb"), Panel("generate_s"),
            Panel("train_s"), Panel("train_tokens_per_s"), Panel("cache_share"),
            Panel("cache_share/possible"), Panel("requests_in_flight"), Panel("environments_s"),
            Panel("first_token_s/p50"), Panel("first_token_s/p99"), Panel("between_tokens_s/p50"),
            Panel("between_tokens_s/p99"), Panel("batch_rows"), Panel("batch_share"),
            Panel("system/gpu_share"),
            Panel("system/cpu_share"), Panel("rows"), Panel("reply_tokens"), Panel("unread_share"),
            Panel("void"),
        ),
    ),
)  # fmt: skip
"""Headings and their charts; metrics that are in none of them come last, under "Other"."""
OTHER = "Other"


def arranged(metrics: Iterable[str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """(heading, [(metric, its spread or nothing)]) of the metrics that a run has.

    A ``*`` in a panel's name stands for anything; it makes one chart per metric that fits.
    """
    left, sections = dict.fromkeys(sorted(metrics)), []
    for heading, panels in SECTIONS:
        charts = []
        for panel in panels:
            pattern = re.escape(panel.metric).replace(r"\*", "(.+)")
            for match in filter(None, [re.fullmatch(pattern, name) for name in left]):
                spread = panel.spread.replace("*", match[1]) if match.groups() else panel.spread
                charts.append((match[0], spread if spread in left else ""))
        for name in itertools.chain.from_iterable(charts):
            left.pop(name, None)
        if charts:
            sections.append((heading, charts))
    if left:
        sections.append((OTHER, [(name, "") for name in left]))
    return sections


def meaning(metric: str) -> str:
    """Description of a metric, with its unit; empty for one without a description."""
    seat, _, inner = metric.partition("/") if metric.startswith("seat") else ("", "", metric)
    if inner.startswith("score_bot:"):
        inner = "score_bot:NAME"
    elif inner.startswith("rows_lag:"):
        inner = "rows_lag:N"
    elif inner.startswith("reward/") and inner not in MEANINGS:
        inner = "reward/NAME"
    if inner.startswith("game/"):
        _, game, own = inner.split("/", 2)
        text = MEANINGS.get(f"game/NAME/{own}") or meaning(own)
        return f"{text}, in {game}" if text else ""
    text = MEANINGS.get(inner, "")
    return f"{text}, in {seat}" if seat and text else text
