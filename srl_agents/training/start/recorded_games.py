"""Recorded games as demonstrations: their replies, played again in the recipe's own games.

So prompts are those that learners will see, and the rules say what every reply was worth. A file that comes
to something else than it claims is of another game, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from srl_agents.recipes.sections.warm_start import WarmStartSettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_envs.api.episode import Step, Transcript, load_transcript, play
from srl_envs.api.making import make
from srl_envs.errors import ConfigError, PolicyError, TranscriptError
from srl_envs.registry import Policy

WARM_START = "warm_start"
"""Folder in a run's folder; where it is, no demonstration is needed any more."""
RECORDED = "recorded"
"""Player's name in the seats of a recorded game that are imitated."""
_OTHER = "other"
"""Player's name in the other seats."""
Options = dict[str, Any]


def recorded_games(recipe: LeagueRecipe) -> list[Episode]:
    """What the recipe's warm start imitates beside bots, file by file.

    Args:
        recipe: of the run; without ``warm_start.recorded`` it has no games.

    Raises:
        ConfigError: a file is absent or is not a transcript, is of another game or options or of the
            evaluation split, or lacks a seat that is to be imitated.
    """
    settings = recipe.warm_start
    if settings is None or not settings.recorded:
        return []
    trained: dict[str, list[Options]] = {}
    for game in recipe.games:
        if game.weight > 0:
            trained.setdefault(game.env_id, []).extend(game.all_options)
    episodes = []
    for path in _files(Path(settings.recorded).expanduser()):
        try:
            transcript = load_transcript(path)
            episodes.append(_episode(transcript, settings, trained))
        except TranscriptError as error:
            raise ConfigError(f"warm_start.recorded: {path}: {error}") from None
    return episodes


def _files(place: Path) -> list[Path]:
    paths = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    if not paths or not place.exists():
        what = "holds no .jsonl file" if place.is_dir() else "is not there"
        raise ConfigError(
            f"warm_start.recorded: {place} {what}. Give a file that `srl play --save` or Transcript.save "
            "wrote, or a folder of such."
        )
    return paths


def _episode(
    transcript: Transcript, settings: WarmStartSettings, trained: Mapping[str, list[Options]]
) -> Episode:
    """The game as the recipe plays it.

    Raises:
        TranscriptError: it is none of the recipe's, or lacks a seat.
    """
    if transcript.env_id not in trained:
        raise TranscriptError(
            f"a game of {transcript.env_id}; the recipe trains on {', '.join(trained)}."
        )
    if transcript.split != "train":
        raise TranscriptError(
            f"recorded on the {transcript.split} split, which training must not see. Record games on the "
            "train split."
        )
    seats = len(transcript.outcomes)
    missing = [seat for seat in settings.recorded_seats if seat >= seats]
    if missing:
        raise TranscriptError(f"recorded_seats: {missing} of {seats} seats, counted from 0.")
    for options in trained[transcript.env_id]:
        turns = _turns(transcript, options)
        if turns is not None:
            return _as_episode(transcript, options, settings.recorded_seats or range(seats), turns)
    raise TranscriptError(
        f"its replies lead to another outcome in {transcript.env_id} as the recipe plays it. It was "
        f"recorded with the options {transcript.options}; the recipe's are "
        f"{' or '.join(map(str, trained[transcript.env_id]))}."
    )


def _turns(transcript: Transcript, options: Options) -> list[list[Turn]] | None:
    """Observations and replies of each seat; None where these options make another game of it."""
    replies = [
        iter([step.replies[seat] for step in transcript.steps if seat in step.replies])
        for seat in range(len(transcript.outcomes))
    ]
    turns: list[list[Turn]] = [[] for _ in replies]

    def keep(observations: dict[str, dict[str, Any]], step: Step) -> None:
        texts = [seen["text"] for seen in observations.values()]
        for seat, reply in step.replies.items():
            turns[seat].append(
                Turn(
                    turn_index=len(turns[seat]),
                    observation=texts[seat],
                    reply=reply,
                    invalid=step.invalid[seat],
                    reward=step.rewards[seat],
                    components={},
                )
            )

    policies: dict[int, Policy | str] = {
        seat: _next_of(queue) for seat, queue in enumerate(replies)
    }
    env: Any = make(transcript.env_id, **options)
    with closing(env):
        if len(env.possible_agents) != len(replies):
            return None
        try:
            again = play(env, policies, transcript.seed, split=transcript.split, on_step=keep)
        except PolicyError:  # the game goes on where the recording ends
            return None
    alike = set(transcript.differs(again)) <= {"options", "digest", "components"}
    return turns if alike else None


def _next_of(replies: Any) -> Callable[[str], str]:
    return lambda _: str(next(replies))


def _as_episode(
    transcript: Transcript, options: Options, imitated: Any, turns: list[list[Turn]]
) -> Episode:
    players = tuple(RECORDED if seat in imitated else _OTHER for seat in range(len(turns)))
    return Episode(
        spec=MatchSpec(
            env_id=transcript.env_id,
            options=options,
            seed=transcript.seed,
            split="train",
            seats=players,
            purpose="bot",
        ),
        trajectories=tuple(
            Trajectory(
                seat=seat,
                policy=players[seat],
                turns=tuple(own),
                outcome=transcript.outcomes[seat],
                total_reward=transcript.rewards[seat],
                components=dict(transcript.components[seat]),
            )
            for seat, own in enumerate(turns)
        ),
        termination="forfeit" if transcript.forfeited else "ok",
        forfeited=transcript.forfeited,
    )
