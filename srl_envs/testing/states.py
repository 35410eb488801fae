"""Episodes can be saved as JSON and continued, and recorded and replayed."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from srl_envs.api.episode import Recorder, Transcript, load_transcript, replay
from srl_envs.errors import TranscriptError
from srl_envs.parallel import INVALID_MODES, GameEnv, Observation
from srl_envs.testing.episodes import (
    ConformanceError,
    Recording,
    draw_actions,
    game_env,
    record,
    require,
    seed_spaces,
)


def check_state_round_trip(env_id: str, *, episodes: int = 3) -> None:
    """At every step a state goes through JSON into a fresh environment, which plays the same rest.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: the state is not JSON, is not restored, or the rest differs.
    """
    for seed in range(episodes):
        mode = INVALID_MODES[(seed * 2) % len(INVALID_MODES)]  # retry, random_legal, forfeit
        with game_env(env_id, invalid=mode) as env, game_env(env_id, invalid=mode) as other:
            expected = record(env, seed)
            seen = env.reset(seed=seed)[0]
            for number in range(len(expected.steps) + 1):
                where = f"{env_id}: seed {seed}, invalid={mode!r}, after step {number}"
                state = _dump(where, env)
                restored = _restore(where, other, state)
                require(_dump(where, other) == state, f"{where}: set_state keeps another state.")
                require(restored == seen, f"{where}: set_state shows other observations.")
                _require_rest(where, other, expected, number)
                if number < len(expected.steps):
                    seen = env.step(expected.steps[number][0])[0]


def _dump(where: str, env: GameEnv) -> str:
    try:
        return json.dumps(env.get_state(), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConformanceError(f"{where}: the state is not JSON: {error}") from None


def _restore(where: str, env: GameEnv, state: str) -> dict[str, Observation]:
    try:
        return env.set_state(json.loads(state))[0]
    except Exception as error:
        raise ConformanceError(
            f"{where}: set_state raises {type(error).__name__}: {error}"
        ) from error


def _require_rest(where: str, env: GameEnv, expected: Recording, number: int) -> None:
    for actions, results in expected.steps[number:]:
        require(env.step(actions) == results, f"{where}: the rest of the episode differs.")
    require(not env.agents, f"{where}: the restored episode does not end.")


def check_replay(env_id: str, *, episodes: int = 3) -> None:
    """A transcript survives the disk and replays to itself; one that claims another reward does not.

    In every other episode what is left to chance is drawn anew before each step, which no seat may notice.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: it does not replay, a changed one does, or a seat sees what was drawn anew.
    """
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(episodes):
            path = Path(folder, f"{seed}.jsonl")
            with game_env(env_id) as env, game_env(env_id) as other:
                transcript = _transcript(env, seed, reshuffled=seed % 2 == 0)
                transcript.save(path)
                loaded = load_transcript(path)
                require(loaded == transcript, f"{env_id}: seed {seed}: the file holds another.")
                try:
                    replay(loaded, other)
                except TranscriptError as error:
                    raise ConformanceError(f"{env_id}: seed {seed}: {error}") from error
                _require_refused(env_id, other, loaded)


def _transcript(env: GameEnv, seed: int, *, reshuffled: bool) -> Transcript:
    observations, _ = env.reset(seed=seed, options={"split": "eval"})
    seed_spaces(env, seed)
    recorder = Recorder(env, observations)
    while env.agents:
        if reshuffled:
            _reshuffle(env, recorder, seed)
        actions = draw_actions(env)
        on_move = {
            seat: actions[agent]
            for seat, agent in enumerate(env.possible_agents)
            if observations[agent]["can_act"]
        }
        result = env.step(actions)
        recorder.add(on_move, result)
        observations = result[0]
    return recorder.transcript()


def _reshuffle(env: GameEnv, recorder: Recorder, number: int) -> None:
    """Draw anew what is left to chance, and hold that no seat sees it."""
    game, agents = env.unwrapped.game, env.possible_agents

    def seen() -> list[object]:
        state = game.decode(env.get_state()["state"])
        return [game.to_move(state), [game.observe(state, seat) for seat in range(len(agents))]]

    before = seen()
    recorder.reshuffle(number)
    require(
        seen() == before,
        f"{env.env_spec.id}: seed {env.seed}: `reshuffled` changes what a seat sees, or who is on move.",
    )


def _require_refused(env_id: str, env: GameEnv, transcript: Transcript) -> None:
    last = transcript.steps[-1]
    better = replace(last, rewards=tuple(reward + 0.5 for reward in last.rewards))
    forged = (
        replace(transcript, rewards=tuple(reward + 0.5 for reward in transcript.rewards)),
        replace(transcript, steps=(*transcript.steps[:-1], better)),
        replace(transcript, steps=transcript.steps[:-1]),
        replace(transcript, digest="0" * 64),
    )
    for copy_ in forged:
        try:
            replay(copy_, env)
        except TranscriptError:
            continue
        raise ConformanceError(f"{env_id}: seed {transcript.seed}: a forged transcript replays.")


def check_golden(env_id: str, folder: str | Path) -> None:
    """Every episode that was recorded in ``folder`` replays to the last character.

    Args:
        env_id: a registered id.
        folder: holds files ``<id>.<anything>.jsonl``, written by `Transcript.save`.

    Raises:
        ConformanceError: a recording is missing or does not replay.
    """
    paths = sorted(Path(folder).glob(f"{env_id.replace('/', '_')}.*.jsonl"))
    require(
        bool(paths),
        f"{env_id}: no recording {env_id.replace('/', '_')}.*.jsonl in {folder}: play some episodes "
        f"and save them: srl_envs.play(env, bots, seed=0).save(path).",
    )
    for path in paths:
        try:
            recorded = load_transcript(path)
            with game_env(env_id, **recorded.options) as env:
                replay(recorded, env)
        except TranscriptError as error:
            raise ConformanceError(
                f"{env_id}: {path.name} does not replay: {error} If the change is meant, register "
                f"the next version and record anew."
            ) from error
