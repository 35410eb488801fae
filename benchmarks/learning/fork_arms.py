"""Which credit learns most from equal tokens? Short runs of one adapter with itself on mini Hanabi.

    python -m benchmarks.learning.small_games hanabi --out runs/models/hanabi
    nice -n 19 python -m benchmarks.learning.fork_arms --model runs/models/hanabi [--only ARM ...]

Every run ends by `stop: {tokens: N}`, which counts all that the model writes, branches included. Shown are
mean outcomes of matches from their start, played on train seeds with temperature 1: in the first update, and
in the last third of the tokens. A finished run adds its row to the result file at once, an interrupted one
goes on when the command is given again. Seeds 901 and 902 are pilots, which no published comparison uses.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.learning.child_process import commit, in_child
from benchmarks.learning.exchange_arms import train
from benchmarks.learning.fork_credit import GAMES
from srl_agents.metrics.sinks import METRICS, read_lines

RESULTS = Path("benchmarks/results/fork_arms.json")
RUNS = Path("runs/fork_arms")
GAME = "hanabi_mini-v0"
RECIPE: dict[str, Any] = {
    "name": "fork-arms",
    "env": GAME,
    "env_options": GAMES[GAME],
    "learners": ["alice"],
    "updates": 1000,
    "lora": {"rank": 8, "alpha": 16},
    "rollout": {"start_states": 8, "group_size": 4, "max_new_tokens": 8, "order": "free"},
    "opponents": {"mirror": 1, "live": 0, "past": 0},
    "training": {
        "learning_rate": 1e-3,
        "kl_coef": 0.02,
        "optimizer": "adamw_8bit",
        "micro_batch_rows": 32,
    },
    "evaluation": {"every": 0, "final_pairs": 2, "bots": []},
    "snapshot_every": 1000,
    "checkpoint_every": 10,
}
_TURN = {"level": "turn"}
_FORKS = {"alternatives": 4, "share": 0.34}
_PATH = {"alternatives": 4}
ARMS: dict[str, dict[str, Any]] = {
    "group per episode": {},
    "group per turn": {"credit": _TURN},
    "difference": {
        "credit": {"mode": "cooperative", "cooperation": 1.0, "team_share": "difference"}
    },
    "c3": {"credit": {"estimator": "c3", **_TURN}, "forks": _FORKS},
    "c3, fresh chances": {
        "credit": {"estimator": "c3", **_TURN},
        "forks": {**_FORKS, "chances": "fresh"},
    },
    "vine": {"credit": {"estimator": "vine", **_TURN}, "forks": {**_FORKS, "chances": "fresh"}},
    "tree": {"credit": {"estimator": "tree", **_TURN}, "forks": _FORKS},
    "at_grpo, best path": {
        "credit": {"estimator": "at_grpo", **_TURN},
        "forks": {**_PATH, "path": "best"},
    },
    "at_grpo, sampled path": {
        "credit": {"estimator": "at_grpo", **_TURN},
        "forks": {**_PATH, "path": "sampled"},
    },
}
"""What differs from the recipe."""
Row = dict[str, Any]


def measured(run: Path) -> Row:
    """Numbers of a finished run.

    Args:
        run: its folder.

    Returns:
        ``first`` and ``last``: mean outcome in the first update, and in those of the last third of the
        tokens; ``updates``, ``tokens``, ``trained_tokens``; ``refused``: share of replies at the end.
    """
    records = read_lines(run / METRICS)
    tokens = np.array([record["run"]["spent/tokens"] for record in records])
    late = [r for r, spent in zip(records, tokens, strict=True) if spent > tokens[-1] * 2 / 3]
    own = [record["learners"]["alice"] for record in (records[0], *late)]
    return {
        "first": own[0]["outcome"],
        "last": float(np.mean([values["outcome"] for values in own[1:]])),
        "refused": float(np.mean([values["invalid_share"] for values in own[1:]])),
        "updates": len(records),
        "tokens": int(tokens[-1]),
        "trained_tokens": int(records[-1]["run"]["spent/trained_tokens"]),
    }


def run_missing(
    model: str, only: Sequence[str], seeds: Sequence[int], tokens: int, results: Path
) -> list[Row]:
    """Run what has no row yet; all rows."""
    rows: list[Row] = json.loads(results.read_text()) if results.is_file() else []
    for seed in seeds:
        for arm, settings in ARMS.items():
            key = {"arm": arm, "seed": seed, "limit": tokens}
            if arm not in only or any(key.items() <= row.items() for row in rows):
                continue
            name = "-".join(str(part).replace(" ", "_").replace(",", "") for part in key.values())
            RUNS.mkdir(parents=True, exist_ok=True)
            recipe = RUNS / f"{name}.yaml"
            given = {**RECIPE, **settings, "model": model, "stop": {"tokens": tokens}}
            recipe.write_text(yaml.safe_dump(given, sort_keys=False))
            arguments = [str(recipe), "--seed", str(seed), "--out", str(RUNS / name)]
            spent = in_child(lambda given=arguments: train(given), RUNS / f"{name}.log")  # type: ignore[misc]
            if spent is None:
                continue
            rows.append({**key, "commit": commit(), **asdict(spent), **measured(RUNS / name)})
            results.write_text(json.dumps(rows, indent=1) + "\n")
            print(json.dumps(rows[-1]), flush=True)
    return rows


def show(rows: list[Row]) -> None:
    """Print a row per arm: means over seeds, and each seed's gain."""
    print("| credit | seeds | updates | outcome, first | last | gain of each seed | CPU (s) |")
    print("|---|--:|--:|--:|--:|---|--:|")
    for arm in ARMS:
        own = [row for row in rows if row["arm"] == arm]
        if not own:
            continue
        means = {k: np.mean([row[k] for row in own]) for k in ("updates", "first", "last", "cpu_s")}
        gains = ", ".join(f"{row['last'] - row['first']:+.3f}" for row in own)
        print(
            f"| {arm} | {len(own)} | {means['updates']:.0f} | {means['first']:.3f} | {means['last']:.3f} | "
            f"{gains} | {means['cpu_s']:.0f} |"
        )


def main() -> None:
    """Run what is missing, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of the model")
    parser.add_argument("--only", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[901, 902])
    parser.add_argument("--tokens", type=int, default=40_000)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    show(run_missing(options.model, options.only, options.seeds, options.tokens, options.json))


if __name__ == "__main__":
    main()
