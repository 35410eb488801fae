"""The best answer to samples of the opponents, where nothing is hidden and each step is paid.

Opponents' replies are drawn from a scripted player with fresh seeds, so that the answer reflects what they
tend to do and never what they are about to do. Candidates are tried in copies of the position. Where seats
read different numbers or words, the position holds what the seat must not know, and there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

import srl_envs
from srl_envs.redteam.reading import examples
from srl_envs.turns.grammar import action

_SAMPLES, _FIRST_SAMPLES = 16, 4
_CANDIDATES = 32
_BEST = 2
_CLIMBS = 3
_TOKEN = re.compile(r"[A-Za-z]+|\d+")
_NUMBER = re.compile(r"-?\d+")
_POINTS_OF_VIEW = re.compile(
    r"\b(you|your|other|others|player_\d+|player|opponent|they|their)\b", re.I
)


def hides_nothing(texts: Sequence[str]) -> bool:
    """Whether all seats read the same words and numbers, but for who is who and for signs."""
    seen = {tuple(sorted(_TOKEN.findall(_POINTS_OF_VIEW.sub("", text)))) for text in texts}
    return len(seen) == 1


def best_answer(
    env: Any, seat: int, name: str, legal: Sequence[str], rng: np.random.Generator
) -> str | None:
    """The body that earns most in this step against samples of the others' replies.

    Args:
        env: a running environment; it stays as it is.
        seat: that answers.
        name: the scripted player that the others are taken for.
        legal: bodies to begin with.
        rng: draws samples and neighbours.

    Returns:
        None where something is hidden, or where no step is paid.
    """
    agents = list(env.possible_agents)
    acting = [agent for agent in agents if env.observation(agent)["can_act"]]
    if len(acting) < 2 or not hides_nothing([env.text(agent) for agent in agents]):
        return None
    others = [agent for agent in acting if agent != agents[seat]]
    replies = [_sampled(env, name, others, rng) for _ in range(_SAMPLES)]
    trial = _Trial(env, agents[seat], replies)
    seen = [body for reply in replies for text in reply.values() for body in examples(text)]
    pool = list(dict.fromkeys([*seen[: _CANDIDATES // 2], *legal]))[:_CANDIDATES]
    best = trial.best(pool, _FIRST_SAMPLES)
    if best is None:
        return None
    for _ in range(_CLIMBS):
        near = [body for parent in best for body in neighbours(parent)]
        better = trial.best(list(dict.fromkeys([*best, *near])), _SAMPLES) or best
        if better == best:
            break
        best = better
    return best[0]


def _sampled(
    env: Any, name: str, agents: Sequence[str], rng: np.random.Generator
) -> dict[str, str]:
    seeds = rng.integers(2**31, size=len(agents))
    bots = (srl_envs.make_bot(env.env_spec.id, name, seed=int(seed)) for seed in seeds)
    return {agent: bot(env.text(agent)) for agent, bot in zip(agents, bots, strict=True)}


def neighbours(body: str) -> list[str]:
    """``body`` with a unit moved from one of its numbers to another; for a single number, up and down."""
    found = [(number.span(), int(number.group())) for number in _NUMBER.finditer(body)]
    if len(found) == 1:
        return [_with(body, found, {0: found[0][1] + step}) for step in (-1, 1)]
    pairs = ((i, j) for i in range(len(found)) for j in range(len(found)) if i != j)
    return [
        _with(body, found, {i: found[i][1] - 1, j: found[j][1] + 1})
        for i, j in pairs if found[i][1] > 0
    ]  # fmt: skip


def _with(body: str, found: Sequence[tuple[tuple[int, int], int]], new: dict[int, int]) -> str:
    parts, end = [], 0
    for place, ((start, stop), number) in enumerate(found):
        parts += [body[end:start], str(new.get(place, number))]
        end = stop
    return "".join([*parts, body[end:]])


class _Trial:
    """Copies of one position, and what a body earns in them."""

    def __init__(self, env: Any, agent: str, replies: Sequence[dict[str, str]]) -> None:
        self._env = srl_envs.make(env.env_spec.id, **env.options)
        self._state, self._agent, self._replies = env.get_state(), agent, replies
        self._before = float(env.paid[env.possible_agents.index(agent)])
        self._seat = env.possible_agents.index(agent)
        self._pays = False

    def best(self, bodies: Sequence[str], samples: int) -> list[str] | None:
        """The best bodies, best first; None where none earns anything or loses anything."""
        earned = {body: self._earned(body, samples) for body in dict.fromkeys(bodies)}
        if not self._pays:
            return None
        return sorted(bodies, key=lambda body: -earned[body])[:_BEST]

    def _earned(self, body: str, samples: int) -> float:
        total = 0.0
        for reply in self._replies[:samples]:
            self._env.set_state(self._state)
            self._env.advance({**reply, self._agent: action(body)})
            if self._env.info(self._agent)["invalid"] is not None:
                return float("-inf")
            earned = float(self._env.paid[self._seat]) - self._before
            self._pays = self._pays or earned != 0
            total += earned
        return total
