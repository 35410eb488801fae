"""Run a population: lease, play, store, count, until all matches are in; resume at any moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from srl_agents.agents.resolver import close_engines
from srl_agents.interrupts import EventLoop
from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.population import SCHEDULE, Population
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.population_settings import LEASE_S, PopulationRecipe
from srl_agents.records import MatchResult, MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.training.folder.layout import RECIPE, STORE, check_folder, write_recipe
from srl_agents.training.population.policies import seat_population
from srl_agents.training.population.workers import WorkerPool
from srl_envs import spec as env_spec
from srl_envs.api.making import count_seats
from srl_envs.errors import SandboxError

_POLL_S = 0.5
_MOST_VOID = 3
"""Times a block may be played again because of void matches before the run gives up."""

BatchCallback = Callable[["PopulationRun"], None]


class PopulationRun:
    """One run in one folder; a folder that holds the same recipe is continued.

    Args:
        recipe: what to do.
        folder: of the run; made if absent.

    Raises:
        ConfigError: the folder holds a run of another recipe.
        StoreError: another process is writing to the folder, or its matches are lost.
    """

    def __init__(self, recipe: PopulationRecipe, folder: Path) -> None:
        check_folder(recipe, folder)
        self.recipe, self.folder = recipe, folder
        seated = seat_population(recipe)
        self._policies = {name: found.policy for name, found in seated.items()}
        folder.mkdir(parents=True, exist_ok=True)
        # a folder is marked by its recipe once there is a store
        begun = (folder / RECIPE).is_file()
        self.store = LeagueStore(folder / STORE, "continue" if begun else "write")
        write_recipe(recipe, folder)
        known = env_spec(recipe.env)
        agents = [recipe.version(a, seated[recipe.agent_id(a)].contents) for a in recipe.agents]
        for agent in agents:
            self.store.add_agent(agent)
        arena = Arena(
            env_id=known.id,
            options=recipe.match_options,
            seats=count_seats(recipe.env, **recipe.match_options),
            mode=known.mode,
            teams=recipe.teams,
        )
        self.population = Population(arena, agents, recipe.matchmaking, recipe.seed)
        block = recipe.matchmaking.block
        self.blocks = -(-recipe.matches // block)
        self.matches = self.blocks * block
        """Number of matches of the population."""
        self.reissued = self.store.expire_leases()
        """Matches that an interrupted run was playing."""
        self.done = 0
        """Number of matches that are stored."""
        self._count(self._played())
        self._given: list[MatchSpec] | None = None  # batch of the league's own process
        self._runner: Rollouts | None = None
        self._loop = EventLoop()
        self._pool: WorkerPool | None = None
        if recipe.workers:
            self._pool = WorkerPool(recipe, recipe.workers)
        else:
            self._runner = Rollouts(
                self._policies, root_seed=recipe.seed, order=recipe.order, loop=self._loop
            )

    def run(self, on_stored: BatchCallback | None = None) -> None:
        """Play to the end.

        Args:
            on_stored: called after each batch that was stored.

        Raises:
            SandboxError: matches cannot be finished.
        """
        voids = 0
        while self.population.revision < self.blocks:
            before = self.population.revision
            self._block(on_stored)
            voids = 0 if self.population.revision > before else voids + 1
            if voids >= _MOST_VOID:
                raise SandboxError(
                    f"block {before} was played {voids} times and still has void matches. Mend the cause."
                )

    def close(self) -> None:
        """End workers; give back environments and the store."""
        if self._pool is not None:
            self._pool.close()
        if self._runner is not None:
            self._runner.close()
        self._loop.run(close_engines(self._policies.values()))
        self._loop.close()
        self.store.close()

    def _block(self, on_stored: BatchCallback | None) -> None:
        """Play the matches that the present block still lacks; void matches stay wanted."""
        wanted = self.population.wanted()
        while wanted or self._busy:
            for owner in self._idle():
                batch, wanted = wanted[: self.recipe.batch], wanted[self.recipe.batch :]
                if batch:
                    self._give(owner, self.store.lease(batch, owner, LEASE_S))
            came = self._collect()
            # one transaction for all workers: it costs as much as some matches
            self.store.report_many(match for _, matches in came for match in matches or ())
            for owner, matches in came:
                if matches is None:
                    wanted = self._lost(owner) + wanted
                else:
                    self._count(matches)
                    if on_stored is not None:
                        on_stored(self)

    # --- who plays ---------------------------------------------------------------------------

    @property
    def _busy(self) -> bool:
        if self._pool is None:
            return self._given is not None
        return len(self._pool.idle()) < self.recipe.workers

    def _idle(self) -> list[str]:
        if self._pool is None:
            return [] if self._given is not None else [f"process {os.getpid()}"]
        return self._pool.idle()

    def _give(self, owner: str, specs: list[MatchSpec]) -> None:
        if self._pool is None:
            self._given = specs
        else:
            self._pool.give(owner, specs)

    def _collect(self) -> list[tuple[str, list[tuple[MatchSpec, MatchResult]] | None]]:
        if self._pool is not None:
            return self._pool.collect(_POLL_S)
        specs, self._given = self._given or [], None
        if self._runner is None or not specs:
            return []
        episodes = self._runner.play(specs)
        return [("", [(episode.spec, episode.result()) for episode in episodes])]

    def _lost(self, owner: str) -> list[MatchSpec]:
        """Matches of a worker that is gone, to be issued again."""
        self.reissued += self.store.expire_leases(owner)
        return [lease.spec for lease in self.store.leases() if lease.owner == owner]

    # --- what was played ---------------------------------------------------------------------

    def _played(self) -> list[tuple[MatchSpec, MatchResult]]:
        found = [m for m in self.store.matches(schedule=SCHEDULE) if m[1].termination != "void"]
        return sorted(found, key=lambda match: match[0].number)

    def _count(self, matches: Iterable[tuple[MatchSpec, MatchResult]]) -> None:
        for spec, result in matches:
            self.population.report(spec, result)
            self.done += result.termination != "void"
