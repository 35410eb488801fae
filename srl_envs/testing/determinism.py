"""Same seed, same episode: to the last character, whatever else happens in the process."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np

from srl_envs.child_imports import same_imports
from srl_envs.core import SPLITS
from srl_envs.registry import register, spec
from srl_envs.testing.episodes import (
    ConformanceError,
    Recording,
    draw_actions,
    game_env,
    opening,
    record,
    require,
    require_same,
    seed_spaces,
)

THREADS = 4


def check_determinism(env_id: str, *, episodes: int = 4) -> None:
    """The same seed gives the same episode: again, among foreign draws, interleaved, in threads.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: two recordings of one seed differ.
    """
    recordings: dict[int, Recording] = {}
    for seed in range(episodes):
        with game_env(env_id) as env, game_env(env_id) as neighbour:
            recordings[seed] = expected = record(env, seed)
            require_same(env_id, f"seed {seed} again", expected, record(env, seed))
            require_same(env_id, f"seed {seed} in a fresh one", expected, record(neighbour, seed))
            among_draws = record(env, seed, between=_draw_from_globals)
            require_same(env_id, f"seed {seed} among foreign draws", expected, among_draws)
            neighbour.reset(seed=seed + 1)
            beside = record(env, seed, between=_stepper(neighbour, seed + 1))
            require_same(env_id, f"seed {seed} beside a neighbour", expected, beside)
    with ThreadPoolExecutor(THREADS) as pool:
        seeds = [seed % episodes for seed in range(max(THREADS, episodes))]
        together = list(pool.map(lambda seed: _fresh_recording(env_id, seed), seeds))
    for seed, got in zip(seeds, together, strict=True):
        require_same(env_id, f"seed {seed} in threads", recordings[seed], got)


def check_subprocess(env_id: str, *, episodes: int = 2) -> None:
    """The same seed gives the same episode in a process with another ``PYTHONHASHSEED``.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: an episode differs, or the process failed.
    """
    here = _digests(env_id, episodes)
    job = json.dumps({"spec": asdict(spec(env_id)), "episodes": episodes})
    other_hashes = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    # the environment may be registered by a file that is not installed
    variables = {**os.environ, **same_imports(), "PYTHONHASHSEED": other_hashes}
    done = subprocess.run(
        [sys.executable, "-m", "srl_envs.testing.determinism"],
        input=job, capture_output=True, text=True, env=variables, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ConformanceError(f"{env_id} cannot play in a fresh process:\n{done.stderr[-2000:]}")
    for seed, (mine, theirs) in enumerate(zip(here, json.loads(done.stdout), strict=True)):
        require(mine == theirs, f"{env_id}: seed {seed} differs under another PYTHONHASHSEED.")


def check_reset_isolation(env_id: str, *, episodes: int = 4) -> None:
    """`reset` leaves nothing behind, and what was returned is the caller's.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: an abandoned episode, or a caller who changes what it got, shows later; or
            unseeded resets do not follow from the last seed.
    """
    for seed in range(episodes):
        with game_env(env_id) as env, game_env(env_id) as used:
            expected = record(env, seed)
            _abandon(used, seed + 100, steps=seed + 1)
            require_same(
                env_id, f"seed {seed} after an abandoned episode", expected, record(used, seed)
            )
            _require_untouched(env_id, used, seed, expected)
            opening(env, seed=seed)
            openings = [opening(env) for _ in range(8)]
            opening(used, seed=seed)
            require(
                openings == [opening(used) for _ in range(8)],
                f"{env_id}: resets without a seed do not follow from seed {seed}.",
            )


def check_splits(env_id: str, *, episodes: int = 100) -> None:
    """The train and eval splits share no instance.

    Where instances are few (a board game whose seed decides who begins), the two splits must at
    least draw independently; where they are some thousands, one in ten may meet by chance.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: an instance appears in both, or both are the same sequence.
    """
    drawn: dict[str, list[str]] = {}
    for split in SPLITS:
        with game_env(env_id) as env:
            drawn[split] = [_instance(env, seed, split) for seed in range(episodes)]
            again = [_instance(env, seed, split) for seed in range(3)]
        require(again == drawn[split][:3], f"{env_id}: a seed of {split} draws another instance.")
        with game_env(env_id, split=split) as env:
            require(
                _instance(env, 0, None) == drawn[split][0],
                f"{env_id}: make(split={split!r}) and reset(options=...) disagree.",
            )
    train, held_back = drawn["train"], drawn["eval"]
    require(train != held_back, f"{env_id}: train and eval draw the same instances.")
    require(len(set(train)) > 1, f"{env_id}: {episodes} seeds all start in the same state.")
    if len(set(train)) == episodes:
        shared = set(train) & set(held_back)
        require(
            len(shared) <= episodes // 10,
            f"{env_id}: train and eval share {len(shared)} of {episodes} instances.",
        )


def _instance(env: Any, seed: int, split: str | None) -> str:
    env.reset(seed=seed, options={"split": split} if split else None)
    return json.dumps(env.get_state()["state"])


def _fresh_recording(env_id: str, seed: int) -> Recording:
    with game_env(env_id) as env:
        return record(env, seed)


def _digests(env_id: str, episodes: int) -> list[str]:
    return [_fresh_recording(env_id, seed).digest() for seed in range(episodes)]


def _draw_from_globals() -> None:
    random.getrandbits(32)
    np.random.bytes(4)  # noqa: NPY002 - the point: an environment that draws here too must notice


def _stepper(neighbour: Any, seed: int) -> Callable[[], object]:
    """A callable that moves another environment by one step."""

    def steps() -> Iterator[None]:
        while True:
            neighbour.reset(seed=seed)
            seed_spaces(neighbour, seed)
            while neighbour.agents:
                neighbour.step(draw_actions(neighbour))
                yield

    running = steps()
    return lambda: next(running)


def _abandon(env: Any, seed: int, steps: int) -> None:
    env.reset(seed=seed)
    seed_spaces(env, seed)
    for _ in range(steps):
        if env.agents:
            env.step(draw_actions(env))


def _require_untouched(env_id: str, env: Any, seed: int, expected: Recording) -> None:
    """Play ``expected`` again, spoiling everything that is returned."""
    got = Recording(copy.deepcopy(_spoil(env.reset(seed=seed))))
    for actions, _ in expected.steps:
        got.steps.append((dict(actions), copy.deepcopy(_spoil(env.step(dict(actions))))))
    require_same(env_id, f"seed {seed} for a caller who changes what it got", expected, got)


def _spoil(results: Any) -> Any:
    """A copy of ``results``, whose original is then emptied."""
    kept = copy.deepcopy(results)
    for part in results:
        for value in part.values():
            if isinstance(value, dict):
                for inner in value.values():
                    if isinstance(inner, (dict, list)):
                        inner.clear()
                value.clear()
        part.clear()
    return kept


if __name__ == "__main__":  # the other process of check_subprocess
    _job = json.load(sys.stdin)
    register(**_job["spec"])
    print(json.dumps(_digests(_job["spec"]["id"], _job["episodes"])))  # noqa: T201 - its answer
