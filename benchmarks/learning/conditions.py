"""What the learning experiments compare: small games, and recipes that differ in one thing.

A condition is an arena's recipe with some settings changed; a table puts conditions of one arena
side by side. All conditions of an arena play the same number of matches per update on the same start
states, so they cost as many tokens as their replies are long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

BASELINE = "independent"
"""Learners that share nothing: each arena's recipe without changes."""

_COORDINATION = {
    "synchronized": ("coordination={kind: synchronized}",),
    "federated-product": ("coordination={kind: federated, every: 4}",),
    "federated-factors": ("coordination={kind: federated, every: 4, merge: factors}",),
    "selective-top": ("coordination={kind: selective}",),
    "selective-signs": ("coordination={kind: selective, select: signs}",),
    "asynchronous": ("coordination={kind: asynchronous, ready_rows: 300}",),
    "distillation": ("coordination={kind: distillation}",),
}
_MODES = {
    "cooperative": ("credit={mode: cooperative, cooperation: 1.0}",),
    "competitive": ("credit={mode: competitive, competition: 1.0}",),
    "mixed": ("credit={mode: mixed, cooperation: 0.5, competition: 0.5}",),
    "adaptive": ("credit={mode: adaptive, cooperation: 1.0, competition: 1.0}",),
}
_TEAM_SHARES = {
    "difference": ("credit={mode: cooperative, cooperation: 1.0, team_share: difference}",),
    "shapley": ("credit={mode: cooperative, cooperation: 1.0, team_share: shapley}",),
}
_TRAINERS = {
    "ppo": (
        "training={algorithm: ppo, learning_rate: 1.5e-3, kl_coef: 0.02, optimizer: adamw_8bit, "
        "micro_batch_rows: 64}",
    ),
    "dpo": (
        "training={algorithm: dpo, learning_rate: 1.5e-3, optimizer: adamw_8bit, "
        "micro_batch_rows: 64}",
    ),
    "full": ("parameters=full", "training.learning_rate=3.0e-4"),
}
_FOUR_STEPS = "training.iterations=4"
"""On each batch, or ratios would be 1 and nothing clipped."""
_VARIANTS = {
    **{
        name: (f"training.variant={name}", _FOUR_STEPS)
        for name in ("grpo", "dapo", "gspo", "cispo")
    },
    "dr_grpo": ("training.variant=dr_grpo", "scale_advantages=false", _FOUR_STEPS),
    "rloo": (
        "training.variant=rloo",
        "training.kl_coef=0",
        "credit.estimator=leave_one_out",
        "scale_advantages=false",
        _FOUR_STEPS,
    ),
}
_MORE_SIGNALS = {
    "warm-start": ("warm_start={bots: [middle], episodes: 64, updates: 20}",),
    "learned-reward": ("reward_model={}",),
    "sharing-sft": ("sharing={kind: sft, every: 2}",),
    "sharing-dpo": ("sharing={kind: dpo, every: 2}",),
}
_UNTRAINED = ("training.learning_rate=1.0e-12", "updates=1")
"""The start, measured like all others."""
_MIRROR = {"mirror": ("opponents={mirror: 1, live: 0, past: 0}",)}
_PUBLIC_GOODS = """
model: tiny
env: public_goods-v0
env_options: {rounds: 1, cuts_from: 0, max_retries: 0}
learners: [alice, bob]
updates: 8
lora: {rank: 8, alpha: 16}
rollout: {start_states: 2, group_size: 6, max_new_tokens: 8}
opponents: {mirror: 1, live: 1, past: 0}
training: {learning_rate: 1.5e-3, kl_coef: 0.02, optimizer: adamw_8bit, micro_batch_rows: 32}
evaluation: {every: 0, final_pairs: 4, bots: []}
snapshot_every: 8
checkpoint_every: 4
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arena:
    """A game, the recipe that every condition starts from, and the conditions."""

    recipe: str
    """YAML of a league recipe without its name."""
    conditions: Mapping[str, tuple[str, ...]]
    """Name -> KEY=VALUE settings over the recipe."""
    corpus: str = ""
    """A model of `small_games.CORPORA` that takes the place of the recipe's, built when needed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Conditions of one arena, compared with its baseline by some measures of their runs."""

    title: str
    name: str
    """Of its picture's file."""
    arena: str
    conditions: tuple[str, ...]
    measures: Mapping[str, str]
    """Measure of `outcomes.measure` -> what it is called in the table."""


ARENAS: Mapping[str, Arena] = MappingProxyType(
    {
        "math_duel": Arena(
            recipe="""
model: tiny
env: math_duel-v0
env_options: {difficulty: 2, problems: 1}
learners: [alice, bob]
updates: 12
lora: {rank: 8, alpha: 16}
rollout: {start_states: 6, group_size: 8, max_new_tokens: 10}
opponents: {mirror: 0.5, live: 2, past: 2, bots: {middle: 1}}
training: {learning_rate: 1.5e-3, kl_coef: 0.02, optimizer: adamw_8bit, micro_batch_rows: 64}
evaluation: {every: 0, final_pairs: 60, bots: [middle]}
snapshot_every: 4
checkpoint_every: 6
""",
            conditions={
                BASELINE: (),
                **_COORDINATION,
                **_MODES,
                **_TRAINERS,
                **_VARIANTS,
                **_MORE_SIGNALS,
            },
        ),
        "public_goods": Arena(
            recipe=_PUBLIC_GOODS,
            conditions={BASELINE: (), **_MODES, **_TEAM_SHARES},
        ),
        "public_goods_fluent": Arena(
            recipe=_PUBLIC_GOODS,
            conditions={
                BASELINE: (),
                "untrained": _UNTRAINED,
                **_MODES,
                **_TEAM_SHARES,
                **_COORDINATION,
                **_TRAINERS,
            },
            corpus="public_goods",
        ),
        "hanabi_mini": Arena(
            recipe="""
model: tiny
env: hanabi_mini-v0
env_options: {colours: 1, hand: 2, clues: 3, max_retries: 0}
learners: [alice, bob]
updates: 24
lora: {rank: 8, alpha: 16}
rollout: {start_states: 6, group_size: 6, max_new_tokens: 8}
opponents: {mirror: 1, live: 1, past: 0}
training:
  learning_rate: 3.0e-3
  kl_coef: 0.005
  optimizer: adamw_8bit
  micro_batch_rows: 128
  share_prefixes: true
evaluation: {every: 0, final_pairs: 60, bots: []}
snapshot_every: 24
checkpoint_every: 12
""",
            conditions={
                BASELINE: (),
                "untrained": _UNTRAINED,
                "cooperative": _MODES["cooperative"],
                **_TEAM_SHARES,
                "turns": (
                    "credit={level: turn, "
                    "potential: srl_envs.families.cards.hanabi_mini:points_so_far}",
                ),
                "synchronized": _COORDINATION["synchronized"],
                "federated-product": _COORDINATION["federated-product"],
                "ppo": ("training.algorithm=ppo",),
                "dpo": ("training={algorithm: dpo, learning_rate: 3.0e-3, optimizer: adamw_8bit}",),
            },
            corpus="hanabi",
        ),
        "connect_four": Arena(
            recipe="""
model: tiny
env: connect_four-v0
env_options: {rows: 5, cols: 4, k: 3}
learners: [alice, bob]
updates: 30
lora: {rank: 8, alpha: 16}
rollout: {start_states: 4, group_size: 8, max_new_tokens: 8}
opponents: {mirror: 0.5, live: 1, past: 2}
training: {learning_rate: 1.5e-3, kl_coef: 0.02, optimizer: adamw_8bit, micro_batch_rows: 32}
evaluation: {every: 0, final_pairs: 30, bots: [middle]}
snapshot_every: 5
checkpoint_every: 10
""",
            conditions={BASELINE: (), **_MIRROR},
        ),
        "connect_four_long": Arena(
            recipe="""
model: tiny
env: connect_four-v0
env_options: {rows: 5, cols: 4, k: 3}
learners: [alice, bob]
updates: 100
lora: {rank: 8, alpha: 16}
rollout: {start_states: 4, group_size: 8, max_new_tokens: 8}
opponents: {mirror: 0.5, live: 1, past: 2}
training: {learning_rate: 1.5e-3, kl_coef: 0.02, optimizer: adamw_8bit, micro_batch_rows: 32}
evaluation: {every: 20, pairs: 20, final_pairs: 30, bots: [middle]}
snapshot_every: 10
checkpoint_every: 10
""",
            conditions={
                BASELINE: (),
                **_MIRROR,
                "linear": ("training.schedule=linear", "training.total_updates=100"),
            },
        ),
    }
)

_AGAINST = MappingProxyType(
    {"points_start": "points against the start", "points_middle": "points against middle"}
)
TABLES = (
    Table(
        title="Coordination, math duel",
        name="coordination_math_duel",
        arena="math_duel",
        conditions=tuple(_COORDINATION),
        measures=_AGAINST,
    ),
    Table(
        title="Modes, math duel (competitive)",
        name="modes_math_duel",
        arena="math_duel",
        conditions=tuple(_MODES),
        measures=_AGAINST,
    ),
    Table(
        title="Trainers, math duel (the baseline is GRPO on adapters; full: on all weights)",
        name="trainers_math_duel",
        arena="math_duel",
        conditions=tuple(_TRAINERS),
        measures=_AGAINST,
    ),
    Table(
        title="Variants of GRPO, four steps a batch, math duel (the baseline takes one)",
        name="variants_math_duel",
        arena="math_duel",
        conditions=tuple(_VARIANTS),
        measures=_AGAINST,
    ),
    Table(
        title="Imitation, a learned reward and sharing, math duel",
        name="signals_math_duel",
        arena="math_duel",
        conditions=tuple(_MORE_SIGNALS),
        measures=_AGAINST,
    ),
    *(
        Table(
            title=f"Mirror self-play beside the league, {arena}",
            name=f"self_play_{arena}",
            arena=arena,
            conditions=conditions,
            measures=_AGAINST,
        )
        for arena, conditions in (
            ("connect_four", ("mirror",)),
            ("connect_four_long", ("mirror", "linear")),
        )
    ),
    Table(
        title="Modes and team shares, public goods (mixed)",
        name="modes_public_goods",
        arena="public_goods",
        conditions=(*_MODES, *_TEAM_SHARES),
        measures={
            "together": "outcome of all seats",
            "outcome_start": "own outcome against the start",
            "refused": "refused replies per game",
        },
    ),
    Table(
        title="Modes and team shares, public goods with a start that writes legal replies",
        name="modes_public_goods_fluent",
        arena="public_goods_fluent",
        conditions=("untrained", *_MODES, *_TEAM_SHARES),
        measures={
            "together": "outcome of all seats",
            "outcome_start": "own outcome against the start",
            "refused": "refused replies per game",
        },
    ),
    Table(
        title="Coordination and trainers, public goods with a start that writes legal replies",
        name="coordination_public_goods_fluent",
        arena="public_goods_fluent",
        conditions=(*_COORDINATION, *_TRAINERS),
        measures={
            "together": "outcome of all seats",
            "outcome_start": "own outcome against the start",
            "refused": "refused replies per game",
        },
    ),
    Table(
        title="Credit and coordination, mini Hanabi (cooperative)",
        name="hanabi_mini",
        arena="hanabi_mini",
        conditions=(
            "untrained",
            "cooperative",
            *_TEAM_SHARES,
            "turns",
            "synchronized",
            "federated-product",
            "ppo",
            "dpo",
        ),
        measures={
            "together": "outcome of the learners' team",
            "outcome_start": "outcome with the start",
            "refused": "refused replies per game",
        },
    ),
)
