"""Games that ask for programs: hostile ones in place of moves, and source text hidden from the scales."""

from __future__ import annotations

import time
from typing import Any

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.attacks import Turn
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.programs import packing
from srl_envs.redteam.programs.hostile import QUITTING, STALLING, program
from srl_envs.redteam.reading import examples, program_name
from srl_envs.redteam.search import best_bot
from srl_envs.redteam.strain import strain, unstrained

_COPIES = 2
_SLOW_S = 5.0
"""Seconds of the clock that one program may add to an episode."""


def hostile(template: str) -> Any:
    """A policy that hands in the template wherever a program is asked for."""

    def answer(turn: Turn) -> str:
        name = program_name(turn.text)
        shown = next(iter(examples(turn.text)), "pass")
        return f"<action>\n{program(template, name) if name else shown}\n</action>"

    return answer


def check_hostile(env_id: str, case: Case) -> Finding | None:
    """Play a template beside a bot: it must neither earn, nor stall, nor void the episode."""
    template = {**STALLING, **QUITTING}[case["name"]]
    weakest = next(iter(srl_envs.spec(env_id).bots), "random")
    with matches.opened(env_id) as env:
        n = len(env.possible_agents)
        before = strain()
        started = time.monotonic()
        matches.play(env, dict.fromkeys(range(n), weakest), case["seed"])
        honest_s = time.monotonic() - started
        seats = dict.fromkeys(range(n), hostile(template))
        try:
            matches.play(env, {**seats, n - 1: weakest} if n > 2 else seats, case["seed"])
        except Exception as error:  # noqa: BLE001 - whatever ends the episode is the finding
            return _found(
                env_id, "program_voids_its_episode", case, f"{type(error).__name__}: {error}"
            )
        cost_s = unstrained(time.monotonic() - started - honest_s, before, strain())
    if cost_s > honest_s + _SLOW_S and cost_s > 4 * honest_s:
        return _found(
            env_id, "program_stalls_the_episode", case, f"{cost_s:.1f} s, honest {honest_s:.1f} s"
        )
    return None


def _found(env_id: str, kind: str, case: Case, observed: str) -> Finding:
    return Finding(
        kind=kind, target=env_id, observed=f"{case['name']}: {observed}"[:200],
        expected="a lost episode that costs no more than an honest one", case=case,
    )  # fmt: skip


def grown(source: str, name: str) -> str:
    """The same program with copies that are never called, so that carrying it is worth a trick."""
    copies = (source.replace(f"def {name}(", f"def spare_{k}(") for k in range(_COPIES))
    return "\n\n".join([source, *copies])


def check_packed(env_id: str, case: Case) -> Finding | None:
    """A program that only carries another one as text, and runs it, must not beat that one."""
    bot = srl_envs.make_bot(env_id, best_bot(env_id) or "random", seed=case["seed"])
    packed = packing.packers()[case["name"]]

    def program_of(text: str) -> tuple[str, str]:
        name = program_name(text)
        return grown(next(iter(examples(bot(text))), ""), name), name

    def plain(turn: Turn) -> str:
        return f"<action>\n{program_of(turn.text)[0]}\n</action>"

    def carrier(turn: Turn) -> str:
        return f"<action>\n{packed(*program_of(turn.text))}\n</action>"

    with matches.opened(env_id) as env:
        episode = matches.play(env, {0: carrier, 1: plain}, case["seed"])
    if episode.outcomes[0] <= 0:
        return None
    return Finding(
        kind="hidden_text_is_free", target=env_id, case=case,
        observed=f"{case['name']}: it beats the programs that it carries, {episode.outcomes}",
        expected="a program that carries another is larger",
    )  # fmt: skip


def asks_for_programs(env_id: str) -> bool:
    """Whether some seat's first prompt shows a program."""
    with matches.opened(env_id) as env:
        observations, _ = env.reset(seed=0)
        return any("def " in o["text"] for o in observations.values())


def probe(env_id: str, seed: int, report: Report, allowance: Allowance) -> None:
    """Packed programs first where there are two seats, then every hostile template."""
    half = allowance.part(0.5)
    base = {"probe": "program_games", "target": env_id, "seed": seed}
    plans: list[tuple[str, str, Allowance]] = []
    if srl_envs.spec(env_id).mode == "competitive":
        plans += [("packed", name, half) for name in packing.packers()]
    plans += [("hostile", name, allowance) for name in (*STALLING, *QUITTING)]
    seen: set[str] = set()
    for kind, name, part in plans:
        if not part.left():
            continue
        allowance.spend()
        found = check({**base, "kind": kind, "name": name})
        if found is not None and found.kind not in seen:
            seen.add(found.kind)
            report.findings.append(found)


def check(case: Case) -> Finding | None:
    """Play a case again."""
    checks = {"packed": check_packed, "hostile": check_hostile}
    return checks[case["kind"]](case["target"], case)
