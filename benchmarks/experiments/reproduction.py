"""Run one arm with one seed again, and compare with the stored row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.experiments import announced, rows, sweep
from benchmarks.experiments.announced import Key, Page
from srl_envs.errors import ConfigError, nearest

RUNS = Path("runs/reproduced")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row beside the stored one."""

    equal: bool
    """The last weights and all values are equal bit for bit."""
    difference: float
    """Of ``last``, new minus stored."""
    allowed: float
    """What one more seed of the arm may differ by from their mean (95 %), at least the margin."""
    distance: float
    """Of the new ``last`` from the mean of the arm's stored seeds."""

    @property
    def reproduced(self) -> bool:
        """Equal, or where one more seed would lie."""
        return self.equal or self.distance <= self.allowed


def compared(stored: Sequence[rows.Row], own: rows.Row, margin: float) -> Outcome:
    """A new row beside the stored rows of its arm, its own seed among them."""
    last = np.array([row["values"]["last"] for row in stored])
    (old,) = (row for row in stored if row["seed"] == own["seed"])
    new, size, allowed = own["values"]["last"], len(last), margin
    if size > 1:
        spread = float(np.std(last, ddof=1)) * np.sqrt(1 + 1 / size)
        allowed = max(margin, float(stats.t.ppf(0.975, size - 1)) * spread)
    return Outcome(
        equal=(own["versions"], own["values"]) == (old["versions"], old["values"]),
        difference=new - old["values"]["last"],
        allowed=allowed,
        distance=abs(new - float(np.mean(last))),
    )


def chosen(name: str, seed: int, results: Path) -> tuple[Page, Key, list[rows.Row]]:
    """Page, key and stored rows of an arm.

    Raises:
        ConfigError: no arm has this name, or none of its stored results this seed.
    """
    experiment, _, rest = name.partition("/")
    arena, _, arm = rest.partition("/")
    page = announced.read(experiment)
    known = {f"{experiment}/{key.arena}/{key.arm}" for key in page.experiment.runs()}
    if name not in known:
        raise ConfigError(
            f"no arm {name!r}.{nearest(name, known)} Known: {', '.join(sorted(known))}."
        )
    stored = [
        row for row in rows.load(experiment, results) if (row["arena"], row["arm"]) == (arena, arm)
    ]
    seeds = sorted(row["seed"] for row in stored)
    if seed not in seeds:
        raise ConfigError(f"{name}: no result of seed {seed} is stored. Stored seeds: {seeds}.")
    return page, Key(arena, arm, seed), stored


def reproduce(name: str, seed: int, results: Path = rows.RESULTS, runs: Path = RUNS) -> int:
    """Run, compare and print; 0 if it was reproduced."""
    page, key, stored = chosen(name, seed, results)
    (old,) = (row for row in stored if row["seed"] == seed)
    print(f"{name}, seed {seed}: about {old['cpu_s'] / 60:.1f} minutes of one core", flush=True)
    own = sweep.run_one(page, key, runs)
    if own is None:
        return 1
    outcome = compared(stored, own, page.experiment.margin)
    for label, row in (("stored", old), ("now", own)):
        print(
            f"  {label:6}  last {row['values']['last']:.4f}, {row['tokens']} tokens, {row['versions'][0]}"
        )
    same = "the same" if own["model"] == old["model"] else "another (rounding differs)"
    print(
        f"  base model: {same}; recipe: {'the same' if own['recipe'] == old['recipe'] else 'another'}"
    )
    if outcome.equal:
        print("  equal bit for bit")
    else:
        verdict = "reproduced" if outcome.reproduced else "NOT reproduced"
        print(
            f"  difference {outcome.difference:+.4f}; {outcome.distance:.4f} from the mean of {len(stored)} "
            f"seeds, {outcome.allowed:.4f} allowed: {verdict}"
        )
    return 0 if outcome.reproduced else 1
