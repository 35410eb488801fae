"""Single parts of a league run, each from the recipe and the parts below it; `parts` fixes their order."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from torch.distributed.device_mesh import DeviceMesh

from srl_agents import checkpoints
from srl_agents.agents.grammar import EndpointName, parse
from srl_agents.agents.resolver import Asking
from srl_agents.coordination.coordinator import CoordinationGroups, Coordinator
from srl_agents.credit.by_game import Credit
from srl_agents.engines.endpoint.providers import find_model
from srl_agents.engines.protocol import Engine, SamplingSettings
from srl_agents.engines.settings import EngineSettings, EngineSite
from srl_agents.engines.waiting import Say, to_stderr
from srl_agents.league.matchmaking.arenas import Arenas
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.store.history import LeagueStore
from srl_agents.models.base_model import BaseModel
from srl_agents.models.digests import version_of
from srl_agents.models.model_loading import allow_tf32
from srl_agents.recipes.sections.base_models import FROZEN_IN_MEMORY, Base
from srl_agents.recipes.sections.games import Game, arenas_of
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import MatchSpec, Served
from srl_agents.rewards.game_rewards import RewardsByGame
from srl_agents.rewards.learned_reward import LearnedReward
from srl_agents.rewards.weighing import RecipeRewards
from srl_agents.rollouts.buffer import MatchBuffer
from srl_agents.rollouts.request_trace import REQUESTS, RequestTrace
from srl_agents.trainers.experience import Experience, Teachers
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.training.bases import LoadedBase, below, starts_of
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.folder.layout import BUFFER, CHECKPOINTS, SHARED_BASE, STORE, VERSIONS
from srl_agents.training.parts.budgets import Budgets
from srl_agents.training.parts.exchange_rounds import ExchangeTerms, RolloutExchange
from srl_agents.training.parts.sharing_rounds import Sharing
from srl_agents.training.parts.spent_amounts import Amount
from srl_agents.transports.protocol import Transport
from srl_envs.errors import ConfigError

Learners = dict[str, AdapterLearner[Any]]


def load_bases(
    recipe: LeagueRecipe, *, mesh: DeviceMesh | None = None, beside: Path | None = None
) -> tuple[LoadedBase, ...]:
    """The models that learners are adapters of.

    Args:
        recipe: of the run.
        mesh: processes that divide their layers.
        beside: folder of the run, for a process that only plays. Weights that the trainer shares there
            are mapped, and a model that its engine does not sample with stays on the CPU.

    Raises:
        ConfigError: one reply would fill the context of a model.
        ModelError: one cannot be fetched or loaded.
    """
    bases = []
    for base in recipe.bases:
        device, weights = "", None
        if beside is not None:
            device = "" if base.engine.samples_base else "cpu"
            weights = shared_weights(beside, base)
        model = load_base(recipe, base, device, weights, mesh)
        bases.append(LoadedBase(settings=base, model=model))
    if any(base.model.device.type == "cuda" for base in bases):
        allow_tf32(recipe.memory.tf32)
    return tuple(bases)


def shared_weights(folder: Path, base: Base) -> Path | None:
    """File in a run's folder through which its processes share a base, if its placement is ``hybrid``."""
    return below(folder, base) / SHARED_BASE if base.placement == "hybrid" else None


def load_base(
    recipe: LeagueRecipe,
    own: Base,
    device: str = "",
    weights: Path | None = None,
    mesh: DeviceMesh | None = None,
) -> BaseModel:
    """Load one base of a recipe; see `load_bases`."""
    budget = recipe.rollout.max_new_tokens
    base = BaseModel.load(
        own.model,
        lora_rank=own.lora.rank,
        lora_alpha=own.lora.alpha,
        lora_targets=own.lora.target_modules,
        lora_excluded=own.lora.exclude_modules,
        lora_activation=own.lora.activation,
        parameters=own.parameters,
        frozen_in_memory=FROZEN_IN_MEMORY,
        dtype=own.dtype,
        quantization=own.quantization,
        attention=own.attention,
        float32_islands=recipe.memory.float32_islands,
        device=device or own.device,
        prompt=own.prompt.whole(),
        weights=weights,
        mesh=mesh,
    )
    if base.chat.reply_tokens(budget) >= base.context_length:
        thoughts = "" if own.prompt.thoughts is None else " after the thoughts"
        raise ConfigError(
            f"rollout.max_new_tokens={budget}{thoughts}: {own.model} reads {base.context_length} "
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


def make_engine(
    recipe: LeagueRecipe,
    base: LoadedBase,
    transport: Transport,
    folder: Path,
    settings: EngineSettings,
    *,
    say: Say = to_stderr,
) -> Engine:
    """What replies of one base's versions are sampled with.

    Args:
        recipe: of the run.
        base: its model.
        transport: brings versions.
        folder: of the run.
        settings: of the engine: the base's, or what stands in for it beside generation.
        say: shows a line while a server is waited for.

    Raises:
        ConfigError: learners cannot learn from its replies.
    """
    own, home = base.settings, below(folder, base.settings)
    home.mkdir(parents=True, exist_ok=True)
    engine = settings.make_engine(
        EngineSite(
            base=base.model,
            sampling=sampling_of(recipe),
            batch_rows=recipe.rollout.batch_rows,
            open_update=transport.open,
            folder=home,
            say=say,
        )
    )
    can = engine.capabilities
    if not (can.token_ids and can.logprobs and can.versions):
        raise ConfigError(
            f"engine.kind={settings.kind!r} returns no tokens or log-probabilities, or takes no new "
            "versions; learners cannot learn from it."
        )
    for name, able in (("thoughts", can.thoughts), ("memory", can.memory)):
        if getattr(own.prompt, name) is not None and not able:
            raise ConfigError(
                f"prompt.{name}: engine.kind={settings.kind!r} does not support it; leave it out."
            )
    return engine


def make_experience(
    base: Base, learners: Learners, credit: Credit, teachers: Teachers
) -> Experience:
    """What the algorithm of one base makes of an update's episodes."""
    own = {name: learners[name] for name in base.learners}
    return base.training.make_experience(own, credit, teachers)


def seeds_of(recipe: LeagueRecipe) -> dict[str, int]:
    """Learner -> seed of its first weights; one for all where coordination combines them."""
    alike = recipe.coordination.starts_alike
    return {name: _derived(recipe.seed, "all" if alike else name) for name in recipe.learners}


def open_store(folder: Path, opened: ExitStack) -> LeagueStore:
    """The run's matches; where checkpoints count on them, they must be there.

    Raises:
        StoreError: another process is writing, or they are lost.
    """
    counted_on = checkpoints.exist(folder / CHECKPOINTS)
    store = LeagueStore(folder / STORE, "continue" if counted_on else "write")
    opened.callback(store.close)
    return store


def make_league(recipe: LeagueRecipe, learners: Learners) -> League:
    """The league of a run: its learners, pools and schedule of matches."""
    versions = {
        name: version_of(name, learner.version, learner.base.trainable_parameters(name))
        for name, learner in learners.items()
    }
    return League(
        arenas=arenas_of(recipe.games, recipe.evaluation.agents),
        versions=versions,
        starts=starts_of(recipe.bases),
        opponents=recipe.opponents,
        seed=recipe.seed,
        roles=recipe.roles,
        exploiters=recipe.exploiters,
        held=recipe.seats,
        curriculum=recipe.curriculum,
        plans=recipe.lesson_plans,
        alike=recipe.sharing is not None and recipe.sharing.kind == "rollouts",
    )


def make_budgets(
    recipe: LeagueRecipe,
    folder: Path,
    say: Callable[[str], None],
    asking: Asking,
    *,
    repeatable: bool,
) -> Budgets | None:
    """Budgets of the opponents behind endpoints; None where no agent has one."""
    here = recipe.generation is None and asking.sent is not None
    games = recipe.games
    longest = max(game.most_prompt_chars for game in games)
    budgets = recipe.opponents.budgets
    if not budgets:
        return None
    return Budgets(
        budgets,
        folder,
        game_of=names_of_games(games),
        most_replies={game.name: game.most_replies for game in games},
        dearest={
            agent: _dearest(agent, recipe.rollout.max_new_tokens, longest) for agent in budgets
        },
        say=say,
        repeatable=repeatable,
        lost=partial(_lost, asking) if here else None,
    )


def _lost(asking: Asking, agent: str) -> int:
    """Requests that an agent was sent in vain."""
    if asking.sent is None or asking.journal is None:
        return 0
    return asking.sent.lost(agent, asking.journal.__contains__)


def _dearest(agent: str, max_new_tokens: int, prompt_chars: int) -> Amount:
    """What a reply takes at most, by its limits: a token per character, and all tokens that it may write."""
    name = parse(agent)
    if not isinstance(name, EndpointName):
        return Amount(requests=1)
    found = find_model(name.url, name.model)
    written = max_new_tokens + found.model.max_thought_tokens
    served = Served(finish="stop", prompt_tokens=prompt_chars, completion_tokens=written)
    cost = 0.0 if found.price is None else found.price.cost(served) or 0.0
    return Amount(1, prompt_chars + written, cost)


def make_buffer(recipe: LeagueRecipe, folder: Path) -> MatchBuffer | None:
    """What is ordered of another process and was played there, if the recipe has one."""
    settings = recipe.generation
    return None if settings is None else MatchBuffer(folder / BUFFER, settings.ahead + 1)


def make_request_trace(recipe: LeagueRecipe, folder: Path | None) -> RequestTrace | None:
    """What keeps the run's requests, where the recipe asks for them.

    Args:
        recipe: of the run.
        folder: of the run; None in a process that hands them on to the one that writes there.
    """
    size = recipe.rollout.trace
    return RequestTrace(None if folder is None else folder / REQUESTS, size) if size else None


def relief(recipe: LeagueRecipe, meet: Callable[[Finding], object]) -> Callable[[str], None] | None:
    """What rollouts tell when memory runs out in play; None where the run shall stop then.

    Args:
        recipe: of the run.
        meet: answers a finding.
    """
    fault = "play_out_of_memory"
    if recipe.survival.policy(fault) == "stop":
        return None

    def tell(message: str) -> None:
        meet(Finding(fault=fault, message=message))

    return tell


def make_transport(
    recipe: LeagueRecipe, base: Base, folder: Path, named: Collection[str]
) -> Transport:
    """How new weights reach a base's engine. What an interrupted run published is published again.

    Args:
        recipe: of the run.
        base: whose versions they are.
        folder: of the run.
        named: ids of versions that stay, because matches of an interrupted run may still need them.
    """
    home = below(folder / VERSIONS, base)
    if home.is_dir():
        for path in home.iterdir():
            if path.name not in named:
                shutil.rmtree(path, ignore_errors=True)
    return recipe.carrier.make_transport(home, whole_weights=base.parameters == "full")


def make_sharing(
    recipe: LeagueRecipe, learners: Learners, seeds: Mapping[str, int]
) -> Sharing | None:
    """Rounds in which learners read each other, if the recipe has them."""
    if recipe.sharing is None or recipe.sharing.kind == "rollouts":
        return None
    return Sharing(recipe.sharing, learners, seeds, recipe.rollout.max_new_tokens)


def make_exchange(
    recipe: LeagueRecipe, learners: Learners, say: Callable[[str], None]
) -> RolloutExchange | None:
    """Exchange of rows between learners, if the recipe has one."""
    if recipe.sharing is None or recipe.sharing.kind != "rollouts":
        return None
    games, generation = recipe.games, recipe.generation
    terms = ExchangeTerms(
        settings=recipe.sharing.exchange,
        credits={game.name: game.credit for game in games},
        scale=recipe.scale_advantages,
        max_new_tokens=recipe.rollout.max_new_tokens,
        max_staleness=None if generation is None else generation.max_staleness,
    )
    return RolloutExchange(terms, learners, names_of_games(games), say)


def names_of_games(games: tuple[Game, ...]) -> Callable[[MatchSpec], str]:
    """Which of a recipe's games a match is of."""
    return Arenas(arenas_of(games)).title_of


def make_recipe_rewards(recipe: LeagueRecipe) -> RewardsByGame | None:
    """What the recipe's rewards make of episodes, if a game has a section of them."""
    games = recipe.games
    rewards = {
        game.name: RecipeRewards(
            game.rewards,
            paid=game.paid,
            statistics=game.statistics,
            references=game.references,
            resource=game.resource,
            max_new_tokens=recipe.rollout.max_new_tokens,
        )
        for game in games
        if game.rewards is not None
    }
    return RewardsByGame(rewards, names_of_games(games)) if rewards else None


def make_learned_reward(recipe: LeagueRecipe, base: BaseModel) -> LearnedReward | None:
    """The judge beside the rules, if the recipe has one.

    Raises:
        ModelError: its own base cannot be fetched or loaded.
    """
    settings, seed = recipe.reward_model, _derived(recipe.seed, "reward_model")
    if settings is None:
        return None
    if settings.model is None:
        return LearnedReward(settings, base, seed)
    own = BaseModel.load(
        settings.model,
        lora_rank=settings.rank,
        lora_alpha=2 * settings.rank,
        dtype=recipe.bases[0].dtype,
        attention=recipe.bases[0].attention,
        device=str(base.device),
    )
    return LearnedReward(settings, own, seed, written_by=base)


def _derived(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:4], "big")


def coordination_of(recipe: LeagueRecipe) -> CoordinationGroups:
    """Coordination of a recipe: kinds that combine weights act within each base that has two learners."""
    settings, groups = recipe.coordination, recipe.coordinated
    single = {name for name, own in groups.items() if len(own) == 1 and len(recipe.learners) > 1}
    together = [name for own in groups.values() for name in own]
    return CoordinationGroups(
        groups,
        lambda name: Coordinator() if name in single else settings.make_coordinator(),
        [name for name in recipe.learners if name not in together],
    )


def said_of_groups(recipe: LeagueRecipe) -> str:
    """Who is coordinated with whom, in words; empty where there is one base or a kind that looks at all."""
    bases, kind, groups = recipe.bases, recipe.coordination, recipe.coordinated
    together = [name for own in groups.values() for name in own]
    apart = ", ".join(name for name in recipe.learners if name not in together)
    rest = f"; without the exploiters {apart}" if apart else ""
    if len(bases) == 1 or not kind.within_a_base:
        return f"coordination {kind.kind!r} acts among {', '.join(together)}{rest}" if rest else ""
    words = [
        f"{', '.join(own)} on {name}" + (" (one learner)" if len(own) == 1 else "")
        for name, own in groups.items()
    ]
    where = "across models of one base" if kind.across_bases else "within each base"
    return f"coordination {kind.kind!r} acts {where}: {'; '.join(words)}{rest}"
