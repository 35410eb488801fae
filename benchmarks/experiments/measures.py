"""What a finished run is worth: numbers on eval seeds that no training uses, equal for all arms.

Every measure gives ``first`` (the start), ``last`` (the final version) and ``peak`` (the best look), higher
is better, and a curve of (steps, value). Looks take `LOOK` seeds, ``first`` and ``last`` `FINAL` others; the
peak is the largest of noisy looks and is therefore read beside that of the baseline, never by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.experiments import transfer as transferring
from benchmarks.experiments.announced import Measure
from benchmarks.league.exploitability import PLAYED, Reader
from benchmarks.league.exploitability import look as read_off
from srl_agents import Run
from srl_agents.agents import ModelPolicy, ScriptedPolicy
from srl_agents.league.matchmaking.arenas import Arena, Arenas
from srl_agents.league.matchmaking.evaluation_schedule import EvaluationSchedule
from srl_agents.league.matchmaking.manager import BOT
from srl_agents.league.matchmaking.pair_record import mean_points
from srl_agents.models.sources import catalog
from srl_agents.recipes.sections.base_models import Base
from srl_agents.records import Episode, MatchSpec, WeightVersion
from srl_agents.rollouts import Rollouts

LOOK, FINAL, CHOICE = range(48), range(1000, 1192), range(2000, 2048)
"""Eval seeds of looks, of first and last, and of choosing among learners."""
START = "start"
Curve = list[tuple[int, float]]
Found = dict[str, Any]


class Table:
    """Versions of a run on one base, its start and bots, at one game.

    Args:
        run: whose versions.
        base: of the run; the first, if none is given.
        arena: the game; the run's first, if none is given.
    """

    def __init__(self, run: Run, base: Base | None = None, arena: Arena | None = None) -> None:
        from srl_agents.engines.embedded.engine import TransformersEngine
        from srl_agents.engines.protocol import SamplingSettings
        from srl_agents.models.base_model import BaseModel

        self.run, game = run, run.recipe.games[0]
        own = base or run.recipe.bases[0]
        self.base = BaseModel.load(
            catalog.resolve(own.model), lora_rank=own.lora.rank, lora_alpha=own.lora.alpha
        )
        sampling = SamplingSettings(max_new_tokens=run.recipe.rollout.max_new_tokens)
        self._engine = TransformersEngine(self.base, sampling)
        self.arena = arena or Arena(
            env_id=game.env_id, options=dict(game.options), seats=game.seats, teams=game.teams
        )
        self._policies: dict[str, ModelPolicy | ScriptedPolicy] = {START: ModelPolicy(self._engine)}

    def add(self, version: WeightVersion) -> str:
        """Seat a version of the run; its name at this table."""
        folder = self.run.folder / "snapshots" / str(version)
        return self.add_adapter(f"{version.learner}_{version.number}", folder)

    def add_adapter(self, name: str, folder: Path) -> str:
        """Seat an adapter; its name at this table."""
        self.base.load_adapter(name, folder)
        self._policies[name] = ModelPolicy(self._engine, self.base.freeze_adapter(name))
        return name

    def play(self, agent: str, other: str, seeds: range) -> list[Episode]:
        """Matches of two agents on eval seeds, in all seat rotations; those of one with itself once."""
        if other.startswith(BOT):
            self._policies[other] = ScriptedPolicy(other.removeprefix(BOT))
        policies = {name: self._policies[name] for name in (agent, other)}
        specs = EvaluationSchedule(Arenas([self.arena]), {}).matches(
            "measure", [(agent, other)], seeds
        )
        with Rollouts(policies, root_seed=0, order="free") as rollouts:
            return rollouts.play(specs)

    def team(self, lineup: Sequence[str], seeds: range) -> tuple[float, float]:
        """Mean outcome of all seats, held by the agents of a lineup, and refused replies per seat."""
        specs = [
            MatchSpec(
                env_id=self.arena.env_id,
                options=self.arena.options,
                seed=seed,
                split="eval",
                seats=tuple(lineup),
                learner_seats=(),
                purpose="eval",
                cluster=f"eval/{seed}",
                schedule="measure",
                number=0,
                teams=self.arena.teams,
            )
            for seed in seeds
        ]
        with Rollouts(
            {name: self._policies[name] for name in lineup}, root_seed=0, order="free"
        ) as rollouts:
            results = [episode.result() for episode in rollouts.play(specs)]
        return _mean([r.outcomes for r in results]), _mean([r.invalid_replies for r in results])

    def points(self, agent: str, other: str, seeds: range) -> float:
        """Mean points per game against another, in [0, 1]."""
        episodes = self.play(agent, other, seeds)
        return _mean([mean_points(e.spec.seats, e.result().outcomes, agent) for e in episodes])

    def outcome(self, agent: str, other: str, seeds: range) -> float:
        """Mean outcome of an agent in all seats, the others held by another."""
        found = []
        for episode in self.play(agent, other, seeds):
            outcomes = zip(episode.spec.seats, episode.result().outcomes, strict=True)
            found += [outcome for seat, outcome in outcomes if seat == agent]
        return _mean(found)


def team(run: Run) -> Found:
    """Outcome of a team whose seats are held by the only learner, or each by the learner whose seat it is.

    With seats of their own, ``swapped`` is the mean outcome in each other's seats, over all ways to pass
    them round, and ``drop`` is ``last`` minus it.
    """
    table, recipe = Table(run), run.recipe
    seats = range(recipe.games[0].seats)
    owners = [next(n for n in recipe.learners if i in recipe.seats.get(n, seats)) for i in seats]
    first, refused_first = table.team([START] * len(seats), FINAL)
    names: dict[int, dict[str, str]] = {}
    for version in run.versions():
        names.setdefault(version.number, {})[version.learner] = table.add(version)
    curve: Curve = [(0, first)]
    for step, own in sorted(names.items()):
        curve.append((step, table.team([own[owner] for owner in owners], LOOK)[0]))
    finals = names[max(names)]
    last, refused = table.team([finals[owner] for owner in owners], FINAL)
    found = {"first": first, "last": last, "refused_first": refused_first, "refused": refused}
    if len(set(owners)) > 1:
        order = list(dict.fromkeys(owners))
        lineups = [
            [finals[order[(order.index(owner) + step) % len(order)]] for owner in owners]
            for step in range(1, len(order))
        ]
        found["swapped"] = _mean([table.team(lineup, FINAL)[0] for lineup in lineups])
        found["drop"] = last - found["swapped"]
    return _found(found, curve)


def exploitability(run: Run) -> Found:
    """Minus what a best response wins, exactly, of the first learner."""
    (name,) = (name for name, game in PLAYED.items() if game.env_id == run.recipe.env)
    learner, game, reader = (
        run.recipe.learners[0],
        PLAYED[name],
        Reader(catalog.resolve(run.recipe.bases[0].model)),
    )
    looks = [read_off(reader, game, None, 0)]
    for version in (v for v in run.versions() if v.learner == learner):
        reader.base.load_adapter(version.learner, run.folder / "snapshots" / str(version))
        looks.append(read_off(reader, game, version.learner, version.number))
    curve = [(int(look["update"]), -look["exploitability"]) for look in looks]
    ends = {"first": curve[0][1], "last": curve[-1][1], "refused": looks[-1]["refused"]}
    return _found(ends, curve)


def points(run: Run) -> Found:
    """Points per game against the recipe's bots, mean over them: of the learner chosen on other seeds.

    ``mean``, ``best`` and ``worst`` are over learners; best and worst are chosen on `CHOICE` seeds, so that
    choosing adds no bias. ``last`` is the best, and ``start`` what learners score against their start.
    """
    table = Table(run)
    bots = [f"{BOT}{bot}" for bot in run.recipe.evaluation.bots]

    def score(agent: str, seeds: range) -> float:
        return _mean([table.points(agent, bot, seeds) for bot in bots])

    finals = {v.learner: v for v in run.versions()}
    steps = sorted({v.number for v in run.versions()})
    names = {v: table.add(v) for v in run.versions()}
    looks = {v: score(name, LOOK) for v, name in names.items()}
    first = score(START, FINAL)
    curve: Curve = [(0, first)]
    for step in steps:
        curve.append((step, max(value for v, value in looks.items() if v.number == step)))
    chosen = {names[v]: score(names[v], CHOICE) for v in finals.values()}
    test = {name: score(name, FINAL) for name in chosen}
    best, worst = max(chosen, key=chosen.__getitem__), min(chosen, key=chosen.__getitem__)
    against_start = _mean([table.points(name, START, FINAL) for name in chosen])
    own = {
        "first": first,
        "last": test[best],
        "mean": _mean([*test.values()]),
        "worst": test[worst],
        "start": against_start,
    }
    return _found(own, curve)


def own_outcome(run: Run) -> Found:
    """Mean outcome of each learner by itself: among the recipe's bots, or in all seats if it names none.

    ``last`` is the mean over learners, as ``first`` is over their starts; each learner's own end stands
    beside it under its name, and its start as ``first_NAME``.
    """
    bots = run.recipe.evaluation.bots
    values: dict[str, float] = {}
    looks: dict[int, list[float]] = {}
    for base in run.recipe.bases:
        table = Table(run, base)

        def score(agent: str, seeds: range, table: Table = table) -> float:
            if bots:
                return _mean([table.outcome(agent, f"{BOT}{bot}", seeds) for bot in bots])
            return table.team([agent] * run.recipe.games[0].seats, seeds)[0]

        start = score(START, FINAL)
        for learner in base.learners:
            versions = [v for v in run.versions() if v.learner == learner]
            names = {v.number: table.add(v) for v in versions}
            values[f"first_{learner}"] = start
            values[learner] = score(names[max(names)], FINAL)
            for number, name in names.items():
                looks.setdefault(number, []).append(score(name, LOOK))
    learners = run.recipe.learners
    first = _mean([values[f"first_{learner}"] for learner in learners])
    ends = {"first": first, "last": _mean([values[learner] for learner in learners])}
    curve = [(0, first), *((number, _mean(own)) for number, own in sorted(looks.items()))]
    return _found(ends | values, curve)


HELD_OUT_GAME = Arena(env_id="kuhn_poker-v0", options={"hands": 3}, seats=2)
"""A game that `transfer` looks at and no arm trains."""


def transfer(run: Run) -> Found:
    """How far the only learner prefers right answers to easy problems that it never trained on.

    ``first`` is after imitation, ``last`` after training, ``base`` before both, in nats; see
    `transfer.Preference`. The same of GSM8K stands beside it (``gsm8k_first`` and so on), shares of right
    answers (``easy_right_last``), points against the random bot in the game and in `HELD_OUT_GAME`, and
    refused replies there.
    """
    (learner,) = run.recipe.learners
    asked = transferring.problems()
    tables = {"game": Table(run), "held_out": Table(run, arena=HELD_OUT_GAME)}
    version = max((v for v in run.versions() if v.learner == learner), key=lambda v: v.number)
    folders = {
        "base": None,
        "first": run.folder / "warm_start" / learner,
        "last": run.folder / "snapshots" / str(version),
    }
    values: dict[str, float] = {}
    for name, folder in folders.items():
        if folder is not None:
            for table in tables.values():
                table.add_adapter(name, folder)
        for kind, some in asked.items():
            found, prompt = transferring.preference(
                tables["game"].base, None if folder is None else name, some
            )
            values[name if kind == "easy" else f"{kind}_{name}"] = found.margin
            values[f"{kind}_right_{name}"] = found.accuracy
            values[f"{kind}_prompt_{name}"] = prompt
        for where, table in tables.items():
            agent = START if folder is None else name
            episodes = table.play(agent, f"{BOT}random", LOOK)
            values[f"{where}_{name}"] = _mean(
                [mean_points(e.spec.seats, e.result().outcomes, agent) for e in episodes]
            )
            values[f"{where}_refused_{name}"] = _mean(
                [
                    refused
                    for e in episodes
                    for seat, refused in zip(e.spec.seats, e.result().invalid_replies, strict=True)
                    if seat == agent
                ]
            )
    return _found(values, [(0, values["first"]), (version.number, values["last"])])


MEASURES: Mapping[Measure, Callable[[Run], Found]] = MappingProxyType(
    {
        "team": team,
        "exploitability": exploitability,
        "points": points,
        "own_outcome": own_outcome,
        "transfer": transfer,
    }
)


def _found(values: Mapping[str, float], curve: Curve) -> Found:
    peak = max(value for _, value in curve)
    rounded = {name: round(value, 5) for name, value in values.items()}
    return {
        "values": {**rounded, "peak": round(peak, 5)},
        "curve": [[step, round(value, 5)] for step, value in curve],
    }


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values))
