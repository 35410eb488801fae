"""Episodes as the checks see them: everything an environment returned, as plain values."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from srl_envs.api.making import make
from srl_envs.core import Game, Streams, episode_entropy
from srl_envs.errors import SRLError
from srl_envs.foreign_code import load_entry_point
from srl_envs.parallel import GameEnv
from srl_envs.registry import spec

_OTHERS = 3
"""Other episodes whose hidden parts are tried at each position."""
_FIRST_OTHER_SEED = 10_000

Results = tuple[Any, ...]
"""What `reset` or `step` returned."""


class ConformanceError(SRLError):
    """An environment breaks its contract; the text names the place and the difference."""


def require(condition: bool, message: str) -> None:
    """Raise `ConformanceError` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise ConformanceError(message)


@contextmanager
def game_env(env_id: str, **options: Any) -> Iterator[GameEnv]:
    """The environment, closed at the end.

    Raises:
        ConformanceError: it is not a `srl_envs.core.Game`; only the public suites apply to it.
    """
    target = load_entry_point(spec(env_id).entry_point)
    require(
        isinstance(target, type) and issubclass(target, Game),
        f"{env_id}: {target!r} is not a srl_envs.core.Game: of these checks only check_public_suites "
        f"applies to it.",
    )
    env: Any = make(env_id, **options)
    try:
        yield env
    finally:
        env.close()


def opening(env: GameEnv, seed: int | None = None) -> dict[int, str]:
    """Reset to the episode of ``seed`` (None: the next one), and return what each seat sees."""
    observations, _ = env.reset(seed=seed)
    return {seat: observations[agent]["text"] for seat, agent in enumerate(env.possible_agents)}


@dataclass(slots=True)
class Recording:
    """One episode: what `reset` returned, then per step the actions and what `step` returned."""

    first: Results
    steps: list[tuple[dict[str, str], Results]] = field(default_factory=list)

    def digest(self) -> str:
        """SHA-256 over all of it, the same in every process."""
        data = [self.first, [[actions, results] for actions, results in self.steps]]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def record(
    env: GameEnv,
    seed: int | None,
    *,
    split: str | None = None,
    between: Callable[[], object] = lambda: None,
) -> Recording:
    """Play one episode with replies drawn from the action spaces; about one in ten is invalid.

    Args:
        env: the environment.
        seed: of the episode, and of the replies.
        split: "train" or "eval"; None keeps the environment's own.
        between: called before every step.

    Raises:
        ConformanceError: a step raised, or the episode is longer than the game declares.
    """
    first = env.reset(seed=seed, options={"split": split} if split else None)
    seed_spaces(env, 0 if seed is None else seed)
    recording = Recording(copy.deepcopy(first))
    while env.agents:
        between()
        actions = draw_actions(env)
        where = f"{env.env_spec.id}: seed {env.seed}, step {len(recording.steps) + 1}"
        try:
            results = env.step(actions)
        except Exception as error:
            raise ConformanceError(f"{where} raises {type(error).__name__}: {error}") from error
        recording.steps.append((actions, copy.deepcopy(results)))
        longest = env.game.max_turns * (env.max_retries + 1)
        require(len(recording.steps) <= longest, f"{where}: longer than max_turns allows.")
    return recording


def live_state(env: GameEnv) -> Any:
    """The game's own state of a running episode (a copy)."""
    return env.game.decode(env.get_state()["state"])


def other_states(env: GameEnv, seed: int) -> list[Any]:
    """Starts of other episodes, whose hidden parts replace those of ``seed``."""
    spec = env.env_spec
    seeds = range(_FIRST_OTHER_SEED + _OTHERS * seed, _FIRST_OTHER_SEED + _OTHERS * (seed + 1))
    return [
        env.game.new(Streams(*episode_entropy(spec.name, spec.version, env.split, other)))
        for other in seeds
    ]


def seed_spaces(env: GameEnv, seed: int) -> None:
    """Give every seat's action space its own stream."""
    for seat, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(1000 * seed + seat)


def draw_actions(env: GameEnv) -> dict[str, str]:
    """A reply of every seat, on move or not."""
    return {agent: env.action_space(agent).sample() for agent in env.agents}


def require_same(env_id: str, what: str, expected: Recording, got: Recording) -> None:
    """Raise `ConformanceError` at the first difference of two recordings."""
    require(got.first == expected.first, f"{env_id}: {what}: reset returns something else.")
    require(
        len(got.steps) == len(expected.steps),
        f"{env_id}: {what}: {len(got.steps)} steps instead of {len(expected.steps)}.",
    )
    names = ("observations", "rewards", "terminations", "truncations", "infos")
    for number, (mine, theirs) in enumerate(zip(got.steps, expected.steps, strict=True), 1):
        require(mine[0] == theirs[0], f"{env_id}: {what}: other replies at step {number}.")
        for name, a, b in zip(names, mine[1], theirs[1], strict=True):
            require(a == b, f"{env_id}: {what}: {name} differ at step {number}: {a!r} / {b!r}.")
