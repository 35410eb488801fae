"""Episodes between attacks and the suite's bots, only through the public interface."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

import srl_envs
from srl_envs.redteam.attacks import Attack, Turn, reply
from srl_envs.redteam.reading import bodies


@runtime_checkable
class Program(Protocol):
    """What makes a new policy for every seat and episode."""

    def take(self, env: Any, seat: int, seed: int) -> Callable[[Turn], str]:
        """The policy for ``seat`` in the episode of ``seed``."""


Player = Attack | str | Program | Callable[[Turn], str]
"""An attack, a bot's name, an attack program, or a policy of its own."""


@dataclass(frozen=True, slots=True)
class Episode:
    """Texts, replies and outcomes of an episode."""

    rewards: tuple[float, ...]
    """Outcome and format together, per seat."""
    outcomes: tuple[float, ...]
    replies: tuple[dict[int, str], ...]
    """Replies of each step: seat -> reply."""
    accepted: tuple[tuple[int, str], ...]
    """Seat and reply of every reply that was taken as a move."""
    texts: tuple[tuple[str, ...], ...]
    """Per step, then at the end: what each seat saw."""


@contextlib.contextmanager
def opened(env_id: str, **options: Any) -> Iterator[Any]:
    """A context manager that makes an environment and closes it."""
    env = srl_envs.make(env_id, **options)
    try:
        yield env
    finally:
        env.close()


class _Seat:
    """One player at the table, with what it counts."""

    def __init__(self, env: Any, seat: int, player: Player, seed: int) -> None:
        self._env, self._seat = env, seat
        self._number = self._retries = 0
        self._answer = _policy(env, seat, player, seed)

    def reply(self, text: str, info: Mapping[str, Any]) -> str:
        """The player's reply to ``text``."""
        turn = Turn(
            text, self._number, self._retries, int(info["attempts_left"]),
            bodies(info.get("legal_actions")), lambda rng: str(self._env.sample_legal(self._seat, rng)),
        )  # fmt: skip
        return self._answer(turn)

    def count(self, info: Mapping[str, Any]) -> bool:
        """Record the verdict on the reply: whether it was accepted as a move."""
        refused = info["invalid"] is not None
        if refused and int(info["attempts_left"]) <= self._env.max_retries:
            self._retries += 1
        else:  # a move, or the game's own after too many refusals
            self._number, self._retries = self._number + 1, 0
        return not refused


def _policy(env: Any, seat: int, player: Player, seed: int) -> Callable[[Turn], str]:
    if isinstance(player, str):
        bot = srl_envs.make_bot(env.env_spec.id, player, seed=1000 * seed + seat)
        return lambda turn: bot(turn.text)
    if isinstance(player, Attack):
        rng = np.random.default_rng([seed, seat])
        return lambda turn: reply(player, turn, rng)
    return player.take(env, seat, seed) if isinstance(player, Program) else player


def play(
    env: Any, players: Mapping[int, Player], seed: int, *, split: str | None = None
) -> Episode:
    """Play one episode. A bot's seed comes from the episode's and its seat, so pairs are comparable."""
    observations, infos = env.reset(seed=seed, options={"split": split} if split else None)
    agents = list(env.possible_agents)
    seats = [_Seat(env, seat, players[seat], seed) for seat in range(len(agents))]
    rewards = np.zeros(len(agents))
    replies: list[dict[int, str]] = []
    accepted: list[tuple[int, str]] = []
    texts = [tuple(observations[agent]["text"] for agent in agents)]
    while env.agents:
        step = {
            seat: seats[seat].reply(observations[agent]["text"], infos[agent])
            for seat, agent in enumerate(agents)
            if observations[agent]["can_act"]
        }
        observations, paid, _, _, infos = env.step({agents[s]: text for s, text in step.items()})
        rewards += [paid[agent] for agent in agents]
        replies.append(step)
        texts.append(tuple(observations[agent]["text"] for agent in agents))
        accepted += [(s, text) for s, text in step.items() if seats[s].count(infos[agents[s]])]
    outcomes = tuple(env.outcomes or env.paid)
    return Episode(tuple(rewards.tolist()), outcomes, tuple(replies), tuple(accepted), tuple(texts))


def company(player: Player, seat: int, others: Player, seats: int) -> dict[int, Player]:
    """``player`` in ``seat``, ``others`` everywhere else."""
    return {s: player if s == seat else others for s in range(seats)}
