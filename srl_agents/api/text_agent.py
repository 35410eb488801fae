"""An agent as a function from text to text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NoReturn

from srl_agents.agents.resolver import Candidate, Playing
from srl_agents.agents.text_players import Player, TextPlayers
from srl_envs.errors import ModelError


class Agent(AbstractContextManager["Agent"]):
    """Replies to a seat's observations: ``agent(text) -> text``, as `srl_envs.play` takes policies.

    Args:
        name: shown in messages, for example ``alice@3-9f2c1a0b7d5e4c31``.
        begin: makes a player for one game from a seed.
        close: frees what the agent loaded.
        seed: of the first game.
    """

    def __init__(
        self, name: str, begin: Callable[[int], Player], close: Callable[[], object], seed: int = 0
    ) -> None:
        self.name = name
        self._begin, self._close = begin, close
        self._player = begin(seed)

    def __call__(self, text: str) -> str:
        """The reply to an observation, without thoughts.

        Raises:
            ModelError: the agent is closed, or its model failed.
        """
        return self._player(text)

    def new_game(self, seed: int = 0) -> None:
        """Drop what the agent remembers of earlier observations; a bot begins again from this seed."""
        self._player = self._begin(seed)

    def close(self) -> None:
        """Free the model, if this agent loaded one; a second call does nothing."""
        close, self._close = self._close, _nothing
        self._player = self._begin = self._refuse
        close()

    def _refuse(self, _: object) -> NoReturn:
        raise ModelError(f"agent {self.name} is closed; load it again.")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"


def loaded_agent(name: str, candidate: Candidate, playing: Playing, seed: int) -> Agent:
    """An agent with a model or bot of its own.

    Args:
        name: of the agent.
        candidate: what to load.
        playing: the environment, and how replies are sampled.
        seed: of its random numbers.

    Raises:
        ModelError: a model or an adapter cannot be loaded.
    """
    players = TextPlayers([candidate], playing, seed=seed)
    return Agent(name, lambda game: players.player(0, game), players.close, seed)


def _nothing() -> None:
    """Closes an agent that is closed."""
