"""Claims of an environment that a trainer relies on: copies, conversions, names, replays."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.search import best_bot

_SAID = re.compile(r"\bYou are player_(\d+)")
_NAMED = re.compile(r"\bplayer_(\d+)")
_OTHERWISE = re.compile(r"\b(?:[Pp]layer|[Ss]eat) ?(\d+)\b|\bP(\d)\b")
"""Names of seats beside the one that agents have, ``player_0``."""
_TOLD_COST = re.compile(r"\breply\b[^.;]*\bcosts (\d*\.?\d+)")
_TOLD_WORST = re.compile(r"\bforfeits?\b[^.]*\bpays (-?\d+(?:\.\d+)?)")
_MOST_REPLIES = 400
_CLOSE = 1e-6


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
    """A seat is called what its agent is called, `player_0`, in all that players and spectators read."""
    with matches.opened(env_id, render_mode="ansi") as env:
        bots = dict.fromkeys(range(len(env.possible_agents)), best_bot(env_id) or "random")
        episode = matches.play(env, bots, 0)
        views = [*zip(env.possible_agents, *episode.texts, strict=True)]
        views.append(("a spectator", env.render() or ""))
    found = (f"{agent} reads {name!r}" for agent, *texts in views for text in texts
             if (name := _misnamed(text, agent, len(bots))))  # fmt: skip
    return next(found, "")


def _misnamed(text: str, agent: str, seats: int) -> str:
    """The first name of a seat that is not its agent's, or of a seat that there is not."""
    said = _SAID.search(text)
    if said and agent.startswith("player_") and agent != f"player_{said.group(1)}":
        return said.group()
    strangers = (name for name in _NAMED.finditer(text) if int(name.group(1)) >= seats)
    wrong = _OTHERWISE.search(text) or next(strangers, None)
    return wrong.group() if wrong else ""


def refusal_told(env_id: str) -> str:
    """The prompt states that one may think first, and what a reply without a move costs."""
    with matches.opened(env_id) as env:
        observations, _ = env.reset(seed=0)
        texts = [observations[agent]["text"].lower() for agent in env.possible_agents]
    missing = [
        what for what, words in (("that one may think", ("think",)),
                                 ("what a bad reply costs", ("cost", "not accepted", "refused")),
                                 ("when one forfeits", ("forfeit",)))
        if not all(any(word in text for word in words) for text in texts)
    ]  # fmt: skip
    return f"the prompt leaves out {', '.join(missing)}" if missing else ""


def refusals_as_told(env_id: str) -> str:
    """What the prompt states about a reply without a move, and about a seat that never moves, holds."""
    with matches.opened(env_id) as env:
        observations, _ = env.reset(seed=0)
        seat = next(s for s, a in enumerate(env.possible_agents) if observations[a]["can_act"])
        agent, rng = env.possible_agents[seat], np.random.default_rng(0)
        cost, worst = (
            found_cost.search(observations[agent]["text"])
            for found_cost in (_TOLD_COST, _TOLD_WORST)
        )
        first: float | None = None
        for _ in range(_MOST_REPLIES):
            if not env.agents:
                break
            step = {
                a: "" if a == agent else f"<action>{env.sample_legal(s, rng)}</action>"
                for s, a in enumerate(env.possible_agents)
                if observations[a]["can_act"]
            }
            observations, paid, *_ = env.step(step)
            if agent in step and first is None:
                first = -paid[agent]
        ended = (env.outcomes or env.paid)[seat]
    if cost and first is not None and abs(first - float(cost.group(1))) > _CLOSE:
        return f"the prompt has {cost.group()!r}, and the first such reply costs {first:g}"
    if worst and abs(ended - float(worst.group(1))) > _CLOSE:
        return f"the prompt has {worst.group()!r}, and who never moves ends at {ended:g}"
    return ""


def payoffs_told(env_id: str) -> str:
    """A line that begins with `Payoff` states to every seat what is paid."""
    with matches.opened(env_id) as env:
        observations, _ = env.reset(seed=0)
        for agent in env.possible_agents:
            if not re.search(r"^Payoffs?\b", observations[agent]["text"], re.MULTILINE):
                return f"the prompt of {agent} has no line that begins with 'Payoff'"
    return ""


CLAIMS: dict[str, Callable[[str], str]] = {
    "cannot_be_copied": deep_copy,
    "cannot_be_pickled": pickled,
    "parallel_conversion_fails": parallel_conversion,
    "seat_named_otherwise": seat_names,
    "cost_of_refusal_untold": refusal_told,
    "refusal_costs_otherwise": refusals_as_told,
    "payoffs_untold": payoffs_told,
}


def probe(env_id: str, report: Report, allowance: Allowance) -> None:
    """Check every claim once."""
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
