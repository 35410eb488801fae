"""Does an exchange of rollouts help unlike learners, and which part of it? Short runs, and a table.

    nice -n 19 python -m benchmarks.learning.exchange_arms [--only PAIR/ARM ...] [--seeds 100 101]

Every run is one `srl train exchange-tiny` with a pair of bases, an arm's settings and a root seed. Two
pairs solve problems; `wide+narrow` are models that were built on public goods, of widths 128 and 96 and
with vocabularies of their own (`benchmarks.learning.small_games`), and each plays a round with three
bots. A finished run adds its row to the result file at once, an interrupted one goes on when the command
is given again, and rows that are there are kept; all run one after the other on one thread. Seeds 100
and 101 are pilots, which no announced experiment uses.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments.comparisons import half_width
from benchmarks.learning.child_process import commit, in_child
from benchmarks.learning.small_games import PUBLIC_GOODS, require
from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics.sinks import METRICS, read_lines
from srl_agents.records import label_of

RESULTS = Path("benchmarks/results/exchange_arms.json")
RUNS = Path("runs/exchange_arms")
_TWO_STEPS = "training.iterations=2"
LEARNERS = ("alice", "bob")
_GOODS = "public_goods-v0"
PLAYED: dict[str, dict[str, str]] = {
    "wide+narrow": {"alice": "public_goods", "bob": "public_goods_narrow"}
}
"""Pairs that play a game with bots, with the learners' bases; the others solve problems."""
PAIRS: dict[str, tuple[str, ...]] = {
    "tiny+shallow": (),
    "wide+narrow": (
        "models={"
        + ", ".join(
            f"{model}: {{model: runs/models/{model}, learners: [{name}]}}"
            for name, model in PLAYED["wide+narrow"].items()
        )
        + "}",
        f"env={_GOODS}",
        f"env_options={json.dumps(dict(PUBLIC_GOODS[_GOODS].options))}",
        "opponents={mirror: 0, live: 0, past: 0, bots: {random: 1}}",
        "evaluation.final_pairs=1",
    ),
    "smollm2+tiny": (
        "models={deep: {model: smollm2-135m, learners: [alice], prompt: {examples: "
        "[{observation: 'Problem: 2 + 3 = ?', reply: '<action>5</action>'}, "
        "{observation: 'Problem: 30 - 12 = ?', reply: '<action>18</action>'}]}}, "
        "shallow: {model: tiny, learners: [bob]}}",
    ),
}
"""Bases of alice and bob: settings over the recipe."""
NO_EXCHANGE = "no exchange"
ARMS: dict[str, tuple[str, ...]] = {
    NO_EXCHANGE: ("sharing=null",),
    f"{NO_EXCHANGE}, two steps": ("sharing=null", _TWO_STEPS),
    "naive": ("sharing={kind: rollouts, exchange: {estimator: naive}}",),
    "full": (),
    "no rescaling": ("sharing.exchange.estimator=no_rescaling",),
    "no discrepancy": ("sharing.exchange.estimator=no_discrepancy",),
    "exponent 0": ("sharing.exchange.exponent=0",),
    "no clip": ("sharing.exchange.clip=null",),
    "full, two steps": (_TWO_STEPS,),
    "fixed clip, two steps": ("sharing.exchange.clip=[0.2, 0]", _TWO_STEPS),
}
"""What differs from the recipe."""
SHOWN = ("exchange/below", "exchange/above", "exchange/ratio", "exchange/gradient_share")
Row = dict[str, Any]


def settings_of(pair: str, arm: str, updates: int) -> tuple[str, ...]:
    """KEY=VALUE settings of a run."""
    ends = (f"updates={updates}", "evaluation.every=0", f"checkpoint_every={updates}")
    return (*PAIRS[pair], *ARMS[arm], *ends)


def outcomes(folder: Path) -> dict[str, float]:
    """Mean outcome on eval seeds of each learner of a run, and of its start, in a game with random bots."""
    from benchmarks.experiments.measures import own_outcome
    from srl_agents import Run

    values = own_outcome(Run.open(folder))["values"]
    return {
        name: round(values[key], 4)
        for learner in LEARNERS
        for name, key in ((f"{learner}, start", f"first_{learner}"), (learner, learner))
    }


def train(arguments: list[str]) -> int:
    """`srl train`, in a child."""
    from srl_agents.cli.train import main

    return main(arguments)


def measured(run: Path) -> Row:
    """Numbers of a finished run, by learner.

    Args:
        run: its folder.

    Returns:
        ``returns``: mean share of right answers on eval seeds; ``rewards``: mean reward in training, in the
        first and the last quarter; ``tokens`` sampled in training; means over the updates of `SHOWN`, where
        the run has them.
    """
    with LeagueStore(run / "league.db", mode="read") as store:
        final, played = store.matches(schedule=FINAL), store.matches(split="train")
    returns: dict[str, list[float]] = {}
    for spec, result in final:
        returns.setdefault(label_of(spec.seats[0]), []).append((1 + result.outcomes[0]) / 2)
    learners = {
        name: values for name, values in returns.items() if name.partition("@")[0] in LEARNERS
    }
    records = read_lines(run / METRICS)
    quarter = max(len(records) // 4, 1)
    rewards = {
        name: [
            round(float(np.mean([r["learners"][name]["reward"] for r in part])), 4)
            for part in (records[:quarter], records[-quarter:])
        ]
        for name in LEARNERS
    }
    shown: Row = {}
    for name in LEARNERS:
        for metric in SHOWN:
            found = [r["learners"][name][metric] for r in records if metric in r["learners"][name]]
            if found:
                shown.setdefault(name, {})[metric] = round(float(np.mean(found)), 4)
    return {
        "returns": {
            name.partition("@")[0]: round(float(np.mean(values)), 4)
            for name, values in learners.items()
        },
        "rewards": rewards,
        "tokens": sum(sum(result.tokens) for _, result in played),
        "exchange": shown,
    }


def run_missing(only: list[str], seeds: list[int], updates: int, results: Path) -> list[Row]:
    """Run what has no row yet; all rows."""
    rows: list[Row] = json.loads(results.read_text()) if results.is_file() else []
    for seed in seeds:
        for pair in PAIRS:
            for arm in ARMS:
                key = {"pair": pair, "arm": arm, "seed": seed, "updates": updates}
                wanted = any(fnmatch.fnmatch(f"{pair}/{arm}", pattern) for pattern in only)
                if not wanted or any(key.items() <= row.items() for row in rows):
                    continue
                name = "-".join(str(part).replace(" ", "_") for part in key.values())
                arguments = ["exchange-tiny", "--seed", str(seed), "--out", str(RUNS / name)]
                settings = settings_of(pair, arm, updates)
                arguments += [part for one in settings for part in ("--set", one)]
                RUNS.mkdir(parents=True, exist_ok=True)
                for model in PLAYED.get(pair, {}).values():
                    require(model)
                spent = in_child(lambda given=arguments: train(given), RUNS / f"{name}.log")  # type: ignore[misc]
                if spent is None:
                    continue
                row = {**key, "commit": commit(), **asdict(spent), **measured(RUNS / name)}
                if pair in PLAYED:
                    row["outcomes"] = outcomes(RUNS / name)
                rows.append(row)
                results.write_text(json.dumps(rows, indent=1) + "\n")
                print(json.dumps(row), flush=True)
    return rows


def score(row: Row, learner: str) -> float:
    """A learner's mean outcome among bots, or where problems are solved its share of right answers."""
    scores = row["outcomes"] if "outcomes" in row else row["returns"]
    return float(scores[learner])


def show(rows: list[Row]) -> None:
    """Print means over seeds, and what both learners have above those that exchange nothing."""
    print(
        "| pair | credit for others' rows | seeds | alice | bob | above no exchange by seed, both | "
        "mean, 95 % | others in alice's, bob's gradient | CPU s |"
    )
    print("|---|---|--:|--:|--:|---|---|--:|--:|")
    for pair in PAIRS:
        for arm in ARMS:
            own = {r["seed"]: r for r in rows if (r["pair"], r["arm"]) == (pair, arm)}
            if own:
                base = {r["seed"]: r for r in rows if (r["pair"], r["arm"]) == (pair, NO_EXCHANGE)}
                print(f"| {pair} | {arm} {_line(own, base)}")
    print(f"\n{len(rows)} runs, {sum(row['cpu_s'] for row in rows) / 3600:.2f} CPU hours.")


def _line(own: dict[int, Row], base: dict[int, Row]) -> str:
    scores = [np.mean([score(row, name) for row in own.values()]) for name in LEARNERS]
    gains = [
        float(np.mean([score(own[seed], name) - score(base[seed], name) for name in LEARNERS]))
        for seed in sorted(own.keys() & base.keys())
    ]
    if own == base:
        gains = []
    by_seed = ", ".join(f"{gain:+.3f}" for gain in gains)
    mean = f"{np.mean(gains):+.3f} ± {half_width(gains):.3f}" if len(gains) > 1 else ""
    share = ", ".join(
        f"{np.mean([r['exchange'].get(name, {}).get(SHOWN[-1], 0.0) for r in own.values()]):.2f}"
        for name in LEARNERS
    )
    cpu_s = np.mean([row["cpu_s"] for row in own.values()])
    return (
        f"| {len(own)} | {scores[0]:.3f} | {scores[1]:.3f} | {by_seed} | {mean} | {share} | "
        f"{cpu_s:.0f} |"
    )


def main() -> None:
    """Run what is missing, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=["*"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101])
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    show(run_missing(options.only, options.seeds, options.updates, options.json))


if __name__ == "__main__":
    main()
