"""Payoffs of a recorded match if some seats had left every choice to the game."""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from typing import TYPE_CHECKING, Any

from srl_agents.records import Episode, MatchSpec, Trajectory, Turn, canonical_json
from srl_envs import make
from srl_envs.turns.grammar import action

if TYPE_CHECKING:
    from srl_envs.parallel import GameEnv


class Replays:
    """Plays recorded episodes again with some seats idle: no model is asked.

    An idle seat takes the game's default move whenever it is on move. The other seats give the
    replies that were recorded, in order, refused ones included, and the default move where they have
    none left or where a reply that was accepted then is refused now. Same seed, so the same chances.

    In a game of one joint move this is what the others' choices are worth without the idle seats. In
    longer games what the others said in answer to them stays, as if they had not noticed.

    Source: the clamped counterfactual, "Optimal Payoff Functions for Members of Collectives",
    doi:10.1142/S0219525901000188.
    """

    def __init__(self) -> None:
        self._envs: dict[str, GameEnv] = {}

    def outcomes(self, episode: Episode, idle: Set[int]) -> tuple[float, ...]:
        """Outcome of each seat; with no idle seats, those of the episode.

        Raises:
            SandboxError: the game runs code and could not.
        """
        spec = episode.spec
        env = self._env(spec)
        seats = [_Seat(env, seat, t, seat in idle) for seat, t in enumerate(episode.trajectories)]
        observations, infos = env.reset(seed=spec.seed, options={"split": spec.split})
        while env.agents:
            replies = {
                agent: seats[i].reply(infos[agent]["invalid"])
                for i, agent in enumerate(env.possible_agents)
                if observations[agent]["can_act"]
            }
            observations, _, _, _, infos = env.step(replies)
        return env.outcomes or env.paid

    def close(self) -> None:
        """Close the environments that were kept for re-use."""
        for env in self._envs.values():
            env.close()
        self._envs.clear()

    def _env(self, spec: MatchSpec) -> GameEnv:
        kind = canonical_json([spec.env_id, spec.options])
        if kind not in self._envs:
            env: Any = make(spec.env_id, **spec.options)
            self._envs[kind] = env
        return self._envs[kind]


class _Seat:
    """Gives one seat's replies in a replay."""

    def __init__(self, env: GameEnv, seat: int, played: Trajectory, idle: bool) -> None:
        self.env, self.seat = env, seat
        self.left: deque[Turn] = deque(() if idle else played.turns)
        self.last: Turn | None = None

    def reply(self, refused: str | None) -> str:
        """The next reply; ``refused`` is the fault of the one before."""
        lost = refused is not None and self.last is not None and self.last.invalid is None
        self.last = self.left.popleft() if self.left and not lost else None
        return self._default() if self.last is None else self.last.reply

    def _default(self) -> str:
        game = self.env.game
        return action(game.fallback(game.decode(self.env.get_state()["state"]), self.seat))
