"""What a player with one step of look-ahead earns above the strong bot, beside strong bots.

At every turn it plays some legal moves on to the end with strong bots in all seats, and takes the best. It
plays on from the whole state: hidden cards and coming chance are known to it. In games where nothing is
hidden and no chance is to come, its gain is headroom that a player can reach; elsewhere it shows what the
strong bot lacks in knowledge and play together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import srl_envs
from srl_envs.errors import SandboxError
from srl_envs.turns.grammar import action

OPEN_GAMES = (
    "blotto-v0", "connect_four-v0", "iterated_dilemma-v0", "nim-v0",
    "public_goods-v0", "word_chain-v0",
)  # fmt: skip
"""Games in which players see everything but what others do at the same moment."""
MOVES, ROLLOUTS = 6, 2
"""Legal moves that are tried at a turn, the strong bot's among them; how often each is played on."""
_STRONG = "strong"
_DRAWS = 4
"""Draws per move where the legal moves are not listed."""


class LookAhead:
    """Plays one seat of a game among strong bots.

    Args:
        env_id: a registered id with a bot named strong.
    """

    def __init__(self, env_id: str) -> None:
        self._env_id = env_id
        self._env: Any = srl_envs.make(env_id)
        self._mind: Any = srl_envs.make(env_id)
        """The same game, in which moves are tried."""
        self._seats = range(len(self._env.possible_agents))

    def close(self) -> None:
        """Give back what the games hold."""
        self._env.close()
        self._mind.close()

    def outcome(self, seat: int, seed: int, ends: float) -> float | None:
        """What ``seat`` earns; None where the clock of the processor passes ``ends`` before the end.

        Raises:
            SandboxError: our machinery failed.
        """
        env, rng = self._env, np.random.default_rng([seed, seat])
        bots = self._bots(1000 * seed)
        thought = self._bots(1000 * seed + 500)
        observations, infos = env.reset(seed=seed)
        while env.agents:
            replies = _replies(bots, observations)
            if seat in replies:
                agent = env.possible_agents[seat]
                moves = list(self._moves(replies[seat], seat, infos[agent], rng))
                found = self._best(moves, seat, thought, ends) if len(moves) > 1 else moves[0]
                if found is None:
                    return None
                replies[seat] = found
            observations, _, _, _, infos = env.step(_joint(env, replies))
        return float(env.outcomes[seat])

    def _bots(self, seed: int) -> dict[int, Callable[[str], str]]:
        return {s: srl_envs.make_bot(self._env_id, _STRONG, seed=seed + s) for s in self._seats}

    def _moves(
        self, own: str, seat: int, info: Mapping[str, Any], rng: np.random.Generator
    ) -> Iterator[str]:
        """The strong bot's reply first, then other legal ones."""
        listed = info.get("legal_actions")
        if listed:
            some = [listed[k] for k in rng.permutation(len(listed))]
        else:
            some = [action(self._env.sample_legal(seat, rng)) for _ in range(_DRAWS * MOVES)]
        yield from list(dict.fromkeys([own, *some]))[:MOVES]

    def _best(
        self, moves: list[str], seat: int, thought: dict[int, Callable[[str], str]], ends: float
    ) -> str | None:
        state = self._env.get_state()
        values = []
        for move in moves:
            paid = [self._played_on(state, seat, move, thought) for _ in range(ROLLOUTS)]
            values.append(sum(paid))
            if time.process_time() > ends:
                return None
        return moves[int(np.argmax(values))]  # of equal ones the first: strong's own

    def _played_on(
        self, state: Any, seat: int, move: str, thought: dict[int, Callable[[str], str]]
    ) -> float:
        mind = self._mind
        observations, _ = mind.set_state(state)
        forced: dict[int, str] = {seat: move}
        while mind.agents:
            replies = {**_replies(thought, observations), **forced}
            forced = {}
            observations, *_ = mind.step(_joint(mind, replies))
        return float(mind.outcomes[seat])


def _replies(
    bots: Mapping[int, Callable[[str], str]], observations: Mapping[str, Mapping[str, Any]]
) -> dict[int, str]:
    seen = dict(enumerate(observations.values()))
    return {seat: bots[seat](o["text"]) for seat, o in seen.items() if o["can_act"]}


def _joint(env: Any, replies: Mapping[int, str]) -> dict[str, str]:
    return {env.possible_agents[seat]: reply for seat, reply in replies.items()}


def gains(
    env_id: str, strong: Callable[[int], tuple[float, ...] | None], seeds: range, budget_s: float
) -> list[float]:
    """What the look-ahead earns above the strong bot in the same seat and seed, per seed.

    Args:
        env_id: a registered id.
        strong: seed -> outcomes of strong bots in all seats; None for a void game.
        seeds: most that are played.
        budget_s: seconds of processor time after which no more is played.
    """
    player, found = LookAhead(env_id), []
    ends = time.process_time() + budget_s
    try:
        for seed in seeds:
            base, seat = strong(seed), seed % srl_envs.spec(env_id).seats
            mine = player.outcome(seat, seed, ends) if base is not None else None
            if base is not None and mine is not None:
                found.append(mine - base[seat])
            if time.process_time() > ends:
                break
    except SandboxError:
        pass
    finally:
        player.close()
    return found
