"""What replies that are no moves cost: the one who sends them, and those beside it."""

from __future__ import annotations

import numpy as np

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.attacks import MISBEHAVIOUR, Attack
from srl_envs.redteam.budget import Budget
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.intervals import Mean, mean_of
from srl_envs.redteam.search import best_bot

NEAR_WORST = 0.1
"""Reward units above the worst outcome that babble may have."""
_FIRST_SEED = 2_000_000
_MIN_SEEDS, _MAX_SEEDS = 8, 48


def worst_outcome(env_id: str) -> float:
    """The lowest outcome of the mode."""
    return 0.0 if srl_envs.spec(env_id).mode == "cooperative" else -1.0


def measure(
    env_id: str, attack: Attack, others: str, seeds: int, budget: Budget | None = None,
    until: float = 1.0, comparisons: int = 1,
) -> tuple[Mean, Mean]:  # fmt: skip
    """The outcome of ``attack``, and its harm: what partners lose by it above what it loses itself.

    Both are against the strong bot in the same seat. Harm is above 0 where misbehaving costs the
    others more than oneself.
    """
    strong = best_bot(env_id) or "random"
    own, harm = [], []
    with matches.opened(env_id) as env:
        n = len(env.possible_agents)
        for number in range(seeds):
            if budget is not None and number >= _MIN_SEEDS and not budget.left(until):
                break
            seed = _FIRST_SEED + number
            seat = seed % n
            bad, good = (
                matches.play(env, matches.company(player, seat, others, n), seed)
                for player in (attack, strong)
            )
            lost = np.array(good.rewards) - np.array(bad.rewards)
            own.append(bad.outcomes[seat])
            harm.append(float(np.delete(lost, seat).max() - lost[seat]))
            if budget is not None:
                budget.spend(2)
    return mean_of(own, comparisons=comparisons), mean_of(harm, comparisons=comparisons)


def probe(env_id: str, report: Report, budget: Budget, until: float) -> None:
    """Silence, babble and stalling beside every bot; adds to ``report``."""
    bots = list(srl_envs.spec(env_id).bots)
    plans = [(Attack(kind=kind), others) for others in reversed(bots) for kind in MISBEHAVIOUR[:2]]
    measured = []
    for number, (attack, others) in enumerate(plans):
        end = budget.share + (until - budget.share) / (len(plans) - number)
        if not budget.left(until):
            break
        own, harm = measure(env_id, attack, others, _MAX_SEEDS, budget, end, 2 * len(plans))
        measured.append((attack, others, own, harm))
    if measured:
        report.measures["misbehaviour"] = max(own.value for _, _, own, _ in measured)
    for field_name, index in (("misbehaviour_pays", 2), ("harms_others_more", 3)):
        found = [f for row in measured if (f := _judged(env_id, field_name, len(plans), *row))]
        if found:  # the worst of them; the others have the same cause
            worst = max(range(len(measured)), key=lambda i: measured[i][index].low)
            finding = _judged(env_id, field_name, len(plans), *measured[worst])
            report.findings.append(finding or found[0])


def _judged(
    env_id: str, kind: str, comparisons: int, attack: Attack, others: str, own: Mean, harm: Mean
) -> Finding | None:
    case = {
        "probe": "misbehaviour", "target": env_id, "kind": kind, "attack": attack.to_data(),
        "company": others, "seeds": own.seeds, "comparisons": comparisons,
    }  # fmt: skip
    if kind == "misbehaviour_pays" and own.low > worst_outcome(env_id) + NEAR_WORST:
        return Finding(
            kind=kind, target=env_id, observed=f"{attack} beside {others} ends at {own}",
            expected=f"near the worst outcome, {worst_outcome(env_id):g}", case=case,
        )  # fmt: skip
    if kind == "harms_others_more" and harm.low > 0:
        if srl_envs.spec(env_id).mode == "competitive":
            return None
        return Finding(
            kind=kind, target=env_id,
            observed=f"{attack} beside {others} costs another seat {harm} more than itself",
            expected="misbehaviour costs the one who misbehaves at least as much", case=case,
        )  # fmt: skip
    return None


def check(case: Case) -> Finding | None:
    """Measure a case again."""
    attack = Attack.from_data(case["attack"])
    comparisons = case["comparisons"]
    own, harm = measure(
        case["target"], attack, case["company"], case["seeds"], comparisons=2 * comparisons
    )
    return _judged(
        case["target"], case["kind"], comparisons, attack, case["company"], own, harm
    )
