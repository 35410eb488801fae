"""The parts of a league run, in stages: each stage is a type, and the next one cannot be built without it.

`Ground` is where the run lives and the models that learners are adapters of. `Learning` adds who learns,
and how. `Parts` adds who plays: versions need the learners' weights to have names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from srl_agents import checkpoints
from srl_agents.agents import Policy
from srl_agents.agents.resolver import Asking, Seated, close_engines
from srl_agents.coordination.coordinator import CoordinationGroups
from srl_agents.coordination.processes import Processes
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.by_game import CreditByGame
from srl_agents.engines.endpoint.reply_journal import REPLIES
from srl_agents.engines.endpoint.sent_requests import SENT
from srl_agents.engines.protocol import Engine, RepeatableEngine
from srl_agents.interrupts import EventLoop
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.store.history import LeagueStore
from srl_agents.memory.phase_manager import PhaseManager
from srl_agents.metrics import ConsoleView
from srl_agents.metrics.trackers import Tracker, require_trackers
from srl_agents.models.base_model import device_named
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightUpdate
from srl_agents.rewards.game_rewards import RewardsByGame
from srl_agents.rewards.learned_reward import LearnedReward
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.buffer import MatchBuffer
from srl_agents.rollouts.counterfactual import Replays
from srl_agents.rollouts.transcripts import TRAINING_MATCHES, TranscriptLog
from srl_agents.trainers.algorithms import AlgorithmSettings
from srl_agents.trainers.experience import Experience
from srl_agents.training.ahead.launch import start_generation
from srl_agents.training.ahead.orders import MatchesAhead
from srl_agents.training.ahead.shared_matches import SharedMatches
from srl_agents.training.bases import LoadedBase, PlayingBase, devices_of, site_of
from srl_agents.training.faults.stalled import IdleLearners
from srl_agents.training.faults.supervised import Supervised
from srl_agents.training.faults.survival import RolledBack, Survival, play_halved_after
from srl_agents.training.folder.changes import changed_before, keep_changes, repeats_since
from srl_agents.training.folder.layout import (
    CHECKPOINTS,
    RECIPE,
    as_begun,
    changes_of,
    check_folder,
    write_recipe,
)
from srl_agents.training.folder.tracking import begin_trackers, keep_run_id, run_id
from srl_agents.training.gauges.machine import SystemMeter
from srl_agents.training.loop.matches import Matches
from srl_agents.training.loop.versions import LeagueVersions
from srl_agents.training.parts.budgets import Budgets
from srl_agents.training.parts.exchange_rounds import RolloutExchange
from srl_agents.training.parts.forking import Forking, make_forking
from srl_agents.training.parts.guests import (
    check_pinned_files,
    desks,
    open_journal,
    seat_loaded,
    seat_served,
    tell_store,
)
from srl_agents.training.parts.memory_roles import make_phase_manager
from srl_agents.training.parts.right_answers import RightAnswers
from srl_agents.training.parts.sharing_rounds import Sharing
from srl_agents.training.parts.single import (
    Learners,
    coordination_of,
    load_base,
    load_bases,
    make_budgets,
    make_buffer,
    make_engine,
    make_exchange,
    make_experience,
    make_league,
    make_learned_reward,
    make_recipe_rewards,
    make_request_trace,
    make_sharing,
    make_transport,
    names_of_games,
    open_store,
    relief,
    said_of_groups,
    sampling_of,
    seeds_of,
)
from srl_agents.training.parts.spending import Spending, require_budget
from srl_agents.training.start.adapters import check_init_adapters, load_init_adapters
from srl_agents.training.start.imitation import warm_start
from srl_agents.training.start.plan_target import checkpointing_by_plan
from srl_agents.training.start.recorded_games import WARM_START, recorded_games
from srl_agents.training.start.task_files import check_task_files, keep_task_files
from srl_agents.training.start.wrapped_bots import require_played
from srl_agents.transports.held import HeldTransport
from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A folder that is this process's, and the bases in memory."""

    recipe: LeagueRecipe
    folder: Path
    view: ConsoleView
    processes: Processes
    opened: ExitStack
    """Closes all parts that need it, in reverse order."""
    store: LeagueStore
    trackers: tuple[Tracker, ...]
    asking: Asking
    """Journal and record of requests for guests behind endpoints."""
    served: Mapping[str, Seated]
    """Guests behind endpoints, which have answered."""
    bases: tuple[LoadedBase, ...]
    process: Supervised | None
    """Plays for later updates, if the recipe asks for it, in the first process; it loads meanwhile."""
    checkpointing: bool
    """Whether ``gradient_checkpointing: auto`` applies in this run."""
    asks_again: bool
    """A match that was played since the last checkpoint, and is played again, asks what it asked, so a
    journal of endpoints has the replies."""
    repeatable: bool
    """A match that was played since the last checkpoint, and is played again, ends alike: not with
    endpoints, in the order ``free``, in another process or with settings that round differently."""


@dataclass(frozen=True, kw_only=True)
class Learning(Ground):
    """Learners with their first weights, and what judges and teaches them."""

    learners: Learners
    sharing: Sharing | None
    exchange: RolloutExchange | None
    rewards: RewardsByGame | None
    learned_reward: LearnedReward | None
    credit: CreditByGame
    coordinator: CoordinationGroups
    experience: Mapping[str, Experience]
    """Experience of each learner; learners of one base share theirs."""
    survival: Survival

    @property
    def shown(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Learner -> examples in its prompts, as they are at any moment."""
        return {} if self.sharing is None else self.sharing.shown


@dataclass(frozen=True, kw_only=True)
class Parts(Learning):
    """All parts of a run."""

    playing: tuple[PlayingBase, ...]
    """The bases with their engines."""
    league: League
    matches: Matches
    forking: Forking | None
    """Plays the branches of the recipe's forks, if it has any."""
    versions: LeagueVersions
    idle: IdleLearners
    meter: SystemMeter
    spending: Spending
    ahead: SharedMatches | None
    """Matches of another process, if the recipe asks for that; otherwise `matches` plays all."""
    memory: PhaseManager


def build(
    recipe: LeagueRecipe,
    folder: Path,
    view: ConsoleView,
    processes: Processes,
    opened: ExitStack,
    *,
    cluster: str = "",
) -> Parts:
    """All parts, at the beginning of the run; `srl_agents.training.loop.state.RunState` goes on from there.

    Args:
        recipe: what to do.
        folder: of the run.
        view: shows progress.
        processes: that share the work.
        opened: gets what has to be closed, even when building fails.
        cluster: address of the Ray cluster that plays; empty: this machine does.

    Raises:
        ConfigError: the folder holds another run, or the recipe does not fit the model.
        StoreError: another process is writing to the folder, or its matches are lost.
        ModelError: the model cannot be loaded.
    """
    ground = _on_ground(recipe, folder, view, processes, opened, cluster=cluster)
    return _with_players(_with_learners(ground))


# --- stages --------------------------------------------------------------------------------------


def _on_ground(
    recipe: LeagueRecipe,
    folder: Path,
    view: ConsoleView,
    processes: Processes,
    opened: ExitStack,
    *,
    cluster: str,
) -> Ground:
    """Take the folder. The recipe is written first: without it, a folder with files is not a run."""
    recipe = as_begun(recipe, folder)
    require_trackers(recipe.report_to)
    _require_known_spending(recipe, processes)
    check_folder(recipe, folder)
    check_task_files(recipe, folder)
    check_init_adapters(recipe, folder)
    check_pinned_files(recipe)
    require_budget(recipe.stop, folder)
    if not (folder / WARM_START).is_dir():
        recorded_games(recipe)
    for game in recipe.games:
        warm = () if recipe.warm_start is None else recipe.warm_start.bots
        for options in game.all_options:
            require_played(game.env_id, options, (*game.bots, *warm))
    store = None
    if (folder / RECIPE).is_file():
        # before a tracker takes up what another process is sending
        store = open_store(folder, opened)
    own = run_id(folder)
    trackers = []
    if processes.first:
        for tracker in begin_trackers(recipe, folder, own):
            opened.callback(tracker.close)
            trackers.append(tracker)
    journaled = open_journal(recipe.guests, folder / REPLIES, opened, folder / SENT)
    asking = replace(journaled, say=view.say)
    served = seat_served(recipe, recipe.guests, asking)
    if set(served) & set(recipe.opponents.agents):
        view.say(
            "opponents behind endpoints draw random numbers of their own: this run cannot be repeated bit "
            "for bit."
        )
    for desk in desks(served):
        view.say(
            f"moves of a person: answer at {desk}; `srl watch {folder}` shows when they are waited for"
        )
    view.phase(f"loading {', '.join(dict.fromkeys(base.model for base in recipe.bases))}")
    checkpointing = checkpointing_by_plan(recipe, processes.size)
    mesh = processes.mesh(device_named(recipe.device).type) if recipe.memory.sharded else None
    bases = load_bases(recipe, mesh=mesh)
    if line := said_of_groups(recipe):
        view.say(line)
    _say_where(recipe, bases, view)
    check_folder(recipe, folder)  # again: loading leaves time for another run to begin in it
    folder.mkdir(parents=True, exist_ok=True)
    keep_task_files(recipe, folder)
    exact = recipe.rollout.order == "exact" and recipe.generation is None
    asks_again = _change(recipe, folder, view) and exact
    if recipe.report_to:
        keep_run_id(folder, own)
    return Ground(
        recipe=recipe,
        folder=folder,
        view=view,
        processes=processes,
        opened=opened,
        store=store or open_store(folder, opened),
        trackers=tuple(trackers),
        asking=asking,
        served=served,
        bases=bases,
        process=(
            start_generation(recipe, bases, folder, view, opened, cluster=cluster)
            if processes.first
            else None
        ),
        checkpointing=checkpointing,
        asks_again=asks_again,
        repeatable=asks_again and not served,
    )


def _say_where(recipe: LeagueRecipe, bases: tuple[LoadedBase, ...], view: ConsoleView) -> None:
    """What was decided for the recipe about its devices."""
    if recipe.memory.tf32 and all(base.model.device.type == "cpu" for base in bases):
        view.say("memory.tf32: this run has no GPU, and the setting changes nothing on a CPU")
    for base in recipe.bases:
        if base.placed_by:
            view.say(f"placement of {base.name}: {base.placement} ({base.placed_by})")


def _change(recipe: LeagueRecipe, folder: Path, view: ConsoleView) -> bool:
    """Let the folder have the recipe's settings, and say what is new.

    Returns:
        Whether what was played since the last checkpoint was played with these settings.
    """
    changes = changes_of(recipe, folder)
    for change in changes:
        view.say(f"going on with {change}")
    keep_changes(folder, changes, checkpoints.newest_step(folder / CHECKPOINTS))
    if any(change.key == "training.learning_rate" for change in changes):
        RolledBack().write(
            folder
        )  # what roll-backs made of the old rate is of no use for the new one
    write_recipe(recipe, folder)
    halved = play_halved_after(folder)
    if not changed_before(folder) and not halved:
        return True
    found = checkpoints.latest(folder / CHECKPOINTS)
    step = 0 if found is None else checkpoints.step_of(found)
    return repeats_since(folder, step) and halved <= step


def _settled(settings: AlgorithmSettings, *, checkpointing: bool) -> AlgorithmSettings:
    """Settings with the values that were left to the plan."""
    if settings.gradient_checkpointing != "auto":
        return settings
    return replace(settings, gradient_checkpointing=checkpointing)


def _with_learners(ground: Ground) -> Learning:
    recipe, bases = ground.recipe, ground.bases
    seeds = seeds_of(recipe)
    load_init_adapters(bases, ground.folder, ground.view)
    warm_start(recipe, bases, seeds, ground.folder, ground.view)
    temperature = recipe.rollout.temperature
    learners: Learners = {
        name: _settled(base.settings.training, checkpointing=ground.checkpointing).make_learner(
            name, base.model, temperature=temperature, seed=seeds[name]
        )
        for base in bases
        for name in base.settings.learners
    }
    for loaded in bases:
        own = loaded.settings
        if own.training.algorithm != "dpo":
            ground.view.say(f"shared prefixes of {own.name}: {learners[own.learners[0]].sharing}")
    survival = Survival(recipe.survival, learners, ground.folder, ground.view.say)
    rate = RolledBack.read(ground.folder).rate
    for name, learner in learners.items():
        learner.lower_rate(rate)
        survival.signs.begin(name, learner.weight_norm)
    replays = Replays()
    ground.opened.callback(replays.close)
    games = recipe.games
    game_of = names_of_games(games)
    credit = CreditByGame(
        {
            game.name: CreditAssigner(
                game.credit,
                scale=recipe.scale_advantages,
                teams=game.teams,
                replayed=replays.outcomes,
                answer_logprobs=RightAnswers(learners),
            )
            for game in games
        },
        game_of,
    )
    coordinator = coordination_of(recipe)
    experience: dict[str, Experience] = {}
    for base in recipe.bases:
        shared = make_experience(base, learners, credit, coordinator.teaching)
        experience |= dict.fromkeys(base.learners, shared)
    return Learning(
        **_parts_of(ground),
        learners=learners,
        sharing=make_sharing(recipe, learners, seeds),
        exchange=make_exchange(recipe, learners, ground.view.say),
        rewards=make_recipe_rewards(recipe),
        learned_reward=make_learned_reward(recipe, bases[0].model),
        credit=credit,
        coordinator=coordinator,
        experience=experience,
        survival=survival,
    )


def _with_players(learning: Learning) -> Parts:
    recipe, loop = learning.recipe, EventLoop()
    learning.opened.callback(loop.close)
    buffer = make_buffer(recipe, learning.folder) if learning.processes.first else None
    named = () if buffer is None else buffer.versions()
    held: list[HeldTransport] = []
    playing: list[PlayingBase] = []
    for base in learning.bases:
        transport = make_transport(recipe, base.settings, learning.folder, named)
        learning.opened.callback(transport.close)
        if buffer is not None:
            transport = HeldTransport(transport, buffer.versions)
            held.append(transport)
        own = base.settings.engine
        settings = own if recipe.generation is None else own.beside_generation()
        played = load_base(recipe, base.settings) if base.settings.copied else base.model
        engine = make_engine(
            recipe,
            replace(base, model=played),
            transport,
            learning.folder,
            settings,
            say=learning.view.say,
        )
        learning.opened.callback(partial(_close, loop, engine))
        playing.append(
            PlayingBase(
                settings=base.settings,
                model=base.model,
                engine=engine,
                transport=transport,
                played=played,
            )
        )
    policies = _guests(learning, playing, loop)
    drawn_as = {base.name: base.name for base in playing}
    rollouts = Rollouts(
        policies,
        root_seed=recipe.seed,
        order=recipe.rollout.order,
        concurrency=recipe.rollout.concurrency,
        contents=drawn_as,
        references=recipe.judges_answers,
        loop=loop,
        reply_deadline_s=recipe.survival.reply_deadline_s,
        trace=None if recipe.generation else make_request_trace(recipe, learning.folder),
        relieve=relief(recipe, learning.survival.meet),
    )
    learning.opened.callback(rollouts.close)
    return _with_versions(
        learning, _Playing(tuple(playing), loop, policies, drawn_as, tuple(held), buffer), rollouts
    )


@dataclass(frozen=True)
class _Playing:
    """What samples replies, and under which names."""

    bases: tuple[PlayingBase, ...]
    loop: EventLoop
    policies: dict[str, Policy]
    drawn_as: dict[str, str]
    held: tuple[HeldTransport, ...]
    """The bases' transports, where another process plays."""
    buffer: MatchBuffer | None


def _with_versions(learning: Learning, playing: _Playing, rollouts: Rollouts) -> Parts:
    recipe, view = learning.recipe, learning.view
    league = make_league(recipe, learning.learners)
    several = learning.processes if learning.processes.size > 1 else None
    together = all(isinstance(base.engine, RepeatableEngine) for base in playing.bases)
    asks_again = learning.asks_again and together
    matches = Matches(
        rollouts,
        store=learning.store,
        processes=several,
        view=view,
        repeatable=learning.repeatable and together,
        whole=partial(_whole, playing.bases) if recipe.memory.sharded else nullcontext,
        budgets=make_budgets(
            recipe, learning.folder, view.say, learning.asking, repeatable=asks_again
        ),
        learned=(
            TranscriptLog(learning.folder / TRAINING_MATCHES) if recipe.rollout.trace else None
        ),
    )
    versions = LeagueVersions(
        recipe,
        league,
        learning.learners,
        bases=playing.bases,
        sampling=sampling_of(recipe),
        wait=playing.loop.run,
        store=learning.store,
        folder=learning.folder,
        policies=playing.policies,
        drawn_as=playing.drawn_as,
        play=matches.play,
        say=view.say,
        shown=learning.shown,
    )
    return Parts(
        **_parts_of(learning),
        playing=playing.bases,
        league=league,
        matches=matches,
        forking=make_forking(recipe),
        versions=versions,
        idle=IdleLearners(
            view.say,
            together=[
                name
                for own in recipe.coordinated.values()
                for name in own
                if recipe.coordination.stays_equal
            ],
        ),
        meter=SystemMeter(devices_of(learning.bases), learning.opened),
        spending=Spending(recipe.stop, learning.folder, several),
        ahead=_shared(learning, _ahead(learning, playing, league, versions, matches.budgets)),
        memory=make_phase_manager(
            playing.bases,
            learning.learners,
            learning.learned_reward,
            playing.loop.run,
            budget_gib=recipe.memory.budget_gib,
            folder=learning.folder,
            opened=learning.opened,
        ),
    )


@contextmanager
def _whole(bases: tuple[PlayingBase, ...]) -> Iterator[None]:
    """Inside, engines that sample with a base whose layers are divided have all of it."""
    with ExitStack() as gathered:
        for base in bases:
            if base.settings.engine.samples_base:
                gathered.enter_context(base.model.whole())
        yield


def _ahead(
    learning: Learning,
    playing: _Playing,
    league: League,
    versions: LeagueVersions,
    budgets: Budgets | None,
) -> MatchesAhead | None:
    """The trainer's side of generation in another process, if there is one."""
    if learning.process is None or playing.buffer is None:
        return None

    def open_update(update: WeightUpdate) -> None:
        site_of(playing.bases, update.version.learner).transport.open(update)

    def settle() -> None:
        for transport in playing.held:
            transport.settle()

    return MatchesAhead(
        learning.recipe,
        league,
        buffer=playing.buffer,
        process=learning.process,
        open_update=open_update,
        settle=settle,
        budgets=budgets,
        installed=versions.installed,
        forking=make_forking(learning.recipe),
        trace=make_request_trace(learning.recipe, learning.folder),
        view=learning.view,
    )


def _require_known_spending(recipe: LeagueRecipe, processes: Processes) -> None:
    if recipe.generation is not None and processes.size > 1 and recipe.opponents.budgets:
        raise ConfigError(
            f"opponents.budgets, asynchronous: of {processes.size} processes only the first orders matches, "
            "and the others do not know what it spent. Start one process, or leave out one of the two."
        )


def _shared(learning: Learning, ahead: MatchesAhead | None) -> SharedMatches | None:
    """The same for every process of the run, of which the first one asks."""
    settings = learning.recipe.generation
    if settings is None:
        return None
    return SharedMatches(learning.processes, ahead, settings.max_staleness)


def _close(loop: EventLoop, engine: Engine) -> None:
    loop.run(engine.close())


def _guests(
    learning: Learning, playing: Sequence[PlayingBase], loop: EventLoop
) -> dict[str, Policy]:
    """Policies of agents outside the league that learners play with, by agent id."""
    recipe = learning.recipe
    guests = {**learning.served, **seat_loaded(recipe, recipe.guests, playing)}
    learning.opened.callback(lambda: loop.run(close_engines(g.policy for g in guests.values())))
    tell_store(learning.store, guests)
    return {name: guest.policy for name, guest in guests.items()}


def _parts_of(stage: Ground) -> dict[str, Any]:
    """Fields of a stage as keyword arguments of the next one."""
    return {part.name: getattr(stage, part.name) for part in fields(stage)}
