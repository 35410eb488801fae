"""`srl train RECIPE`: run a league recipe."""

from __future__ import annotations

import importlib.util
import os
import shlex
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from srl_agents.cli.command_line import read_options
from srl_agents.own_folders import remove_left
from srl_agents.recipes.loading import SHIPPED, find_recipe, load
from srl_agents.whole_import import whole_import
from srl_envs.errors import ConfigError, FaultError, StoreError, file_fault, gather
from srl_envs.recovery import FaultySettings

if TYPE_CHECKING:
    from srl_agents.recipes.settings import LeagueRecipe
    from srl_agents.training.outcome import Outcome

DESCRIPTION = f"""Train a league of language models and play the final round robin.

A run that was interrupted continues where its last checkpoint left off: give the same command.
Opponents may be  bot:NAME  MODEL[+ADAPTER]  openai:MODEL@URL  (docs/guides/agents.md).

Examples:
  srl train quickstart-tiny
  srl train qwen2.5-1.5b-80gb --dry-run      # one update, two layers, random weights
  srl train my_recipe.yaml --seed 3 --out runs/mine --set training.learning_rate=0.002
  srl train --more 50 runs/mine                                       # go on, 50 updates longer
  srl train my_recipe.yaml --ray auto --set ray.workers=64           # docs/guides/cluster.md
  srl train my_recipe.yaml --data data                # rows called by name, such as `tasks: gsm8k`
  torchrun --nproc-per-node 2 --no-python srl train my_recipe.yaml    # share the work

Shipped recipes: {", ".join(sorted(p.stem for p in SHIPPED.glob("*.yaml")))}.
"""


_ANSWER_S = 5.0
"""In which the head of a cluster answers."""
_FRAME, _SETTINGS = 9, 4
"""Bytes of a frame's head, and the kind of frame with which both sides of HTTP/2 begin."""
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + bytes([_SETTINGS]) + bytes(5)
"""What a client begins with. Source: RFC 9113, 3.4."""


@dataclass(frozen=True)
class TrainOptions:
    """What to run and where."""

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """A YAML file, the name of a shipped recipe, or the folder of a run, which goes on."""
    out: Path | None = None
    """Folder of the run; runs/NAME-seedN if absent."""
    seed: int | None = None
    """Root seed; the recipe's own if absent."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """KEY=VALUE over the recipe, dotted keys; may be repeated."""
    data: Path | None = None
    """Folder with the files of collections that the recipe calls by name (`tasks: gsm8k`); data if absent."""
    force: bool = False
    """Begin although the plan says that memory is too small."""
    dry_run: bool = False
    """Take one update on the model's architecture cut to two layers with random weights, and keep nothing."""
    more: int | None = None
    """Updates beyond those of the recipe in the folder of a run; only with such a folder."""
    profile: bool = False
    """Write a torch profiler's trace of one update to RUN/profile."""
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """Train and play on a Ray cluster: auto, local, or HOST:PORT of its head."""
    allow_nothing_learned: bool = False
    """End a run in which nobody took a step with exit code 0, and export it."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl train --help`."""
    options = read_options(TrainOptions, command="srl train", description=DESCRIPTION, argv=argv)
    return train(options)


def train(options: TrainOptions) -> int:
    """Exit code: 0 trained (or there was nothing left to do), 1 nobody took a step, 3 a fault stopped it."""
    from safetensors import SafetensorError

    from srl_agents.recipes.fault_kinds import NOTHING_LEARNED, STOPPED
    from srl_agents.training.first_checks import look_at
    from srl_agents.training.recorded_games import WARM_START, recorded_games
    from srl_agents.training.run_folder import check_folder
    from srl_agents.transports.machine_memory import remove_left_memory

    if options.profile:  # read when torch is loaded: else its profiler writes into the progress
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    recipe, resumed = _read_all(options)
    if options.dry_run:
        return try_out(recipe)
    folder = options.out or resumed or Path("runs") / f"{recipe.name}-seed{recipe.seed}"
    gather(partial(check_folder, recipe, folder), partial(look_at, recipe, folder))
    if not (folder / WARM_START).is_dir():
        recorded_games(recipe)
    remove_left()
    remove_left_memory()

    try:
        outcome, first = (
            _train_here(recipe, folder, options)
            if options.ray is None
            else (_train_on_cluster(recipe, folder, options), True)
        )
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(_how_to_go_on(str(stop), folder, options)) from stop
    except FaultError as error:
        print(f"srl train: {_how_to_go_on(str(error), folder, options)}", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # the reader of the output left
        raise
    except (OSError, SafetensorError) as error:
        fault = file_fault(error, folder) if isinstance(error, OSError) else f"{folder}: {error}"
        raise StoreError(_how_to_go_on(f"{fault}. Mend that.", folder, options)) from None
    if first:
        from srl_agents.training.adapter_export import FOLDERS

        _say_where(folder, FOLDERS[recipe.parameters])
    if outcome.learned or recipe.survival.allow_nothing_learned:
        return 0
    why = "".join(f" {name}: {reason}." for name, reason in sorted(outcome.reasons.items()))
    print(
        f"srl train: nothing was learned: nobody took a step in {recipe.updates} updates.{why} Nothing was "
        f"exported. `srl doctor {folder}` says what to change; --allow-nothing-learned ends such a run "
        "with 0.",
        file=sys.stderr,
    )
    return NOTHING_LEARNED


def _how_to_go_on(stopped: str, folder: Path, options: TrainOptions) -> str:
    """What an end before the end left, with the command that goes on from there.

    Args:
        stopped: what was being done and what was kept; empty before the first attempt began.
        folder: of the run.
        options: of the command.
    """
    from srl_agents.training.recorded_games import WARM_START
    from srl_agents.training.run_folder import CHECKPOINTS, RECIPE

    told = stopped or "interrupted before an update began."
    if not (folder / RECIPE).is_file():
        return f"{told} Nothing is kept; the same command begins again."
    command = ["srl", "train", str(folder)]
    for name in ("data", "ray"):
        if (value := getattr(options, name)) is not None:
            command += [f"--{name}", str(value)]
    if any((folder / CHECKPOINTS).glob("step-*")):
        return f"{told} To go on: {shlex.join(command)}"
    warm = " Its warm start is kept." if (folder / WARM_START).is_dir() else ""
    return f"{told}{warm} To begin again: {shlex.join(command)}"


def _train_here(recipe: LeagueRecipe, folder: Path, options: TrainOptions) -> tuple[Outcome, bool]:
    """Train in this process; also whether it is the first one of the run."""
    whole_import("srl_agents.training.run")

    from rich.console import Console

    from srl_agents.coordination.processes import Processes, started_processes
    from srl_agents.metrics import ConsoleView
    from srl_agents.training.first_plan import plan_first
    from srl_agents.training.process_folders import own_folder
    from srl_agents.training.supervision import train as train_supervised

    say = partial(print, file=sys.stderr)
    plan_first(recipe, say, force=options.force, processes=started_processes())
    processes = Processes.join(recipe.device)
    console = None if processes.first else Console(quiet=True)
    view = ConsoleView(title_of(recipe), recipe.updates, console)
    with view, own_folder(folder, processes) as own:
        outcome = train_supervised(recipe, own, view, processes, trace_one=options.profile)
    return outcome, processes.first


def _train_on_cluster(recipe: LeagueRecipe, folder: Path, options: TrainOptions) -> Outcome:
    """Follow a trainer on the cluster."""
    from srl_agents.metrics import ConsoleView
    from srl_agents.training.ray_trainer import train_on_cluster

    with ConsoleView(title_of(recipe), recipe.updates) as view:
        return train_on_cluster(
            recipe,
            folder,
            view,
            address=options.ray or "",
            force=options.force,
            trace_one=options.profile,
        )


def _read_all(options: TrainOptions) -> tuple[LeagueRecipe, Path | None]:
    """`_read`; a recipe with mistakes is refused together with what its files and addresses show.

    Raises:
        ConfigError: with every mistake.
    """
    from srl_agents.recipes.settings import LeagueRecipe
    from srl_agents.training.first_checks import look_at

    try:
        return _read(options)
    except FaultySettings as error:
        if isinstance(error.repaired, LeagueRecipe) and not options.dry_run:
            folder = options.out or Path(options.recipe)
            raise error.joined(partial(look_at, error.repaired, folder)) from None
        raise


def _read(options: TrainOptions) -> tuple[LeagueRecipe, Path | None]:
    """The recipe with what the command lays over it, and the run's folder where one was given.

    Raises:
        ConfigError: it has no learners, or wants a package that is not installed.
    """
    from srl_agents.recipes.recipe_checks import check_installed
    from srl_agents.recipes.recipe_kinds import read_recipe
    from srl_agents.recipes.settings import LeagueRecipe
    from srl_agents.training.run_folder import RECIPE

    overrides = list(options.set)
    if options.seed is not None:
        overrides.append(f"seed={options.seed}")
    if options.allow_nothing_learned:
        overrides.append("survival.allow_nothing_learned=true")
    given = Path(options.recipe)
    path = given / RECIPE if (given / RECIPE).is_file() else None
    if options.more is not None:
        overrides += _longer(options, path, read_recipe)
    if path is None and given.is_dir():
        raise ConfigError(f"{given} holds no run: {RECIPE} is missing.")
    recipe = read_recipe(path or find_recipe(options.recipe), overrides, rows=options.data)
    if not isinstance(recipe, LeagueRecipe):
        raise ConfigError(
            f"{options.recipe} has agents that play and no learners: srl league run {options.recipe}"
        )
    if options.ray is not None and not options.dry_run:
        recipe = load(
            LeagueRecipe,
            path or find_recipe(options.recipe),
            overrides + on_ray(recipe),
            rows=options.data,
        )
        require_answer(options.ray)
    check_installed(recipe)
    return recipe, given if path else None


def _longer(options: TrainOptions, path: Path | None, read: Callable[..., Any]) -> list[str]:
    """Overrides that make the run in a folder longer."""
    if path is None:
        raise ConfigError(
            f"--more: {options.recipe} is no folder of a run. Give the folder that `srl train` named."
        )
    if not options.more or options.more < 1:
        raise ConfigError(f"--more {options.more}: use 1 or more.")
    known = read(path)
    longer = [f"updates={known.updates + options.more}"]
    if known.training.total_updates:  # the schedule falls to 0 at the new end
        steps = known.training.total_updates + options.more * known.training.steps_per_batch
        longer.append(f"training.total_updates={steps}")
    return longer


def title_of(recipe: LeagueRecipe) -> str:
    """What is trained on what, in one line."""
    return (
        f"{recipe.name}: {', '.join(game.name for game in recipe.games)} with "
        f"{', '.join(base.name for base in recipe.bases)}"
    )


def on_ray(recipe: LeagueRecipe) -> list[str]:
    """Settings that a recipe needs beyond its own, for workers of a cluster to play.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ConfigError: the recipe cannot be played there.
    """
    from srl_agents.recipes.ray_settings import PART_MATCHES

    if importlib.util.find_spec("ray") is None:
        raise ModuleNotFoundError("no ray", name="ray")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError(
            "--ray, torchrun: a run on a cluster has one trainer. Give the command alone, without torchrun."
        )
    if recipe.placement not in ("auto", "disaggregated"):
        raise ConfigError(
            f"--ray, placement={recipe.placement!r}: every worker has a base of its own. Use 'disaggregated'."
        )
    if recipe.opponents.agents:
        raise ConfigError(
            f"--ray, opponents.agents={', '.join(recipe.opponents.agents)}: workers of a cluster have the "
            "league's own players and bots alone. Leave out one of the two."
        )
    own = recipe.asynchronous
    added = ["placement=disaggregated"] if recipe.placement == "auto" else []
    if own is None:
        added.append("asynchronous.ahead=0")
    elif own.in_flight == "switch":
        raise ConfigError(
            "--ray, asynchronous.in_flight='switch': a part that another worker plays again could not end "
            "alike. Use 'keep'."
        )
    if own is None or not own.part_matches:
        added.append(f"asynchronous.part_matches={PART_MATCHES}")
    if not recipe.carrier.crosses_processes:
        added.append("transport.kind=files")
    return added


def require_answer(address: str) -> None:
    """See that somebody answers at the address of a cluster; Ray itself would try for minutes.

    Raises:
        ConfigError: nobody does, or it is no address.
    """
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ConfigError(f"--ray {address}: use auto, local, or HOST:PORT of the cluster's head.")
    fault = ""
    try:
        place = (host.strip("[]"), int(port))
        with socket.create_connection(place, timeout=_ANSWER_S) as link:
            if os.environ.get("RAY_USE_TLS", "0") == "0" and not _speaks_http2(link):
                fault = "what listens there is something else"
    except OSError as error:
        fault = error.strerror or str(error)
    if fault:
        raise ConfigError(
            f"--ray {address}: no cluster answers ({fault}). Start one with `ray start --head`, or give "
            "--ray local."
        )


def _speaks_http2(link: socket.socket) -> bool:
    """Whether the other side begins as the head of a cluster does, with its settings."""
    link.sendall(_HTTP2)
    head = b""
    while len(head) < _FRAME and (part := link.recv(_FRAME - len(head))):
        head += part
    return len(head) == _FRAME and head[3] == _SETTINGS


def _say_where(folder: Path, exported: str) -> None:
    print(
        f"The run is in {folder}. Its ratings:  srl league status {folder}\n"
        f"Its leaderboard:  srl leaderboard build --store {folder}/league.db --schedule eval/final "
        f"--out {folder}/site\n"
        f"Its curves:  srl report {folder}\n"
        f"Its {exported}:  {folder / exported}"
    )


def try_out(recipe: LeagueRecipe) -> int:
    """Take the update of a dry run."""
    from srl_agents.metrics import ConsoleView
    from srl_agents.training.dry_run import dry_run

    with ConsoleView(f"{recipe.name}: dry run", 1) as view:
        lines = dry_run(recipe, view)
    print("\n".join(lines))
    return 0
