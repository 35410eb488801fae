"""Agents as ``text -> text`` callables, one reply at a time, for games in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from srl_agents.agents.grammar import HumanName
from srl_agents.agents.players import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.agents.resolver import Candidate, Playing, close_engines, seat
from srl_agents.engines.protocol import Generation
from srl_agents.engines.tasks import within
from srl_agents.interrupts import EventLoop
from srl_agents.models.prompt import EarlierTurn

Player = Callable[[str], str]
_WAIT_S = 600.0
"""For one reply, and for the end."""


class ModelPlayer:
    """A model for one game.

    Args:
        reply: to a text, behind the game's earlier turns.
    """

    def __init__(self, reply: Callable[[str, list[EarlierTurn]], Generation]) -> None:
        self._reply = reply
        self._earlier: list[EarlierTurn] = []
        self.thoughts = ""
        """Thoughts that it wrote before its last reply."""

    def __call__(self, text: str) -> str:
        """The policy's reply to a text, without thoughts."""
        written = self._reply(text, self._earlier)
        self._earlier.append(EarlierTurn(text, written.token_ids, written.thought_tokens))
        self.thoughts = written.thoughts
        return written.text


def thoughts_of(player: Player) -> str:
    """What a player wrote before its last reply; bots and people write nothing."""
    return player.thoughts if isinstance(player, ModelPlayer) else ""


class TextPlayers:
    """Text policies of a table (every player except people); equal models share their engine.

    Args:
        candidates: in the order of the command line.
        playing: the environment, and how replies are sampled.
        seed: of all models' own randomness.

    Raises:
        ModelError: a model cannot be fetched or loaded, or an endpoint does not answer.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        playing: Playing,
        *,
        seed: int = 0,
    ) -> None:
        self._env_id, self._seed = playing.env_id, seed
        present = {
            str(place): candidate
            for place, candidate in enumerate(candidates)
            if not isinstance(candidate.name, HumanName)
        }
        seated = seat(present, playing)
        self._policies: dict[int, Policy] = {int(k): found.policy for k, found in seated.items()}
        self._turns = dict.fromkeys(self._policies, 0)
        self._loop = EventLoop()

    def player(self, place: int, seed: int) -> Player:
        """A player for one game.

        Args:
            place: in the order of the candidates.
            seed: of the game; a bot is made anew for it, a model goes on.
        """
        policy = self._policies[place]
        if isinstance(policy, ScriptedPolicy):
            return policy.player(self._env_id, 2 * seed + place)
        return ModelPlayer(lambda text, earlier: self._reply(place, policy, text, earlier))

    def close(self) -> None:
        """Give back the engines."""
        self._loop.run(
            within(close_engines(self._policies.values()), _WAIT_S, "closing the engines")
        )
        self._loop.close()

    def _reply(
        self, place: int, policy: ModelPolicy, text: str, earlier: list[EarlierTurn]
    ) -> Generation:
        self._turns[place] += 1
        key = (self._seed, place, self._turns[place])
        request = policy.request(text, key, tuple(earlier))
        asked = policy.engine.generate(request)
        return self._loop.run(within(asked, _WAIT_S, f"a reply of player {place + 1}"))
