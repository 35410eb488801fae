"""Games that a person paused: kept as the transcript so far, and played again up to there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srl_agents.agents.grammar import BotName, parse
from srl_agents.agents.text_players import Player
from srl_envs.api.episode import Recorder, Transcript, load_transcript
from srl_envs.errors import ConfigError, file_fault


def keep(game: Transcript) -> str:
    """Write an unfinished game to a file of the current folder; a line on how to go on.

    Raises:
        ConfigError: the file cannot be written.
    """
    path = Path(f"paused-{game.env_id}-seed{game.seed}.jsonl")
    try:
        game.save(path)
    except OSError as error:
        raise ConfigError(f"the game cannot be kept in {file_fault(error, path)}.") from None
    return f"paused. To go on: the same command with {path} instead of {game.env_id}"


def caught_up(
    env: Any,
    players: Mapping[int, Player],
    names: Mapping[int, str],
    seen: tuple[Any, Any],
    *,
    recorder: Recorder,
    earlier: Transcript,
) -> tuple[Any, Any]:
    """Play the replies of a paused game again; bots see every turn once more, as some of them draw.

    Args:
        env: newly begun.
        players: by seat.
        names: of them.
        seen: its first observations and infos.
        recorder: of the game.
        earlier: the paused game.

    Returns:
        Observations and infos where it was paused.

    Raises:
        ConfigError: the game takes another course now.
    """
    observations, infos = seen
    for step in earlier.steps:
        for seat in step.replies:
            if isinstance(parse(names[seat], env.env_spec.bots), BotName):
                players[seat](observations[env.possible_agents[seat]]["text"])
        result = env.step({env.possible_agents[s]: text for s, text in step.replies.items()})
        recorder.add(dict(step.replies), result, step.thoughts)
        observations, _, _, _, infos = result
    if not env.agents or recorder.transcript().digest != earlier.digest:
        raise ConfigError("this game is over, or goes another way in this release.")
    return observations, infos


def is_paused(name: str) -> bool:
    """Whether this is the file of a game and no environment."""
    return name.endswith(".jsonl")


def paused_game(path: Path) -> Transcript:
    """A game that a person paused.

    Raises:
        TranscriptError: the file cannot be read.
    """
    return load_transcript(path)
