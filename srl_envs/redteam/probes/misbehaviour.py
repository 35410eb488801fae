"""Cost of invalid replies, for the seat that sends them and for the other seats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.attacks import NO_MOVES, Attack
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.intervals import Mean, mean_of
from srl_envs.redteam.search import best_bot

NEAR_WORST = 0.1
"""Reward units above the worst outcome that babble may have."""
_FIRST_SEED = 2_000_000
_MIN_SEEDS, _MAX_SEEDS = 8, 48


def worst_outcome(env_id: str) -> float:
    """The lowest possible outcome in this mode."""
    return 0.0 if srl_envs.spec(env_id).mode == "cooperative" else -1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One way of misbehaving in one company, beside the strong bot in the same seat."""

    attack: Attack
    company: str
    outcome: Mean
    harm: Mean
    """What the others lose by it, on average, above what it loses itself."""

    def pays(self, env_id: str) -> bool:
        """Whether it ends clearly above the worst outcome."""
        return self.outcome.low > worst_outcome(env_id) + NEAR_WORST

    def harms(self, env_id: str) -> bool:
        """Whether it clearly costs the others more than itself; opponents are to be harmed."""
        return self.harm.low > 0 and srl_envs.spec(env_id).mode != "competitive"


def measure(
    env_id: str, attack: Attack, company: str, *, seeds: int, comparisons: int,
    allowance: Allowance | None = None,
) -> Measured:  # fmt: skip
    """Play ``attack`` and the strong bot in the same seats and seeds.

    Args:
        env_id: a registered id.
        attack: the misbehaviour.
        company: the bot in all other seats.
        seeds: at most so many; fewer where the allowance ends.
        comparisons: intervals that are to hold jointly.
        allowance: none plays all seeds.
    """
    strong = best_bot(env_id) or "random"
    outcomes, harm = [], []
    with matches.opened(env_id) as env:
        n = len(env.possible_agents)
        for number in range(seeds):
            if allowance is not None and number >= _MIN_SEEDS and not allowance.left():
                break
            seed, seat = _FIRST_SEED + number, number % n
            bad, good = (
                matches.play(env, matches.company(player, seat, company, n), seed)
                for player in (attack, strong)
            )
            lost = np.array(good.rewards) - np.array(bad.rewards)
            outcomes.append(bad.outcomes[seat])
            harm.append(float(np.delete(lost, seat).mean() - lost[seat]))
            if allowance is not None:
                allowance.spend(2)
    return Measured(
        attack, company,
        mean_of(outcomes, comparisons=comparisons), mean_of(harm, comparisons=comparisons),
    )  # fmt: skip


def probe(env_id: str, report: Report, allowance: Allowance) -> None:
    """Silence and babble beside every bot; adds the worst case of each fault."""
    bots = reversed(list(srl_envs.spec(env_id).bots))
    plans = [(Attack(kind=kind), company) for company in bots for kind in NO_MOVES]
    measured = []
    for number, (attack, company) in enumerate(plans):
        part = allowance.part(1 / (len(plans) - number))
        if not allowance.left():
            break
        measured.append(
            measure(
                env_id, attack, company, seeds=_MAX_SEEDS, comparisons=2 * len(plans),
                allowance=part,
            )
        )  # fmt: skip
    if not measured:
        return
    report.measures["misbehaviour"] = max(row.outcome.value for row in measured)
    pays = max(measured, key=lambda row: row.outcome.low)
    harms = max(measured, key=lambda row: row.harm.low)
    findings = (_judged(env_id, "misbehaviour_pays", pays, 2 * len(plans)),
                _judged(env_id, "harms_others_more", harms, 2 * len(plans)))  # fmt: skip
    report.findings += [finding for finding in findings if finding is not None]


def _judged(env_id: str, kind: str, row: Measured, comparisons: int) -> Finding | None:
    case = {
        "probe": "misbehaviour", "target": env_id, "kind": kind, "attack": row.attack.to_data(),
        "company": row.company, "seeds": row.outcome.seeds, "comparisons": comparisons,
    }  # fmt: skip
    where = f"{row.attack} beside {row.company}"
    if kind == "misbehaviour_pays" and row.pays(env_id):
        observed = f"{where} ends at {row.outcome}"
        expected = f"near the worst outcome, {worst_outcome(env_id):g}"
    elif kind == "harms_others_more" and row.harms(env_id):
        observed = f"{where} costs another seat {row.harm} more than itself"
        expected = "misbehaviour costs the one who misbehaves at least as much"
    else:
        return None
    return Finding(kind=kind, target=env_id, observed=observed, expected=expected, case=case)


def check(case: Case) -> Finding | None:
    """Measure a case again."""
    row = measure(
        case["target"], Attack.from_data(case["attack"]), case["company"],
        seeds=case["seeds"], comparisons=case["comparisons"],
    )  # fmt: skip
    return _judged(case["target"], case["kind"], row, case["comparisons"])
