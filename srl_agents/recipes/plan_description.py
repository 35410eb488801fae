"""The planner's input from a recipe: the model's numbers, and how much its environment makes it read.

Nothing is loaded: a tokenizer where one is on this machine, else a stated number of characters per token.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from srl_agents.engines.settings import TransformersSettings
from srl_agents.engines.vllm.memory_share import BESIDE_TRAINER, share_of
from srl_agents.engines.vllm.settings import VLLMSettings
from srl_agents.memory import architecture
from srl_agents.memory.architecture import Architecture
from srl_agents.memory.description import Attention, BaseType, Description, Head, Traffic
from srl_agents.models.sources import catalog
from srl_agents.recipes.sections.base_models import FROZEN_IN_MEMORY, Base
from srl_agents.recipes.sections.fork_choice import ForkSettings
from srl_agents.recipes.sections.games import Game
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import canonical_json
from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_agents.trainers.prefix_sharing import Sharing, mixing_saves, prefix_sharing
from srl_envs import action, make, play, spec
from srl_envs.errors import ConfigError, nearest
from srl_envs.registry import Policy

if TYPE_CHECKING:
    from srl_envs.parallel import GameEnv

_EPISODES = 2
"""Played by a bot to see how long prompts and matches are."""
_CHARACTERS_PER_TOKEN = 3.0
"""Assumed where no tokenizer is at hand: English and code in vocabularies of 50,000 to 150,000 tokens
have 3.5
to 4.5, so prompts are taken for a little longer than they are."""
_TEMPLATE_TOKENS = 32
"""Of a chat template around one message, assumed likewise."""
_LARGE_VOCABULARY = 32_768
"""Tokens from which `srl_agents.trainers.passes.token_head` takes its own head on a CPU."""
_LARGE_MODEL = 1e9
"""Weights from which a base is bfloat16 by default."""
_ATTENTION: dict[str, Attention] = {"eager": "eager", "flash_attention_2": "flash"}
Count = Callable[[str], int]


def architecture_of(model: str) -> Architecture:
    """The numbers of a model, from a folder, the hub's cache or those that come with SRL.

    Raises:
        ConfigError: the model is not found, or is not a decoder that can be planned.
    """
    folder = catalog.local_folder(model)
    if folder is not None:
        return architecture.from_folder(model, folder)
    found = architecture.published(model)
    if found is not None:
        return found
    folder = catalog.cached_folder(model)
    if folder is None:
        known = [hub_id for entry in architecture.shipped().values() for hub_id in entry["ids"]]
        raise ConfigError(
            f"model={model!r}: its config.json is not on this machine.{nearest(model, known)} Planned "
            f"without "
            f"it are {', '.join(architecture.shipped())}; of another one give its folder."
        )
    return architecture.from_folder(model, folder)


def describe(
    recipe: LeagueRecipe,
    *,
    accelerator: bool,
    traffic: Traffic | None = None,
    processes: int = 1,
) -> Description:
    """A recipe as the planner sees it.

    Args:
        recipe: what is to run.
        accelerator: whether it runs on a GPU, which decides what scores tokens.
        traffic: how much learners read and write; what bots read in the environment if absent.
        processes: that ``torchrun`` starts; they divide the base where the recipe has ``memory.sharded``.

    Raises:
        ConfigError: the numbers of a model are not known, or one process has to divide a base.
    """
    if recipe.memory.sharded and processes < 2:
        raise ConfigError(
            f"memory.sharded, processes={processes}: a base is divided among 2 or more processes, as many as "
            "torchrun starts. Plan it with `srl plan RECIPE --processes N`."
        )
    if recipe.device == "auto":  # placements differ between devices
        recipe = replace(recipe, device="cuda" if accelerator else "cpu")
    first, *others = (
        _described(recipe, base, accelerator=accelerator, traffic=traffic) for base in recipe.bases
    )
    turns = recipe.memory.budget_gib is not None
    run = replace(first, others=tuple(others), takes_turns=turns and bool(others))
    return _divided(run, processes) if recipe.memory.sharded else run


def _divided(run: Description, processes: int) -> Description:
    """The part of one of the processes that divide all bases; none of them mixes learners in a pass."""
    others = tuple(_divided(other, processes) for other in run.others)
    return replace(run, processes=processes, mixes=False, others=others)


def _described(
    recipe: LeagueRecipe, base: Base, *, accelerator: bool, traffic: Traffic | None
) -> Description:
    """Description of one base for the planner."""
    model = architecture_of(base.model)
    own, engine = base.training, base.engine
    sharing = sharing_of(base)
    loss = own.loss if isinstance(own, GRPOSettings) else own
    diverges = bool(getattr(loss, "kl_coef", 0.0))
    start = getattr(own, "reference", "base") != "base"
    matches = recipe.rollout.start_states * recipe.rollout.group_size
    trained = [game for game in recipe.games if game.weight > 0]
    weights = [game.weight / sum(other.weight for other in trained) for game in trained]
    traffic = traffic or _together(
        [_measured(recipe, base, game, matches) for game in trained], weights
    )
    mixes = _mixes(base, traffic.rows, shares=sharing.shares)
    seats = sum(weight * _model_seats(game) for weight, game in zip(weights, trained, strict=True))
    judge = recipe.reward_model if base.name == recipe.bases[0].name else None
    judge_model = None if judge is None or judge.model is None else architecture_of(judge.model)
    embedded = engine if isinstance(engine, TransformersSettings) else None
    return Description(
        name=recipe.name,
        base=base.name if recipe.models else "",
        model=model,
        traffic=traffic,
        base_type=base_type_of(base, model),
        islands=recipe.memory.float32_islands,
        parameters=base.parameters,
        rank=base.lora.rank,
        targets=base.lora.target_modules,
        learners=len(base.learners),
        frozen_versions=_frozen(recipe, base),
        group_size=recipe.rollout.group_size,
        algorithm=own.algorithm,
        optimizer=own.optimizer,
        critic=own.critic if isinstance(own, PPOSettings) else "",
        reference=("adapter" if start else "base") if diverges else "",
        reward_model=judge is not None,
        judge=judge_model,
        judge_type="float32" if judge_model is None else _judge_type(base, judge_model),
        judge_rank=8 if judge is None else judge.rank,
        iterations=own.iterations,
        micro_batch_rows=own.micro_batch_rows,
        shared_by=recipe.rollout.group_size if sharing.shares and not mixes else 1,
        sharing="" if own.algorithm == "dpo" else str(sharing),
        checkpointing=own.gradient_checkpointing is True,
        checkpointing_by_plan=own.gradient_checkpointing == "auto",
        autocast=own.autocast,
        attention=_ATTENTION.get(base.attention, "sdpa"),
        head=_head(base, model, accelerator),
        synchronized=recipe.coordination.kind == "synchronized",
        written_replies=len(base.learners) * traffic.rows * seats,
        reserved_share=share_of(engine.memory_share, BESIDE_TRAINER, cpu=False)
        if isinstance(engine, VLLMSettings) and accelerator
        else 0.0,
        batch_rows=recipe.rollout.batch_rows,
        live_bytes=_gib(embedded.live_gib) if embedded else None,
        cache_bytes=_gib(embedded.cache_gib) if embedded else None,
        eight_bits=embedded is not None and embedded.cache_type == "int8",
        step_tokens=embedded.step_tokens if embedded else TransformersSettings().step_tokens,
        host_cache_bytes=0.0 if accelerator or embedded is None else embedded.host_gib * 2**30,
        keeps_cache=recipe.rollout.order == "free",
        concurrency=recipe.rollout.concurrency,
        pairs=isinstance(own, DPOSettings),
        mixes=mixes,
        placement=base.placement + (f" ({base.placed_by})" if base.placed_by else ""),
        engine_base=base.copied or (base.placement == "disaggregated" and embedded is not None),
        engine_process=recipe.generation is not None,
        plays_ahead=recipe.generation is not None and recipe.generation.ahead > 0,
        plays_whole=engine.samples_base,
    )


def sharing_of(base: Base) -> Sharing:
    """Whether rows share what they begin with: all kinds of models that are planned can."""
    return prefix_sharing(
        getattr(base.training, "share_prefixes", False),
        attention=base.attention,
        packs=getattr(base.training, "pack_rows", False),
    )


def _mixes(base: Base, rows: int, *, shares: bool) -> bool:
    """Whether learners share passes, as `srl_agents.trainers.mixed_gradients` decides it."""
    own, learners = base.training, len(base.learners)
    if not isinstance(own, GRPOSettings) or base.parameters == "full":
        return False
    most = own.micro_batch_rows
    separate, together = learners * math.ceil(rows / most), math.ceil(learners * rows / most)
    apart = own.share_prefixes is True or own.pack_rows
    return own.mix_learners and not apart and mixing_saves(separate, together, shares=shares)


def _gib(value: float | None) -> float | None:
    return None if value is None else value * 2**30


def base_type_of(base: Base, model: Architecture) -> BaseType:
    """The type of the base, as `srl_agents.models.model_loading` chooses it."""
    if base.quantization == "nf4":
        return "nf4"
    large = model.parameters > _LARGE_MODEL and base.parameters == "lora"
    half = large if base.dtype == "auto" else base.dtype == "bfloat16"
    return "bfloat16" if half else "float32"


def _judge_type(base: Base, model: Architecture) -> BaseType:
    """The type of a reward model's own base, which is never in 4 bits."""
    half = model.parameters > _LARGE_MODEL if base.dtype == "auto" else base.dtype == "bfloat16"
    return "bfloat16" if half else "float32"


def _head(base: Base, model: Architecture, accelerator: bool) -> Head:
    """The head that scores tokens: the recipe's choice, where it has one."""
    chosen = str(getattr(base.training, "log_probabilities", "trl"))  # DPO has only TRL's
    if chosen != "auto":
        return "chunked" if chosen == "chunked" else "trl"
    ours = not accelerator and base.parameters == "lora" and model.vocabulary >= _LARGE_VOCABULARY
    return "chunked" if ours else "trl"


def _frozen(recipe: LeagueRecipe, base: Base) -> int:
    """Most versions in memory that only play: of each learner the present one and its snapshots."""
    past = any(game.opponents.past > 0 for game in recipe.games)
    if base.parameters == "full":
        return FROZEN_IN_MEMORY if past else 0
    snapshots = math.ceil(recipe.updates / recipe.snapshot_every) if past else 0
    return len(base.learners) * (1 + min(snapshots, recipe.opponents.past_limit))


def _model_seats(game: Game) -> float:
    """Replies that models write in a match, per reply of the learner's own seat."""
    own, seats = game.opponents, game.seats
    models = own.mirror + own.live + own.past + own.verify
    others = sum(own.bots.values()) + sum(own.agents.values())
    return 1.0 + (seats - 1) * models / (models + others)


def _together(games: Sequence[Traffic], weights: Sequence[float]) -> Traffic:
    """Of games that are drawn by weight: the longest prompts, and the mean of the rest."""
    if len(games) == 1:
        return games[0]

    def mean(name: str) -> float:
        return float(sum(w * getattr(own, name) for w, own in zip(weights, games, strict=True)))

    return replace(
        games[0],
        rows=max(1, round(mean("rows"))),
        prompt_tokens=max(own.prompt_tokens for own in games),
        mean_prompt_tokens=mean("mean_prompt_tokens"),
        mean_new_tokens=mean("mean_new_tokens"),
        own_prompt_tokens=max(own.own_prompt_tokens for own in games),
        source="; ".join(dict.fromkeys(own.source for own in games)),
    )


def _measured(recipe: LeagueRecipe, base: Base, game: Game, matches: int) -> Traffic:
    """What a bot reads in a few episodes; most turns of a seat make the rows. Without bots: random play."""
    tokens_of, counted = _counter(base)
    known = spec(game.env_id)
    bot = next((name for name in ("middle", *known.bots) if name in known.bots), "")
    texts, turns = _read_by(bot, game.env_id, canonical_json(game.options), game.seats)
    prompts = [tokens_of(text) for _, text in texts]
    reply = recipe.rollout.max_new_tokens
    player = f"bot:{bot}" if bot else "random legal play"
    return Traffic(
        rows=_with_branches(matches * max(1, round(turns)), recipe.forks, turns, reply),
        prompt_tokens=max(prompts),
        reply_tokens=reply,
        mean_prompt_tokens=sum(prompts) / len(prompts),
        mean_reply_tokens=reply,
        own_prompt_tokens=max(prompts) - min(prompts),
        mean_new_tokens=_new_tokens(texts, tokens_of, recipe.rollout.group_size),
        source=f"{_EPISODES} episodes of {player}, {counted}; every reply at its limit",
    )


def _with_branches(rows: int, forks: ForkSettings | None, turns: float, reply: int) -> int:
    """Rows of matches and their branches: one that leaves turn t has the turns from t on.

    Args:
        rows: of the matches.
        forks: where they are left.
        turns: of a seat in a match.
        reply: tokens of a reply, by which a limit on those of branches is one on their rows.
    """
    if forks is None:
        return rows
    added = rows * forks.share * (forks.alternatives - 1) * (max(1.0, turns) + 1) / 2
    return round(rows + (added if forks.tokens is None else min(added, forks.tokens / reply)))


def _new_tokens(texts: Sequence[tuple[int, str]], tokens_of: Count, group_size: int) -> float:
    """Mean tokens of a prompt that none before it begins with; attempts of a group open with one prompt.

    Args:
        texts: turns of a seat, from 1, and what it reads then.
        tokens_of: counts tokens of a prompt with what stands before it.
        group_size: attempts per start state.
    """
    before, new = tokens_of(""), 0.0
    ordered = sorted((text, turn) for turn, text in texts)
    for (last, _), (text, turn) in pairwise(ordered):
        pairs = enumerate(zip(last, text, strict=False))
        known = next((place for place, (one, other) in pairs if one != other), len(last))
        tokens = (tokens_of(text) - before) * (1 - known / max(1, len(text)))
        new += tokens / (group_size if turn == 1 else 1)
    return new / max(1, len(texts) - 1)


@functools.cache
def _read_by(
    bot: str, env_id: str, options: str, seats: int
) -> tuple[tuple[tuple[int, str], ...], float]:
    """What a bot reads in all seats of a few episodes, with turns; and the mean of most turns of a seat.

    Played once in a process, as games may start sandboxes.

    Args:
        bot: of the environment; empty for random legal moves.
        env_id: of the environment.
        options: of the environment, as JSON.
        seats: how many there are.
    """
    texts: list[tuple[int, str]] = []
    turns: list[int] = []
    env: Any = make(env_id, **json.loads(options))
    with closing(env):
        for number in range(_EPISODES):
            asked: dict[str, int] = {}

            def note(observed: Mapping[str, Mapping[str, Any]], _step: Any) -> None:
                for seat, seen in observed.items():
                    text = str(seen.get("text", seen)) if isinstance(seen, Mapping) else str(seen)
                    asked[seat] = asked.get(seat, 0) + 1  # noqa: B023 - called within this episode
                    texts.append((asked[seat], text))  # noqa: B023

            players: dict[int, str | Policy] = {
                seat: bot or _random_legal(env.unwrapped, seat, number) for seat in range(seats)
            }
            play(env, players, seed=number, on_step=note)
            turns.append(max(asked.values(), default=1))
    return tuple(texts), sum(turns) / len(turns)


def _random_legal(env: GameEnv, seat: int, seed: int) -> Policy:
    rng = np.random.default_rng([seed, seat])
    return lambda _text: action(env.sample_legal(seat, rng))


def _counter(base: Base) -> tuple[Count, str]:
    """Tokens of a prompt with what stands before it, and how they were counted."""
    folder = catalog.local_folder(base.model)
    before = "".join(f"{one}{other}" for one, other in base.prompt.pairs) + (
        base.prompt.system or ""
    )
    if folder is not None and (folder / "tokenizer.json").is_file():
        from tokenizers import Tokenizer  # noqa: PLC0415 - only where there is one

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        return (
            lambda text: len(tokenizer.encode(before + text).ids) + _TEMPLATE_TOKENS,
            "in tokens of its tokenizer",
        )
    return (
        lambda text: math.ceil(len(before + text) / _CHARACTERS_PER_TOKEN) + _TEMPLATE_TOKENS,
        f"at {_CHARACTERS_PER_TOKEN:g} characters per token",
    )
