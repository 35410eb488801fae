"""One episode in which some seats are asked from outside, a reply at a time; the others play by themselves.

What the adapters share whose policies answer asynchronously: the owner of the episode reads the pending
requests from `waiting` and hands in each answer with `reply`. Nothing here blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from srl_envs.core import Split, seat_name
from srl_envs.parallel import GameEnv
from srl_envs.registry import Policy
from srl_envs.turns.grammar import action
from srl_envs.turns.seating import require_opponents, seat_policies


class AskedEpisode:
    """An episode up to the next reply that has to come from outside.

    Seats that move at once are asked one after another, and none sees another's reply.

    Args:
        env: to play in; the caller that made it closes it.
        asked: seats whose replies come from outside.
        opponents: seat -> bot name or ``text -> text`` callable. Named bots are made anew from the seed.
            Seats that are neither asked nor named make random legal moves.
        seed: of the episode.
        split: of the tasks.

    Raises:
        ConfigError: a seat or an opponent is impossible.
        UnknownPolicyError: the environment has no such bot.
    """

    def __init__(
        self,
        env: GameEnv,
        *,
        asked: Collection[int],
        opponents: Mapping[int, str | Policy],
        seed: int,
        split: Split = "train",
    ) -> None:
        require_opponents(env, opponents)
        seats = range(len(env.possible_agents))
        env.start(seed, {"split": split})
        self._env, self._asked = env, frozenset(asked)
        self._bots = seat_policies(env, opponents)
        self._rng = np.random.default_rng(seed)
        self._replies: dict[str, str] = {}
        self.paid = [0.0 for _ in seats]
        """Reward of every seat so far."""
        self.invalid_replies = [0 for _ in seats]
        """Replies of every seat that were malformed or illegal."""
        self.forfeited: tuple[int, ...] = ()
        """Seats that forfeited."""
        self.waiting: tuple[int, str] | None = None
        """The seat whose reply is needed next, and what it sees; None at the end."""
        self._go_on()

    def reply(self, text: str) -> None:
        """Hand in the reply of the seat that is `waiting`, and play up to the next one."""
        seat, _ = self._due()
        self._replies[seat_name(seat)] = text
        self._go_on()

    def leave(self) -> None:
        """The seat that is `waiting` leaves the game: it forfeits by the rules, and the episode is over."""
        seat, _ = self._due()
        for other, due in enumerate(self._env.leaving(seat)):
            self.paid[other] += due
        self.forfeited, self.waiting = (seat,), None

    def _due(self) -> tuple[int, str]:
        if self.waiting is None:
            raise RuntimeError("the episode is over: no seat is waiting.")
        return self.waiting

    def _go_on(self) -> None:
        env = self._env
        while env.agents:
            for agent in env.on_move:
                seat = env.possible_agents.index(agent)
                if agent not in self._replies and seat in self._asked:
                    self.waiting = seat, env.text(agent)
                    return
            for agent in env.on_move:
                if agent not in self._replies:
                    self._replies[agent] = self._played(agent)
            env.advance(self._replies)
            self._replies = {}
            self._count()
        self.waiting = None

    def _played(self, agent: str) -> str:
        seat = self._env.possible_agents.index(agent)
        if seat in self._bots:
            return self._bots[seat](self._env.text(agent))
        return action(self._env.sample_legal(seat, self._rng))

    def _count(self) -> None:
        env, rewards = self._env, self._env.rewards()
        for seat, agent in enumerate(env.possible_agents):
            info = env.info(agent)
            self.paid[seat] += rewards[agent]
            self.invalid_replies[seat] += info["invalid"] is not None
            if info.get("forfeited"):
                self.forfeited = (*self.forfeited, seat)
