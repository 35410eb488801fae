"""The process that plays for later updates: its own copies of the bases and engines, orders from a folder.

    python -m srl_agents.whole_import srl_agents.training.ahead.player RUN_FOLDER

It has no state: what is ordered and what was played is in the run's buffer, the weights are where the
transport put them. It ends with the process that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from srl_agents.agents import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.engines.protocol import Engine, GenerationRequest
from srl_agents.interrupts import EventLoop
from srl_agents.league.matchmaking.manager import BOT
from srl_agents.models.prompt import EarlierTurn
from srl_agents.recipes.loading import load
from srl_agents.recipes.sections.games import bots_of
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, WeightUpdate
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.buffer import MatchBuffer, MatchOrder
from srl_agents.training.ahead.demand import Demand
from srl_agents.training.bases import LoadedBase, PlayingBase, below, site_of
from srl_agents.training.faults.supervised import be_child
from srl_agents.training.faults.survival import in_words, write_event
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.folder.layout import BUFFER, RECIPE, REPLIES_AHEAD, VERSIONS
from srl_agents.training.parts.forking import Forking, make_forking, parents_of
from srl_agents.training.parts.guests import open_journal, seat_loaded, seat_served
from srl_agents.training.parts.single import load_bases, make_engine, make_request_trace, relief
from srl_envs.errors import ConfigError

_LOOK_S = 0.05
"""Seconds between two looks for new orders."""


@dataclass(frozen=True, slots=True)
class NewestPolicy(ModelPolicy):
    """A learner in a match that is being played: each turn is written by its newest version."""

    learner: str = ""
    newest: Mapping[str, ModelPolicy] = field(default_factory=dict)
    """Newest policy of each learner; changes while matches go on."""

    def request(
        self,
        observation: str,
        key: tuple[int, ...],
        earlier: tuple[EarlierTurn, ...] = (),
    ) -> GenerationRequest:
        """See `ModelPolicy`."""
        return self.newest[self.learner].request(observation, key, earlier)


class Generator:
    """Plays the orders of a buffer, one after the other, in the event loop of its engines.

    Args:
        buffer: has the orders and gets the matches.
        engine_of: learner -> the engine that takes its versions.
        rollouts: plays; looks policies up in ``policies`` and what they are drawn as in ``drawn_as``.
        policies: agent id -> policy; gets those of each order.
        drawn_as: likewise, with their labels.
        switch: whether learners' turns are written by the newest version that was ordered.
        forking: branches that are played after the matches of an order; None without forks.
        part_matches: most matches that are played together; 0: as in `GenerationSettings`.
    """

    def __init__(
        self,
        buffer: MatchBuffer,
        engine_of: Callable[[str], Engine],
        rollouts: Rollouts,
        *,
        policies: dict[str, Policy],
        drawn_as: dict[str, str],
        switch: bool,
        forking: Forking | None = None,
        part_matches: int = 0,
    ) -> None:
        self._forking, self._part_matches = forking, part_matches
        self._buffer, self._engine_of, self._rollouts = buffer, engine_of, rollouts
        self._policies, self._drawn_as, self._switch = policies, drawn_as, switch
        self._always = dict(policies)
        self._newest: dict[str, ModelPolicy] = {}
        self._seen = 0
        """Newest order whose versions write."""
        self._installed: dict[str, WeightUpdate] = {}
        self._finished: set[int] = set()
        self.order = 0
        """Number of the one that is played."""

    async def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Play what is ordered and what will be.

        Args:
            until: ends it when there is nothing to play.

        Raises:
            ModelError: weights cannot be opened or installed, or the engine has died.
            DeadlineError: the engine gave no reply in time.
        """
        following = asyncio.create_task(self._follow()) if self._switch else None
        try:
            while True:
                demand = self._next()
                if demand is not None:
                    await self._play(demand)
                elif until():
                    return
                else:
                    await asyncio.sleep(_LOOK_S)
        finally:
            if following is not None:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following

    def _next(self) -> Demand | None:
        """The oldest order of which something is left to play."""
        for number in self._buffer.numbers():
            if number in self._finished:
                continue
            order, played = self._buffer.find(number), self._buffer.played(number)
            played.refresh()
            if order is not None:
                demand = Demand(order, self._forking, self._part_matches or None)
                if demand.open(played.episodes):
                    return demand
            self._finished.add(number)
        return None

    async def _play(self, demand: Demand) -> None:
        order = demand.order
        await self._take_over(order)
        self._seat(order)
        self.order = number = order.number
        played = self._buffer.played(number)
        played.refresh()

        def keep(episode: Episode, _: object) -> None:
            requests = self._rollouts.take_requests(episode.spec)
            if episode.spec.match_id not in played.episodes:
                self._buffer.add(number, [episode], time.monotonic(), requests)

        while specs := self._together(demand, played.episodes):
            self._buffer.begin(number, time.monotonic())
            parents = parents_of(specs, played.episodes)
            await self._rollouts.play_async(specs, finished=keep, parents=parents)
            self._buffer.rest(number, time.monotonic())
            played.refresh()
        self._finished.add(number)
        await self._retire()

    def _together(self, demand: Demand, episodes: dict[str, Episode]) -> Sequence[MatchSpec]:
        """What is played together next: the first part that is not played, or all matches that are not."""
        if self._rollouts.order == "free" and not self._part_matches:
            return demand.left(episodes)
        return next((part.specs for part in demand.due(episodes)), ())

    async def _follow(self) -> None:
        """Let the learners of every new order write from now on."""
        while True:
            number = max(self._buffer.numbers(), default=0)
            order = self._buffer.find(number) if number > self._seen else None
            if order is not None:
                await self._take_over(order)
            await asyncio.sleep(_LOOK_S)

    async def _take_over(self, order: MatchOrder) -> None:
        """Install the versions of an order; its learners write unless a newer order has seated theirs."""
        for update in order.updates:
            if str(update.version) not in self._installed:
                await self._engine_of(update.version.learner).install(update)
                self._installed[str(update.version)] = update
        if order.number >= self._seen:
            self._seen = order.number
            for agent, learner in order.players.items():
                self._newest[learner] = self._policy_of(self._installed[agent])

    def _seat(self, order: MatchOrder) -> None:
        """Policies of only this order: a version that learns in it may be an opponent in the next."""
        self._policies.clear()
        self._policies |= self._always
        for update in order.updates:
            name = str(update.version)
            self._policies[name] = self._policy_of(update)
            self._drawn_as[name] = update.version.label
            if self._switch and name in order.players:
                self._policies[name] = NewestPolicy(
                    self._engine_of(update.version.learner),
                    update.version,
                    update.shown,
                    learner=order.players[name],
                    newest=self._newest,
                )

    def _policy_of(self, update: WeightUpdate) -> ModelPolicy:
        engine = self._engine_of(update.version.learner)
        return ModelPolicy(engine, update.version, update.shown)

    async def _retire(self) -> None:
        """Forget versions that no order will need and that no longer write."""
        orders = [self._buffer.find(n) for n in self._buffer.numbers() if n not in self._finished]
        stay = {name for order in orders if order is not None for name in order.versions}
        stay |= {str(policy.version) for policy in self._newest.values()}
        for name in [name for name in self._installed if name not in stay]:
            version = self._installed.pop(name).version
            await self._engine_of(version.learner).retire(version)
            self._drawn_as.pop(name, None)


def generate(folder: Path) -> None:
    """Play for the run in a folder, until this process is ended."""
    recipe = load(LeagueRecipe, folder / RECIPE)
    settings = recipe.generation
    if settings is None:
        raise ConfigError(
            f"the recipe of {folder} has no generation process, as its trainer plays itself."
        )

    def meet(finding: Finding) -> None:
        sys.stderr.write(in_words(finding) + "\n")  # the run keeps it in its log
        write_event(folder, generator.order, finding, "halve_play")

    with ExitStack() as opened:
        names = tuple(recipe.opponents.agents)
        guests = seat_served(recipe, names, open_journal(names, folder / REPLIES_AHEAD, opened))
        bases = tuple(_playing(recipe, base, folder) for base in load_bases(recipe, beside=folder))
        guests |= seat_loaded(recipe, names, bases)
        policies: dict[str, Policy] = {base.name: ModelPolicy(base.engine) for base in bases}
        policies |= {f"{BOT}{bot}": ScriptedPolicy(bot) for bot in bots_of(recipe.games)}
        policies |= {name: guest.policy for name, guest in guests.items()}
        drawn_as = {base.name: base.name for base in bases}
        loop = opened.enter_context(EventLoop())
        rollouts = Rollouts(
            policies,
            root_seed=recipe.seed,
            order=recipe.rollout.order,
            concurrency=recipe.rollout.concurrency,
            contents=drawn_as,
            references=recipe.judges_answers,
            loop=loop,
            trace=make_request_trace(recipe, None),
            relieve=relief(recipe, meet),
        )
        generator = Generator(
            MatchBuffer(folder / BUFFER, settings.ahead + 1),
            lambda learner: site_of(bases, learner).engine,
            rollouts,
            policies=policies,
            drawn_as=drawn_as,
            switch=settings.in_flight == "switch",
            forking=make_forking(recipe),
            part_matches=settings.part_matches,
        )
        loop.run(generator.run())


def _playing(recipe: LeagueRecipe, base: LoadedBase, folder: Path) -> PlayingBase:
    """A base with what samples its versions here."""
    home = below(folder / VERSIONS, base.settings)
    transport = recipe.carrier.make_transport(home, whole_weights=False)
    engine = make_engine(recipe, base, transport, folder, base.settings.engine)
    return PlayingBase(
        settings=base.settings,
        model=base.model,
        engine=engine,
        transport=transport,
        played=base.model,
    )


def end_with_parent() -> None:
    """Standard input ends when the process that started us does, however it does."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def main(arguments: Sequence[str]) -> None:
    """Play for the run in a folder until the process that started us ends."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    be_child(partial(generate, Path(arguments[0])))
