"""Best response among policies that do not do the task: successive halving with mutation.

The search plays the train split with seeds of its own. Its best are then played on seeds that it never
saw, beside the strong bot in the same seats and the same company, and judged by a joint interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.attacks import Attack, library, mutated
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding
from srl_envs.redteam.intervals import Mean, mean_of
from srl_envs.redteam.matches import Player
from srl_envs.redteam.reading import examples

ITSELF = "itself"
"""Company of copies of the same policy, the attack's or the strong bot's."""
CLEARLY = 0.05
"""Reward units below the strong bot at which an attack is given up."""
_CONFIRM_FROM = 1_000_000
_FIRST_SEEDS = 3
_SURVIVORS = 2
_MIN_SEEDS = 12
_MAX_SEEDS = 400
_LOOKS = -(-_MAX_SEEDS // _MIN_SEEDS)
"""Times that `confirm` may look at its interval; every look is a comparison of its own."""
_MOST_BODIES = 24
_LONGEST_BODY = 200  # characters; programs are attacked as such
_PARENTS = 6


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
    """Every bot, and copies of oneself where `scores_teams`."""
    return [*srl_envs.spec(env_id).bots, *([ITSELF] if scores_teams(env_id) else [])]


def scores_teams(env_id: str) -> bool:
    """Whether what copies of one policy earn together counts: neither where payoffs sum to zero, nor in
    games that are scored among strangers."""
    found = srl_envs.spec(env_id)
    return found.mode != "competitive" and not found.strangers


class Table(NamedTuple):
    """Setting of a search: a game, and the players of the other seats."""

    env: Any
    company: str
    """A bot's name, or `ITSELF`."""

    def earned(self, player: Player, seed: int) -> float:
        """Reward of ``player`` in the seat that the seed gives it."""
        seats = len(self.env.possible_agents)
        seat = seed % seats
        others: Player = player if self.company == ITSELF else self.company
        players = matches.company(player, seat, others, seats)
        return matches.play(self.env, players, seed).rewards[seat]

    def paired(
        self, attack: Attack, strong: str, seeds: Iterable[int]
    ) -> list[tuple[float, float]]:
        """What the attack and the strong bot earn with the same seed and seat."""
        return [(self.earned(attack, seed), self.earned(strong, seed)) for seed in seeds]


def seen_bodies(env: Any, env_id: str) -> list[str]:
    """Action bodies that bots play and that sampling gives, most frequent first."""
    counts: Counter[str] = Counter()
    seats = len(env.possible_agents)
    players: list[Player] = [*srl_envs.spec(env_id).bots, Attack(kind="random")]
    for seed, player in enumerate(players):
        episode = matches.play(env, dict.fromkeys(range(seats), player), seed)
        for _, text in episode.accepted:
            counts.update(body for body in examples(text) if len(body) <= _LONGEST_BODY)
    ranked = sorted(counts, key=lambda body: (-counts[body], body))
    return ranked[:_MOST_BODIES] or [""]


def search(
    table: Table, pool: Sequence[Attack], bodies: Sequence[str], rng: np.random.Generator,
    allowance: Allowance,
) -> list[Attack]:  # fmt: skip
    """The best of ``pool`` and of their mutants at one table.

    In every round the best third go on with twice the seeds, and the best of these have children.

    Args:
        table: game and company.
        pool: the first generation.
        bodies: actions for mutants.
        rng: draws the mutants.
        allowance: ends it, also in the middle of a round.
    """
    scores: dict[Attack, list[float]] = {attack: [] for attack in pool}
    alive, seeds = list(scores), _FIRST_SEEDS
    while True:
        for attack in alive:
            for seed in range(len(scores[attack]), seeds):
                if not allowance.left():
                    break
                scores[attack].append(table.earned(attack, seed))
                allowance.spend()
        played = [attack for attack in alive if scores[attack]]
        ranked = sorted(played, key=lambda attack: -float(np.mean(scores[attack])))
        alive = ranked[: max(_SURVIVORS, len(ranked) // 3)]
        if len(alive) <= _SURVIVORS or not allowance.left():
            return alive[:_SURVIVORS]
        children = [mutated(parent, bodies, rng) for parent in alive[:_PARENTS]]
        fresh = [child for child in dict.fromkeys(children) if child not in scores]
        scores.update({child: [] for child in fresh})
        alive += fresh
        seeds *= 2


def confirm(
    table: Table, attack: Attack, strong: str, comparisons: int, allowance: Allowance
) -> Found:
    """Play ``attack`` and the strong bot on fresh seeds until the interval decides, or time is up."""
    pairs: list[tuple[float, float]] = []
    while True:
        start = _CONFIRM_FROM + len(pairs)
        pairs += table.paired(attack, strong, range(start, start + _MIN_SEEDS))
        allowance.spend(2 * _MIN_SEEDS)
        found = _found(attack, table.company, pairs, comparisons)
        decided = found.gain.high < -CLEARLY or (found.gain.low > 0 and len(pairs) > _MIN_SEEDS)
        if decided or len(pairs) >= _MAX_SEEDS or not allowance.left():
            return found


def _found(
    attack: Attack, company: str, pairs: Sequence[tuple[float, float]], comparisons: int
) -> Found:
    gain = mean_of([mine - theirs for mine, theirs in pairs], comparisons=comparisons)
    mine, theirs = np.array(pairs).mean(axis=0)
    return Found(attack, company, gain, float(mine), float(theirs))


def _comparisons(env_id: str) -> int:
    """Intervals that must hold jointly: every look at every policy that is confirmed."""
    return _SURVIVORS * len(companies(env_id)) * _LOOKS


def best_responses(env_id: str, seed: int, allowance: Allowance) -> Iterator[Found]:
    """The best thoughtless policies of every company, confirmed.

    Args:
        env_id: a registered id.
        seed: of the mutation.
        allowance: for all companies together.
    """
    strong = best_bot(env_id)
    if strong is None:
        return
    rng = np.random.default_rng([seed, 1])
    with matches.opened(env_id) as env:
        bodies = seen_bodies(env, env_id)
        observations, _ = env.reset(seed=0)
        prompt = max((o["text"] for o in observations.values()), key=len)
        pool = library(bodies, prompt, len(env.possible_agents))
        names = companies(env_id)
        for number, company in enumerate(names):
            part = allowance.part(1 / (len(names) - number))
            table = Table(env, company)
            best = search(table, pool, bodies, rng, part.part(0.5))
            for place, attack in enumerate(best):
                if (number or place) and not allowance.left():
                    return
                rest = part.part(1 / (len(best) - place))
                yield confirm(table, attack, strong, _comparisons(env_id), rest)


def as_case(env_id: str, found: Found) -> Case:
    """The result as a case for `check`."""
    return {
        "probe": "earnings", "target": env_id, "attack": found.attack.to_data(),
        "company": found.company, "seeds": found.gain.seeds,
        "comparisons": _comparisons(env_id),
    }  # fmt: skip


def check(case: Case) -> Finding | None:
    """Play a case again: does the thoughtless policy still earn more than the strong bot?"""
    env_id, attack = case["target"], Attack.from_data(case["attack"])
    strong = best_bot(env_id)
    if strong is None or case["company"] not in companies(env_id):
        return None
    seeds = range(_CONFIRM_FROM, _CONFIRM_FROM + case["seeds"])
    with matches.opened(env_id) as env:
        pairs = Table(env, case["company"]).paired(attack, strong, seeds)
    return judged(env_id, _found(attack, case["company"], pairs, case["comparisons"]))


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
