"""Replies around one legal action: which must be read as that move, and which must not.

What is right follows from the suite's published grammar, restated here in a few lines and without its
code: a thought hides what is in it, also one that is never closed; the block must be whole; dress that
changes no word of the action is forgiven.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from srl_envs.redteam import matches
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report

REFUSED = {
    "unclosed thought": "<think>I could play <action>{b}</action>",
    "unclosed thought after a closed one": "<think>a</think><think>so <action>{b}</action>",
    "closed thought": "<think>maybe <action>{b}</action></think> I wait.",
    "unclosed thought, upper case": "<THINK>I could play <action>{b}</action>",
    "unclosed block": "<action>{b}",
    "unopened block": "{b}</action>",
    "square brackets": "[action]{b}[/action]",
    "escaped": "&lt;action&gt;{b}&lt;/action&gt;",
    "full-width brackets": "\uff1caction\uff1e{b}\uff1c/action\uff1e",
    "look-alike letter": "<\u0430ction>{b}</\u0430ction>",
    "bare": "{b}",
}
"""Must not be taken as a move."""
FORGIVEN = {
    "thought before": "<think>Let me see.</think>\n<action>{b}</action>",
    "prose around": "I will do this: <action>{b}</action> Good luck!",
    "new lines": "<action>\n{b}\n</action>\n",
    "draft in a closed thought": "<think><action>xyzzy</action>?</think><action>{b}</action>",
    "upper-case tags": "<ACTION>{b}</ACTION>",
    "title-case tags": "<Action>{b}</Action>",
    "format quoted first": "The format is <action>...</action>. My move: <action>{b}</action>",
    "bold": "<action>**{b}**</action>",
    "full stop": "<action>{b}.</action>",
    "quotes": '<action>"{b}"</action>',
    "code": "<action>`{b}`</action>",
    "space in the tag": "<action >{b}</action >",
}
"""Must be taken as the move, where the action is one short line."""
_PLAIN_DRESS = ("thought before", "prose around", "new lines", "draft in a closed thought")
_SHORT = 40
_POSITIONS = 3


def positions(env: Any, rng: np.random.Generator, seeds: int) -> Iterator[dict[str, Any]]:
    """States some random moves into an episode, as `get_state` gives them."""
    for seed in range(seeds):
        env.reset(seed=seed)
        for depth in range(_POSITIONS):
            if not env.agents:
                break
            state = env.get_state()
            yield {"seed": seed, "depth": depth, "state": state}
            env.set_state(state)
            env.step(_legal_step(env, rng))


def _legal_step(env: Any, rng: np.random.Generator) -> dict[str, str]:
    observations, _ = env.set_state(env.get_state())
    return {
        agent: f"<action>{env.sample_legal(seat, rng)}</action>"
        for seat, agent in enumerate(env.possible_agents)
        if observations[agent]["can_act"]
    }


def verdict(env: Any, state: Any, body: str, trick: str, seed: int) -> bool:
    """Whether ``trick`` around ``body`` is taken as a move of the first seat that may act."""
    env.set_state(state)
    step = _legal_step(env, np.random.default_rng(seed))
    agent = next(iter(step))
    step[agent] = trick.replace("{b}", body)
    return env.step(step)[4][agent]["invalid"] is None


def probe(env_id: str, seed: int, report: Report, allowance: Allowance) -> None:
    """Every trick at positions of several episodes; adds the first case of each fault."""
    rng = np.random.default_rng([seed, 2])
    faults: dict[str, Finding] = {}
    tried = 0
    with matches.opened(env_id) as env:
        for position in positions(env, rng, 6):
            if not allowance.left():
                break
            env.set_state(position["state"])
            agent = next(iter(_legal_step(env, rng)))
            body = str(env.sample_legal(env.possible_agents.index(agent), rng))
            for name in (*REFUSED, *_forgiven(body)):
                case = _case(env_id, position, body, name)
                tried += 1
                allowance.spend()
                found = None if name in faults else _judged(env, case)
                if found is not None:
                    faults[name] = found
    report.measures["grammar"] = len(faults)
    report.measures["grammar_tried"] = tried
    report.findings += _grouped(faults)


def _forgiven(body: str) -> tuple[str, ...]:
    short = "\n" not in body and len(body) <= _SHORT
    return tuple(FORGIVEN) if short else _PLAIN_DRESS


def _case(env_id: str, position: dict[str, Any], body: str, name: str) -> Case:
    return {
        "probe": "grammar", "target": env_id, "state": position["state"],
        "body": body, "tricks": [name],
    }  # fmt: skip


def _grouped(faults: dict[str, Finding]) -> list[Finding]:
    """One finding for all tricks of a kind."""
    grouped = []
    for kind in ("hidden_move_accepted", "clear_move_refused"):
        same = {name: fault for name, fault in faults.items() if fault.kind == kind}
        if same:
            first = next(iter(same.values()))
            body = first.case["body"]
            tricks = [name for name, fault in same.items() if fault.case["body"] == body]
            case = {**first.case, "tricks": tricks}
            grouped.append(replace(first, observed="; ".join(same), case=case))
    return grouped


def _judged(env: Any, case: Case) -> Finding | None:
    for name in case["tricks"]:
        must_refuse = name in REFUSED
        trick = REFUSED[name] if must_refuse else FORGIVEN[name]
        taken = verdict(env, case["state"], case["body"], trick, 0)
        if taken == must_refuse:
            return Finding(
                kind="hidden_move_accepted" if taken else "clear_move_refused",
                target=case["target"], observed=f"{name}: {'taken' if taken else 'refused'}",
                expected="no move" if must_refuse else "the move", case=case,
            )  # fmt: skip
    return None


def check(case: Case) -> Finding | None:
    """Try the tricks of a case again; the first that is still misread."""
    with matches.opened(case["target"]) as env:
        env.reset(seed=0)
        return _judged(env, case)
