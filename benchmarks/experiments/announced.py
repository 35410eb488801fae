"""Announced experiments: pages of docs/experiments/preregistered, which the programs read themselves.

A page holds one block of YAML with arms, seeds and limits. Its digest is of the whole page, so a change of
the question, the prediction or an arm after the first run makes the rows of that experiment unregistered.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import yaml

from srl_agents.recipes.loading import read_values
from srl_envs.errors import ConfigError, nearest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs/experiments/preregistered"
HEX = 16
"""Digits of digests in rows."""
LEAST_PILOT = 900
"""Seeds from here on size an experiment; no row of a result has one."""
Measure = Literal["team", "exploitability", "points", "own_outcome", "transfer"]
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


class Key(NamedTuple):
    """One run of an experiment."""

    arena: str
    arm: str
    seed: int

    def __str__(self) -> str:
        return f"{self.arena}/{self.arm}/{self.seed}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arena:
    """A game with the recipe that all arms start from."""

    measure: Measure
    """What is measured on eval seeds; see `measures`."""
    recipe: dict[str, Any]
    """Of a league, without name, model and seed."""
    model: str = ""
    """A shipped model, or one of `benchmarks.learning.small_games.CORPORA`, built when it is not there; so
    may those of ``models`` be, which a recipe names if learners have several bases."""
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Arm -> what differs from `Experiment.arms` here, such as its size. If given, only these are run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """The table of a page."""

    baseline: str
    """Arm that the others are compared with."""
    stop: dict[str, int]
    """Limits of a run: ``tokens`` generated, branches included, or ``trained_tokens``."""
    seeds: tuple[int, ...]
    """Root seeds; arms of one seed are paired."""
    cpu_hours: float
    """Planned, of all runs."""
    arenas: dict[str, Arena]
    """By name, in the order of the queue."""
    arms: dict[str, dict[str, Any]]
    """Name -> what differs from an arena's recipe, in the order of the queue."""
    margin: float = 0.05
    """Differences inside it are equivalent."""

    def __post_init__(self) -> None:
        if self.baseline not in self.arms:
            raise ConfigError(
                f"baseline={self.baseline!r}: it is none of the arms {list(self.arms)}."
            )
        if len(set(self.seeds)) != len(self.seeds) or len(self.seeds) < 2:
            raise ConfigError(f"seeds={self.seeds}: give two or more, each once.")
        if high := [seed for seed in self.seeds if seed >= LEAST_PILOT]:
            raise ConfigError(f"seeds={high}: {LEAST_PILOT} and above are pilots. Use lower ones.")
        for name, arena in self.arenas.items():
            if arena.measure not in get_args(Measure):
                raise ConfigError(
                    f"arenas.{name}.measure={arena.measure!r}: use {get_args(Measure)}."
                )
            if unknown := [*arena.arms.keys() - self.arms.keys()]:
                raise ConfigError(f"arenas.{name}.arms: {unknown} are none of {list(self.arms)}.")
            if arena.arms and self.baseline not in arena.arms:
                raise ConfigError(f"arenas.{name}.arms: the baseline {self.baseline!r} is missing.")

    def arms_of(self, arena: str) -> list[str]:
        """Arms that are run there, in the order of the queue."""
        own = self.arenas[arena].arms
        return [name for name in self.arms if not own or name in own]

    def runs(self) -> list[Key]:
        """All runs in the order of the queue: a whole arm, seed by seed, then the next."""
        return [
            Key(arena, arm, seed)
            for arena in self.arenas
            for arm in self.arms_of(arena)
            for seed in self.seeds
        ]

    def recipe(self, arena: str, arm: str) -> dict[str, Any]:
        """Values of a run's recipe without name and seed."""
        found = self.arenas[arena]
        own = merged(self.arms[arm], found.arms.get(arm, {}))
        base = {"model": found.model} if found.model else {}
        return merged(merged(base | found.recipe, {"stop": self.stop}), own)


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it is now."""

    name: str
    """Of the file, without its ending."""
    title: str
    digest: str
    experiment: Experiment


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with ``changes`` over them: mappings key by key, everything else replaced."""
    found = dict(values)
    for key, value in changes.items():
        old = found.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        found[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return found


def names() -> list[str]:
    """Announced experiments."""
    return sorted(path.stem for path in PAGES.glob("*.md"))


def read(name: str, folder: Path = PAGES) -> Page:
    """The page of an experiment.

    Raises:
        ConfigError: no page has this name, or its table is wrong.
    """
    path = folder / f"{name}.md"
    if not path.is_file():
        known = sorted(found.stem for found in folder.glob("*.md"))
        raise ConfigError(
            f"no experiment {name!r}.{nearest(name, known)} Announced: {', '.join(known)}."
        )
    return parse(name, path.read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Page:
    """A page from its text.

    Raises:
        ConfigError: it has no title, not exactly one block of YAML, or a table that is wrong.
    """
    blocks, title = _BLOCK.findall(text), text.partition("\n")[0]
    if len(blocks) != 1 or not title.startswith("# "):
        raise ConfigError(
            f"{name}.md: a page begins with a title and has one block of YAML; found {len(blocks)}."
        )
    experiment = read_values(Experiment, yaml.safe_load(blocks[0]), f"{name}.md")
    return Page(name, title.removeprefix("# "), digest_of(text), experiment)


def digest_of(text: str) -> str:
    """Of a page, as rows name it."""
    return hashlib.sha256(text.encode()).hexdigest()[:HEX]


def pages() -> Iterator[Page]:
    """All announced experiments."""
    return map(read, names())
