"""Which share of planted weaknesses does the red team find?

    python -m benchmarks.environments.planted_weaknesses [--seconds 90] [--kind NAME] [--publish] [--again]

Every kind of weakness (`weak_games.KINDS`) is planted into a drawn game at a drawn place, and the weak game
is attacked with the budget of one game. A weakness is found where the attack has a finding of the kind that
it should have, whose case shows it again in the weak game and not in the same game without the weakness.
With ``--again`` the published weaknesses that were missed are attacked once more, with another budget.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.environments.weak_games import KINDS, Planted, plant
from srl_envs.redteam.attack import attack, check_case
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
    parser.add_argument("--again", action="store_true", help="only what the published rows missed")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text())["rows"] if asked.again else []
    known = {(row["draw"], row["kind"]): row for row in rows}
    for draw in range(asked.draws):
        for kind in asked.kind or KINDS:
            if asked.again and known[draw, kind]["found"]:
                continue
            planted = plant(kind, np.random.default_rng([asked.seed, draw, [*KINDS].index(kind)]))
            found = tried(planted, asked.seed, Budget(seconds=asked.seconds))
            known[draw, kind] = {"draw": draw, "seconds": asked.seconds, **found}
            sys.stdout.write(json.dumps(known[draw, kind]) + "\n")
            sys.stdout.flush()
            if asked.publish:
                publish([*known.values()], asked.seed)
    return 0


def tried(planted: Planted, seed: int, budget: Budget) -> dict[str, Any]:
    """Attack a weak game; the first finding that is due to its weakness, if any."""
    report = attack(planted.weak, seed=seed, budget=budget)
    due = [one for one in report.findings if one.kind in KINDS[planted.kind].found_as]
    shown = next((one for one in due if is_due_to(one, planted)), None)
    return {
        "kind": planted.kind, "host": planted.host, "place": planted.place,
        "found": shown is not None, "by": shown.kind if shown else "",
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


def publish(rows: list[dict[str, Any]], seed: int) -> None:
    """Write the rows, and the share that was found with its exact interval (Clopper and Pearson)."""
    found = sum(row["found"] for row in rows)
    share = stats.binomtest(found, len(rows)).proportion_ci()
    data = {
        "command": f"python -m benchmarks.environments.planted_weaknesses --seed {seed} --publish",
        "found": found, "planted": len(rows), "share": round(found / len(rows), 3),
        "low": round(share.low, 3), "high": round(share.high, 3), "rows": rows,
    }  # fmt: skip
    RESULTS.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
