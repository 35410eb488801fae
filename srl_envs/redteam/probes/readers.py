"""Programs that read the prompt and earn more than the strong bot in its seat, or as a team."""

from __future__ import annotations

from typing import Any

from srl_envs.redteam import matches
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.readers import hunt
from srl_envs.redteam.readers.hunt import Found, Room
from srl_envs.redteam.search import best_bot


def probe(env_id: str, seed: int, report: Report, allowance: Allowance) -> None:
    """Adds the best program of each company, and a finding for each that clearly beats the strong bot."""
    rows = []
    for found in hunt.hunt(env_id, seed, allowance):
        rows.append(found)
        finding = _judged(env_id, found)
        if finding is not None:
            report.findings.append(finding)
    best: dict[str, Found] = {}
    for found in rows:
        if found.company not in best or found.gain.low > best[found.company].gain.low:
            best[found.company] = found
    if best:
        report.measures["readers"] = [_measures(found) for found in best.values()]


def _measures(found: Found) -> dict[str, Any]:
    return {
        "policy": str(found.program), "company": found.company, "earned": found.earned,
        "strong": found.strong, "gain": found.gain.mean, "low": found.gain.low,
        "high": found.gain.high, "seeds": found.gain.scores, "cpu_s": found.cpu_s,
    }  # fmt: skip


def check(case: Case) -> Finding | None:
    """Play a case again: does the program still earn more than the strong bot?"""
    env_id, strong = case["target"], best_bot(case["target"])
    if strong is None or case["company"] not in hunt.tables(env_id):
        return None
    program = hunt.read_program(case["program"])
    with matches.opened(env_id) as env:
        room = Room(env, case["company"], strong)
        gain, mine, theirs = hunt.confirm(room, program, hunt.alpha_of(env_id), case["seeds"])
    found = Found(
        program=program, company=case["company"], gain=gain, earned=mine, strong=theirs, cpu_s=0.0
    )
    return _judged(env_id, found)


def _judged(env_id: str, found: Found) -> Finding | None:
    if found.gain.low <= 0:
        return None
    case = {
        "probe": "readers", "target": env_id, "program": found.program.to_data(),
        "company": found.company, "seeds": found.gain.scores,
    }  # fmt: skip
    return Finding(
        kind="reader_beats_strong", target=env_id,
        observed=f"{found.program} earns {found.earned:.3f} beside {found.company}",
        expected=f"at most what strong earns there, {found.strong:.3f}",
        detail=f"gain {found.gain}", case=case,
    )  # fmt: skip
