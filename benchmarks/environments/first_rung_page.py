"""The page ``docs/environments/first_rung.md``, written from ``benchmarks/results/first_rung.json``.

python -m benchmarks.environments.first_rung_page
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PAGE = Path(__file__).parents[2] / "docs/environments/first_rung.md"
RESULTS = Path(__file__).parents[1] / "results/first_rung.json"
ASKED = 0.6
"""Share of legal replies that a level has to be learnable to."""
GAMES = (
    "plan_path-v0", "solve_and_verify-v0", "research_room-v0", "holdem-v0", "puzzles-v0", "sokoban-v0",
    "sudoku-v0", "expedition-v0", "werewolf-v0", "chess-v0", "treaties-v0", "test_and_code-v0",
)  # fmt: skip
"""Those that are to be measured, in order."""
RESAMPLES = 10_000
Z = 1.96


class Interval(NamedTuple):
    """A mean and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def share(legal: Sequence[float]) -> Interval:
    """Mean share of legal replies, with Wilson's interval as if each episode were one reply.

    Replies of one episode stand or fall together, so they count as one.
    """
    n, p = len(legal), float(np.mean(legal))
    middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * sqrt(p * (1 - p) / n + (Z / (2 * n)) ** 2)
    return Interval(p, middle - half, middle + half)


def above(returns: Sequence[float], others: Sequence[float]) -> Interval:
    """How far returns are above others on the same seeds: normal interval of the mean difference."""
    differences = np.subtract(returns, others)
    mean, half = differences.mean(), Z * differences.std(ddof=1) / sqrt(len(differences))
    return Interval(float(mean), float(mean - half), float(mean + half))


def gain(trained: Sequence[Sequence[float]], before: Sequence[float]) -> Interval:
    """Gain of learners in training, over seeds of training and eval seeds, both resampled.

    Args:
        trained: returns per seed of training, eval seed by eval seed.
        before: of the adapter that all of them began with, on the same eval seeds.
    """
    gains_SE = np.subtract(trained, before)
    seeds, episodes = gains_SE.shape
    rng = np.random.default_rng(0)
    drawn_RS = rng.integers(seeds, size=(RESAMPLES, seeds))
    drawn_RE = rng.integers(episodes, size=(RESAMPLES, episodes))
    means_R = gains_SE[drawn_RS[:, :, None], drawn_RE[:, None, :]].mean(axis=(1, 2))
    low, high = np.quantile(means_R, (0.025, 0.975))
    return Interval(float(gains_SE.mean()), float(low), float(high))


def write(found: Mapping[str, Any]) -> None:
    """Write the page."""
    PAGE.write_text(page(found))


def page(found: Mapping[str, Any]) -> str:
    """The whole page, in Markdown."""
    lines = [*_BEGIN, "", table(found), "", summary(found)]
    if any(course["seeds"] for course in found["courses"].values()):
        lines += ["", *_COURSES, "", course_table(found)]
    lines += ["", "## Levels", "", "| game | options | bot |", "|---|---|---|"]
    lines += [
        f"| `{env_id}` | {_options(row['options'])} | {row['imitated']} |"
        for env_id, row in found["rungs"].items()
    ]
    return "\n".join(lines) + "\n"


_BEGIN = (
    "# What a small model learns at the first rung",
    "",
    "Written by `benchmarks/environments/first_rung.py` from `results/first_rung.json`; do not edit.",
    "",
    "A small model imitates a bot on train seeds at the easiest level of each newer game (`warm_start`",
    "of a recipe): `smollm2-135m` by a LoRA adapter on its upper half, `tiny`, where it stands, by all",
    "its weights. Then it plays on eval seeds at temperature 1, with one reply a turn: one that is not",
    "legal costs 0.05 and is answered by the default move. `uniform` is a legal move drawn uniformly, in",
    "the same seat of the same episodes. Intervals are at 95 %, over episodes. CPU seconds are those of",
    "imitation, and of all play.",
)
_COURSES = (
    "## Training from there",
    "",
    "All weights of `tiny` imitate games of two bots, so that it begins between them, and learners go",
    "on from there by GRPO, one per seed, with the same eval episodes before and after. The interval is",
    "over seeds of training and over episodes, both resampled.",
)


def table(found: Mapping[str, Any]) -> str:
    """One line per game."""
    lines = [
        "| game | model | examples, steps | legal before | legal | return before | return | uniform "
        "| return - uniform | CPU s |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for env_id, row in found["rungs"].items():
        before, after, uniform = row["before"], row["imitated_play"], row["uniform"]
        legal = share(after["legal"])
        played = sum(part["cpu_s"] for part in (before, after, uniform))
        lines.append(
            f"| `{env_id}` | {row['model']} | {row['examples']}, {row['steps']} "
            f"| {np.mean(before['legal']):.0%} | {legal.mean:.0%} [{legal.low:.0%}, {legal.high:.0%}] "
            f"| {np.mean(before['returns']):+.3f} | {np.mean(after['returns']):+.3f} "
            f"| {np.mean(uniform['returns']):+.3f} | {above(after['returns'], uniform['returns'])} "
            f"| {row['imitation_cpu_s']:.0f}, {played:.0f} |"
        )
    return "\n".join(lines)


def summary(found: Mapping[str, Any]) -> str:
    """How many games reach what is asked, and which are not measured."""
    rows = found["rungs"].values()
    legal = sum(share(row["imitated_play"]["legal"]).mean >= ASKED for row in rows)
    leads = [above(row["imitated_play"]["returns"], row["uniform"]["returns"]) for row in rows]
    missing = [f"`{game}`" for game in GAMES if game not in found["rungs"]]
    unmeasured = f" Not measured yet: {', '.join(missing)}." if missing else ""
    return (
        f"At least {ASKED:.0%} of the replies are legal in {legal} of {len(rows)} games. Returns are above "
        f"uniform in {sum(lead.mean > 0 for lead in leads)}, and the interval is wholly above in "
        f"{sum(lead.low > 0 for lead in leads)}.{unmeasured}"
    )


def course_table(found: Mapping[str, Any]) -> str:
    """One line per game that was trained."""
    lines = [
        "| game | bots | examples | legal, imitated | legal, trained | updates, episodes each | imitated "
        "| trained, by seed | gain | CPU s a seed |",
        "|---|---|--:|--:|---|--:|--:|---|--:|--:|",
    ]
    for env_id, row in found["courses"].items():
        before, seeds = row["imitated_play"], list(row["seeds"].values())
        if not seeds:
            continue
        after = [seed["played"]["returns"] for seed in seeds]
        lines.append(
            f"| `{env_id}` | {', '.join(row['bots'])} | {row['examples']} | {np.mean(before['legal']):.0%} "
            f"| {', '.join(format(np.mean(seed['played']['legal']), '.0%') for seed in seeds)} "
            f"| {row['updates']}, {row['start_states'] * row['group_size']} "
            f"| {np.mean(before['returns']):+.3f} | {', '.join(f'{np.mean(r):+.3f}' for r in after)} "
            f"| {gain(after, before['returns'])} | {np.mean([seed['cpu_s'] for seed in seeds]):.0f} |"
        )
    return "\n".join(lines)


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in options.items())


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text()))
    sys.stdout.write(f"{PAGE}\n")
