"""Stores with known skills: bots, two learners that improve, ties, forfeits, void matches."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np

from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec, Termination

BOTS = {"bot:random": -250.0, "bot:middle": 0.0, "bot:strong": 260.0}
LEARNERS = {"alice": 45.0, "bob": 25.0}
"""Elo gained per step."""
STEPS = (2, 4, 8)
START = "base"


def agents() -> list[tuple[AgentVersion, float]]:
    """Versions with their true Elo."""
    found = [
        (AgentVersion(agent_id=name, lineage=name, role="anchor"), elo)
        for name, elo in BOTS.items()
    ]
    held_out = AgentVersion(agent_id="bot:heldout", lineage="bot:heldout", role="heldout")
    start = AgentVersion(agent_id=START, lineage=START, role="frozen")
    found += [(held_out, 120.0), (start, -150.0)]
    for name, gain in LEARNERS.items():
        parent = START
        for step in STEPS:
            version = AgentVersion(
                agent_id=f"{name}@{step}", lineage=name, parent=parent, role="frozen", step=step
            )
            found.append((version, -150.0 + gain * step))
            parent = version.agent_id
    return found


def play(
    spec: MatchSpec, elo: tuple[float, float], luck: float, rng: np.random.Generator
) -> MatchResult:
    """A result drawn from Davidson's model (nu 0.3); weak seats write more invalid replies."""
    half = (elo[0] - elo[1]) / 347.4 + luck / 2
    odds = np.array([np.exp(half), np.exp(-half), 0.3])
    outcome = float(rng.choice([1.0, -1.0, 0.0], p=odds / odds.sum()))
    termination: Termination = "ok"
    forfeited: tuple[int, ...] = ()
    if outcome and rng.random() < 0.04:
        termination, forfeited = "forfeit", (1 if outcome > 0 else 0,)
    if rng.random() < 0.01:
        termination, forfeited = "void", ()
    invalid = tuple(int(rng.poisson(0.8 / (1 + 10 ** (x / 200)))) for x in elo)
    return MatchResult(
        match_id=spec.match_id,
        outcomes=(outcome, -outcome),
        rewards=(outcome - 0.05 * invalid[0], -outcome - 0.05 * invalid[1]),
        termination=termination,
        forfeited=forfeited,
        invalid_replies=invalid,
        turns=20 + sum(invalid),
        tokens=(90, 110),
    )


def fill_store(
    path: Path, *, env_id: str = "connect_four-v0", seeds: int = 32, root: int = 0
) -> None:
    """Add a full round robin in mirrored pairs, and training matches that must not count."""
    rng = np.random.default_rng(root)
    skills = {agent.agent_id: elo for agent, elo in agents()}
    matches = []
    for number, (a, b) in enumerate(combinations(skills, 2)):
        for seed in range(seeds):
            luck = float(rng.normal(0, 0.5))
            for seats in ((a, b), (b, a)):
                spec = MatchSpec(
                    env_id=env_id, seed=seed, split="eval", seats=seats, cluster=f"eval/{seed}",
                    schedule="final", number=number,
                )  # fmt: skip
                matches.append((spec, play(spec, (skills[seats[0]], skills[seats[1]]), luck, rng)))
    for number in range(50):  # the weakest wins all of its training matches
        spec = MatchSpec(
            env_id=env_id, seed=number, split="train", seats=("bot:random", "bot:strong"),
            purpose="bot", schedule="train/alice", number=number,
        )  # fmt: skip
        matches.append((spec, play(spec, (4000.0, -4000.0), 0.0, rng)))
    with LeagueStore(path) as store:
        for agent, _ in agents():
            store.add_agent(agent)
        store.report_many(matches)
