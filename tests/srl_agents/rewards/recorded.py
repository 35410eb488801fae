"""Short recorded episodes whose rewards can be summed by hand."""

from __future__ import annotations

from typing import Any

from srl_agents.records import Episode, MatchSpec, Trajectory, Turn


def turn(reply: str, tokens: int, invalid: str | None = None, **components: float) -> Turn:
    """A reply that was cut where it has 8 tokens."""
    return Turn(
        turn_index=0,
        observation=f"before {reply}",
        reply=reply,
        invalid=invalid,
        reward=sum(components.values()),
        components=components,
        prompt_ids=(1, 2),
        completion_ids=(3,) * tokens,
        logprobs=(-0.5,) * tokens,
        finish="length" if tokens >= 8 else "stop",
    )


def episode(
    *turns: Turn,
    attempt: int = 0,
    before: float = 0.0,
    outcome: float = 0.0,
    termination: Any = "ok",
    **statistics: float,
) -> Episode:
    """Seat 0 learns and played ``turns``; ``before`` it moved first it was paid that much."""
    spec = MatchSpec(
        env_id="nim-v0",
        seed=1,
        split="train",
        seats=("alice@1", "bot:middle"),
        learner_seats=(0,),
        schedule="train/0",
        attempt=attempt,
    )
    paid = {"outcome": before, "format": 0.0}
    for own in turns:
        for name, value in own.components.items():
            paid[name] = paid.get(name, 0.0) + value
    learner = Trajectory(
        seat=0,
        policy="alice@1",
        turns=turns,
        outcome=outcome,
        total_reward=sum(paid.values()),
        components={**paid, **statistics},
    )
    other = Trajectory(
        seat=1,
        policy="bot:middle",
        turns=(),
        outcome=-outcome,
        total_reward=-outcome,
        components={"outcome": -outcome, "format": 0.0},
    )
    return Episode(spec=spec, trajectories=(learner, other), termination=termination)
