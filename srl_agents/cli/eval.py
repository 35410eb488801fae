"""`srl eval AGENT ... --tasks gsm8k,humaneval`: measure agents outside of training, through Inspect."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from srl_agents.agents.first_look import first_look
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import (
    DataOptions,
    JSONOptions,
    RandomOptions,
    ReplyOptions,
    ResultOptions,
    SeedsOptions,
    meaning,
)
from srl_agents.interrupts import EventLoop
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError, nearest

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from srl_agents.agents.grammar import ModelName
    from srl_agents.agents.players import ModelPolicy
    from srl_agents.exports.inspect_run import Measured, Plan
    from srl_agents.recipes.settings import LeagueRecipe

DESCRIPTION = """Measure agents on public collections and on games, through Inspect (inspect_ai).

An agent is a model, a model with an adapter, or an endpoint: smollm2-135m, tiny+runs/a/adapters/alice,
openai:MODEL@URL. Tasks are collections (gsm8k, math, humaneval, mbpp: JSONL files under --data) and ids of
environments, played against --opponents. All agents see the same samples. The table compares each
adapter with its own model, and every other agent with the first, sample by sample, with 95 % intervals.

Inspect runs in its own Python: --python, SRL_INSPECT_PYTHON, or this one if it has inspect_ai.

Examples:
  srl eval smollm2-135m --tasks gsm8k,humaneval --data data --limit 100
  srl eval tiny tiny+runs/quickstart-tiny-seed0/adapters/alice --tasks connect_four-v0 --opponents middle
  srl eval --run runs/quickstart-tiny-seed0 --tasks connect_four-v0 --opponents middle
  srl eval --run runs/tasks --tasks gsm8k --data data --limit 0   (rows that the run did not train on)
"""
RESULTS = "eval.json"
MOST_NEW_TOKENS = 512
"""Of a reply, unless the command gives another: collections need a derivation."""
SEEDS = 10
"""Of a game, where no number is given."""
Rows = Literal["auto", "all", "held-out"]
_ADAPTERS, _RECIPE, _PROMPT = "adapters", "recipe.yaml", "prompt.json"


@dataclass(frozen=True)
@meaning(
    out="Write results and transcripts to this folder; RUN/eval if absent, runs/eval without a run."
)
class EvalOptions(
    SeedsOptions, RandomOptions, ReplyOptions, DataOptions, ResultOptions, JSONOptions
):
    """Whom to measure, and in what."""

    tasks: Annotated[str, tyro.conf.arg(metavar="NAMES")]
    """Names, separated by commas."""
    agents: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[AGENT ...]")
    ] = ()
    """The first is what others are compared with, but for adapters whose own model is there."""
    run: Path | None = None
    """Folder of a run: its bases, behind their prompts, and its learners' last adapters are measured, and
    `srl report` shows it."""
    rows: Rows = "auto"
    """Of collections: all, or those held out, on which no run trains; auto holds out where the run that --run
    names trained on the same collection."""
    limit: int = 100
    """Most rows of a collection, from the first; 0 takes all."""
    opponents: str = ""
    """Bot in the other seats of games; random legal moves if absent."""
    temperature: float = 0.0
    """Temperature of sampling; 0 is greedy."""
    python: str | None = None
    """An interpreter that has Inspect."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl eval --help`."""
    options = read_options(EvalOptions, command="srl eval", description=DESCRIPTION, argv=argv)
    agents = [*options.agents, *(() if options.run is None else of_run(options.run))]
    if not agents:
        raise ConfigError("no agent. Name one, such as smollm2-135m, or a run with --run.")
    if len(set(agents)) != len(agents):
        raise ConfigError(f"agents={agents}: one is named twice.")
    for name, least in (("limit", 0), ("seeds", 1), ("max_new_tokens", 1), ("temperature", 0)):
        value = getattr(options, name)
        if value is not None and not value >= least:
            raise ConfigError(f"--{name.replace('_', '-')} {value}: use {least} or more.")
    plan = planned(options)
    first_look((agent, _env_of_names(options)) for agent in agents)
    for task in plan:
        if task.get("held_out"):
            print(
                f"{task['name']}: only the rows that are held out from training.", file=sys.stderr
            )

    from srl_agents.exports.inspect_run import interpreter

    python = interpreter(options.python)
    out = options.out or (Path("runs/eval") if options.run is None else options.run / "eval")
    try:
        results = _measured(agents, plan, python, out, options)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted. No results are written; Inspect's logs of what ended are in {out}. The same "
            "command begins again."
        ) from None
    rows = table(results)
    out.mkdir(parents=True, exist_ok=True)
    (out / RESULTS).write_text(plain_json({"tasks": options.tasks, "rows": rows}, indent=2) + "\n")
    if options.json:
        print(plain_json(rows, indent=2))
    else:
        _show(rows)
        print(f"Results: {out / RESULTS}; samples: inspect view --log-dir {out}")
    return 0


def _recipe_of(folder: Path) -> LeagueRecipe:
    from srl_agents.recipes.recipe_kinds import read_recipe
    from srl_agents.recipes.settings import LeagueRecipe

    path = folder / _RECIPE
    recipe = read_recipe(path) if path.is_file() else None
    if not isinstance(recipe, LeagueRecipe):
        raise ConfigError(f"{folder} holds no run of learners.")
    return recipe


def _trained_on(folder: Path) -> set[str]:
    """Collections whose rows a run's games take, in whatever file."""
    return {
        str(options["tasks"]).partition(":")[0]
        for game in _recipe_of(folder).games
        for options in game.all_options
        if options.get("tasks")
    }


def of_run(folder: Path) -> list[str]:
    """What the learners of a run began as, each base behind its prompt, with their last adapters after it.

    Raises:
        ConfigError: the folder is not a run of learners, or it has no adapters yet.
    """
    from srl_agents.agents.grammar import ModelName

    recipe = _recipe_of(folder)
    agents: list[ModelName] = []
    for base in recipe.bases:
        learned = [folder / _ADAPTERS / name for name in base.learners]
        last = [path for path in learned if (path / "adapter_config.json").is_file()]
        if last:
            prompt = str(last[0]) if (last[0] / _PROMPT).is_file() else ""
            agents.append(ModelName(model=base.model, prompt=prompt))
            agents += [ModelName(model=base.model, adapter=str(own)) for own in last]
    if not agents:
        raise ConfigError(
            f"{folder / _ADAPTERS} holds no adapter; has the run ended? It learns adapters only."
        )
    return [str(agent) for agent in agents]


def planned(options: EvalOptions) -> Plan:
    """The tasks, as the other process gets them.

    Raises:
        ConfigError: a task is neither a collection nor an environment, its file is missing, a row is
            broken, or the environment has no such bot.
    """
    from srl_agents.recipes.named_rows import DATA
    from srl_envs import spec
    from srl_envs.api.questions import COLLECTIONS, find_file, read_questions
    from srl_envs.errors import UnknownEnvironmentError
    from srl_envs.registry import adopt, no_bot

    trained = set[str]() if options.run is None else _trained_on(options.run)
    plan: list[dict[str, Any]] = []
    for name in dict.fromkeys(part.strip() for part in options.tasks.split(",") if part.strip()):
        if name in COLLECTIONS:
            file = find_file(name, options.data or DATA)
            held_out = options.rows == "held-out" or (options.rows == "auto" and name in trained)
            if not read_questions(name, file, held_out=held_out)[0]:
                kept = " of those held out" * held_out
                raise ConfigError(f"{file}: no row{kept} can be asked.")
            plan.append(
                {
                    "task": "collection",
                    "name": name,
                    "data": str(file.resolve()),
                    "limit": options.limit,
                    "held_out": held_out,
                }
            )
            continue
        try:
            known = spec(adopt(name))
        except UnknownEnvironmentError as error:
            if close := nearest(name, COLLECTIONS):
                raise ConfigError(f"--tasks: no collection or game {name!r}.{close}") from None
            raise ConfigError(f"{error} Collections: {', '.join(COLLECTIONS)}.") from None
        if options.opponents and options.opponents not in known.bots:
            raise ConfigError(f"--opponents: {no_bot(known, options.opponents)}")
        plan.append(
            {
                "task": "game",
                "env_id": known.id,
                "opponents": options.opponents,
                "seeds": SEEDS if options.seeds is None else options.seeds,
            }
        )
    if not plan:
        raise ConfigError(
            f"--tasks {options.tasks!r}: name at least one of {', '.join(COLLECTIONS)}, or a game."
        )
    return plan


def table(results: Sequence[Measured]) -> list[dict[str, Any]]:
    """One row per task and agent.

    An adapter is compared with its own model where that is measured without one; every other agent with the
    first agent of the task.
    """
    rows = []
    for found in results:
        base = _compared_with(found, [own for own in results if own.task == found.task])
        gain, gain_half = (None, None) if base is found else found.gain_over(base)
        rows.append(
            {
                "task": found.task,
                "agent": found.agent,
                "score": _finite(found.mean),
                "half_width": _finite(found.half_width),
                "samples": len(found.samples),
                "void": found.void,
                "over": None if base is found else base.agent,
                "gain": _finite(gain),
                "gain_half_width": _finite(gain_half),
            }
        )
    return rows


def _compared_with(found: Measured, same_task: Sequence[Measured]) -> Measured:
    adapted = _model_of(found.agent)
    if adapted is not None and adapted.adapter:
        for other in same_task:
            plain = _model_of(other.agent)
            if plain is not None and plain.model == adapted.model and not plain.adapter:
                return other
    return same_task[0]


def _model_of(agent: str) -> ModelName | None:
    from srl_agents.agents.grammar import ModelName, parse

    name = parse(agent)
    return name if isinstance(name, ModelName) else None


def _measured(
    agents: Sequence[str], plan: Plan, python: str, out: Path, options: EvalOptions
) -> list[Measured]:

    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from srl_agents.agents.resolver import close_engines
    from srl_agents.exports.inspect_run import measure

    policies = _policies(agents, options)
    results: list[Measured] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        for number, agent in enumerate(agents):
            shown = bar.add_task(agent, total=None)
            results += measure(
                agent, policies[agent], [dict(task) for task in plan],
                python=python, logs=out / f"agent-{number}", seed=options.seed,
                replied=partial(_tell, bar, shown, agent),
            )  # fmt: skip
            bar.update(shown, total=1, completed=1)
    with EventLoop() as loop:
        loop.run(close_engines(policies.values()))
    return results


def _tell(bar: Progress, shown: TaskID, agent: str, replies: int) -> None:
    bar.update(shown, description=f"{agent}: {replies} replies")


def _policies(agents: Sequence[str], options: EvalOptions) -> dict[str, ModelPolicy]:
    from srl_agents.agents.players import ModelPolicy
    from srl_agents.agents.resolver import Playing, find, seat
    from srl_agents.engines.protocol import SamplingSettings

    env_id = _env_of_names(options)
    sampling = SamplingSettings(
        max_new_tokens=options.max_new_tokens or MOST_NEW_TOKENS, temperature=options.temperature
    )
    seated = seat(
        {agent: find(agent, env_id) for agent in agents}, Playing(env_id=env_id, sampling=sampling)
    )
    policies: dict[str, ModelPolicy] = {}
    for agent, found in seated.items():
        if not isinstance(found.policy, ModelPolicy):
            raise ConfigError(
                f"agent {agent!r} is a bot, which reads only one game; `srl play` seats it."
            )
        policies[agent] = found.policy
    return policies


def _env_of_names(options: EvalOptions) -> str:
    """The environment whose bots agents' names could be."""
    return next(
        (t.strip() for t in options.tasks.split(",") if "-v" in t or ":" in t), "math_duel-v0"
    )


def _show(rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table()
    for name in ("task", "agent", "score", "gain", "samples", "void"):
        shown.add_column(name, overflow="fold")  # agents of one run differ in the last letters
    for row in rows:
        gain = (
            "" if row["gain"] is None else f"{row['gain']:+.3f} ± {_text(row['gain_half_width'])}"
        )
        score = f"{_text(row['score'])} ± {_text(row['half_width'])}"
        shown.add_row(row["task"], row["agent"], score, gain, str(row["samples"]), str(row["void"]))
    Console(width=None if sys.stdout.isatty() else 160).print(shown)


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
