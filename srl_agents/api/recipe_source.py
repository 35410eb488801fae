"""Recipes from a shipped name, a file, a run's folder, plain values, or the settings object."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from srl_agents.recipes.checks.sections import check_installed
from srl_agents.recipes.loading import Override, Overrides, as_pairs, find_recipe
from srl_agents.recipes.recipe_kinds import Recipe, read_recipe, recipe_of
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.cluster.address import on_ray, require_answer
from srl_agents.training.folder.layout import RECIPE
from srl_agents.training.start.checks import look_at
from srl_envs.errors import ConfigError
from srl_envs.reading.recovery import FaultySettings
from srl_envs.reading.settings import dump

RecipeSource = str | Path | Mapping[str, Any] | LeagueRecipe


@dataclass(frozen=True, kw_only=True)
class Request:
    """A recipe with what lies over it."""

    recipe: RecipeSource
    """Name of a shipped recipe, YAML file, folder of a run, plain values by key, or a recipe."""
    out: Path | None = None
    """Folder of the run; runs/NAME-seedN if absent, or the folder that ``recipe`` is."""
    seed: int | None = None
    """Root seed; the recipe's own if absent."""
    overrides: Overrides = ()
    """See `srl_agents.recipes.loading.load`."""
    data: Path | None = None
    """Folder with the files of collections that the recipe calls by name; data if absent."""
    more: int | None = None
    """Updates beyond those of the recipe in the folder of a run; only with such a folder."""
    ray: str | None = None
    """Address of a Ray cluster: ``auto``, ``local``, or HOST:PORT of its head."""
    allow_nothing_learned: bool = False
    """Export a run in which no learner took a step."""

    @property
    def run(self) -> Path | None:
        """The folder of a run that the recipe names."""
        given = self.recipe
        if isinstance(given, str | Path) and (Path(given) / RECIPE).is_file():
            return Path(given)
        return None

    def folder(self, recipe: LeagueRecipe) -> Path:
        """Where the run of this recipe lies."""
        return self.out or self.run or Path("runs") / f"{recipe.name}-seed{recipe.seed}"

    def read(self, *, look: bool = True) -> LeagueRecipe:
        """The recipe.

        Args:
            look: add what its files and addresses show to the mistakes of a recipe that has some.

        Raises:
            ConfigError: with every mistake; or it has no learners, or needs a package that is not installed.
        """
        try:
            return self._read()
        except FaultySettings as error:
            if look and isinstance(error.repaired, LeagueRecipe):
                folder = self.out or Path(self._name)
                raise error.joined(partial(look_at, error.repaired, folder)) from None
            raise

    def _read(self) -> LeagueRecipe:
        overrides = as_pairs(self.overrides)
        if self.seed is not None:
            overrides.append(("seed", self.seed))
        if self.allow_nothing_learned:
            overrides.append(("survival.allow_nothing_learned", True))
        if self.more is not None:
            overrides += self._longer(self.more)
        recipe = self._trains(self._with(overrides))
        if self.ray is not None:
            recipe = self._trains(self._with([*overrides, *on_ray(recipe)]))
            require_answer(self.ray)
        check_installed(recipe)
        return recipe

    def _with(self, overrides: Overrides) -> Recipe:
        given = self.recipe
        if isinstance(given, LeagueRecipe):
            return recipe_of(dump(given), given.name, overrides, rows=self.data)
        if isinstance(given, Mapping):
            return recipe_of(copy.deepcopy(dict(given)), "recipe", overrides, rows=self.data)
        path = None if self.run is None else self.run / RECIPE
        if path is None and Path(given).is_dir():
            raise ConfigError(f"{given} holds no run: {RECIPE} is missing.")
        return read_recipe(path or find_recipe(str(given)), overrides, rows=self.data)

    def _trains(self, recipe: Recipe) -> LeagueRecipe:
        if isinstance(recipe, LeagueRecipe):
            return recipe
        raise ConfigError(
            f"{self._name} is a population, which has no learners: srl league run {self._name}"
        )

    def _longer(self, more: int) -> list[Override]:
        """Overrides that make the run in a folder longer."""
        if self.run is None:
            raise ConfigError(
                f"--more: {self._name} is not a run's folder. Give the folder that `srl train` named."
            )
        if more < 1:
            raise ConfigError(f"--more {more}: use 1 or more.")
        known = self._trains(read_recipe(self.run / RECIPE))
        longer: list[Override] = [("updates", known.updates + more)]
        if known.training.total_updates:  # the schedule falls to 0 at the new end
            steps = known.training.total_updates + more * known.training.steps_per_batch
            longer.append(("training.total_updates", steps))
        return longer

    @property
    def _name(self) -> str:
        """Name of the recipe in messages."""
        given = self.recipe
        if isinstance(given, LeagueRecipe):
            return given.name
        return str(given.get("name", "recipe")) if isinstance(given, Mapping) else str(given)
