"""Replies around one legal action: which must be read as that move, and which must not.

What is right follows from the suite's published grammar, restated here in a few lines and without its
code: a thought hides what is in it, also one that is never closed; of several blocks the last counts, and
it must be whole; dress that changes no word of the action is forgiven. A move is taken where the game
comes to the state that the bare block leads to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from srl_envs.redteam import matches
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.reading import bodies

REFUSED = {
    "unclosed thought": "<think>I could play <action>{b}</action>",
    "unclosed thought after a closed one": "<think>a</think><think>so <action>{b}</action>",
    "closed thought": "<think>maybe <action>{b}</action></think> I wait.",
    "unclosed thought, upper case": "<THINK>I could play <action>{b}</action>",
    "unclosed block": "<action>{b}",
    "unopened block": "{b}</action>",
    "last block is never closed": "<action>{b}</action> no: <action>{b}",
    "square brackets": "[action]{b}[/action]",
    "escaped": "&lt;action&gt;{b}&lt;/action&gt;",
    "full-width brackets": "\uff1caction\uff1e{b}\uff1c/action\uff1e",
    "look-alike letter": "<\u0430ction>{b}</\u0430ction>",
    "bare": "{b}",
}
"""Expected verdict: the reply is not a move."""
FORGIVEN = {
    "thought before": "<think>Let me see.</think>\n<action>{b}</action>",
    "prose around": "I will do this: <action>{b}</action> Good luck!",
    "new lines": "<action>\n{b}\n</action>\n",
    "draft in a closed thought": "<think><action>xyzzy</action>?</think><action>{b}</action>",
    "thought that began in the prompt": "first <action>xyzzy</action>, hm</think><action>{b}</action>",
    "another move first": "<action>{other}</action> No, better: <action>{b}</action>",
    "upper-case tags": "<ACTION>{b}</ACTION>",
    "title-case tags": "<Action>{b}</Action>",
    "format quoted first": "The format is <action>...</action>. My move: <action>{b}</action>",
    "space in the tag": "<action >{b}</action >",
}
"""Expected verdict: the reply is the move, for every move."""
DRESSED = {
    "bold": "<action>**{b}**</action>",
    "full stop": "<action>{b}.</action>",
    "quotes": '<action>"{b}"</action>',
    "code": "<action>`{b}`</action>",
    "brackets": "<action>[{b}]</action>",
    "bold in quotes": '<action>"**{b}**"</action>',
    "other case": "<action>{swapped}</action>",
}
"""Must be taken as the move where it is one short line without such marks of its own; the last where no
other move reads alike."""
_TRICKS = {**REFUSED, **FORGIVEN, **DRESSED}
_PLAIN = "<action>{b}</action>"
_SHORT = 40
_POSITIONS = 3
_MARKS = re.compile(r"[\"'*`\[\]]")
"""What dress is made of: around a move that has some of its own it is not certain what they wrap."""
_NUMBERS = re.compile(r"[-\d\s,;]+")


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


def verdict(env: Any, case: Case, trick: str) -> tuple[bool, Any]:
    """Whether ``trick`` around the case's body is taken as a move of the first seat that may act, and the
    game's state after it."""
    env.set_state(case["state"])
    step = _legal_step(env, np.random.default_rng(0))
    agent = next(iter(step))
    body = case["body"]
    for mark, text in (("{b}", body), ("{other}", case["other"]), ("{swapped}", body.swapcase())):
        trick = trick.replace(mark, text)
    step[agent] = trick
    taken = env.step(step)[4][agent]["invalid"] is None
    return taken, env.get_state()["state"] if taken else None


def probe(env_id: str, seed: int, report: Report, allowance: Allowance) -> None:
    """Every trick at positions of several episodes; adds the first case of each fault."""
    rng = np.random.default_rng([seed, 2])
    faults: dict[str, Finding] = {}
    tried = 0
    with matches.opened(env_id) as env:
        for position in positions(env, rng, 6):
            if not allowance.left():
                break
            case = _case(env, env_id, position["state"], rng)
            for name in _due(case):
                tried += 1
                allowance.spend()
                found = None if name in faults else _judged(env, {**case, "tricks": [name]})
                if found is not None:
                    faults[name] = found
    report.measures["grammar"] = len(faults)
    report.measures["grammar_tried"] = tried
    report.findings += _grouped(faults)


def _case(env: Any, env_id: str, state: Any, rng: np.random.Generator) -> Case:
    """A legal move of the first seat that may act, and another one where there is one."""
    _, infos = env.set_state(state)
    agent = next(iter(_legal_step(env, rng)))
    seat = env.possible_agents.index(agent)
    body, *others = (str(env.sample_legal(seat, rng)) for _ in range(8))
    listed = bodies(infos[agent].get("legal_actions"))
    alike = [move for move in listed if move.lower() == body.lower()]
    return {
        "probe": "grammar", "target": env_id, "state": state, "body": body,
        "other": next((move for move in others if move != body), ""),
        "listed": alike == [body],
    }  # fmt: skip


def _due(case: Case) -> Iterator[str]:
    """The tricks whose verdict is certain for this move."""
    body = case["body"]
    yield from REFUSED
    yield from (name for name in FORGIVEN if case["other"] or "{other}" not in FORGIVEN[name])
    if "\n" not in body and len(body) <= _SHORT and not _MARKS.search(body):
        yield from (name for name in DRESSED if case["listed"] or "{swapped}" not in DRESSED[name])


def _grouped(faults: dict[str, Finding]) -> list[Finding]:
    """One finding for all tricks of a kind."""
    grouped = []
    for kind in dict.fromkeys(fault.kind for fault in faults.values()):
        same = {name: fault for name, fault in faults.items() if fault.kind == kind}
        first = next(iter(same.values()))
        tricks = [
            name for name, fault in same.items() if fault.case["state"] == first.case["state"]
        ]
        case = {**first.case, "tricks": tricks}
        grouped.append(replace(first, observed="; ".join(same), case=case))
    return grouped


def _judged(env: Any, case: Case) -> Finding | None:
    for name in case["tricks"]:
        taken, state = verdict(env, case, _TRICKS[name])
        kind = ""
        if name in REFUSED:
            kind = "hidden_move_accepted" if taken else ""
        elif not taken:
            kind = "clear_move_refused"
        elif _is_plain(case, name) and state != verdict(env, case, _PLAIN)[1]:
            kind = "move_misread"
        if kind:
            return Finding(
                kind=kind, target=case["target"],
                observed=f"{name}: {'taken' if taken else 'refused'}",
                expected="no move" if name in REFUSED else "the move", case=case,
            )  # fmt: skip
    return None


def _is_plain(case: Case, name: str) -> bool:
    """Whether the decoration cannot belong to the message, and the move is not a runnable program."""
    certain = case["listed"] or _NUMBERS.fullmatch(case["body"])
    return bool(certain) or (name in FORGIVEN and "\n" not in case["body"])


def check(case: Case) -> Finding | None:
    """Try the tricks of a case again; the first that is still misread."""
    with matches.opened(case["target"]) as env:
        env.reset(seed=0)
        return _judged(env, case)
