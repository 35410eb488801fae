"""The quickstart with adapters that act on all tokens, and with adapters that act from the reply on.

    python -m benchmarks.learning.activated_lora [--updates 10] [--seeds 0 1 2] [--json FILE]

Both learn on the same schedule of matches and differ only in `lora.activation`. A row holds the reward of
every update and the points at the end. A finished run adds its row at once; rows that are there are kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.child_process import commit
from srl_agents.metrics.sinks import METRICS, read_lines

RESULTS = Path("benchmarks/results/activated_lora.json")
FORMS = ("start", "reply")
Row = dict[str, Any]


def train(form: str, seed: int, updates: int, folder: Path) -> Row:
    """Train one run and return its numbers."""
    settings = (
        f"lora.activation={form}",
        f"updates={updates}",
        f"evaluation.every={updates}",
        "evaluation.final_pairs=1",
        f"checkpoint_every={updates}",
    )
    command = [sys.executable, "-m", "srl_agents.cli.main", "train", "quickstart-tiny"]
    command += ["--seed", str(seed), "--out", str(folder)]
    command += [part for setting in settings for part in ("--set", setting)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    records = read_lines(folder / METRICS)
    last = records[-1]["learners"].values()
    points = {
        name: round(float(np.mean([values[name] for values in last])), 4)
        for name in next(iter(last))
        if name.startswith("score_")
    }
    means = [
        float(np.mean([own["reward"] for own in record["learners"].values()])) for record in records
    ]
    drift = [
        max(own.get("sampler_kl", 0.0) for own in record["learners"].values()) for record in records
    ]
    return {
        "activation": form,
        "seed": seed,
        "updates": updates,
        "rewards": [round(mean, 4) for mean in means],
        "points": points,
        "sampler_kl": max(drift),
        "generate_s": round(float(np.mean([r["run"]["generate_s"] for r in records])), 3),
        "train_s": round(float(np.mean([r["run"]["train_s"] for r in records])), 3),
        "commit": commit(),
    }


def main() -> None:
    """Run what is missing, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows: list[Row] = json.loads(options.json.read_text()) if options.json.is_file() else []
    for seed in options.seeds:
        for form in FORMS:
            key = {"activation": form, "seed": seed, "updates": options.updates}
            if any(key.items() <= row.items() for row in rows):
                continue
            with tempfile.TemporaryDirectory() as scratch:
                rows.append(train(form, seed, options.updates, Path(scratch) / "run"))
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
            print(json.dumps(rows[-1]), flush=True)
    print("| activation | seeds | reward, first and last update | points | play, training (s) |")
    print("|---|--:|--:|--:|--:|")
    for form in FORMS:
        own = [row for row in rows if row["activation"] == form]
        curve = np.mean([row["rewards"] for row in own], axis=0)
        points = np.mean([np.mean(list(row["points"].values())) for row in own])
        play, training = (np.mean([row[name] for row in own]) for name in ("generate_s", "train_s"))
        print(
            f"| {form} | {len(own)} | {curve[0]:.3f}, {curve[-1]:.3f} | {points:.3f} | {play:.1f}, "
            f"{training:.1f} |"
        )


if __name__ == "__main__":
    main()
