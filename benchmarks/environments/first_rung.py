"""What SmolLM2-135M learns of each newer game at its easiest level, from at most 200 of a bot's replies.

    python -m benchmarks.environments.first_rung [GAME ...] [--train SEEDS] [--json FILE]

Per game the model as it is, and with an adapter that imitated a bot on train seeds, plays episodes on eval
seeds, temperature 1, one reply a turn: what is not legal is answered by the game's default move. Beside it a
legal move, drawn uniformly, plays the same seat of the same episodes. Where a game has several seats, the
model's changes from episode to episode, and the game's middle bots hold the others.

With ``--train`` learners with so many seeds are trained in the named games instead, of `COURSES`: all weights
of `tiny` imitate games of a random bot and an able one, then every learner goes on from there by GRPO. They
play eval episodes before and after. The file is written after every game and after every seed, what it holds
is not measured again, and the page ``docs/environments/first_rung.md`` is written from it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import srl_envs
from benchmarks.environments import first_rung_page
from srl_agents import Learner, credit
from srl_agents.agents import ModelPolicy, ScriptedPolicy
from srl_agents.agents.players import Policy
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.metrics import ConsoleView
from srl_agents.models.base_model import BaseModel
from srl_agents.recipes.loading import read_values
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import MatchSpec, WeightVersion
from srl_agents.rollouts import Rollouts
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.training.bases import LoadedBase
from srl_agents.training.start.imitation import REPORT, warm_start
from srl_agents.training.start.recorded_games import WARM_START
from srl_envs.turns.grammar import action

RESULTS = Path(__file__).parents[1] / "results/first_rung.json"
RANK, ALPHA = 16, 32
FROZEN_LAYERS = MappingProxyType({"smollm2-135m": 15})
"""Layers from the bottom without an adapter: gradients end above them, which saves a third of a step."""
MOST_EXAMPLES = 200
COMPANY = "middle"
MODEL = "model"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rung:
    """A game at its easiest level, and how it is learned there."""

    options: dict[str, Any]
    """Of `srl_envs.make`."""
    model: str = "smollm2-135m"
    """`tiny` where prompts are too long for the other one on a processor."""
    parameters: str = "lora"
    """An adapter, or ``full``: all weights."""
    rows: int = 8
    """Replies per step of imitation."""
    imitated: str = "strong"
    """Bot that holds every seat of the games that are imitated."""
    games: int = 100
    """Of the bot, on train seeds."""
    steps: int = 9
    """Optimizer steps of imitation."""
    learning_rate: float = 2e-3
    tokens: int = 24
    """Longest reply."""
    episodes: int = 24
    """On eval seeds."""
    draws: int = 8
    """Episodes of uniformly drawn moves per seed, whose mean is compared."""
    first: int = 4
    """The first of them, which the model plays before it has imitated."""


_LONE = {"players": 1, "rounds": 1}
_FEW_ROWS: Any = {"rows": 4, "steps": 24, "first": 2}
"""Where prompts are long."""
_TINY: Any = {
    "model": "tiny", "parameters": "full", "rows": 4, "steps": 80, "learning_rate": 1e-3
}  # fmt: skip
RUNGS: Mapping[str, Rung] = MappingProxyType(
    {
        "plan_path-v0": Rung(
            options={**_LONE, "size": 3, "blocked": 0},
            imitated="middle",
            steps=14,
            learning_rate=1.5e-3,
            episodes=32,
            draws=1,
        ),
        "solve_and_verify-v0": Rung(
            options={"players": 1, "problems": 1, "difficulty": 1, "note_chars": 0},
            games=60,
            steps=14,
            learning_rate=1.5e-3,
            episodes=32,
        ),
        "research_room-v0": Rung(
            options={"players": 1, "level": 1}, rows=4, steps=14, games=40, learning_rate=1.5e-3
        ),
        "holdem-v0": Rung(options={"hands": 1, "stack": 4}, episodes=48),
        "puzzles-v0": Rung(options={"puzzles": 1, "level": 1}, episodes=48),
        "sokoban-v0": Rung(
            options={**_LONE, "size": 5, "boxes": 1, "walls": 0},
            **_TINY,
            imitated="middle",
            tokens=32,
            draws=1,
        ),
        "sudoku-v0": Rung(
            options={**_LONE, "holes": 3},
            **_FEW_ROWS,
            games=40,
            imitated="middle",
            tokens=40,
            episodes=20,
            draws=1,
        ),
        "expedition-v0": Rung(
            options={"players": 1, "level": 1, "turns": 10}, **_FEW_ROWS, games=18, episodes=16
        ),
        "werewolf-v0": Rung(
            options={"players": 5, "days": 2, "talks": 0}, **_FEW_ROWS, games=8, episodes=20
        ),
        "chess-v0": Rung(
            options={"moves": "three", "plies": 10}, **_FEW_ROWS, games=20, episodes=12, draws=4
        ),
        "treaties-v0": Rung(
            options={
                "players": 3, "provinces": 3, "units": 1, "rounds": 2, "talks": 0, "support": False,
            },
            **_FEW_ROWS,
            games=12,
            episodes=12,
        ),
        "test_and_code-v0": Rung(
            options={**_LONE, "tests": 1, "difficulty": 1},
            **_TINY,
            games=60,
            tokens=250,
            episodes=16,
            draws=1,
        ),
    }
)  # fmt: skip
"""In the order in which they are measured. The three with a tool and a search by program imitate their middle
bot, which sends no program: those of the strong one are longer than a reply here may be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """How all weights of `tiny` are trained at the first rung of a game."""

    bots: tuple[str, ...]
    """Whose games it imitates, on train seeds, so that it begins between them."""
    games: int = 160
    steps: int = 60
    """Of imitation, each on `COURSE_ROWS` replies."""
    updates: int = 10
    """Of GRPO."""
    start_states: int = 4
    group_size: int = 8
    learning_rate: float = 3e-4
    episodes: int = 40
    """On eval seeds."""


COURSE_MODEL, COURSE_ROWS = "tiny", 16
COURSES: Mapping[str, Course] = MappingProxyType(
    {
        "solve_and_verify-v0": Course(bots=("random", "strong")),
        "holdem-v0": Course(bots=("caller", "strong"), updates=20),
        "puzzles-v0": Course(bots=("random", "strong")),
        "plan_path-v0": Course(bots=("random", "middle")),
    }
)


@dataclass(kw_only=True, slots=True)
class Played:
    """What one player came to on eval seeds."""

    returns: list[float] = field(default_factory=list)
    """Per seed: outcome and costs of format."""
    legal: list[float] = field(default_factory=list)
    """Per seed: share of the replies that the game accepted."""
    cpu_s: float = 0.0


@contextmanager
def spent(played: Played) -> Iterator[None]:
    """Add the processor seconds of the block, those of its sandboxes included."""
    before = sum(os.times()[:4])
    yield
    played.cpu_s = round(played.cpu_s + sum(os.times()[:4]) - before, 1)


def options_of(rung: Rung) -> dict[str, Any]:
    """One reply a turn."""
    return {**rung.options, "max_retries": 0}


def seats_of(env_id: str, rung: Rung) -> int:
    """Seats at this level."""
    with closing(srl_envs.make(env_id, **options_of(rung))) as env:
        return len(env.possible_agents)


def specs_of(env_id: str, rung: Rung, episodes: int) -> list[MatchSpec]:
    """Episodes on eval seeds, in which the model changes seats."""
    seats = seats_of(env_id, rung)
    return [
        MatchSpec(
            env_id=env_id,
            options=options_of(rung),
            seed=seed,
            split="eval",
            seats=tuple(MODEL if seat == seed % seats else COMPANY for seat in range(seats)),
            cluster=f"eval/{seed}",
            number=seed,
        )
        for seed in range(episodes)
    ]


def play(
    engine: TransformersEngine, version: WeightVersion | None, specs: Sequence[MatchSpec]
) -> Played:
    """A version's episodes."""
    found = Played()
    policies: dict[str, Policy] = {
        MODEL: ModelPolicy(engine, version),
        COMPANY: ScriptedPolicy(COMPANY),
    }
    with spent(found), closing(Rollouts(policies, root_seed=0)) as rollouts:
        for episode in rollouts.play(specs):
            if not episode.valid:
                raise RuntimeError(
                    f"{episode.spec.env_id}, seed {episode.spec.seed}: {episode.fault}"
                )
            mine = episode.trajectories[episode.spec.seats.index(MODEL)]
            if mine.turns:  # a seat may be out before its first turn
                found.legal.append(float(np.mean([turn.invalid is None for turn in mine.turns])))
            found.returns.append(mine.total_reward)
    return found


def play_uniformly(specs: Sequence[MatchSpec], draws: int) -> Played:
    """A uniformly drawn legal move in the model's place; returns are means of some episodes per seed."""
    found = Played()
    with spent(found):
        for spec in specs:
            outcomes = [uniform_outcome(spec, draw) for draw in range(draws)]
            found.returns.append(float(np.mean(outcomes)))
    return found


def uniform_outcome(spec: MatchSpec, draw: int) -> float:
    """Of one episode with uniformly drawn moves in the model's place."""
    mine = spec.seats.index(MODEL)
    rng = np.random.default_rng([spec.seed, draw])
    with closing(srl_envs.make(spec.env_id, split="eval", **spec.options)) as made:
        env: Any = made
        players: dict[int, Any] = {
            seat: srl_envs.make_bot(spec.env_id, COMPANY, seed=draw * 100 + seat)
            for seat in range(len(spec.seats))
        }
        players[mine] = lambda _: action(env.sample_legal(mine, rng))
        return float(srl_envs.play(env, players, seed=spec.seed).outcomes[mine])


def recipe_of(env_id: str, rung: Rung) -> LeagueRecipe:
    """What `srl train` would read."""
    values = {
        "name": "first-rung",
        "model": rung.model,
        "parameters": rung.parameters,
        "env": env_id,
        "env_options": options_of(rung),
        "learners": ["alice"],
        "warm_start": {
            "bots": [rung.imitated],
            "episodes": rung.games,
            "updates": rung.steps,
            "training": {
                "learning_rate": rung.learning_rate,
                "batch_rows": rung.rows,
                "micro_batch_rows": rung.rows,
            },
        },
        "rollout": {"max_new_tokens": rung.tokens},
        "evaluation": {"bots": [rung.imitated]},
    }
    if rung.parameters == "lora":
        without = list(without_adapter(rung.model))
        values["lora"] = {"rank": RANK, "alpha": ALPHA, "exclude_modules": without}
    return read_values(LeagueRecipe, values, f"{env_id} at its first rung")


def without_adapter(model: str) -> tuple[str, ...]:
    """Names of the layers that stay as they are."""
    return tuple(f"layers.{layer}" for layer in range(FROZEN_LAYERS.get(model, 0)))


def loaded(rung: Rung) -> BaseModel:
    """The base of a recipe of `recipe_of`."""
    if rung.parameters == "full":
        return BaseModel.load(rung.model, parameters="full")
    return BaseModel.load(
        rung.model, lora_rank=RANK, lora_alpha=ALPHA, lora_excluded=without_adapter(rung.model)
    )


def imitate(base: BaseModel, recipe: LeagueRecipe, folder: Path) -> dict[str, Any]:
    """Imitation as a run begins with it; its adapter is kept in the folder.

    Returns:
        The run's report, with ``examples``, how many different replies were learned from.
    """
    own = LoadedBase(settings=recipe.bases[0], model=base)
    if not (folder / WARM_START).is_dir():
        with ConsoleView(recipe.games[0].env_id, 1) as view:
            warm_start(recipe, [own], {"alice": 0}, folder, view)
    else:
        base.load_adapter("alice", folder / WARM_START / "alice")
    report: dict[str, Any] = json.loads((folder / WARM_START / REPORT).read_text())
    assert recipe.warm_start is not None
    shown = recipe.warm_start.updates * recipe.warm_start.training.batch_rows
    report["examples"] = min(shown, sum(report["rows"].values()))
    return report


def measure(env_id: str, folder: Path) -> dict[str, Any]:
    """One row of the table."""
    rung = RUNGS[env_id]
    base = loaded(rung)
    sampling = SamplingSettings(max_new_tokens=rung.tokens)
    specs = specs_of(env_id, rung, rung.episodes)
    before = play(TransformersEngine(base, sampling), None, specs[: rung.first])
    learning = Played()
    with spent(learning):
        report = imitate(base, recipe_of(env_id, rung), folder)
    if report["examples"] > MOST_EXAMPLES:
        raise ValueError(f"{report['examples']} examples: the most are {MOST_EXAMPLES}")
    version = base.freeze_adapter("alice")
    engine = TransformersEngine(base, sampling)
    return {
        **asdict(rung),
        "examples": report["examples"],
        "imitation_cpu_s": learning.cpu_s,
        "imitation": report["learners"]["alice"],
        "uniform": asdict(play_uniformly(specs, rung.draws)),
        "imitated_play": asdict(play(engine, version, specs)),
        "before": asdict(before),
    }


def course_recipe(env_id: str) -> LeagueRecipe:
    """Imitation before a course, as `srl train` would read it."""
    course = COURSES[env_id]
    warm = {"batch_rows": COURSE_ROWS, "micro_batch_rows": COURSE_ROWS, "learning_rate": 1e-3}
    values = {
        "name": "first-rung",
        "model": COURSE_MODEL,
        "parameters": "full",
        "env": env_id,
        "env_options": options_of(RUNGS[env_id]),
        "learners": ["alice"],
        "warm_start": {
            "bots": list(course.bots),
            "episodes": course.games,
            "updates": course.steps,
            "training": warm,
        },
        "rollout": {"max_new_tokens": RUNGS[env_id].tokens},
        "evaluation": {"bots": list(course.bots)},
    }
    return read_values(LeagueRecipe, values, f"{env_id} at its first rung")


def begin_course(env_id: str, folder: Path) -> dict[str, Any]:
    """Imitate what all seeds begin with; the weights are kept in the folder."""
    base = BaseModel.load(COURSE_MODEL, parameters="full")
    report = imitate(base, course_recipe(env_id), folder)
    rung, course = RUNGS[env_id], COURSES[env_id]
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=rung.tokens))
    specs = specs_of(env_id, rung, course.episodes)
    return {
        **asdict(course),
        "model": COURSE_MODEL,
        "examples": report["examples"],
        "imitation": report["learners"]["alice"],
        "imitated_play": asdict(play(engine, base.freeze_adapter("alice"), specs)),
        "seeds": {},
    }


def train(env_id: str, folder: Path, seed: int) -> dict[str, Any]:
    """A learner that goes on by GRPO from what was imitated, and what it earns then."""
    rung, course = RUNGS[env_id], COURSES[env_id]
    base = BaseModel.load(COURSE_MODEL, parameters="full")
    name = f"seed{seed}"
    base.load_adapter(name, folder / WARM_START / "alice")
    rows = course.start_states * course.group_size
    settings = GRPOSettings(learning_rate=course.learning_rate, micro_batch_rows=rows)
    sampling = SamplingSettings(max_new_tokens=rung.tokens)
    seats = seats_of(env_id, rung)
    rewards: list[float] = []
    learning = Played()
    with Learner(base, name, settings, sampling, shape=(RANK, ALPHA), seed=seed) as learner:
        with spent(learning):
            for update in range(course.updates):
                held = update % seats
                episodes = learner.play(
                    env_id,
                    env_options=options_of(rung),
                    opponents={seat: COMPANY for seat in range(seats) if seat != held},
                    start_states=course.start_states,
                    group_size=course.group_size,
                )
                learner.update(credit(episodes))
                earned = [e.trajectories[held].total_reward for e in episodes if e.valid]
                rewards.append(float(np.mean(earned)))
                print(f"{env_id} seed {seed} update {update}: {rewards[-1]:+.3f}", flush=True)
        engine = TransformersEngine(base, sampling)
        played = play(engine, learner.version, specs_of(env_id, rung, course.episodes))
    return {"rewards": rewards, "cpu_s": learning.cpu_s, "played": asdict(played)}


def main() -> None:
    """Measure what the file lacks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("games", nargs="*", help="ids; all by default")
    parser.add_argument("--train", type=int, default=0, help="seeds of a course each")
    parser.add_argument("--runs", type=Path, default=Path("runs/first_rung"), help="of adapters")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.train:
        run_courses(options.games or list(COURSES), options.train, options.runs, options.json)
        return
    for env_id in options.games or RUNGS:
        if env_id not in read(options.json)["rungs"]:
            row = measure(env_id, new_folder(options.runs / env_id))
            with results(options.json) as found:
                found["rungs"][env_id] = row


def run_courses(games: Sequence[str], seeds: int, runs: Path, path: Path) -> None:
    """Train what the file lacks."""
    for env_id in games:
        folder = new_folder(runs / f"{env_id}.{COURSE_MODEL}")
        if env_id not in read(path)["courses"]:
            begun = begin_course(env_id, folder)
            with results(path) as found:
                found["courses"][env_id] = begun
        for seed in range(seeds):
            if str(seed) not in read(path)["courses"][env_id]["seeds"]:
                trained = train(env_id, folder, seed)
                with results(path) as found:
                    found["courses"][env_id]["seeds"][str(seed)] = trained


def new_folder(path: Path) -> Path:
    """Of adapters, made where it is not there yet."""
    path.mkdir(parents=True, exist_ok=True)
    return path


def read(path: Path) -> dict[str, Any]:
    """What was measured until now."""
    if not path.exists():
        return {"rungs": {}, "courses": {}}
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@contextmanager
def results(path: Path) -> Iterator[dict[str, Any]]:
    """What was measured until now, to be changed; another process that measures waits meanwhile.

    The page is written, too, where the file is the published one.
    """
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = read(path)
        yield found
        order = list(RUNGS)
        for part in ("rungs", "courses"):
            found[part] = dict(sorted(found[part].items(), key=lambda item: order.index(item[0])))
        whole = path.with_suffix(".tmp")
        whole.write_text(json.dumps(found, indent=1) + "\n")
        whole.replace(path)
        print(first_rung_page.table(found), flush=True)
        if path.resolve() == RESULTS.resolve():
            first_rung_page.write(found)


if __name__ == "__main__":
    main()
