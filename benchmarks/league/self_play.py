"""Is a league harder to exploit than plain self-play? Two games, equal matches, exact exploitability.

    python -m benchmarks.league.self_play run [--only GAME/WAY ...] [--seeds 0 1 2] [--json FILE]
    python -m benchmarks.league.self_play report [--images docs/images] [--json FILE]

`mirror`: one learner that meets itself as it is now. `league`: a main that meets itself, its past and
its exploiters as the preset ``competitive`` draws them, and a main exploiter; the two share the
matches that the single learner has. All begin as the same model (`benchmarks.learning.small_games`, built
when it is not there), which writes legal replies at random.

The games are small enough to read a policy off the model: the chance of every legal reply at every
decision, which the base and an adapter give exactly. What is left over is refused, so the game's
fallback gets it. So exploitability has no noise of its own; see `best_response`. At the end the last
versions of all runs, their start and bots meet in one pool on eval seeds, rated as everything is.

A finished run adds its row to the file at once; rows that are there are not run again.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import srl_envs
from benchmarks.league.best_response import (
    Decision,
    Policy,
    blotto_decisions,
    blotto_exploitability,
    kuhn_decisions,
    kuhn_exploitability,
    uniform,
)
from benchmarks.learning.child_process import commit, in_child
from benchmarks.learning.experiments import interval, train
from benchmarks.learning.small_games import GAMES, require
from srl_agents.league.matchmaking.arenas import Arena, Arenas
from srl_agents.league.matchmaking.evaluation_schedule import FINAL, EvaluationSchedule
from srl_agents.league.matchmaking.manager import BOT
from srl_agents.league.matchmaking.points import seat_points
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.tables import rate
from srl_agents.league.store.history import LeagueStore
from srl_agents.records import WeightVersion
from srl_envs.errors import ConfigError
from srl_envs.turns.grammar import action

RESULTS = Path("benchmarks/results/self_play.json")
MODEL = "small_games"
RUNS = Path("runs/self_play")
MAIN, EXPLOITER, START = "main", "exploiter", "start"
BOTS = ("random", "middle", "strong")
UPDATES, SNAPSHOT_EVERY = 120, 5
POOL_SEEDS = 50
"""Eval seeds of the pool; every two agents meet twice on each."""
REPLY_TOKENS = 12
Row = dict[str, Any]
Key = tuple[str, str, int]
"""Game, way, root seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Game:
    """What is measured where."""

    env_id: str
    decisions: Callable[[], Iterator[Decision]]
    exploitability: Callable[[Policy], float]
    unit: str

    @property
    def options(self) -> dict[str, Any]:
        """Of the environment: one try per turn, then the game's fallback."""
        return {**GAMES[self.env_id].options, "max_retries": 0}

    @property
    def header(self) -> str:
        """What stands in front of every observation."""
        return str(srl_envs.make(self.env_id, **self.options).header)


_SOLDIERS, _FIELDS = (GAMES["blotto-v0"].options[name] for name in ("soldiers", "fields"))
PLAYED: Mapping[str, Game] = MappingProxyType(
    {
        "blotto": Game(
            env_id="blotto-v0",
            decisions=lambda: blotto_decisions(_SOLDIERS, _FIELDS),
            exploitability=lambda policy: blotto_exploitability(policy, _SOLDIERS, _FIELDS),
            unit="share of all value per round",
        ),
        "kuhn_poker": Game(
            env_id="kuhn_poker-v0",
            decisions=kuhn_decisions,
            exploitability=kuhn_exploitability,
            unit="chips per hand",
        ),
    }
)
WAYS: Mapping[str, str] = MappingProxyType(
    {
        "mirror": f"""
learners: [{MAIN}]
opponents: {{mirror: 1, live: 0, past: 0}}
rollout: {{start_states: 8, group_size: 8, max_new_tokens: {REPLY_TOKENS}}}
""",
        "league": f"""
learners: [{MAIN}, {EXPLOITER}]
roles: {{{EXPLOITER}: main_exploiter}}
opponents: {{preset: competitive}}
rollout: {{start_states: 4, group_size: 8, max_new_tokens: {REPLY_TOKENS}}}
""",
    }
)


def recipe(game: Game, way: str, name: str, model: Path) -> str:
    """YAML of a run."""
    return f"""name: {name}
model: {model}
env: {game.env_id}
env_options: {json.dumps(game.options)}
updates: {UPDATES}
lora: {{rank: 8, alpha: 16}}
training: {{learning_rate: 1.5e-3, kl_coef: 0.02, optimizer: adamw_8bit, micro_batch_rows: 128}}
evaluation: {{every: 0, final_pairs: 1, bots: [random]}}
snapshot_every: {SNAPSHOT_EVERY}
checkpoint_every: 20
{WAYS[way].strip()}
"""


# --- reading a policy off a model ----------------------------------------------------------------


class Reader:
    """Chances of replies under one base and its adapters."""

    def __init__(self, model: Path) -> None:
        from srl_agents.engines.embedded.engine import TransformersEngine
        from srl_agents.engines.embedded.rescoring import Rescorer
        from srl_agents.engines.protocol import SamplingSettings
        from srl_agents.models.base_model import BaseModel

        self.base = BaseModel.load(model)
        self.engine = TransformersEngine(self.base, SamplingSettings(max_new_tokens=REPLY_TOKENS))
        self._rescorer = Rescorer(self.engine)

    def policy(
        self, decisions: Iterator[Decision], adapter: str | None, *, header: str = ""
    ) -> tuple[Policy, float]:
        """Every decision's replies with their chances.

        Args:
            decisions: of one game.
            adapter: on the base; None is the base itself.
            header: what stands in front of each decision's text in a prompt.

        Returns:
            The policy, in which the fallback has what no legal reply has, and how much that is on
            average. Legal replies in an odd spelling count as refused.
        """
        from srl_agents.engines.embedded.rescoring import SampledReply

        found: dict[str, dict[str, float]] = {}
        refused = []
        for decision in decisions:
            scores = self._rescorer.score(
                [
                    SampledReply(
                        prompt_ids=self.base.encode_prompt(header + decision.text),
                        token_ids=self.base.encode_reply(action(body))[:-1],
                        adapter=adapter,
                        key=(0,),
                    )
                    for body in decision.replies
                ]
            )
            chances = {
                body: math.exp(sum(score.logprobs))
                for body, score in zip(decision.replies, scores, strict=True)
            }
            left = max(0.0, 1.0 - sum(chances.values()))
            chances[decision.fallback] += left
            found[decision.text] = chances
            refused.append(left)
        return found, float(np.mean(refused))


def entropy(policy: Policy) -> float:
    """Mean over decisions, nats."""
    chances = (np.array(list(p.values())) for p in policy.values())
    return float(np.mean([-(p[p > 0] * np.log(p[p > 0])).sum() for p in chances]))


def look(reader: Reader, game: Game, adapter: str | None, update: int) -> dict[str, float]:
    """One point of a curve."""
    policy, refused = reader.policy(game.decisions(), adapter, header=game.header)
    return {
        "update": update,
        "exploitability": round(game.exploitability(policy), 5),
        "entropy": round(entropy(policy), 4),
        "refused": round(refused, 5),
    }


# --- one run -------------------------------------------------------------------------------------


def versions(run: Path) -> list[tuple[int, Path]]:
    """The main's snapshots: update and folder, in order."""
    found = [
        (WeightVersion.parse(p.name).number, p)
        for p in (run / "snapshots").glob(f"{MAIN}@*-*")
        if p.suffix != ".tmp"
    ]
    return sorted(found)


def _folder(key: Key) -> Path:
    name, way, seed = key
    return RUNS / name / way / f"seed{seed}"


def run_one(key: Key, model: Path) -> Row | None:
    """Train one run and measure all its snapshots, in a child.

    Returns:
        Its row; None if it failed.
    """
    name, way, seed = key
    game, run = PLAYED[name], _folder(key)
    run.parent.mkdir(parents=True, exist_ok=True)
    path, measured = run.parent / "recipe.yaml", run.parent / f"seed{seed}.json"
    path.write_text(recipe(game, way, name, model))

    def work() -> int:
        code = train([str(path), "--seed", str(seed), "--out", str(run)])
        if code:
            return code
        reader = Reader(model)
        curve = [look(reader, game, None, 0)]
        for update, folder in versions(run):
            reader.base.load_adapter(folder.name, folder)
            curve.append(look(reader, game, folder.name, update))
        measured.write_text(json.dumps(curve))
        return 0

    spent = in_child(work, run.parent / f"seed{seed}.log")
    if spent is None:
        return None
    with LeagueStore(run / "league.db", mode="read") as store:
        results = [result for _, result in store.matches(split="train")]
    return {
        "game": name,
        "way": way,
        "seed": seed,
        "commit": commit(),
        "matches": len(results),
        "tokens": sum(sum(result.tokens) for result in results),
        **asdict(spent),
        "curve": json.loads(measured.read_text()),
    }


# --- the pool ------------------------------------------------------------------------------------


def pool_one(name: str, keys: Sequence[Key], model: Path) -> Row | None:
    """Final versions of these runs, their start and bots, all against all; in a child."""
    game, out = PLAYED[name], RUNS / name / "pool.json"

    def work() -> int:
        out.write_text(json.dumps(_rated(game, keys, Reader(model))))
        return 0

    if in_child(work, RUNS / name / "pool.log") is None:
        return None
    agents: list[Row] = json.loads(out.read_text())
    return {"game": name, "runs": [list(key) for key in keys], "commit": commit(), "agents": agents}


def _rated(game: Game, keys: Sequence[Key], reader: Reader) -> list[Row]:
    from srl_agents.agents import ModelPolicy, ScriptedPolicy
    from srl_agents.rollouts import Rollouts

    policies: dict[str, ModelPolicy | ScriptedPolicy] = {START: ModelPolicy(reader.engine)}
    for name, way, seed in keys:
        _, folder = versions(_folder((name, way, seed)))[-1]
        adapter = f"{way}_{seed}".replace("-", "_")
        reader.base.load_adapter(adapter, folder)
        version = reader.base.freeze_adapter(adapter)
        policies[f"{way}-{seed}"] = ModelPolicy(reader.engine, version)
    policies |= {f"{BOT}{bot}": ScriptedPolicy(bot) for bot in BOTS}
    arenas = Arenas([Arena(env_id=game.env_id, options=game.options, seats=2)])
    episodes = Rollouts(policies, root_seed=0).play(
        EvaluationSchedule(arenas, {}).round_robin(FINAL, [*policies], POOL_SEEDS)
    )
    rows, won = [], {agent: list[float]() for agent in policies}
    for episode in episodes:
        first, second = episode.trajectories
        points = seat_points(first.outcome, second.outcome, "competitive")
        rows.append((first.policy, second.policy, points, episode.spec.cluster))
        for trajectory in episode.trajectories:
            won[trajectory.policy].append(trajectory.outcome)
    table = rate(Pairs.of(rows), anchors=[START])
    return [
        {
            "agent": rating.agent,
            "elo": round(rating.elo, 1),
            "half_width": round(rating.half_width, 1),
            "points": round(rating.field_score, 4),
            "outcome": round(float(np.mean(won[rating.agent])), 4),
            "games": rating.games,
        }
        for rating in table.ratings
    ]


# --- the queue -----------------------------------------------------------------------------------


def wanted(patterns: Sequence[str], seeds: Sequence[int]) -> list[Key]:
    """Runs in the order of the queue."""
    return [
        (game, way, seed)
        for seed in seeds
        for game in PLAYED
        for way in WAYS
        if any(fnmatch.fnmatch(f"{game}/{way}", p) for p in patterns)
    ]


def load(results: Path) -> dict[str, list[Row]]:
    """Runs and pools so far."""
    if not results.is_file():
        return {"runs": [], "pools": []}
    found: dict[str, list[Row]] = json.loads(results.read_text())
    return found


def save(found: Mapping[str, Sequence[Row]], results: Path) -> None:
    """Write all, one row a line, and replace the file at once."""
    parts = [
        f'"{part}": [\n' + ",\n".join(json.dumps(row, sort_keys=True) for row in rows) + "\n]"
        for part, rows in found.items()
    ]
    temporary = results.with_suffix(".tmp")
    temporary.write_text("{" + ",\n".join(parts) + "}\n")
    temporary.replace(results)


def work(keys: Sequence[Key], model: Path, results: Path) -> int:
    """Run what has no row yet, then the pools whose runs changed; the number of failures."""
    import srl_agents.training.loop.run  # noqa: F401 - once, for all children

    failures = 0
    for number, key in enumerate(keys, 1):
        if key in {_key(row) for row in load(results)["runs"]}:
            continue
        row = run_one(key, model)
        if row is None:
            failures += 1
            continue
        found = load(results)
        save(found | {"runs": sorted([*found["runs"], row], key=_key)}, results)
        ends = row["curve"][0]["exploitability"], row["curve"][-1]["exploitability"]
        print(
            f"{number} of {len(keys)} {key}: exploitability {ends[0]:.3f} -> {ends[1]:.3f}, "
            f"{row['tokens']} tokens, {row['cpu_s']:.0f} CPU s",
            flush=True,
        )
    for name in PLAYED:
        found = load(results)
        done = [_key(row) for row in found["runs"] if row["game"] == name]
        others = [pool for pool in found["pools"] if pool["game"] != name]
        mine = [pool for pool in found["pools"] if pool["game"] == name]
        if not done or (mine and mine[0]["runs"] == [list(key) for key in done]):
            continue
        if gone := [key for key in done if not versions(_folder(key))]:
            print(
                f"{name}: the pool stays as it is, for {len(gone)} of its runs are not in {RUNS}: take "
                f"their rows out of {results} to train them again."
            )
            continue
        pool = pool_one(name, done, model)
        if pool is None:
            failures += 1
            continue
        save(found | {"pools": [*others, pool]}, results)
        print(f"{name}: pool of {len(pool['agents'])}", flush=True)
    return failures


def _key(row: Row) -> Key:
    return row["game"], row["way"], row["seed"]


# --- the report ----------------------------------------------------------------------------------


def table_text(name: str, found: Mapping[str, Sequence[Row]]) -> str:
    """A Markdown table of one game: ways of training, with intervals over root seeds."""
    game = PLAYED[name]
    lines = [
        f"{name}, exploitability in {game.unit}; uniform replies: "
        f"{game.exploitability(uniform(game.decisions())):.3f}",
        "",
        "| | seeds | tokens | CPU s | start | last | mean of the last quarter | lowest | entropy, last |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for way in WAYS:
        rows = [row for row in found["runs"] if (row["game"], row["way"]) == (name, way)]
        if not rows:
            continue
        curves = [[point["exploitability"] for point in row["curve"]] for row in rows]
        quarter = [float(np.mean(curve[-(len(curve) // 4) :])) for curve in curves]
        cells = [
            way,
            str(len(rows)),
            *(f"{np.mean([row[cost] for row in rows]):,.0f}" for cost in ("tokens", "cpu_s")),
            f"{curves[0][0]:.3f}",
            *(
                interval(values).removeprefix("+")
                for values in (
                    [curve[-1] for curve in curves],
                    quarter,
                    [min(curve) for curve in curves],
                    [row["curve"][-1]["entropy"] for row in rows],
                )
            ),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    for pool in found["pools"]:
        if pool["game"] == name:
            lines += ["", "| pool | Elo | points per game | outcome |", "|---|--:|--:|--:|"]
            lines += [
                f"| {agent['agent']} | {agent['elo']:+.0f} ± {agent['half_width']:.0f} | "
                f"{agent['points']:.3f} | {agent['outcome']:+.3f} |"
                for agent in pool["agents"]
            ]
    return "\n".join(lines)


def draw(found: Mapping[str, Sequence[Row]], out: Path) -> None:
    """Exploitability over updates: mean over seeds, with every seed's own line."""
    figure, axes = plt.subplots(1, len(PLAYED), figsize=(5.2 * len(PLAYED), 3.6))
    for axis, (name, game) in zip(axes, PLAYED.items(), strict=True):
        for color, way in enumerate(WAYS):
            rows = [row for row in found["runs"] if (row["game"], row["way"]) == (name, way)]
            if not rows:
                continue
            updates = [point["update"] for point in rows[0]["curve"]]
            values_SU = np.array([[p["exploitability"] for p in row["curve"]] for row in rows])
            axis.plot(updates, values_SU.T, color=f"C{color}", alpha=0.3, linewidth=0.8)
            axis.plot(updates, values_SU.mean(axis=0), color=f"C{color}", label=way)
        level = game.exploitability(uniform(game.decisions()))
        axis.axhline(level, color="grey", linestyle=":", label="uniform replies")
        axis.set_title(f"{name}: exploitability, {game.unit}", fontsize=10)
        axis.set_xlabel("update of 64 matches")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.tight_layout()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "self_play"}):
        figure.savefig(out, metadata={"Date": None})  # equal pictures are equal files
    plt.close(figure)


def main() -> int:
    """Run the queue, or report; 1 if something failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--only", nargs="+", default=["*"], help="GAME/WAY patterns")
    run.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    show = commands.add_parser("report")
    show.add_argument("--images", type=Path, help="folder for the picture")
    for command in (run, show):
        command.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.command == "report":
        found = load(options.json)
        for name in PLAYED:
            print(f"\n{table_text(name, found)}")
        if options.images is not None:
            draw(found, options.images / "self_play.svg")
        return 0
    keys = wanted(options.only, options.seeds)
    if not keys:
        raise ConfigError(f"--only {options.only}: no run has such a name; games {list(PLAYED)}.")
    os.nice(5)
    return min(work(keys, require(MODEL), options.json), 1)


if __name__ == "__main__":
    sys.exit(main())
