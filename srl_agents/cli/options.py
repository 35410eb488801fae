"""Options that several commands have, each declared once; a command's class derives from its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from srl_envs.errors import ConfigError
from srl_envs.reading.settings import absent_unless_given, inherited_hints

T = TypeVar("T")


def positional(name: str, metavar: str) -> Callable[[type[T]], type[T]]:
    """Let an inherited option of a class be given by its place; stands below ``@dataclass``."""

    def changed(kind: type[T]) -> type[T]:
        marker: Any = tyro.conf.Positional
        placed = marker[inherited_hints(kind)[name]]
        kind.__annotations__[name] = Annotated[placed, tyro.conf.arg(metavar=metavar)]
        return kind

    return changed


def meaning(**texts: str) -> Callable[[type[T]], type[T]]:
    """Help of inherited options, where a command means one thing; stands below ``@dataclass``."""

    def changed(kind: type[T]) -> type[T]:
        hints = inherited_hints(kind)
        for name, text in texts.items():
            kind.__annotations__[name] = Annotated[hints[name], tyro.conf.arg(help=text)]
            setattr(kind, name, dataclasses.field(default=getattr(kind, name), kw_only=True))
        return kind

    return changed


@dataclass(frozen=True, kw_only=True)
class JSONOptions:
    """How a result is printed."""

    json: bool = False
    """Print JSON instead of text and tables, and no progress; null where a number is unknown."""


@dataclass(frozen=True, kw_only=True)
class ListingOptions(JSONOptions):
    """One entry of a list, or all."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[NAME]")] = ""
    """Name of one entry; all are listed if absent."""


@dataclass(frozen=True, kw_only=True)
class PlotOptions:
    """File for a figure."""

    plot: Path | None = None
    """Write a figure of the result there, as .svg."""


@dataclass(frozen=True, kw_only=True)
class RandomOptions:
    """Root seed of a command."""

    seed: int = 0
    """Seed of the command: the same seed gives the same episodes and draws; further episodes count up.
    Of a run the root seed; the recipe's own if absent."""


@dataclass(frozen=True, kw_only=True)
class SubjectOptions:
    """What a check is about, or what is shared."""

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WHAT")]
    """Of `srl verify-trainer`: a model (tiny, smollm2-135m, a folder, a hub id), or a recipe (a YAML file or
    a shipped one by name). Of `srl reproduce`: EXPERIMENT/ARENA/ARM, as docs/report.md names it. Of `srl
    push`: the folder of a finished run, or of a board."""


@dataclass(frozen=True, kw_only=True)
class RepositoryOptions:
    """A repository of the hub that HF_ENDPOINT names, by default Hugging Face's."""

    repository: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="OWNER/NAME")]
    """Repository; of `srl pull` with @REVISION for a branch, tag or commit other than the newest."""


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """The device that is planned for."""

    device: str = ""
    """A device's name, or of `srl plan` also cpu or a size; of `srl plan kv` a100, h100 or h200. If absent:
    a100-80gb for `srl plan`, h100-80gb for `srl plan parallel`, h100 for `srl plan kv`."""


@dataclass(frozen=True, kw_only=True)
class SeedsOptions:
    """How much is played in each game."""

    seeds: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Seeds of each game. If absent: 32 per two players of `srl league crossplay`, each in all seat
    rotations; 64 of `srl league swap`, each in own seats, in exchanged ones, and by what learners were; 10 of
    `srl eval`, each played from every seat."""


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Where a result goes, for commands that have a place of their own for it."""

    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """Write the result there; what is written, and where to if absent, is in the command's own help."""


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """Whether it is for good."""

    dry_run: bool = False
    """Try it, and keep or send nothing: `srl train` takes one update on the model's architecture cut to two
    layers with random weights, `srl push` prints which files would go."""


@dataclass(frozen=True, kw_only=True)
class EverythingOptions:
    """Every environment at once."""

    all: bool = False
    """Take every environment: in `srl leaderboard` those with a protocol; in `srl redteam` rewards, too."""


@dataclass(frozen=True, kw_only=True)
class SearchBudgetOptions:
    """What a search may spend."""

    budget_s: float = 600.0
    """Seconds of processor time for all games together; the clock may take more."""

    def __post_init__(self) -> None:
        if not self.budget_s > 0:
            raise ConfigError(f"budget_s={self.budget_s}: give seconds above 0.")


@dataclass(frozen=True, kw_only=True)
class ReplyOptions:
    """How long a model may write."""

    max_new_tokens: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Longest reply of a language model. If absent, a default per environment, 512 for `srl eval`; a
    protocol's at most."""


@dataclass(frozen=True, kw_only=True)
class RunFolderOptions:
    """The run that is read or continued."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run. To look at a run or to export it, its league store is enough."""


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """The runs that are read."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN ...")]
    """Folders of runs of `srl train`; of finished ones for `srl league crossplay`."""


@dataclass(frozen=True, kw_only=True)
class SetOptions:
    """What is changed in a recipe."""

    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """KEY=VALUE over the recipe, dotted keys; may be repeated."""


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Where collections are."""

    data: Path | None = None
    """Folder with the files of collections that are called by name (`tasks: gsm8k`); data if absent."""


@dataclass(frozen=True, kw_only=True)
class RecipeOptions(SetOptions, DataOptions):
    """A recipe, and what is changed in it."""

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """A YAML file, the name of a shipped recipe, or the folder of a run, which goes on."""


@dataclass(frozen=True, kw_only=True)
@absent_unless_given("seed")
@meaning(out="Folder of the run; runs/NAME-seedN if absent.")
class NewRunOptions(RecipeOptions, RandomOptions, ResultOptions):
    """A recipe, and the run that it becomes."""


@dataclass(frozen=True, kw_only=True)
class MetricsOptions:
    """Counters for Prometheus."""

    metrics_port: Annotated[int | None, tyro.conf.arg(metavar="PORT")] = None
    """Serve counters to Prometheus on this port of this machine; 0 takes a free one. The page of `srl serve`
    answers also while vLLM is down."""
