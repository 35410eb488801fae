"""The parts of a league run, in stages: each stage is a type, and the next one cannot be built without it.

`Ground` is where the run lives and the model that all share. `Learning` adds who learns, and how. `Parts`
adds who plays: versions need the learners' weights to have names.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from srl_agents import checkpoints
from srl_agents.agents import Policy
from srl_agents.agents.resolver import Seated, close_engines
from srl_agents.coordination.coordinator import Coordinator
from srl_agents.coordination.processes import Processes
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.engines.protocol import Engine, SamplingSettings
from srl_agents.engines.settings import EngineSite
from srl_agents.league.manager import Arena, League
from srl_agents.league.modes import resolve
from srl_agents.league.store import LeagueStore
from srl_agents.metrics import ConsoleView
from srl_agents.metrics.trackers import Tracker, require_trackers
from srl_agents.models.base_model import BaseModel, Prompt
from srl_agents.models.digests import version_of
from srl_agents.recipes.environment import require_played, surroundings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.rewards.learned_reward import LearnedReward
from srl_agents.rewards.weighing import RecipeRewards
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.counterfactual import Replays
from srl_agents.trainers.experience import Experience
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.training.collapse import CollapseWatch
from srl_agents.training.guests import seat_loaded, seat_served, tell_store
from srl_agents.training.idle import IdleLearners
from srl_agents.training.matches import Matches
from srl_agents.training.run_folder import CHECKPOINTS, RECIPE, check_folder, write_recipe
from srl_agents.training.sharing_rounds import Sharing
from srl_agents.training.tracking import begin_trackers, keep_run_id, run_id
from srl_agents.training.versions import LeagueVersions
from srl_agents.training.warm_start import warm_start
from srl_agents.transports.protocol import Transport
from srl_envs import spec as env_spec
from srl_envs.errors import ConfigError
from srl_envs.making import count_seats

STORE, VERSIONS = "league.db", "versions"
"""Within a run's folder."""
Learners = dict[str, AdapterLearner[Any]]


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A folder that is this process's, and the model in memory."""

    recipe: LeagueRecipe
    folder: Path
    view: ConsoleView
    processes: Processes
    opened: ExitStack
    """Closes all parts that need it, in reverse order."""
    store: LeagueStore
    trackers: tuple[Tracker, ...]
    served: Mapping[str, Seated]
    """Guests behind endpoints, which have answered."""
    base: BaseModel


@dataclass(frozen=True, kw_only=True)
class Learning(Ground):
    """Learners with their first weights, and what judges and teaches them."""

    learners: Learners
    sharing: Sharing | None
    rewards: RecipeRewards | None
    learned_reward: LearnedReward | None
    credit: CreditAssigner
    coordinator: Coordinator
    experience: Experience

    @property
    def shown(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Learner -> examples in its prompts, as they are at any moment."""
        return {} if self.sharing is None else self.sharing.shown


@dataclass(frozen=True, kw_only=True)
class Parts(Learning):
    """All of a run."""

    engine: Engine
    league: League
    matches: Matches
    versions: LeagueVersions
    collapse: CollapseWatch
    idle: IdleLearners


def build(
    recipe: LeagueRecipe,
    folder: Path,
    view: ConsoleView,
    processes: Processes,
    opened: ExitStack,
) -> Parts:
    """All parts, at the beginning of the run; `srl_agents.training.state` goes on from there.

    Args:
        recipe: what to do.
        folder: of the run.
        view: shows progress.
        processes: that share the work.
        opened: gets what has to be closed, even when building fails.

    Raises:
        ConfigError: the folder holds another run, or the recipe does not fit the model.
        StoreError: another process is writing to the folder, or its matches are lost.
        ModelError: the model cannot be loaded.
    """
    return _with_players(_with_learners(_on_ground(recipe, folder, view, processes, opened)))


# --- stages --------------------------------------------------------------------------------------


def _on_ground(
    recipe: LeagueRecipe,
    folder: Path,
    view: ConsoleView,
    processes: Processes,
    opened: ExitStack,
) -> Ground:
    """Take the folder. A folder with other files and no recipe is no run, so the recipe comes first."""
    require_trackers(recipe.report_to)
    check_folder(recipe, folder)
    require_played(recipe.env, recipe.match_options, recipe.bots)
    store = None
    if (folder / RECIPE).is_file():
        # before a tracker takes up what another process is sending
        store = _open_store(folder, opened)
    own = run_id(folder)
    trackers = []
    if processes.first:
        for tracker in begin_trackers(recipe, folder, own):
            opened.callback(tracker.close)
            trackers.append(tracker)
    served = seat_served(recipe, view.say)
    view.phase(f"loading {recipe.model}")
    base = load_base(recipe)
    check_folder(recipe, folder)  # again: loading leaves time for another run to begin in it
    folder.mkdir(parents=True, exist_ok=True)
    write_recipe(recipe, folder)
    if recipe.report_to:
        keep_run_id(folder, own)
    return Ground(
        recipe=recipe,
        folder=folder,
        view=view,
        processes=processes,
        opened=opened,
        store=store or _open_store(folder, opened),
        trackers=tuple(trackers),
        served=served,
        base=base,
    )


def _with_learners(ground: Ground) -> Learning:
    recipe, base = ground.recipe, ground.base
    seeds = seeds_of(recipe)
    warm_start(recipe, base, seeds, ground.folder, ground.view)
    temperature = recipe.rollout.temperature
    learners: Learners = {
        name: recipe.training.make_learner(name, base, temperature=temperature, seed=seed)
        for name, seed in seeds.items()
    }
    replays = Replays()
    ground.opened.callback(replays.close)
    credit = CreditAssigner(
        recipe.credit,
        scale=recipe.scale_advantages,
        teams=recipe.teams,
        replayed=replays.outcomes,
    )
    coordinator = recipe.coordination.make_coordinator()
    return Learning(
        **_parts_of(ground),
        learners=learners,
        sharing=_make_sharing(recipe, base, learners, seeds),
        rewards=_make_recipe_rewards(recipe),
        learned_reward=_make_learned_reward(recipe, base),
        credit=credit,
        coordinator=coordinator,
        experience=recipe.training.make_experience(
            learners, credit, lambda learner: coordinator.teaching(learner, list(learners))
        ),
    )


def _with_players(learning: Learning) -> Parts:
    recipe = learning.recipe
    transport = _make_transport(recipe, learning.folder)
    learning.opened.callback(transport.close)
    engine = make_engine(recipe, learning.base, transport)
    league = _make_league(learning)
    policies: dict[str, Policy] = {}
    drawn_as: dict[str, str] = {recipe.model: recipe.model}
    loop = asyncio.Runner()
    learning.opened.callback(loop.close)
    learning.opened.callback(lambda: loop.run(engine.close()))
    guests = {**learning.served, **seat_loaded(recipe, engine)}
    policies |= {name: guest.policy for name, guest in guests.items()}
    learning.opened.callback(lambda: loop.run(close_engines(g.policy for g in guests.values())))
    tell_store(learning.store, guests)
    rollouts = Rollouts(
        policies,
        root_seed=recipe.seed,
        order=recipe.rollout.order,
        concurrency=recipe.rollout.concurrency,
        contents=drawn_as,
        loop=loop,
    )
    learning.opened.callback(rollouts.close)
    matches = Matches(
        rollouts, store=learning.store, processes=learning.processes, view=learning.view
    )
    versions = LeagueVersions(
        recipe,
        league,
        learning.learners,
        base=learning.base,
        engine=engine,
        sampling=sampling_of(recipe),
        transport=transport,
        wait=loop.run,
        store=learning.store,
        folder=learning.folder,
        policies=policies,
        drawn_as=drawn_as,
        play=matches.play,
        say=learning.view.say,
        shown=learning.shown,
    )
    return Parts(
        **_parts_of(learning),
        engine=engine,
        league=league,
        matches=matches,
        versions=versions,
        collapse=CollapseWatch(learning.learners),
        idle=IdleLearners(learning.view.say, together=recipe.coordination.stays_equal),
    )


def _parts_of(stage: Ground) -> dict[str, Any]:
    """What the next stage takes over."""
    return {part.name: getattr(stage, part.name) for part in fields(stage)}


# --- single parts --------------------------------------------------------------------------------


def load_base(recipe: LeagueRecipe) -> BaseModel:
    """The model that all learners share.

    Raises:
        ConfigError: a reply alone would fill its context.
        ModelError: it cannot be fetched or loaded.
    """
    base = BaseModel.load(
        recipe.model,
        lora_rank=recipe.lora.rank,
        lora_alpha=recipe.lora.alpha,
        lora_targets=recipe.lora.target_modules,
        parameters=recipe.parameters,
        frozen_in_memory=recipe.full.snapshots_in_memory,
        dtype=recipe.dtype,
        device=recipe.device,
        prompt=Prompt(system=recipe.prompt.system, examples=recipe.prompt.pairs),
    )
    budget = recipe.rollout.max_new_tokens
    if budget >= base.context_length:
        raise ConfigError(
            f"rollout.max_new_tokens={budget}: {recipe.model} reads {base.context_length} "
            "tokens in all, prompt and reply together."
        )
    return base


def sampling_of(recipe: LeagueRecipe) -> SamplingSettings:
    """How replies are sampled."""
    rollout = recipe.rollout
    return SamplingSettings(
        temperature=rollout.temperature,
        top_k=rollout.top_k,
        top_p=rollout.top_p,
        min_p=rollout.min_p,
        max_new_tokens=rollout.max_new_tokens,
    )


def make_engine(recipe: LeagueRecipe, base: BaseModel, transport: Transport) -> Engine:
    """What replies are sampled with.

    Raises:
        ConfigError: learners cannot learn from what it tells.
    """
    engine = recipe.engine.make_engine(
        EngineSite(
            base=base,
            sampling=sampling_of(recipe),
            batch_rows=recipe.rollout.batch_rows,
            open_update=transport.open,
        )
    )
    can = engine.capabilities
    if not (can.token_ids and can.logprobs and can.versions):
        raise ConfigError(
            f"engine.kind={recipe.engine.kind!r} tells no tokens or log-probabilities, or takes no new "
            "versions; nobody can learn from it."
        )
    return engine


def seeds_of(recipe: LeagueRecipe) -> dict[str, int]:
    """Learner -> seed of its first weights; one for all where coordination combines them."""
    alike = recipe.coordination.starts_alike
    return {name: _derived(recipe.seed, "all" if alike else name) for name in recipe.learners}


def _open_store(folder: Path, opened: ExitStack) -> LeagueStore:
    counted_on = checkpoints.exist(folder / CHECKPOINTS)
    store = LeagueStore(folder / STORE, "continue" if counted_on else "write")
    opened.callback(store.close)
    return store


def _make_league(learning: Learning) -> League:
    """Who plays whom."""
    recipe = learning.recipe
    known = env_spec(recipe.env)
    arena = Arena(
        env_id=known.id,
        options=recipe.match_options,
        seats=count_seats(recipe.env, **recipe.match_options),
        mode=known.mode,
        teams=recipe.teams,
    )
    versions = {
        name: version_of(name, learner.version, learning.base.trainable_parameters(name))
        for name, learner in learning.learners.items()
    }
    return League(
        arena=arena,
        versions=versions,
        start=recipe.model,
        opponents=resolve(recipe.opponents, known.mode, arena.seats),
        seed=recipe.seed,
        roles=recipe.roles,
        exploiters=recipe.exploiters,
    )


def _make_transport(recipe: LeagueRecipe, folder: Path) -> Transport:
    """How new weights reach the engine. What an interrupted run published is published again."""
    shutil.rmtree(folder / VERSIONS, ignore_errors=True)
    return recipe.transport.make_transport(
        folder / VERSIONS, whole_weights=recipe.parameters == "full"
    )


def _make_sharing(
    recipe: LeagueRecipe, base: BaseModel, learners: Learners, seeds: Mapping[str, int]
) -> Sharing | None:
    """Rounds in which learners read each other, if the recipe has them."""
    if recipe.sharing is None:
        return None
    return Sharing(recipe.sharing, base, learners, seeds, recipe.rollout.max_new_tokens)


def _make_recipe_rewards(recipe: LeagueRecipe) -> RecipeRewards | None:
    """What the recipe's rewards make of episodes, if it has a section of them."""
    if recipe.rewards is None:
        return None
    around = surroundings(recipe.env, recipe.env_options, recipe.wrappers)
    return RecipeRewards(
        recipe.rewards,
        paid=around.paid,
        statistics=around.statistics,
        max_new_tokens=recipe.rollout.max_new_tokens,
    )


def _make_learned_reward(recipe: LeagueRecipe, base: BaseModel) -> LearnedReward | None:
    """The judge beside the rules, if the recipe has one."""
    if recipe.reward_model is None:
        return None
    return LearnedReward(recipe.reward_model, base, _derived(recipe.seed, "reward_model"))


def _derived(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:4], "big")
