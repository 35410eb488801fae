"""`srl verify-trainer MODEL|RECIPE`: compare the trainers' gradients with a second computation."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, RandomOptions, SetOptions, SubjectOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.trainers.verification.cases import Case
    from srl_agents.trainers.verification.layouts import AdapterForm
    from srl_agents.trainers.verification.verify import Result

DESCRIPTION = """Compute loss and gradient of a small batch twice, and print the largest difference.

Once with the trainers, in every layout of rows that they have: padded, shared prefixes, packed, chunked
logits, divided, mixed adapters, recomputed activations. Once from the papers' equations with plain
transformers, one row at a time, without TRL and PEFT. At least a tenth of the tokens is clipped wherever a
loss clips. A model is checked with every loss of GRPO, PPO and DPO; a recipe with its own settings. Both run
in float32 on the CPU. Models with more than 2 GB of weights, and those that are not on this machine, are cut
to two layers of random weights.

Exit code: 0 all differences are rounding, 1 one is larger, 2 something in the command is wrong.

Examples:
  srl verify-trainer tiny
  srl verify-trainer tiny --only "grpo gspo" --only ppo --json
  srl verify-trainer quickstart-smollm2-135m
  srl verify-trainer my_recipe.yaml --set training.variant=cispo
"""
MOST_BYTES = 2e9
"""Of a model's weights in its files; a larger model is cut."""
_FETCHED = "smollm2-135m"
"""The model that SRL fetches itself."""


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(SubjectOptions, SetOptions, RandomOptions, JSONOptions):
    """Model or recipe to verify, and which losses."""

    only: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Losses of a model to check, such as grpo, "grpo gspo" or ppo; may be repeated. All if absent."""


@dataclass(frozen=True)
class Subject:
    """One model and what is checked on it."""

    name: str
    model: str
    cases: Sequence[Case]
    form: AdapterForm
    temperature: float


def main(argv: list[str]) -> int:
    """Run the command; see `srl verify-trainer --help`."""
    options = read_options(
        VerifyOptions, command="srl verify-trainer", description=DESCRIPTION, argv=argv
    )
    subjects = subjects_of(options)
    from srl_agents.models.quiet import quiet_libraries
    from srl_agents.own_folders import scratch
    from srl_agents.trainers.verification.layouts import LAYOUTS
    from srl_agents.trainers.verification.verify import Verification, verify

    logging.getLogger("trl").setLevel(
        logging.ERROR
    )  # its advice on losses that are checked on purpose
    reports = []
    with scratch("verify-trainer") as work, _progress(subjects) as advance, quiet_libraries():
        for number, subject in enumerate(subjects):
            folder, cut = _folder(subject.model, work / f"model-{number}")
            verification = Verification(
                folder, subject.form, temperature=subject.temperature, seed=options.seed
            )
            results = verify(verification, subject.cases, LAYOUTS, advance)
            reports.append(report(subject.name, cut, results))
    if options.json:
        print(plain_json({"passed": _passed(reports), "models": reports}, indent=2))
    else:
        for one in reports:
            show(one)
    return 0 if _passed(reports) else 1


def subjects_of(options: VerifyOptions) -> list[Subject]:
    """The models of a recipe, or the model that was named.

    Raises:
        ConfigError: the recipe is wrong or has something that is not verified, or an option does not go with
            the other.
    """
    from srl_agents.recipes.loading import SHIPPED

    given = options.what
    if (SHIPPED / f"{given}.yaml").is_file() or given.endswith((".yaml", ".yml")):
        if options.only:
            raise ConfigError("only: a recipe has one loss. Leave it out, or name a model.")
        return _of_recipe(given, options.set)
    if options.set:
        raise ConfigError(
            f"set: {given} is a model, and has no settings. Leave it out, or name a recipe."
        )
    from srl_agents.trainers.verification.cases import chosen_cases
    from srl_agents.trainers.verification.layouts import AdapterForm

    return [Subject(given, given, chosen_cases(options.only), AdapterForm(), 0.8)]


def _of_recipe(name: str, overrides: tuple[str, ...]) -> list[Subject]:
    from srl_agents.recipes.loading import find_recipe
    from srl_agents.recipes.recipe_kinds import read_recipe
    from srl_agents.recipes.settings import LeagueRecipe
    from srl_agents.trainers.verification.cases import case_of
    from srl_agents.trainers.verification.layouts import AdapterForm

    recipe = read_recipe(find_recipe(name), overrides)
    if not isinstance(recipe, LeagueRecipe):
        raise ConfigError(
            f"{name} is a population, which has no learners, so there is nothing to verify."
        )
    found = []
    for base in recipe.bases:
        if base.parameters != "lora":
            raise ConfigError(
                f"parameters={base.parameters!r}: only LoRA learners are verified. Use --set parameters=lora."
            )
        lora = base.lora
        form = AdapterForm(
            rank=lora.rank,
            alpha=lora.alpha,
            targets=lora.target_modules,
            excluded=lora.exclude_modules,
            activation=lora.activation,
        )
        temperature = recipe.rollout.temperature
        found.append(Subject(base.name, base.model, [case_of(base.training)], form, temperature))
    return found


def _folder(model: str, work: Path) -> tuple[Path, bool]:
    """The model's folder, or one with its architecture cut to two layers; and whether it is cut."""
    from srl_agents.models.sources import catalog
    from srl_agents.training.dry_run import stand_in

    found = catalog.local_folder(model) or catalog.cached_folder(model)
    if found is None and model == _FETCHED:
        found = catalog.resolve(model)
    if found is None:
        return stand_in(model, work).folder, True
    large = sum(path.stat().st_size for path in found.glob("*.safetensors")) > MOST_BYTES
    return (stand_in(model, work).folder, True) if large else (found, False)


def report(name: str, cut: bool, results: Sequence[Result]) -> dict[str, Any]:
    """Numbers of one model, for JSON and for the table.

    Raises:
        ConfigError: the model has none of the layouts.
    """
    from srl_agents.trainers.verification.verify import BOUND

    compared = [result for result in results if not result.refused]
    if not compared:
        raise ConfigError(f"{name}: nothing was compared. {results[0].refused if results else ''}")
    layouts: dict[str, Any] = {}
    for layout in dict.fromkeys(result.layout for result in results):
        own = [result for result in compared if result.layout == layout]
        refusals = [r.refused for r in results if r.layout == layout and r.refused]
        layouts[layout] = {
            "cases": len(own),
            "largest_difference": _largest([result.difference for result in own]),
            "refused": refusals[0] if refusals else "",
        }
    shares = {r.case: r.clipped for r in compared if r.clipped is not None}
    return {
        "model": name,
        "cut_to_two_layers": cut,
        "bound": BOUND,
        "passed": all(result.equal for result in compared),
        "layouts": layouts,
        "least_clipped": min(shares.values(), default=None),
        "clipped": shares,
        "differing": [asdict(result) for result in compared if not result.equal],
    }


def _largest(differences: Sequence[float]) -> float | None:
    """NaN counts as the largest; None without any."""
    return max(differences, key=lambda d: (math.isnan(d), d), default=None)


def show(made: dict[str, Any]) -> None:
    """Print the table of one model, and what differs."""
    from rich.console import Console
    from rich.table import Table

    cut = ", cut to two layers with random weights" if made["cut_to_two_layers"] else ""
    table = Table(title=f"{made['model']}{cut}")
    table.add_column("layout")
    for column in ("losses", "largest difference", "bound"):
        table.add_column(column, justify="right")
    for layout, own in made["layouts"].items():
        largest = own["largest_difference"]
        shown = "not with this model" if largest is None else f"{largest:.1e}"
        table.add_row(layout, str(own["cases"]), shown, f"{made['bound']:.0e}")
    Console().print(table)
    for layout, own in made["layouts"].items():
        if own["refused"]:
            print(f"{layout}: {own['refused']}")
    if made["least_clipped"] is not None:
        print(f"Clipped tokens: {made['least_clipped']:.0%} or more of each loss that clips.")
    for one in made["differing"]:
        print(
            f"DIFFERS: {one['case']}, {one['layout']}: loss by {one['loss_difference']:.1e}, gradient by "
            f"{one['gradient_difference']:.1e}."
        )
    if made["passed"]:
        print("Every loss and gradient is that of the independent computation.")


def _passed(reports: Sequence[dict[str, Any]]) -> bool:
    return all(one["passed"] for one in reports)


@contextmanager
def _progress(subjects: Sequence[Subject]) -> Iterator[Any]:
    """A bar over losses on a terminal's standard error; gives the function that moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("verifying", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=sum(len(subject.cases) for subject in subjects))
        yield lambda _case: bar.advance(task)
