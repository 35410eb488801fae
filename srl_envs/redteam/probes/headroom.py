"""Whether anything is left to learn where strong partners already earn all there is."""

from __future__ import annotations

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.intervals import Mean, mean_of
from srl_envs.redteam.search import best_bot

FULL = 0.98
"""A team that earns this share of the best outcome leaves nothing to learn."""
_SURE = 0.9
_MIN_SEEDS, _SEEDS = 6, 24
_FIRST_SEED = 4_000_000


def team(env_id: str, seeds: int, allowance: Allowance | None = None) -> Mean:
    """Mean outcome of a team of strong bots."""
    strong = best_bot(env_id) or "random"
    earned = []
    with matches.opened(env_id) as env:
        bots = dict.fromkeys(range(len(env.possible_agents)), strong)
        for number in range(seeds):
            if allowance is not None and number >= _MIN_SEEDS and not allowance.left():
                break
            earned.append(matches.play(env, bots, _FIRST_SEED + number).outcomes[0])
            if allowance is not None:
                allowance.spend()
    return mean_of(earned)


def probe(env_id: str, report: Report, allowance: Allowance) -> None:
    """Adds what the strong team earns, and a finding where that is all."""
    if srl_envs.spec(env_id).mode != "cooperative" or best_bot(env_id) is None:
        return
    earned = team(env_id, _SEEDS, allowance)
    report.measures["strong_team"] = earned.value
    found = _judged(env_id, earned)
    if found is not None:
        report.findings.append(found)


def _judged(env_id: str, earned: Mean) -> Finding | None:
    if earned.value < FULL or (earned.low < _SURE and earned.seeds > _MIN_SEEDS):
        return None
    return Finding(
        kind="no_headroom", target=env_id, observed=f"a team of strong bots earns {earned}",
        expected=f"less than {FULL}, so that something is left to learn",
        case={"probe": "headroom", "target": env_id, "seeds": earned.seeds},
    )  # fmt: skip


def check(case: Case) -> Finding | None:
    """Play the team again."""
    return _judged(case["target"], team(case["target"], case["seeds"]))
