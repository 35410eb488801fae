"""Run announced experiments, collect their rows, and write the report.

    python -m benchmarks.experiments run credit_by_forks [--only 'hanabi/*'] [--seeds 0 1]
    python -m benchmarks.experiments status
    python -m benchmarks.experiments collect OTHER_CLONE/benchmarks/results/experiments
    python -m benchmarks.experiments report
    srl reproduce credit_by_forks/hanabi/c3 --seed 0

A sweep takes one core at the lowest priority, and goes on when the command is given again. Let it run in
a clone of its own, so that edits do not change what runs:

    setsid python -m benchmarks.experiments run NAME > sweep.log 2>&1 < /dev/null &
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.experiments import announced, rows
from srl_envs.errors import SRLError


def run(options: argparse.Namespace) -> int:
    """1 if a run failed."""
    from benchmarks.experiments import sweep

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    page = announced.read(options.name)
    keys = sweep.wanted(page, options.only, options.seeds or page.experiment.seeds)
    sweep.behind_all_others()
    failed = sweep.work(page, keys, options.runs, options.results)
    for key in failed:
        print(f"{page.name}/{key} failed; its log is beside its folder in {options.runs}.")
    return min(len(failed), 1)


def status(options: argparse.Namespace) -> int:
    """Finished runs and CPU hours by experiment and arm."""
    for page in announced.pages():
        own = rows.load(page.name, options.results)
        hours = sum(row["cpu_s"] for row in own) / 3600
        print(
            f"{page.name}: {len(own)} of {len(page.experiment.runs())} runs, {hours:.2f} CPU hours of "
            f"{page.experiment.cpu_hours:g} planned"
        )
        for arena in page.experiment.arenas:
            for arm in page.experiment.arms_of(arena):
                done = [row["seed"] for row in own if (row["arena"], row["arm"]) == (arena, arm)]
                print(f"  {arena}/{arm}: seeds {sorted(done)}")
    return 0


def collect(options: argparse.Namespace) -> int:
    """Take over rows from another folder."""
    new = rows.collect(options.source, options.results)
    print("\n".join(new) or "nothing new")
    return 0


def report(options: argparse.Namespace) -> int:
    """Write the report; 1 with a line per fault if a result is missing, changed or unregistered."""
    from benchmarks.experiments.report_page import write

    write(options.results)
    return 0


def reproduce(options: argparse.Namespace) -> int:
    """Run one arm with one seed again and compare; 1 if it differs by more than a seed would."""
    from benchmarks.experiments import reproduction

    return reproduction.reproduce(options.name, options.seed, options.results)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 a run failed, 2 the user has something to fix."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--results", type=Path, default=rows.RESULTS)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help=run.__doc__)
    running.add_argument("name")
    running.add_argument("--only", nargs="+", default=["*"], help="ARENA/ARM patterns")
    running.add_argument(
        "--seeds", nargs="+", type=int, help="those of the page; 900 and above are pilots"
    )
    running.add_argument("--runs", type=Path, default=Path("runs/announced"))
    running.set_defaults(do=run)
    taking = commands.add_parser("collect", help=collect.__doc__)
    taking.add_argument("source", type=Path)
    taking.set_defaults(do=collect)
    again = commands.add_parser("reproduce", help=reproduce.__doc__)
    again.add_argument("name", help="EXPERIMENT/ARENA/ARM")
    again.add_argument("--seed", type=int, default=0)
    again.set_defaults(do=reproduce)
    commands.add_parser("status", help=status.__doc__).set_defaults(do=status)
    commands.add_parser("report", help=report.__doc__).set_defaults(do=report)
    options = parser.parse_args(argv)
    try:
        return int(options.do(options))
    except SRLError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
