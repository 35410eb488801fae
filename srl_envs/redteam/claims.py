"""Claims of an environment that a trainer relies on: copies, conversions, names, replays."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.search import best_bot

_SAID = re.compile(r"\bYou are (?:player|P)[ _]?(\d+)", re.IGNORECASE)


def _played(env_id: str) -> Any:
    """The environment after an episode of its strong bots, and a new one begun."""
    env: Any = srl_envs.make(env_id)
    bots = dict.fromkeys(range(len(env.possible_agents)), best_bot(env_id) or "random")
    matches.play(env, bots, 0)
    env.reset(seed=1)
    return env


def deep_copy(env_id: str) -> str:
    """An environment that was played can be copied."""
    env = _played(env_id)
    try:
        copy.deepcopy(env)
    finally:
        env.close()
    return ""


def pickled(env_id: str) -> str:
    """An environment that was played can go to another process."""
    env = _played(env_id)
    try:
        pickle.loads(pickle.dumps(env))
    finally:
        env.close()
    return ""


def parallel_conversion(env_id: str) -> str:
    """`is_parallelizable` is what PettingZoo's own conversion finds."""
    from pettingzoo.utils.conversions import aec_to_parallel  # noqa: PLC0415

    aec = srl_envs.make_aec(env_id)
    try:
        if not aec.metadata.get("is_parallelizable"):
            return ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = aec_to_parallel(aec)
            env.reset(seed=0)
            env.step(dict.fromkeys(env.agents, "<action>?</action>"))
            env.step(dict.fromkeys(env.agents, "<action>?</action>"))
    finally:
        aec.close()
    return ""


def seat_names(env_id: str) -> str:
    """A seat is told the number that its agent has."""
    with matches.opened(env_id) as env:
        observations, _ = env.reset(seed=0)
        for seat, agent in enumerate(env.possible_agents):
            told = _SAID.search(observations[agent]["text"])
            if told and agent.endswith(str(seat)) and int(told.group(1)) != seat:
                return f"{agent} reads {told.group()!r}"
    return ""


def refusal_told(env_id: str) -> str:
    """The prompt says that one may think first, and what a reply that is no move costs."""
    with matches.opened(env_id) as env:
        observations, _ = env.reset(seed=0)
        text = " ".join(o["text"] for o in observations.values()).lower()
    missing = [
        what for what, words in (("that one may think", ("think",)),
                                 ("what a bad reply costs", ("cost", "not accepted", "refused")),
                                 ("when one forfeits", ("forfeit",)))
        if not any(word in text for word in words)
    ]  # fmt: skip
    return f"the prompt leaves out {', '.join(missing)}" if missing else ""


CLAIMS: dict[str, Callable[[str], str]] = {
    "cannot_be_copied": deep_copy,
    "cannot_be_pickled": pickled,
    "parallel_conversion_fails": parallel_conversion,
    "seat_named_otherwise": seat_names,
    "cost_of_refusal_untold": refusal_told,
}


def probe(env_id: str, report: Report, allowance: Allowance) -> None:
    """Every claim once."""
    for kind in CLAIMS:
        if not allowance.left():
            return
        allowance.spend()
        found = check({"probe": "claims", "target": env_id, "kind": kind})
        if found is not None:
            report.findings.append(found)


def check(case: Case) -> Finding | None:
    """Test a claim again; whatever it raises is the finding."""
    claim = CLAIMS[case["kind"]]
    try:
        fault = claim(case["target"])
    except Exception as error:  # noqa: BLE001 - foreign code runs here, and how it fails is the finding
        fault = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    if not fault:
        return None
    expected = (claim.__doc__ or "").strip()
    return Finding(
        kind=case["kind"], target=case["target"], observed=fault, expected=expected, case=case
    )
