"""Tokens a second of the embedded engine in whole matches, beside its peers and without its parts.

What each measure contributes, in rounds until the time is used:

    python -m benchmarks.speed.generation --ablation --env connect_four-v0 --matches 8 --tokens 8 --json FILE

Beside a checkout of commit 27969fc (``git worktree add ../srl-27969fc 27969fc``), and beside TRL:

    python -m benchmarks.speed.generation --cells free baseline --baseline ../srl-27969fc --json FILE
    python -m benchmarks.speed.generation --cells free trl --env connect_four-v0 --json FILE

Every cell plays the same start states, 8 attempts each, in a process of its own with one torch thread;
rounds alternate until ``--minutes`` are over. ``free`` and ``exact`` are the two orders of play on the
embedded engine; ``baseline`` is that checkout (lockstep on transformers' `generate`); ``trl`` asks
`GRPOTrainer._generate_single_turn` for one turn of all matches after the other. The other cells are
``free`` without one of its parts; ``4 adapters apart`` is beside ``4 adapters``. Tokens are those of
replies. Wall seconds count what overlaps; where other programs share the cores, CPU seconds are the
fairer ones.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.speed.generation_cell import (
    ABLATIONS,
    ADAPTERS,
    ADAPTERS_APART,
    MKL,
    NOT_PACKED,
    NOTHING_KEPT,
    STEPS_IN_LINE,
)

OWN = (*ABLATIONS, NOTHING_KEPT, STEPS_IN_LINE, NOT_PACKED, MKL, ADAPTERS, ADAPTERS_APART)
CELLS = (*OWN, "trl", "baseline")
BESIDE = {ADAPTERS_APART: ADAPTERS}
"""Cell -> the one that it is compared with, where that is not ``free``."""
ENVS = ("code_duel-v0", "hanabi_mini-v0", "connect_four-v0")
ROOT = Path(__file__).resolve().parents[2]


def run_cell(cell: str, env: str, options: argparse.Namespace) -> dict[str, float]:
    """Play once."""
    checkout = options.baseline.resolve() if cell == "baseline" else ROOT
    program = ROOT / "benchmarks" / "speed" / "generation_cell.py"
    command = [sys.executable, str(program), cell, "--env", env, "--model", options.model]
    for name in ("matches", "tokens", "rows"):
        command += [f"--{name}", str(getattr(options, name))]
    one_thread = {"OMP_NUM_THREADS": "1", "SRL_TORCH_THREADS": "1", "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        command,
        cwd=checkout,
        env=os.environ | one_thread,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rates: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return rates


def measure(env: str, cells: list[str], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Cell -> number of rounds, and medians over them; one round at least, then while time is left."""
    runs: dict[str, list[dict[str, float]]] = {cell: [] for cell in cells}
    began, longest_s = time.monotonic(), 0.0
    for number in range(options.rounds):
        round_began = time.monotonic()
        if number and round_began - began + longest_s > 60 * options.minutes / len(options.env):
            break
        for cell in cells:
            run = run_cell(cell, env, options)
            runs[cell].append(run)
            print(f"{env} {cell}: {run['tokens'] / run['wall_s']:.1f} tokens/s", file=sys.stderr)
        longest_s = max(longest_s, time.monotonic() - round_began)
    result = {}
    for cell, own in runs.items():
        result[cell] = {key: statistics.median(run[key] for run in own) for key in own[0]}
        result[cell]["rounds"] = len(own)
        for clock in ("wall", "cpu"):
            result[cell][f"tokens_per_{clock}_s"] = statistics.median(
                run["tokens"] / run[f"{clock}_s"] for run in own
            )
    return result


def table(env: str, cells: dict[str, dict[str, float]]) -> str:
    """Markdown."""
    lines = [
        f"\n{env}\n",
        "| cell | tokens/s | `free` over it | tokens/CPU s | `free` over it | tokens | prompts | rounds |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, cell in cells.items():
        free = cells[BESIDE.get(name, "free")]
        wall, cpu = cell["tokens_per_wall_s"], cell["tokens_per_cpu_s"]
        lines.append(
            f"| {name} | {wall:.1f} | {free['tokens_per_wall_s'] / wall:.2f} | {cpu:.1f} | "
            f"{free['tokens_per_cpu_s'] / cpu:.2f} | {cell['tokens']:.0f} | {cell['prompt_tokens']:.0f} | "
            f"{cell['rounds']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--baseline", type=Path, help="checkout of commit 27969fc; left out if absent"
    )
    parser.add_argument("--env", nargs="+", default=list(ENVS))
    parser.add_argument(
        "--ablation", action="store_true", help="all cells but those of other programs"
    )
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--matches", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32, help="most per reply")
    parser.add_argument("--rows", type=int, default=64, help="most replies in one batch")
    parser.add_argument("--rounds", type=int, default=9, help="at most")
    parser.add_argument("--minutes", type=float, default=8, help="after which no round begins")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    chosen = OWN if options.ablation else options.cells
    if ADAPTERS_APART in chosen and ADAPTERS not in chosen:
        chosen = [ADAPTERS, *chosen]
    cells = ["free", *(cell for cell in chosen if cell != "free")]
    if options.baseline is None:
        cells = [cell for cell in cells if cell != "baseline"]
    results: dict[str, Any] = {env: measure(env, cells, options) for env in options.env}
    for env, measured in results.items():
        print(table(env, measured))
    if options.json:
        setting = {key: str(value) for key, value in vars(options).items()}
        host = {"processor": platform.processor(), "cores": os.cpu_count()}
        record = {"settings": setting, "host": host, "envs": results}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
