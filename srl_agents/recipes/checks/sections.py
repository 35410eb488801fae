"""Checks across sections of a recipe; each refuses a combination by name, before anything is loaded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from srl_agents.agents.resolver import require_model
from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.league.matchmaking.arenas import Arenas
from srl_agents.league.settings import require
from srl_agents.models.installed import require_installed
from srl_agents.recipes.checks.activation import check_activation
from srl_agents.recipes.checks.exchange import check_exchange
from srl_agents.recipes.checks.fork_needs import check_fork_needs
from srl_agents.recipes.checks.opponents import (
    check_agents,
    check_anybody_met,
    check_budgets,
    trained_games,
)
from srl_agents.recipes.sections.base_models import NAME, is_name
from srl_agents.recipes.sections.games import Game, arenas_of, check_games
from srl_agents.trainers.algorithms import Plan
from srl_envs.errors import ConfigError, gather, within

if TYPE_CHECKING:
    from srl_agents.recipes.sections.base_models import Base
    from srl_agents.recipes.settings import LeagueRecipe


def check_recipe(recipe: LeagueRecipe) -> None:
    """Refuse what cannot be trained as it stands, with every mistake at once.

    Raises:
        ConfigError: values, or what sections would do together.
        UnknownPolicyError: a model or an agent that does not exist.
    """
    checks = (
        *(_check_reward_model, _check_first_adapters, _check_bases, _check_devices),
        *(_check_coordination, _check_pairs, _check_sharing, _check_names),
        *(_check_mains, _check_several, _check_generation),
        *(
            _check_games,
            _check_seats,
            _check_curriculum,
            _check_lesson_plans,
            _check_gate,
            _check_warm_start,
        ),
        *(_check_scale, check_fork_needs, check_agents, check_anybody_met, check_budgets),
    )
    _check_numbers(recipe)
    gather(*(partial(check, recipe) for check in checks))


def _check_numbers(recipe: LeagueRecipe) -> None:
    """Refuse numbers that other checks cannot count with."""
    require(recipe.seed >= 0, f"seed={recipe.seed}: use 0 or more.")
    for name in ("updates", "snapshot_every", "checkpoint_every", "keep_checkpoints"):
        value = getattr(recipe, name)
        require(value >= 1, f"{name}={value}: use 1 or more.")
    require(is_name(recipe.name), f"name={recipe.name!r}: use {NAME}; it becomes a folder.")


def _check_reward_model(recipe: LeagueRecipe) -> None:
    require(
        recipe.reward_model is None or "reward_model" not in recipe.learners,
        "learners: with a reward_model none may be called 'reward_model', as it is in checkpoints.",
    )
    if recipe.reward_model is not None and recipe.reward_model.model is not None:
        require_model(recipe.reward_model.model)


def _check_bases(recipe: LeagueRecipe) -> None:
    gather(*(partial(_check_base, recipe, base) for base in recipe.bases))


def _check_devices(recipe: LeagueRecipe) -> None:
    devices = dict.fromkeys(base.device for base in recipe.bases if base.device != "auto")
    require(
        recipe.memory.budget_gib is None or len(devices) < 2,
        f"memory.budget_gib: bases are on {', '.join(devices)}, and a budget is of one device. Give them "
        "one, or leave out budget_gib.",
    )


def _check_sharing(recipe: LeagueRecipe) -> None:
    if recipe.sharing is None:
        return
    require(len(recipe.learners) > 1, "sharing: one learner has no other to share with.")
    require(
        not recipe.coordination.stays_equal,
        f"sharing: learners of coordination kind {recipe.coordination.kind!r} are equal for ever, "
        "and have nothing to show each other; leave out one of the two.",
    )
    if recipe.sharing.kind == "rollouts":
        check_exchange(recipe)


def _check_names(recipe: LeagueRecipe) -> None:
    both = sorted({base.name for base in recipe.bases} & set(recipe.learners))
    require(
        not both,
        f"learners: {both} are names of bases, too, and agents are called by either; rename the learner.",
    )
    unknown = [name for name in recipe.roles if name not in recipe.learners]
    require(not unknown, f"roles: {unknown} are not learners; there are {recipe.learners}.")


def _check_mains(recipe: LeagueRecipe) -> None:
    require(
        bool(_mains(recipe)),
        f"roles={recipe.roles}: exploiters need a main to exploit; leave one learner without role.",
    )


def _mains(recipe: LeagueRecipe) -> list[str]:
    return [name for name in recipe.learners if recipe.roles.get(name, "main") == "main"]


def _check_games(recipe: LeagueRecipe) -> None:
    """Unknown ids, options and bots, and games that do not go together."""
    if recipe.environments:
        for name in ("env_options", "wrappers", "teams"):
            require(
                not getattr(recipe, name),
                f"{name}: with `environments` each of them has its own {name}; leave it out here.",
            )
    check_games(recipe.games)
    Arenas(arenas_of(recipe.games))  # refuses two games with one name or equal options


def _check_curriculum(recipe: LeagueRecipe) -> None:
    own = {f"models.{name}.curriculum": model.curriculum for name, model in recipe.models.items()}
    for place, curriculum in {"curriculum": recipe.curriculum, **own}.items():
        if curriculum is not None and curriculum.needs_levels:
            require(
                any(len(game.levels) > 1 for game in recipe.games),
                f"{place}.kind={curriculum.kind!r} moves between levels, and no game has two; give one of "
                "`environments` its `levels`.",
            )


def _check_lesson_plans(recipe: LeagueRecipe) -> None:
    """Refuse games of a base's learners that are not trained, and what needs the same games for all."""
    trained = {game.name: game for game in trained_games(recipe)}
    for name, model in recipe.models.items():
        for game in model.environments or ():
            require(
                game in trained,
                f"models.{name}.environments: {game!r} is not trained in this recipe; name some of "
                f"{', '.join(trained)}.",
            )
    if not recipe.lesson_plans:
        return
    require(
        recipe.sharing is None or recipe.sharing.kind != "rollouts",
        "sharing: with kind 'rollouts' all learners meet the same start states; leave it out, or models' "
        "`environments` and `curriculum`.",
    )


def _check_gate(recipe: LeagueRecipe) -> None:
    if recipe.promotion is not None:
        try:
            recipe.promotion.rule(len(trained_games(recipe)))
        except ConfigError as error:
            raise within("promotion", error) from None


def _check_warm_start(recipe: LeagueRecipe) -> None:
    if recipe.warm_start is not None:
        for game in trained_games(recipe):
            game.check_bots("warm_start.bots", recipe.warm_start.bots)


def _check_scale(recipe: LeagueRecipe) -> None:
    for game in recipe.games:
        require(
            not recipe.scale_advantages or ESTIMATORS.find(game.credit.estimator).has_groups,
            f"scale_advantages: estimator {game.credit.estimator!r} has no groups to scale by; "
            "use credit.normalise instead.",
        )


def _check_base(recipe: LeagueRecipe, base: Base) -> None:
    """Requirements of the rest of the recipe on every base."""
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
        raise (within(f"models.{base.name}", error) if recipe.models else error) from None


def _check_attention(base: Base) -> None:
    """Flash attention has no masks of ours; packed rows need its kernels."""
    flash = base.attention == "flash_attention_2"
    shares = getattr(base.training, "share_prefixes", False) is True
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
    kind, groups = recipe.coordination, recipe.coordinated
    if len(recipe.bases) == 1 or not kind.within_a_base:
        own = groups["all"]
        require(
            len(own) > 1 or len(recipe.learners) < 2,
            f"coordination.kind={kind.kind!r}, roles: exploiters begin again by themselves, and "
            f"{', '.join(own)} is the only main. Add a main, or use kind 'independent'.",
        )
        kind.check(learners=len(own), parameters=recipe.bases[0].parameters)
        return
    together = [base for base in recipe.bases if len(groups.get(base.name, ())) > 1]
    if kind.across_bases:
        _check_across(recipe)
    bases = "; ".join(f"{name} has {', '.join(own)}" for name, own in groups.items())
    require(
        bool(together),
        f"coordination.kind={kind.kind!r}: weights of different bases cannot be merged or compared, and "
        f"no base has two learners: {bases}. Put two learners on one base, or use kind 'independent'.",
    )
    for base in together:
        kind.check(learners=len(groups[base.name]), parameters=base.parameters)


def _check_across(recipe: LeagueRecipe) -> None:
    """Adapters that are merged act on the same layers, whatever their ranks."""
    first: dict[str, Base] = {}
    for base in recipe.bases:
        require(
            base.parameters == "lora",
            f"coordination.merge 'across', parameters 'full' of {base.name}: whole weights have no ranks. "
            "Use 'lora', or leave merge out.",
        )
        other = first.setdefault(base.model, base).lora
        require(
            (base.lora.target_modules, base.lora.exclude_modules)
            == (other.target_modules, other.exclude_modules),
            f"coordination.merge 'across': adapters of {first[base.model].name} and {base.name} are of other "
            "layers. Give both the same target_modules and exclude_modules.",
        )


def _check_first_adapters(recipe: LeagueRecipe) -> None:
    """Whom adapters are given to, and whether these may differ; `training` looks at their files."""
    given = recipe.first_adapters
    strangers = [name for name in given if name not in recipe.learners]
    require(
        not strangers,
        f"init_adapter: {strangers} are not learners; there are {list(recipe.learners)}.",
    )
    require(
        not recipe.models or not isinstance(recipe.init_adapter, str),
        "init_adapter: an adapter is of one base; with `models` give learner -> folder.",
    )
    first = {given.get(name) for own in recipe.coordinated.values() for name in own}
    require(
        len(first) <= 1 or not recipe.coordination.starts_alike,
        f"init_adapter: learners of coordination kind {recipe.coordination.kind!r} begin alike; give one "
        "folder for all.",
    )


def _check_pairs(recipe: LeagueRecipe) -> None:
    """Require two attempts where an algorithm learns from pairs of attempts."""
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
            "sharing: kinds 'sft', 'dpo' and 'rollouts' learn whole completions, and in thoughts some tokens "
            "are the engine's; leave out prompt.thoughts, or share demonstrations.",
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
    require(not unread, f"{', '.join(unread)}: the model writes no thoughts; set prompt.thoughts.")


def _check_generation(recipe: LeagueRecipe) -> None:
    """What cannot be done beside generation in another process is refused by name."""
    generation = recipe.generation
    if generation is None:
        return
    here = "placement='disaggregated'" if recipe.asynchronous is None else "asynchronous"
    require(
        recipe.memory.budget_gib is None,
        f"memory.budget_gib: with {here} two processes hold models, and one is measured; leave one of the "
        "two out.",
    )
    require(
        recipe.sharing is None or recipe.sharing.kind == "rollouts",
        f"{here}, sharing: only kind 'rollouts' goes with it. Leave out one of the two.",
    )
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
    """Refuse settings that hold for only one base in recipes with several, by name."""
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
    """The parts of this recipe that an algorithm reads, in one of its games."""
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


def _check_seats(recipe: LeagueRecipe) -> None:
    """Every seat of the games has a main that may hold it."""
    game = recipe.games[0]
    seats = game.seats
    counts = {own.name: own.seats for own in recipe.games}
    require(
        not recipe.seats or len({*counts.values()}) == 1,
        "seats: they are the same roles in every game, and the games have different numbers of seats: "
        f"{', '.join(f'{name} {count}' for name, count in counts.items())}. Leave out seats, or games.",
    )
    strangers = [name for name in recipe.seats if name not in recipe.learners]
    require(
        not strangers, f"seats: {strangers} are not learners; there are {list(recipe.learners)}."
    )
    for name, held in recipe.seats.items():
        require(
            bool(held) and set(held) <= set(range(seats)) and len(set(held)) == len(held),
            f"seats.{name}={list(held)}: {game.env_id} has seats 0 to {seats - 1}; name one or more, "
            "each once.",
        )
    teams = game.teams or tuple(range(seats))
    split = [
        name
        for name, held in recipe.seats.items()
        if any(teams[s] == teams[k] and s not in held for k in held for s in range(seats))
    ]
    require(
        not split or not recipe.opponents.payoff_pairs,
        f"opponents.payoff_pairs, seats: {', '.join(split)} hold a part of a team, and a match of sides with "
        "mates is not a payoff between two versions. Leave out payoff_pairs, or give learners whole teams.",
    )
    mains = _mains(recipe)
    empty = [s for s in range(seats) if all(s not in recipe.seats.get(m, (s,)) for m in mains)]
    require(
        not empty or not mains,  # without a main `_check_mains` names the cause
        f"seats: no main may hold seat {empty} of {game.env_id}; name a learner for each seat.",
    )
