"""What the sections of a recipe may not be together; each is refused by name, before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srl_agents.agents.grammar import EndpointName, ModelName, parse
from srl_agents.agents.resolver import known_name, require_model
from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.engines.providers import find_model
from srl_agents.league.arenas import Arenas
from srl_agents.league.settings import require
from srl_agents.models.installed import require_installed
from srl_agents.recipes.activation import check_activation
from srl_agents.recipes.base_settings import NAME, is_name
from srl_agents.recipes.game_settings import Game, arenas_of, check_games
from srl_agents.trainers.algorithms import Plan
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.recipes.base_settings import Base
    from srl_agents.recipes.generation_settings import GenerationSettings
    from srl_agents.recipes.settings import LeagueRecipe


def check_recipe(recipe: LeagueRecipe) -> None:
    """Refuse what cannot be trained as it stands.

    Raises:
        ConfigError: a value, or what two sections would do together.
        UnknownPolicyError: a model or an agent that nobody knows.
    """
    require(recipe.seed >= 0, f"seed={recipe.seed}: use 0 or more.")
    for name in ("updates", "snapshot_every", "checkpoint_every", "keep_checkpoints"):
        value = getattr(recipe, name)
        require(value >= 1, f"{name}={value}: use 1 or more.")
    require(
        recipe.keep_best_checkpoints >= 0,
        f"keep_best_checkpoints={recipe.keep_best_checkpoints}: use 0 or more.",
    )
    require(
        recipe.reward_model is None or "reward_model" not in recipe.learners,
        "learners: with a reward_model none may be called 'reward_model', as it is in checkpoints.",
    )
    require(is_name(recipe.name), f"name={recipe.name!r}: use {NAME}; it becomes a folder.")
    if recipe.reward_model is not None and recipe.reward_model.model is not None:
        require_model(recipe.reward_model.model)
    _check_environments(recipe)
    _check_first_adapters(recipe)
    for base in recipe.bases:
        _check_base(recipe, base)
    devices = dict.fromkeys(base.device for base in recipe.bases if base.device != "auto")
    require(
        recipe.memory.budget_gib is None or len(devices) < 2,
        f"memory.budget_gib: bases are on {', '.join(devices)}, and a budget is of one device. Give them "
        "one, or leave out budget_gib.",
    )
    _check_coordination(recipe)
    _check_pairs(recipe)
    if recipe.sharing is not None:
        require(len(recipe.learners) > 1, "sharing: one learner has nobody to share with.")
        require(
            not recipe.coordination.stays_equal,
            f"sharing: learners of coordination kind {recipe.coordination.kind!r} are equal for ever, "
            "and have nothing to show each other; leave out one of the two.",
        )
    both = sorted({base.name for base in recipe.bases} & set(recipe.learners))
    require(
        not both,
        f"learners: {both} are names of bases, too, and agents are called by either; rename the learner.",
    )
    unknown = [name for name in recipe.roles if name not in recipe.learners]
    require(not unknown, f"roles: {unknown} are no learners; there are {recipe.learners}.")
    require(
        any(recipe.roles.get(name, "main") == "main" for name in recipe.learners),
        f"roles={recipe.roles}: exploiters need a main to exploit; leave one learner without role.",
    )
    require(
        not recipe.coordination.starts_alike or set(recipe.roles.values()) <= {"main"},
        f"roles={recipe.roles}: exploiters play against a main and start again from their first "
        f"weights; coordination kind {recipe.coordination.kind!r} would mix the two. Leave out one.",
    )
    _check_several(recipe)
    if recipe.generation is not None:
        _check_generation(recipe, recipe.generation)


def _check_environments(recipe: LeagueRecipe) -> None:
    """Unknown ids, options and bots are found here, before anything is loaded."""
    require(
        bool(recipe.env) != bool(recipe.environments),
        "env, environments: name one game as `env`, or several under `environments`.",
    )
    if recipe.environments:
        for name in ("env_options", "wrappers", "teams"):
            require(
                not getattr(recipe, name),
                f"{name}: with `environments` each of them has its own {name}; leave it out here.",
            )
    games = recipe.games
    check_games(games)
    require(
        not recipe.seats or not recipe.environments,
        "seats: they are roles of one game, and `environments` names several; leave out one of the two.",
    )
    _check_seats(recipe, games[0])
    Arenas(arenas_of(games))  # refuses two games that cannot be told apart
    require(
        not recipe.curriculum.needs_levels or any(len(game.levels) > 1 for game in games),
        f"curriculum.kind={recipe.curriculum.kind!r} moves between levels, and no game has two; give one "
        "of `environments` its `levels`.",
    )
    trained = [game for game in games if game.weight > 0]
    together = {game.mode == "cooperative" for game in trained if game.seats > 1}
    require(
        recipe.promotion is None or len(together) < 2,
        "promotion: a gate adds up games that are all cooperative, or none; "
        f"{', '.join(game.name for game in trained)} are both.",
    )
    if recipe.warm_start is not None:
        for game in trained:
            game.check_bots("warm_start.bots", recipe.warm_start.bots)
    for game in games:
        require(
            not recipe.scale_advantages or ESTIMATORS.find(game.credit.estimator).has_groups,
            f"scale_advantages: estimator {game.credit.estimator!r} has no groups to scale by; "
            "use credit.normalise instead.",
        )
    for name in recipe.guests:
        require(
            name not in {base.name for base in recipe.bases},
            f"agents: {name!r} is what learners start as, and is met as such.",
        )
        for game in games:
            known_name(name, game.env_id)
    unpinned = [
        name
        for name in recipe.opponents.pinned
        if name not in recipe.guests or isinstance(parse(name), EndpointName)
    ]
    require(
        not unpinned,
        f"opponents.pinned: {', '.join(map(repr, unpinned))}: only models and adapters of opponents.agents "
        "or evaluation.agents can be held to their weights.",
    )
    _check_pinned_adapters(recipe)
    _check_anybody_met(recipe, trained)
    _check_budgets(recipe)


def _check_pinned_adapters(recipe: LeagueRecipe) -> None:
    """Hashes of adapters are those of agents that have one."""
    for text, pinned in recipe.opponents.pinned.items():
        name = parse(text)
        has = isinstance(name, ModelName) and bool(name.adapter)
        require(
            has == (pinned.adapter is not None),
            f"opponents.pinned: {text!r} {'is an' if has else 'has no'} adapter: "
            + ("give" if has else "leave out")
            + " adapter and lora.",
        )


def _check_anybody_met(recipe: LeagueRecipe, trained: list[Game]) -> None:
    """Whoever is met in training needs a game of several seats."""
    if any(game.seats > 1 for game in trained):
        return
    games = ", ".join(game.name for game in trained)
    roles = [name for name, role in recipe.roles.items() if role != "main"]
    for section, names in (
        ("roles", roles),
        ("opponents.agents", list(recipe.opponents.agents)),
        ("opponents.bots", list(recipe.opponents.bots)),
    ):
        require(
            not names,
            f"{section}: {', '.join(names)}: nobody meets others in training, because {games} "
            "has one seat. Leave them out, or train in a game with more seats.",
        )


def _check_budgets(recipe: LeagueRecipe) -> None:
    """Every endpoint has a budget that lets it be met, in training or in a look, and nobody else has one."""
    budgets = recipe.opponents.budgets
    served = [text for text in recipe.guests if isinstance(parse(text), EndpointName)]
    strangers = [text for text in budgets if text not in served]
    require(
        not strangers,
        f"opponents.budgets: {strangers} are no endpoints of opponents.agents or evaluation.agents, and cost "
        "nothing; leave them out.",
    )
    for text in served:
        require(
            text in budgets,
            f"agents: {text!r} is an endpoint without a budget, and a run asks thousands of times. Say "
            f"how often, `opponents: {{budgets: {{{text!r}: {{requests: 1000}}}}}}`, and with `cost` for how "
            "much.",
        )
        budget, endpoint = budgets[text], parse(text)
        require(
            budget.cost is None
            or not isinstance(endpoint, EndpointName)
            or find_model(endpoint.url, endpoint.model).price is not None,
            f"opponents.budgets: {text!r}: what it costs is not known. Name a price file in the "
            "providers file (docs/guides/endpoints.md), or leave out cost.",
        )
        trains = text in recipe.opponents.agents
        attempts = recipe.rollout.group_size if trains else 1
        games = [game for game in recipe.games if game.weight > 0 or not trains]
        shortest = min(games, key=lambda game: game.most_replies * (game.seats - 1))
        least = attempts * shortest.most_replies * (shortest.seats - 1)
        require(
            budget.requests >= least,
            f"opponents.budgets: {text!r}: requests={budget.requests} would never be asked: {attempts} "
            f"attempts at one start state of {shortest.name} may ask {least} times. Use {least} or more.",
        )


def _check_base(recipe: LeagueRecipe, base: Base) -> None:
    """What the rest of the recipe asks of every base."""
    within = f"models.{base.name}: " if recipe.models else ""
    try:
        for game in recipe.games:
            base.training.check(_plan(recipe, base, game))
        # each learner's present version, and those of its past that the pool keeps
        past = min(recipe.opponents.past_limit, max(recipe.updates // recipe.snapshot_every - 1, 0))
        # and where orders wait, those of each, with what the pool drops meanwhile
        waiting = 0 if recipe.generation is None else 2 * recipe.generation.ahead
        if recipe.rollout.order == "exact":
            base.engine.require_repeatable()
        base.engine.require_versions(len(base.learners) * (1 + past + waiting))
        require(
            recipe.memory.budget_gib is None or base.quantization == "none",
            "memory.budget_gib: weights in 4 bits stay where they are; leave out budget_gib or "
            "quantization.",
        )
        require(
            recipe.memory.budget_gib is None or base.parameters == "lora",
            "memory.budget_gib: whole weights stay where they are; with parameters 'full' leave it out.",
        )
        islands = recipe.memory.float32_islands
        require(
            not islands or base.parameters == "lora",
            "memory.float32_islands: whole weights learn in float32 already; leave it out.",
        )
        require(
            not islands or not base.training.autocast,
            "memory.float32_islands: with training.autocast every product is bfloat16; leave out one of the "
            "two.",
        )
        _check_attention(base)
        require(
            base.parameters == "lora" or not base.copied,
            "placement='colocated': with parameters 'full' the engine plays the learners' own tensors. Use "
            "'hybrid'.",
        )
        if recipe.memory.sharded:
            _check_sharded(recipe, base)
        _check_thoughts(recipe, base)
        if base.lora.activation == "reply":
            check_activation(base, recipe)
    except ConfigError as error:
        raise ConfigError(f"{within}{error}") from None


def _check_attention(base: Base) -> None:
    """Flash attention has no masks of ours; packed rows need its kernels."""
    flash = base.attention == "flash_attention_2"
    shares = getattr(base.training, "share_prefixes", False)
    packs = getattr(base.training, "pack_rows", False)
    require(
        not (flash and shares),
        "training.share_prefixes: its rows see each other through a mask, which attention "
        "'flash_attention_2' does not have. Use 'sdpa', or training.pack_rows.",
    )
    require(
        not packs or flash,
        f"training.pack_rows: rows in one sequence need flash-attn's kernels for rows of any length, and "
        f"attention is {base.attention!r}. Set attention to 'flash_attention_2' (package flash-attn, on a "
        "GPU), or use training.share_prefixes, which packs rows under a mask.",
    )


def check_installed(recipe: LeagueRecipe) -> None:
    """Refuse a run that lacks a package or device here, in the first second; plans are made without them.

    Raises:
        ConfigError: names what is missing.
    """
    recipe.carrier.require_machine({base.device for base in recipe.bases})
    for base in recipe.bases:
        require_installed(
            attention=base.attention,
            quantization=base.quantization,
            optimizer=base.training.optimizer,
        )


def _check_sharded(recipe: LeagueRecipe, base: Base) -> None:
    """Layers that are divided are frozen ones, and all processes pass through them together."""
    for name, wanted in (("parameters", "lora"), ("quantization", "none")):
        given = getattr(base, name)
        require(
            given == wanted,
            f"memory.sharded: only a frozen base in its own type can be divided. Use {name} {wanted!r}, not "
            f"{given!r}.",
        )
    require(
        not recipe.memory.float32_islands,
        "memory.sharded, memory.float32_islands: parts of a layer are gathered in one type. Leave out one of "
        "the two.",
    )
    require(
        not base.copied and recipe.generation is None,
        "memory.sharded: the processes that divide a base also play, with the embedded engine or a server's. "
        "Leave out asynchronous, and placement 'colocated' or 'disaggregated'.",
    )
    require(
        base.training.learns_rows,
        f"memory.sharded, training.algorithm={base.training.algorithm!r}: its batches cannot be divided. Use "
        "'grpo' or 'ppo'.",
    )


def _check_coordination(recipe: LeagueRecipe) -> None:
    """Whom updates are combined of: kinds that combine weights do so within a base."""
    kind = recipe.coordination
    if len(recipe.bases) == 1 or not kind.within_a_base:
        kind.check(learners=len(recipe.learners), parameters=recipe.bases[0].parameters)
        return
    together = [base for base in recipe.bases if len(base.learners) > 1]
    told = "; ".join(f"{b.name} has {', '.join(b.learners)}" for b in recipe.bases)
    require(
        bool(together),
        f"coordination.kind={kind.kind!r}: weights of different bases cannot be merged or compared, and "
        f"no base has two learners: {told}. Put two learners on one base, or use kind 'independent'.",
    )
    for base in together:
        kind.check(learners=len(base.learners), parameters=base.parameters)


def _check_first_adapters(recipe: LeagueRecipe) -> None:
    """Whom adapters are given to, and whether these may differ; `training` looks at their files."""
    given = recipe.first_adapters
    strangers = [name for name in given if name not in recipe.learners]
    require(
        not strangers,
        f"init_adapter: {strangers} are no learners; there are {list(recipe.learners)}.",
    )
    require(
        not recipe.models or not isinstance(recipe.init_adapter, str),
        "init_adapter: an adapter is of one base; with `models` give learner -> folder.",
    )
    alike = len(given) in (0, len(recipe.learners)) and len(set(given.values())) <= 1
    require(
        alike or not recipe.coordination.starts_alike,
        f"init_adapter: learners of coordination kind {recipe.coordination.kind!r} begin alike; give one "
        "folder for all.",
    )


def _check_pairs(recipe: LeagueRecipe) -> None:
    """What learns from pairs of attempts needs two of them."""
    shares_pairs = recipe.sharing is not None and recipe.sharing.kind == "dpo"
    require(
        recipe.rollout.group_size >= 2 or not (recipe.reward_model or shares_pairs),
        f"rollout: group_size={recipe.rollout.group_size}: reward_model and sharing of kind 'dpo' "
        "learn from pairs of attempts at one start state. Use 2 or more.",
    )


def _check_thoughts(recipe: LeagueRecipe, base: Base) -> None:
    """What needs thoughts is refused without them, and what would imitate them with them."""
    if base.prompt.thoughts is not None:
        require(
            recipe.sharing is None or recipe.sharing.kind == "demonstrations",
            "sharing: kinds 'sft' and 'dpo' imitate whole completions, and in thoughts some tokens are "
            "the engine's; leave out prompt.thoughts, or share demonstrations.",
        )
        return
    terms = {
        name: term
        for game in recipe.games
        if game.rewards is not None
        for name, term in game.rewards.terms.items()
    }
    unread = [f"rewards.terms.{name}" for name, term in terms.items() if term.judges_thoughts]
    unread += [] if recipe.games[0].credit.train_thoughts else ["credit.train_thoughts"]
    require(not unread, f"{', '.join(unread)}: there are no thoughts; set prompt.thoughts.")


def _check_generation(recipe: LeagueRecipe, generation: GenerationSettings) -> None:
    """What cannot be done beside generation in another process is refused by name."""
    here = "placement='disaggregated'" if recipe.asynchronous is None else "asynchronous"
    require(
        recipe.memory.budget_gib is None,
        f"memory.budget_gib: with {here} two processes hold models, and one is measured; leave one of the "
        "two out.",
    )
    require(recipe.sharing is None, f"{here}, sharing: leave out one of the two.")
    require(
        recipe.parameters == "lora",
        f"{here}, parameters='full': versions are adapters there. Use 'lora'.",
    )
    require(
        recipe.carrier.crosses_processes,
        f"{here}, transport.kind={recipe.carrier.kind!r}: its weights stay in this process. Leave transport "
        "out, or set transport.kind to 'files'.",
    )
    require(
        recipe.training.learns_rows,
        f"{here}, training.algorithm={recipe.training.algorithm!r}: it learns no rows whose age could be "
        "bounded. Use 'grpo' or 'ppo'.",
    )
    steps = generation.ahead * recipe.training.steps_per_batch
    require(
        generation.max_staleness >= steps,
        f"asynchronous: ahead={generation.ahead} makes rows {steps} steps old, and max_staleness="
        f"{generation.max_staleness} would drop them all. Use max_staleness={steps} or more.",
    )
    require(
        generation.in_flight == "keep" or recipe.rollout.order == "free",
        "asynchronous: in_flight='switch' depends on the clock, and rollout.order='exact' is for runs "
        "that repeat. Set rollout.order to 'free'.",
    )
    judged = (
        any(game.rewards is not None for game in recipe.games) or recipe.reward_model is not None
    )
    grouped = all(ESTIMATORS.find(game.credit.estimator).has_groups for game in recipe.games)
    require(
        not generation.refill_limit or (grouped and not judged),
        f"asynchronous: refill_limit={generation.refill_limit}: whether a group is flat is seen from "
        "what the environment pays. With rewards, reward_model or an estimator without groups leave it "
        "out.",
    )


def _check_several(recipe: LeagueRecipe) -> None:
    """What is of one base alone is refused with several, by name."""
    if len(recipe.bases) == 1:
        return
    require(
        recipe.reward_model is None,
        "reward_model, models: it works on the tokens of one base. Leave out one of the two.",
    )
    require(
        recipe.sharing is None or recipe.sharing.kind != "dpo",
        "sharing.kind 'dpo', models: pairs are tokens of one base. Share 'sft' or 'demonstrations', as "
        "texts.",
    )


def _plan(recipe: LeagueRecipe, base: Base, game: Game) -> Plan:
    """What the algorithm may know of this recipe, in one of its games."""
    others = {
        "warm_start.training": recipe.warm_start and recipe.warm_start.training,
        "sharing.sft": recipe.sharing and recipe.sharing.sft,
        "sharing.dpo": recipe.sharing and recipe.sharing.dpo,
        "reward_model": recipe.reward_model,
    }
    undecided = [
        name for name, own in others.items() if own and own.gradient_checkpointing == "auto"
    ]
    require(
        not undecided,
        f"{', '.join(undecided)}.gradient_checkpointing='auto': only training has that; use true or "
        "false.",
    )
    return Plan(
        updates=recipe.updates,
        group_size=recipe.rollout.group_size,
        scale_advantages=recipe.scale_advantages,
        credit=game.credit,
        teacher=recipe.coordination.kind if recipe.coordination.teaches else "",
        thoughts=base.prompt.thoughts is not None,
        checkpointed=tuple(
            name for name, own in others.items() if own and own.gradient_checkpointing
        ),
    )


def _check_seats(recipe: LeagueRecipe, game: Game) -> None:
    """Every seat of the game has a main that may hold it, and who has seats has those of a team."""
    seats, teams = game.seats, game.teams
    strangers = [name for name in recipe.seats if name not in recipe.learners]
    require(
        not strangers, f"seats: {strangers} are no learners; there are {list(recipe.learners)}."
    )
    for name, held in recipe.seats.items():
        require(
            bool(held) and set(held) <= set(range(seats)) and len(set(held)) == len(held),
            f"seats.{name}={list(held)}: {game.env_id} has seats 0 to {seats - 1}; name one or more, "
            "each once.",
        )
        whole = [
            team
            for team in set(teams)
            if set(held) >= {s for s in range(seats) if teams[s] == team}
        ]
        require(
            not teams or bool(whole),
            f"seats.{name}={list(held)}: with teams={list(teams)} learners are measured in all seats of a "
            "team, and these are no whole one. Name every seat of a team, or leave out one of the two.",
        )
    mains = [name for name in recipe.learners if recipe.roles.get(name, "main") == "main"]
    empty = [s for s in range(seats) if all(s not in recipe.seats.get(m, (s,)) for m in mains)]
    require(
        not empty,
        f"seats: no main may hold seat {empty} of {game.env_id}; name a learner for each seat.",
    )
