"""`srl_agents.Run`: the results of a run as typed values; `srl_agents.load_agent`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from srl_agents.agents.grammar import BotName, ModelName
from srl_agents.agents.prompt_file import read_prompt
from srl_agents.agents.resolver import Candidate, Playing
from srl_agents.api.text_agent import Agent, loaded_agent
from srl_agents.league.agents import find_agent
from srl_agents.league.matchmaking.manager import BOT
from srl_agents.league.ratings.tables import Rating
from srl_agents.league.standings import Gain, Status, gains_of, read_status
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics import Record
from srl_agents.metrics.sinks import METRICS, read_lines
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.recipes.sections.base_models import Base
from srl_agents.recipes.sections.games import bots_of
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightVersion
from srl_agents.training.folder.layout import RECIPE, SNAPSHOTS, STORE, snapshots_in
from srl_agents.training.outcome import Outcome
from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run in its folder. Every method reads the files as they are now, also while the run goes on."""

    folder: Path
    """Folder of the run."""
    recipe: LeagueRecipe
    """The run's recipe, with all settings."""
    outcome: Outcome | None = None
    """How the call of `train` that returned this run ended; None for a run that was opened."""
    first: bool = True
    """Whether this process is the first of those that trained together; only that one writes the folder."""

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Open a run that `train` or ``srl train`` left, finished or not.

        Raises:
            ConfigError: the folder holds no run of learners, or its recipe cannot be read.
        """
        path = Path(folder) / RECIPE
        if not path.is_file():
            raise ConfigError(
                f"{folder} holds no run: {RECIPE} is missing. Give the folder that training wrote."
            )
        recipe = read_recipe(path)
        if not isinstance(recipe, LeagueRecipe):
            raise ConfigError(
                f"{folder} holds matches of a population, without learners. `srl league status {folder}` "
                "shows its ratings."
            )
        return cls(folder=Path(folder), recipe=recipe)

    # --- what was measured ---------------------------------------------------------------------

    def metrics(self) -> list[Record]:
        """One record per update, in the order of writing; a metric that was not finite is left out."""
        return [
            Record(
                update=line["update"],
                updates=line.get("updates", self.recipe.updates),
                run=_finite(line.get("run", {})),
                learners={n: _finite(v) for n, v in line.get("learners", {}).items()},
            )
            for line in read_lines(self.folder / METRICS)
        ]

    def ratings(self) -> dict[str, tuple[Rating, ...]]:
        """Game -> its agents from best to worst, with Elo and 95 % intervals, from the last evaluation.

        Games of one seat are absent, as is every game before its first evaluation. `standings` has more.

        Raises:
            StoreError: the store is missing or cannot be read.
        """
        return {s.title: s.table.ratings for s in self.standings() if s.table is not None}

    def gains(self) -> list[Gain]:
        """Each learner's last version against its start, by game, as ``srl league status`` prints it.

        Raises:
            StoreError: the store is missing or cannot be read.
        """
        with self._store() as store:
            agents = {agent.agent_id: agent for agent in store.agents()}
            return [gain for found in read_status(store) for gain in gains_of(found, agents)]

    def standings(self) -> list[Status]:
        """All that ``srl league status`` shows, game by game.

        Raises:
            StoreError: the store is missing or cannot be read.
        """
        with self._store() as store:
            return read_status(store)

    # --- agents --------------------------------------------------------------------------------

    def versions(self) -> list[WeightVersion]:
        """Versions that the run froze, by learner and number."""
        found = map(WeightVersion.parse, snapshots_in(self.folder))
        return sorted(found, key=lambda version: (version.learner, version.number))

    def agent(self, name: str, *, seed: int = 0) -> Agent:
        """An agent of the run as text -> text, which replies as in the run's matches.

        Args:
            name: a version (``alice@3`` or its whole id), a learner (``alice``, its last frozen version), a
                model of the recipe as it was before training (``tiny``), or a bot (``bot:middle``).
            seed: of its random numbers.

        Raises:
            ConfigError: the run has no such agent.
            ModelError: its weights cannot be loaded.
        """
        agent = self._agent_id(name)
        from srl_agents.training.parts.single import sampling_of  # noqa: PLC0415 - torch comes with it

        playing = Playing(
            env_id=self.recipe.games[0].env_id,
            sampling=sampling_of(self.recipe),
            dtype=self.recipe.dtype,
            device=self.recipe.device,
        )
        return loaded_agent(agent, self._candidate(agent), playing, seed)

    def _agent_id(self, name: str) -> str:
        versions = self.versions()
        last = {version.learner: str(version) for version in versions}
        bots = [f"{BOT}{bot}" for bot in bots_of(self.recipe.games)]
        bases = [base.name for base in self.recipe.bases]
        return find_agent(last.get(name, name), [*map(str, versions), *bases, *bots])

    def _candidate(self, agent: str) -> Candidate:
        """The agent that plays under an agent id of the run."""
        if agent.startswith(BOT):
            return Candidate(BotName(agent.removeprefix(BOT)))
        if agent in (base.name for base in self.recipe.bases):
            base = self._base(agent)
            return Candidate(ModelName(base.model), base.prompt)
        base = self._base(WeightVersion.parse(agent).learner)
        folder = self.folder / SNAPSHOTS / agent
        whole = base.parameters == "full"
        name = ModelName(str(folder)) if whole else ModelName(base.model, str(folder))
        return Candidate(name, read_prompt(folder))

    def _base(self, name: str) -> Base:
        """The base of this name, or the one that a learner is on."""
        return next(b for b in self.recipe.bases if name == b.name or name in b.learners)

    def _store(self) -> LeagueStore:
        return LeagueStore(self.folder / STORE, mode="read")


def load_agent(folder: str | Path, name: str, *, seed: int = 0) -> Agent:
    """An agent of the run in a folder as text -> text; see `Run.agent`.

    Args:
        folder: of the run.
        name: for example ``alice@3``, ``alice``, ``tiny`` or ``bot:middle``.
        seed: of its random numbers.

    Raises:
        ConfigError: the folder holds no run, or the run no such agent.
        ModelError: its weights cannot be loaded.
    """
    return Run.open(folder).agent(name, seed=seed)


def _finite(values: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}
