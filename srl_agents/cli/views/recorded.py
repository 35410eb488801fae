"""A recorded episode, replayed to show what every seat saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srl_envs.api.episode import Recorder, Transcript, remake
from srl_envs.core import Game, seat_name
from srl_envs.errors import ConfigError, TranscriptError


@dataclass(frozen=True)
class Turn:
    """One seat at one step, on move or not."""

    seat: int
    text: str
    """Text that the seat saw before the step."""
    before: str | None
    """What it saw when it last moved, or where it waits, one step earlier; None at first."""
    reply: str | None
    """None where it was not on move."""
    thoughts: str
    """Thoughts before the reply; the game did not read them."""
    invalid: str | None
    """None, ``malformed`` or ``illegal``."""
    played: str | None
    """The action that counts: its own, or after its last try one that the environment made for it."""
    reward: float
    components: Mapping[str, float]
    """Parts of the reward of this step."""


@dataclass(frozen=True)
class RecordedStep:
    """One joint step."""

    number: int
    """Number of the step, from 1."""
    board: str | None
    """What a spectator sees before the step; None where the game has no view of its own for one."""
    turns: tuple[Turn, ...]
    """Turns of the step, one per seat on move."""

    @property
    def on_move(self) -> tuple[Turn, ...]:
        """The turns of seats that replied."""
        return tuple(turn for turn in self.turns if turn.reply is not None)


@dataclass(frozen=True)
class RecordedEpisode:
    """All that there is to see of an episode."""

    transcript: Transcript
    names: tuple[str, ...]
    """Agents per seat; empty where the file does not name them."""
    steps: tuple[RecordedStep, ...]
    last_board: str | None
    """The spectator's view at the end."""
    last: tuple[tuple[str, str], ...]
    """Text that each seat saw before the last step, and at the end."""
    differs: tuple[str, ...]
    """Parts of the transcript that do not replay to what it claims; empty for an honest one."""

    def who(self, seat: int) -> str:
        """The seat, with the name of its player where it is known."""
        name = seat_name(seat)
        return f"{name} ({self.names[seat]})" if self.names[seat] else name


def watchable(transcript: Transcript, names: tuple[str, ...] = ()) -> RecordedEpisode:
    """Play a transcript again and keep what was seen.

    Args:
        transcript: from `srl_envs.load_transcript`.
        names: of the players, seat by seat; fewer are filled up with nothing.

    Raises:
        TranscriptError: the recorded replies do not fit the game at all, or a wrapper is code that the
            transcript only names.
        UnknownEnvironmentError: its environment is not installed.
        ConfigError: its options are not those of the environment, or there are too many names.
    """
    env: Any = remake(transcript)
    try:
        seats = len(env.possible_agents)
        if len(names) > seats:
            raise ConfigError(f"{len(names)} names for {seats} seats: {', '.join(names)}.")
        observations, _ = env.reset(seed=transcript.seed, options={"split": transcript.split})
        recorder = Recorder(env, observations)
        steps: list[RecordedStep] = []
        asked: list[str | None] = [None] * seats
        seen: tuple[str | None, ...] = (None,) * seats
        for number, recorded in enumerate(transcript.steps):
            if not env.agents:
                raise TranscriptError("the recording goes on after the end of the game.")
            for before, drawn in transcript.reshuffles:
                if before == number:
                    recorder.reshuffle(drawn)
            board = _board(env)
            texts = tuple(observations[agent]["text"] for agent in env.possible_agents)
            replies = _replies(env, observations, recorded.replies)
            result = env.step({env.possible_agents[s]: text for s, text in replies.items()})
            recorder.add(replies, result)
            observations, rewards, _, _, infos = result
            turns = []
            for seat, agent in enumerate(env.possible_agents):
                info = infos[agent]
                turns.append(
                    Turn(
                        seat=seat,
                        text=texts[seat],
                        before=asked[seat] if seat in replies else seen[seat],
                        reply=replies.get(seat),
                        thoughts=recorded.thoughts.get(seat, ""),
                        invalid=info["invalid"],
                        played=info["played"],
                        reward=rewards[agent],
                        components=info["reward_components"],
                    )
                )
            steps.append(RecordedStep(len(steps) + 1, board, tuple(turns)))
            seen = texts
            asked = [texts[s] if s in replies else before for s, before in enumerate(asked)]
        last = tuple(
            (before or "", observations[agent]["text"])
            for before, agent in zip(seen, env.possible_agents, strict=True)
        )
        last_board = _board(env)
        again = recorder.transcript()
    finally:
        env.close()
    return RecordedEpisode(
        transcript=transcript,
        names=(*names, *[""] * (seats - len(names))),
        steps=tuple(steps),
        last_board=last_board,
        last=last,
        differs=transcript.differs(again),
    )


def _board(env: Any) -> str | None:
    """The spectator's view; the one that games have by default is all seats' views in a row."""
    if type(env.game).render is Game.render:
        return None
    shown: str | None = env.render()
    return shown


def _replies(
    env: Any, observations: Mapping[str, Any], recorded: Mapping[int, str]
) -> dict[int, str]:
    on_move = {s for s, a in enumerate(env.possible_agents) if observations[a]["can_act"]}
    if on_move != set(recorded):
        raise TranscriptError(
            f"the recording has replies of seats {sorted(recorded)} where {sorted(on_move)} are on "
            f"move: was {env.env_spec.id} changed without a new version?"
        )
    return {seat: recorded[seat] for seat in sorted(on_move)}
