"""Best response among policies that do not do the task: successive halving with mutation.

The search plays the train split with seeds of its own. Its best are then played on seeds that it never
saw, beside the strong bot in the same seats and the same company, and judged by a joint interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.attacks import Attack, library, mutated
from srl_envs.redteam.budget import Budget
from srl_envs.redteam.findings import Case, Finding
from srl_envs.redteam.intervals import Mean, mean_of
from srl_envs.redteam.matches import Player

ITSELF = "itself"
"""Company of copies of the same policy, the attack's or the strong bot's."""
AS_GOOD = 0.05
"""Reward units: a thoughtless policy whose interval ends less than this below strong is as good."""
_CONFIRM_FROM = 1_000_000
_FIRST_SEEDS = 3
_SURVIVORS = 2
_MIN_SEEDS = 12
_MAX_SEEDS = 400
_MOST_BODIES = 24


@dataclass(frozen=True, slots=True)
class Found:
    """The best thoughtless policy in one company."""

    attack: Attack
    company: str
    gain: Mean
    """What it earns above the strong bot in its place, per seed."""
    earned: float
    strong: float


def best_bot(env_id: str) -> str | None:
    """The strongest bot that is registered; None without."""
    bots = list(srl_envs.spec(env_id).bots)
    return "strong" if "strong" in bots else bots[-1] if bots else None


def companies(env_id: str) -> list[str]:
    """Every bot, and, where payoffs do not sum to zero, copies of oneself."""
    found = srl_envs.spec(env_id)
    return [*found.bots, *([] if found.mode == "competitive" else [ITSELF])]


def seat_earnings(env: Any, player: Player, others: str, seed: int) -> float:
    """Reward of ``player`` in the seat that the seed gives it."""
    seats = len(env.possible_agents)
    seat = seed % seats
    beside: Player = player if others == ITSELF else others
    return matches.play(env, matches.company(player, seat, beside, seats), seed).rewards[seat]


def seen_bodies(env: Any, env_id: str, rng: np.random.Generator) -> list[str]:
    """Action bodies that bots play and that sampling gives, most frequent first."""
    from srl_envs.redteam.reading import examples  # noqa: PLC0415 - a name used once

    counts: dict[str, int] = {}
    seats = len(env.possible_agents)
    for seed, name in enumerate([*srl_envs.spec(env_id).bots, Attack(kind="random")]):
        episode = matches.play(env, dict.fromkeys(range(seats), name), seed)
        for _, text in episode.accepted:
            for body in examples(text):
                counts[body] = counts.get(body, 0) + 1
    env.reset(seed=0)
    short = [body for body in counts if len(body) <= 200]
    ranked = sorted(short, key=lambda body: (-counts[body], body))
    return ranked[:_MOST_BODIES] or [""]


def search(env: Any, others: str, pool: Sequence[Attack], bodies: Sequence[str],
           rng: np.random.Generator, budget: Budget, until: float) -> list[Attack]:
    """The best of ``pool`` and of their mutants in one company.

    Args:
        env: the environment.
        others: the company.
        pool: the first generation.
        bodies: actions for mutants.
        rng: draws the mutants.
        budget: shared by all companies.
        until: share of the budget at which this one ends.
    """  # fmt: skip
    scores: dict[Attack, list[float]] = {attack: [] for attack in pool}
    alive, seeds = list(scores), _FIRST_SEEDS
    while budget.left(until):
        for attack in alive:
            for seed in range(len(scores[attack]), seeds):
                if not budget.left(until):
                    break
                scores[attack].append(seat_earnings(env, attack, others, seed))
                budget.spend()
        played = [attack for attack in alive if scores[attack]]
        ranked = sorted(played, key=lambda attack: -float(np.mean(scores[attack])))
        if len(ranked) <= _SURVIVORS:
            return ranked
        alive = ranked[: max(_SURVIVORS, len(ranked) // 3)]
        if len(alive) > _SURVIVORS:
            children = [mutated(parent, bodies, rng) for parent in alive[:6]]
            fresh = [child for child in dict.fromkeys(children) if child not in scores]
            scores.update({child: [] for child in fresh})
            alive += fresh
        seeds *= 2
    return sorted(
        (a for a in alive if scores[a]), key=lambda attack: -float(np.mean(scores[attack]))
    )[:_SURVIVORS]


def paired(
    env: Any, first: Player, second: Player, others: str, seeds: Sequence[int]
) -> list[tuple[float, float]]:
    """What two players earn in the same seat, seed and company."""
    return [
        (seat_earnings(env, first, others, seed), seat_earnings(env, second, others, seed))
        for seed in seeds
    ]


def confirm(
    env: Any, attack: Attack, strong: str, others: str, comparisons: int, budget: Budget,
    until: float,
) -> Found | None:  # fmt: skip
    """Play ``attack`` and the strong bot on fresh seeds until the interval tells, or time is up."""
    pairs: list[tuple[float, float]] = []
    gain = mean_of([])
    while len(pairs) < _MAX_SEEDS and (len(pairs) < _MIN_SEEDS or budget.left(until)):
        start = _CONFIRM_FROM + len(pairs)
        pairs += paired(env, attack, strong, others, range(start, start + _MIN_SEEDS))
        budget.spend(2 * _MIN_SEEDS)
        gain = mean_of([mine - theirs for mine, theirs in pairs], comparisons=comparisons)
        if gain.low > 0 and len(pairs) >= 2 * _MIN_SEEDS or gain.high < -AS_GOOD:
            break
    mine, theirs = np.array(pairs).mean(axis=0)
    return Found(attack, others, gain, float(mine), float(theirs))


def best_responses(env_id: str, seed: int, budget: Budget, until: float) -> Iterator[Found]:
    """The best thoughtless policies of every company, confirmed.

    Args:
        env_id: a registered id.
        seed: of the mutation.
        budget: of the whole attack.
        until: share of it that may be spent here.
    """
    strong = best_bot(env_id)
    if strong is None:
        return
    rng = np.random.default_rng([seed, 1])
    with matches.opened(env_id) as env:
        bodies = seen_bodies(env, env_id, rng)
        observations, _ = env.reset(seed=0)
        prompt = max((o["text"] for o in observations.values()), key=len)
        pool = library(bodies, prompt, len(env.possible_agents))
        names = companies(env_id)
        start = budget.share
        for number, others in enumerate(names):
            end = start + (until - start) * (number + 1) / len(names)
            middle = end - (until - start) / len(names) / 2
            for attack in search(env, others, pool, bodies, rng, budget, middle)[:_SURVIVORS]:
                found = confirm(
                    env, attack, strong, others, _SURVIVORS * len(names), budget, end
                )
                if found is not None:
                    yield found


def as_case(env_id: str, found: Found) -> Case:
    """What `check` needs."""
    return {
        "probe": "earnings", "target": env_id, "attack": found.attack.to_data(),
        "company": found.company, "seeds": found.gain.seeds,
        "comparisons": _SURVIVORS * len(companies(env_id)),
    }  # fmt: skip


def check(case: Case) -> Finding | None:
    """Play a case again: does the thoughtless policy still earn more than the strong bot?"""
    env_id, attack = case["target"], Attack.from_data(case["attack"])
    strong = best_bot(env_id)
    if strong is None:
        return None
    seeds = range(_CONFIRM_FROM, _CONFIRM_FROM + case["seeds"])
    with matches.opened(env_id) as env:
        pairs = paired(env, attack, strong, case["company"], seeds)
    gain = mean_of([a - b for a, b in pairs], comparisons=case["comparisons"])
    mine, theirs = np.array(pairs).mean(axis=0)
    return judged(env_id, Found(attack, case["company"], gain, float(mine), float(theirs)))


def judged(env_id: str, found: Found) -> Finding | None:
    """The finding that ``found`` is; None where the strong bot is better."""
    if found.gain.low <= 0:
        return None
    return Finding(
        kind="thoughtless_beats_strong", target=env_id,
        observed=f"{found.attack} earns {found.earned:.3f} beside {found.company}",
        expected=f"at most what strong earns there, {found.strong:.3f}",
        detail=f"gain {found.gain}", case=as_case(env_id, found),
    )  # fmt: skip
