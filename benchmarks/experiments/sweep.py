"""The queue of an experiment: train and measure what has no row yet, one run after the other.

A run trains in a child at the lowest priority with one thread, and writes checkpoints as its recipe sets.
The same command goes on after any stop, `kill -9` included: a finished run keeps its row, an unfinished one
goes on from its last checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

import srl_envs
from benchmarks.experiments import announced, rows
from benchmarks.experiments.announced import HEX, Key, Page
from benchmarks.learning.child_process import in_child
from benchmarks.learning.small_games import CORPORA, require
from srl_agents.records import digest

RUNS = Path("runs/announced")
LOWEST_PRIORITY = 19
_RESULTS = (
    *("replies_refused", "reward_collapsed", "never_accepted", "kl_blown_up"),
    *("loss_exploded", "gradient_exploded", "weights_exploded"),
)
"""Faults that stop or roll back a user's run; an arm that collapses has to be measured as it is."""
_AUTOGROUP = Path("/proc/self/autogroup")


def wanted(page: Page, patterns: Sequence[str], seeds: Sequence[int]) -> list[Key]:
    """Runs that match ``arena/arm`` patterns, in the order of the queue."""
    return [
        key._replace(seed=seed)
        for key in page.experiment.runs()
        if key.seed == page.experiment.seeds[0]
        and any(fnmatch(f"{key.arena}/{key.arm}", pattern) for pattern in patterns)
        for seed in seeds
    ]


def work(
    page: Page, keys: Sequence[Key], runs: Path = RUNS, results: Path = rows.RESULTS
) -> list[Key]:
    """Run what has no row yet; those that failed."""
    import srl_agents.training.loop.run  # noqa: F401 - once, for all children

    failed = []
    for key in keys:
        if key in {rows.key_of(row) for row in rows.load(page.name, results)}:
            continue
        row = run_one(page, key, runs)
        if row is None:
            failed.append(key)
            continue
        rows.save(page.name, [*rows.load(page.name, results), row], results)
        print(f"{key}: {row['cpu_s']:.0f} CPU s, {row['values']}", flush=True)
    return failed


def behind_all_others() -> None:
    """Take the lowest priority.

    Where Linux schedules by session, `nice` counts only within a session (sched(7), "The autogroup
    feature"). A session without a terminal, as `setsid` starts it, is therefore lowered as a whole.
    """
    os.nice(LOWEST_PRIORITY)
    if _AUTOGROUP.exists() and not _has_terminal():
        with contextlib.suppress(PermissionError):
            _AUTOGROUP.write_text(str(LOWEST_PRIORITY))


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY))
    except OSError:
        return False
    return True


def run_one(page: Page, key: Key, runs: Path = RUNS) -> rows.Row | None:
    """Train and measure one run in a child.

    Returns:
        Its row; None if it failed, with the end of its log on the standard error stream.
    """
    measure = page.experiment.arenas[key.arena].measure
    folder = runs / page.name / key.arena / _slug(key.arm)
    folder.mkdir(parents=True, exist_ok=True)
    out, found = folder / f"seed{key.seed}", folder / f"seed{key.seed}.json"
    recipe = page.experiment.recipe(key.arena, key.arm)
    named = {"name": f"{page.name}-{key.arena}", **_with_built_models(recipe)}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(named, sort_keys=False))

    def train_and_measure() -> int:
        code = _train([str(path), "--seed", str(key.seed), "--out", str(out)])
        if code == 0:
            found.write_text(json.dumps(measured(out, measure)))
        return code

    if in_child(train_and_measure, folder / f"seed{key.seed}.log") is None:
        return None
    return rows.sealed(
        {
            "experiment": page.name,
            **key._asdict(),
            "registration": page.digest,
            "recipe": digest(recipe)[:HEX],
            "commit": code_version(),
            "srl": srl_envs.__version__,
            "machine": _machine(),
            **json.loads(found.read_text()),
        }
    )


def _with_built_models(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe with folders in the place of the names of `CORPORA`, which are built if they are not there."""

    def place(values: Mapping[str, Any]) -> dict[str, Any]:
        name = values["model"]
        return {**values, "model": str(require(name)) if name in CORPORA else name}

    if "models" not in recipe:
        return place(recipe)
    return {**recipe, "models": {name: place(own) for name, own in recipe["models"].items()}}


def measured(folder: Path, measure: Any) -> dict[str, Any]:
    """What a finished run spent, and the values of its measure."""
    from benchmarks.experiments.measures import MEASURES
    from srl_agents import Run
    from srl_agents.agents.contents import base_sha256
    from srl_agents.models.sources import catalog

    training_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    started, run = time.process_time(), Run.open(folder)
    found = MEASURES[measure](run)
    records = run.metrics()
    spent = {
        name: records[-1].run[f"spent/{name}"] for name in ("tokens", "trained_tokens", "cpu_s")
    }
    own = time.process_time() - started
    return {
        "model": "+".join(
            base_sha256(catalog.resolve(base.model))[:HEX] for base in run.recipe.bases
        ),
        "versions": [str(version) for version in {v.learner: v for v in run.versions()}.values()],
        "updates": len(records),
        "tokens": int(spent["tokens"]),
        "trained_tokens": int(spent["trained_tokens"]),
        "training_cpu_s": round(spent["cpu_s"], 1),
        "cpu_s": round(spent["cpu_s"] + own, 1),
        "training_mib": training_mib,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **found,
    }


def code_version(root: Path = announced.ROOT) -> str:
    """The commit that runs, with `rows.CHANGED` behind it where tracked files differ from it.

    Rows that a sweep writes into its clone are results and no code.
    """
    results = rows.RESULTS.relative_to(announced.ROOT)
    head = _git("rev-parse", "--short", "HEAD", root=root).strip() or "unknown"
    changed = _git(
        "status", "--porcelain", "--untracked-files=no", "--", ".", f":!{results}", root=root
    )
    return head + rows.CHANGED * bool(changed)


def page_at(code: str, name: str) -> str | None:
    """Digest of an experiment's page in a commit; empty if it had none, None if the commit is not here."""
    if not _git("cat-file", "-t", code):
        return None
    text = _git("show", f"{code}:{announced.PAGES.relative_to(announced.ROOT)}/{name}.md")
    return announced.digest_of(text) if text else ""


def _git(*arguments: str, root: Path = announced.ROOT) -> str:
    found = subprocess.run(
        ["git", *arguments], check=False, capture_output=True, text=True, cwd=root
    )
    return found.stdout if found.returncode == 0 else ""


def _train(arguments: list[str]) -> int:
    from srl_agents.cli.train import main

    policies = ", ".join(f"{fault}: go_on" for fault in _RESULTS)
    settings = ("survival.allow_nothing_learned=true", f"survival.policies={{{policies}}}")
    return main([*arguments, *(part for one in settings for part in ("--set", one))])


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _machine() -> str:
    """Hardware class and the versions that decide rounding."""
    import torch

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, torch {torch.__version__}"
