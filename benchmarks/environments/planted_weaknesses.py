"""Which share of planted weaknesses does the red team find?

    python -m benchmarks.environments.planted_weaknesses [--draws 1] [--seconds 90] [--kind NAME] [--publish]

Every kind of weakness (`weak_games.KINDS`) is planted into a drawn game at a drawn place, and the weak game
is attacked with the budget of one game. A weakness is found where the attack has a finding of the kind that
it should have, whose case shows it again in the weak game and not in the same game without the weakness.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments.weak_games import KINDS, Planted, plant
from srl_envs.redteam.attack import attack, check_case
from srl_envs.redteam.betting import interval
from srl_envs.redteam.budget import Budget
from srl_envs.redteam.findings import Finding

RESULTS = Path(__file__).parents[1] / "results/planted_weaknesses.json"


def main() -> int:
    """Plant, attack, print, and publish where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1, help="plants of each kind")
    parser.add_argument("--seconds", type=float, default=90.0, help="of processor time per plant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", default=[], help="one or more; all by default")
    parser.add_argument("--publish", action="store_true", help="write the rows to the results")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for draw in range(asked.draws):
        for kind in asked.kind or KINDS:
            planted = plant(kind, np.random.default_rng([asked.seed, draw, [*KINDS].index(kind)]))
            rows.append(tried(planted, asked.seed, Budget(seconds=asked.seconds)))
            sys.stdout.write(json.dumps(rows[-1]) + "\n")
            sys.stdout.flush()
            if asked.publish:
                publish(rows, asked)
    return 0


def tried(planted: Planted, seed: int, budget: Budget) -> dict[str, Any]:
    """Attack a weak game; the first finding that is due to its weakness, if any."""
    report = attack(planted.weak, seed=seed, budget=budget)
    due = [one for one in report.findings if one.kind in KINDS[planted.kind].found_as]
    shown = next((one for one in due if is_due_to(one, planted)), None)
    return {
        **asdict(planted), "found": shown is not None, "by": shown.kind if shown else "",
        "shows": f"{shown.observed} ({shown.detail})".replace(" ()", "") if shown else "",
        "others": sorted({one.kind for one in report.findings} - KINDS[planted.kind].found_as),
        "faults": report.faults, "cpu_s": round(report.spent_s, 1),
    }  # fmt: skip


def is_due_to(finding: Finding, planted: Planted) -> bool:
    """Whether the case shows in the weak game, and not in the sound one."""
    case = {**finding.case, "target": planted.sound}
    if "state" in case:
        case["state"] = {**case["state"], "env": planted.sound}
    return check_case(finding.case) is not None and check_case(case) is None


def publish(rows: list[dict[str, Any]], asked: argparse.Namespace) -> None:
    """Write the rows with the share that was found and its interval."""
    found = [float(row["found"]) for row in rows]
    share = interval(found, least=0.0, most=1.0)
    data = {
        "command": "python -m benchmarks.environments.planted_weaknesses "
        f"--draws {asked.draws} --seconds {asked.seconds:g} --seed {asked.seed}",
        "found": sum(map(int, found)), "planted": len(rows),
        "share": share.mean, "low": share.low, "high": share.high,
        "rows": [{k: v for k, v in row.items() if k not in ("weak", "sound")} for row in rows],
    }  # fmt: skip
    RESULTS.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
