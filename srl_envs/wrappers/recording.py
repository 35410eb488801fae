"""Write every finished episode to a file, one JSON line each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

from srl_envs.api.episode import FORMAT_VERSION, Recorder, Transcript
from srl_envs.errors import ConfigError, TranscriptError
from srl_envs.parallel import GameEnv, Observation
from srl_envs.wrappers.base import Infos, Result, Wrapper


class Recording(Wrapper):
    """Appends a `Transcript` to ``path`` when an episode ends; read them with `load_recordings`.

    Each is one write, so several processes may share the file. An episode that a `reset` cuts short
    is not written. The wrapper leaves no trace in the transcript: put it outside the others and
    replay with those.

    Args:
        env: the environment inside.
        path: a file; made if absent, added to if not.

    Raises:
        ConfigError: its folder does not exist.
    """

    def __init__(self, env: GameEnv, path: str | Path) -> None:
        super().__init__(env)
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise ConfigError(f"Recording: {self.path.parent} is not a folder; make it first.")
        self._recorder: Recorder | None = None
        self._seen: dict[str, Observation] = {}

    @property
    def title(self) -> str:
        """That of the environment inside: nothing is changed."""
        return self.env.title if isinstance(self.env, Wrapper) else self.env_spec.id

    @property
    def options(self) -> dict[str, Any]:
        """Those of the environment inside."""
        return self.env.options

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], Infos]:
        """Start an episode and its record; see `GameEnv.reset`."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._recorder, self._seen = Recorder(self.env, observations), observations
        return observations, infos

    def step(self, actions: dict[str, str]) -> Result:
        """Take the replies; at the end of the episode write it."""
        on_move = {
            seat: agent
            for seat, agent in enumerate(self.possible_agents)
            if self._seen and self._seen[agent]["can_act"]
        }
        result = self.env.step(actions)
        if self._recorder is not None:
            self._recorder.add({seat: actions[agent] for seat, agent in on_move.items()}, result)
            if not self.env.agents:
                _append(self.path, self._recorder.transcript())
        self._seen = result[0]
        return result

    def get_state(self) -> dict[str, Any]:
        """The state of the environment inside, which has no record."""
        return self.env.get_state()

    def set_state(self, data: Any) -> tuple[dict[str, Observation], Infos]:
        """Refused: a record needs its episode's beginning.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "Recording: an episode that goes on from a state has no beginning to record; call "
            "set_state of the environment inside (.env) and leave the recording out."
        )

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "Recording: a copy would write the same episode a second time; copy or pickle the "
            "environment inside (.env), and put another Recording around the copy."
        )


def load_recordings(path: str | Path) -> list[Transcript]:
    """The episodes of a file that `Recording` wrote; `srl_envs.replay` plays each again.

    Raises:
        TranscriptError: the file is missing, or a line is not a transcript; names the line.
    """
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise TranscriptError(f"{path} cannot be read: {error}") from None
    transcripts = []
    for number, line in enumerate(lines, 1):
        try:
            data = json.loads(line)
            if data.pop("format") != FORMAT_VERSION:
                raise TranscriptError(f"{path}: line {number}: written by another version of SRL.")
            transcripts.append(Transcript.from_data(data))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, TranscriptError):
                raise
            raise TranscriptError(
                f"{path}: line {number} is not a transcript: {type(error).__name__}: {error}"
            ) from None
    return transcripts


def _append(path: Path, transcript: Transcript) -> None:
    line = json.dumps({"format": FORMAT_VERSION, **transcript.data()}) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        file.write(line.encode())
