"""Conformance kit for kinds of reward, on recorded episodes made up for the purpose.

>>> check_reward(Mentions(kind="mentions", word="please"))  # doctest: +SKIP
"""

from __future__ import annotations

import math

import numpy as np

from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.rewards.terms import Judge, Played, RewardTerm
from srl_agents.testing.advice import Promise, hold, require
from srl_envs.reading.settings import build, dump

LIMIT = 16
"""Tokens that a reply of the made-up episodes may have."""
_REPLIES = ("<action>1</action>", "I think.\n<action>2</action>", "", "<action>", "é\n\x00please")


def check_reward(term: RewardTerm) -> None:
    """Hold one kind of reward, with these settings, to what a run relies on.

    Raises:
        ConformanceError: names the promise, what is wrong and what to do.
    """
    hold(f"reward {term.kind!r}", PROMISES, term)


def _one_number_per_turn(term: RewardTerm) -> None:
    played = made_up()
    values = term.judge(LIMIT)(played)
    require(len(values) == len(played), f"{len(values)} lists for {len(played)} seats.")
    for own, found in zip(played, values, strict=True):
        turns = len(own.trajectory.turns)
        require(len(found) == turns, f"{len(found)} values for {turns} turns.")
        wrong = [value for value in found if value is not None and not math.isfinite(value)]
        require(not wrong, f"value {wrong[:1]}.")


def _the_same_again(term: RewardTerm) -> None:
    played, judge = made_up(), term.judge(LIMIT)
    first = _plain(judge, played)
    require(_plain(judge, played) == first, "the same judge gives other values the second time.")
    require(_plain(term.judge(LIMIT), played) == first, "a judge built anew gives other values.")


def _no_neighbours(term: RewardTerm) -> None:
    played, judge = made_up(), term.judge(LIMIT)
    single = [_plain(judge, [own])[0] for own in played]
    require(_plain(judge, played) == single, "a seat's values depend on who is judged beside it.")
    require(_plain(judge, []) == [], "no seats are not judged as no values.")


def _reads_back(term: RewardTerm) -> None:
    again = build(type(term), dump(term), "the settings")
    require(again == term, f"its own settings read back as {again}.")


PROMISES = {
    "one number per turn": Promise(
        _one_number_per_turn,
        "return one list per seat with one finite number, or None, for each of its turns; 0 where a "
        "turn earns nothing. Turns without tokens and seats without turns occur.",
    ),
    "the same again": Promise(
        _the_same_again,
        "draw no random numbers and keep nothing between calls: runs are continued and played again.",
    ),
    "no neighbours": Promise(
        _no_neighbours,
        "judge each seat by itself: what is compared with other attempts is credit's business.",
    ),
    "reads back": Promise(
        _reads_back, "make every field a plain value, so that a run's recipe.yaml can hold it."
    ),
}


def made_up() -> list[Played]:
    """Seats of a few episodes: no turn, one, several; refused, cut, empty and odd replies."""
    rng = np.random.default_rng(0)
    return [_played(rng, number, turns) for number, turns in enumerate((1, 0, 4, 2, 7))]


def _played(rng: np.random.Generator, number: int, turns: int) -> Played:
    outcome = float(rng.integers(-1, 2))
    own = tuple(_turn(rng, k) for k in range(turns))
    components = {"outcome": outcome, "format": sum(t.components["format"] for t in own)}
    trajectory = Trajectory(
        seat=0,
        policy="learner",
        turns=own,
        outcome=outcome,
        total_reward=sum(components.values()),
        components=components,
    )
    spec = MatchSpec(
        env_id="nim-v0", seed=number, split="train", seats=("learner",), learner_seats=(0,)
    )
    return Played(Episode(spec=spec, trajectories=(trajectory,), termination="ok"), 0)


def _turn(rng: np.random.Generator, index: int) -> Turn:
    reply = _REPLIES[int(rng.integers(len(_REPLIES)))]
    tokens = int(rng.integers(1, LIMIT + 1)) if reply else 0
    invalid = (None, "malformed", "illegal")[int(rng.integers(3))]
    return Turn(
        turn_index=index,
        observation=f"position {index}",
        reply=reply,
        invalid=invalid,
        reward=-0.05 if invalid else 0.0,
        components={"outcome": 0.0, "format": -0.05 if invalid else 0.0},
        prompt_ids=(1, 2),
        completion_ids=(3,) * tokens,
        logprobs=(-1.0,) * tokens,
        finish="length" if tokens in (0, LIMIT) else "stop",
    )


def _plain(judge: Judge, played: list[Played]) -> list[list[float | None]]:
    return [list(own) for own in judge(played)]
