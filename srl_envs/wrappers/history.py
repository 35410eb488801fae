"""Show each seat what it saw and replied in its last turns."""

from __future__ import annotations

from collections import deque
from typing import Any

from gymnasium.spaces import Dict

from srl_envs.parallel import GameEnv, Observation
from srl_envs.turns.spaces import AnyText
from srl_envs.wrappers.base import Infos, Result, Wrapper, require_whole
from srl_envs.wrappers.observed_text import split_text

_QUOTE = "| "
_CUT = "[...] "


class HistoryWindow(Wrapper):
    """Appends to each observation the seat's last ``turns`` observations and replies.

    They follow the present observation, oldest first, without the rules, every line behind a ``| ``;
    so the constant beginning stays in front, and nothing quoted reads as a line of the present
    position. Of a reply the last ``reply_chars`` characters are shown, where the action block is.

    Args:
        env: the environment inside.
        turns: 1 or more.
        reply_chars: 1 or more.

    Raises:
        ConfigError: a number is out of range.
    """

    def __init__(self, env: GameEnv, *, turns: int, reply_chars: int = 300) -> None:
        require_whole("HistoryWindow", "turns", turns, 1)
        require_whole("HistoryWindow", "reply_chars", reply_chars, 1)
        super().__init__(env)
        self.turns, self.reply_chars = turns, reply_chars
        self._past: dict[str, deque[tuple[str, str]]] = {
            agent: deque(maxlen=turns) for agent in env.possible_agents
        }
        self._seen: dict[str, Observation] = {}
        self._spaces = {agent: self._space(env, agent) for agent in env.possible_agents}

    def _space(self, env: GameEnv, agent: str) -> Dict:
        inner = env.observation_space(agent)
        text: Any = inner["text"]
        # a quoted line grows by the quote, and has at least a line break of its own
        turn = (1 + len(_QUOTE)) * (text.max_length + self.reply_chars) + 100
        return Dict({**inner.spaces, "text": AnyText(text.max_length + self.turns * turn + 100)})

    def settings(self) -> dict[str, Any]:
        """The wrapper's settings: its window."""
        return {"turns": self.turns, "reply_chars": self.reply_chars}

    def observation_space(self, agent: str) -> Dict:
        """Like the one inside, for longer texts; the same object at every call."""
        return self._spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], Infos]:
        """Start an episode, of which nothing earlier is shown; see `GameEnv.reset`."""
        observations, infos = self.env.reset(seed=seed, options=options)
        for past in self._past.values():
            past.clear()
        self._seen = observations
        return self._shown(observations), infos

    def step(self, actions: dict[str, str]) -> Result:
        """Take the replies; those of seats on move enter their history."""
        before = self._seen
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        for agent, seen in before.items():
            if seen["can_act"]:
                position = split_text(seen["text"]).position
                self._past[agent].append((position, self._clipped(actions[agent])))
        self._seen = observations
        return self._shown(observations), rewards, terminations, truncations, infos

    def own_state(self) -> Any:
        """Agent -> (position, reply) of its last turns."""
        return {agent: [list(turn) for turn in past] for agent, past in self._past.items()}

    def set_own_state(self, data: Any, observations: dict[str, Observation]) -> None:
        """Restore the turns."""
        for agent, turns in data.items():
            self._past[agent] = deque(((turn[0], turn[1]) for turn in turns), maxlen=self.turns)
        self._seen = observations

    def set_state(self, data: Any) -> tuple[dict[str, Observation], Infos]:
        """Continue an episode with its history; see `Wrapper.set_state`."""
        observations, infos = super().set_state(data)
        return self._shown(observations), infos

    def _clipped(self, reply: str) -> str:
        return reply if len(reply) <= self.reply_chars else _CUT + reply[-self.reply_chars :]

    def _shown(self, observations: dict[str, Observation]) -> dict[str, Observation]:
        return {
            agent: {**seen, "text": seen["text"] + self._told(self._past[agent])}
            for agent, seen in observations.items()
        }

    def _told(self, past: deque[tuple[str, str]]) -> str:
        if not past:
            return ""
        turns = "".join(
            f"Then you saw:\n{_quoted(position)}You replied:\n{_quoted(reply)}"
            for position, reply in past
        )
        return f"\n\nYour last {len(past)} turns, oldest first.\n{turns}"


def _quoted(text: str) -> str:
    return "".join(f"{_QUOTE}{line}\n" for line in text.splitlines())
