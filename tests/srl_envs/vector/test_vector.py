import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs import registry
from srl_envs.errors import (
    ConfigError,
    EpisodeOverError,
    InvalidActionError,
    UnknownEnvironmentError,
    VectorError,
)
from srl_envs.vector import VectorEnv, VectorStep, episode_seed
from tests.srl_envs.vector import faulty_game

pytestmark = pytest.mark.slow


@pytest.fixture
def faulty() -> Iterator[str]:
    srl_envs.register(
        id=faulty_game.ID,
        entry_point="tests.srl_envs.vector.faulty_game:Count",
        mode="mixed",
        options={"broken_starts": "tenths of the episodes that cannot start"},
    )
    yield faulty_game.ID
    registry._SPECS.pop(faulty_game.ID)


def replies(now: VectorStep, salt: int) -> list[str]:
    """Columns, a full one now and then, and a malformed reply."""
    return [
        "no move"
        if (env * 7 + seat + salt) % 11 == 0
        else f"<action>{(env + salt) % 7 + 1}</action>"
        for env, seat in now.on_move
    ]


def seen(now: VectorStep) -> tuple[Any, ...]:
    return (
        now.on_move, now.texts, now.rewards_EN.tolist(), now.endings_E.tolist(), now.infos,
    )  # fmt: skip


def played(env_id: str, n: int, workers: int, seed: int, steps: int, **options: Any) -> list[Any]:
    with srl_envs.make_vec(env_id, n, workers=workers, **options) as vec:
        now = vec.reset(seed=seed)
        log = [seen(now)]
        for number in range(steps):
            now = vec.step(replies(now, number))
            log.append(seen(now))
        log.append(seen(vec.reset()))
    return log


def gone(pids: list[int]) -> bool:
    """Whether none of our own children of these ids is left, not even as a zombie."""
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.parametrize("env_id", ["connect_four-v0", "iterated_dilemma-v0"])
def test_what_is_played_does_not_depend_on_the_number_of_workers(env_id: str) -> None:
    expected = played(env_id, 5, 0, seed=3, steps=45)
    assert sum(sum(step[3]) for step in expected) > 0, "no episode ended, so nothing was tested"
    assert played(env_id, 5, 1, seed=3, steps=45) == expected
    assert played(env_id, 5, 3, seed=3, steps=45) == expected
    assert played(env_id, 5, 0, seed=4, steps=45) != expected


def test_each_episode_is_the_parallel_views_episode_of_its_seed() -> None:
    """Texts, rewards and final infos, over an autoreset."""
    with srl_envs.make_vec("connect_four-v0", 2) as vec:
        now = vec.reset(seed=9)
        twin = srl_envs.make("connect_four-v0")
        observations, _ = twin.reset(seed=episode_seed(9, 0, 0))
        while twin.agents:
            (agent,) = [a for a in twin.agents if observations[a]["can_act"]]
            assert now.on_move[0] == (0, int(agent[-1]))
            assert now.texts[0] == observations[agent]["text"]
            reply = "<action>2</action>" if len(now.texts[0]) % 2 else "<action>4</action>"
            observations, rewards, _, _, infos = twin.step({agent: reply})
            now = vec.step([reply, "<action>1</action>"])
            assert now.rewards_EN[0].tolist() == list(rewards.values())
        assert now.terminations_E[0]
        fresh, _ = twin.reset(seed=episode_seed(9, 0, 1))
        for agent, info in now.infos[0].items():
            assert info["final_observation"] == observations[agent]
            assert info["final_info"] == infos[agent]
            assert info["final_seed"] == episode_seed(9, 0, 0)
        (agent,) = [a for a in twin.agents if fresh[a]["can_act"]]
        assert now.texts[0] == fresh[agent]["text"]


def test_seeds_are_addressed_and_differ() -> None:
    seeds = {episode_seed(r, e, n) for r in range(5) for e in range(20) for n in range(20)}
    assert len(seeds) == 5 * 20 * 20
    assert all(0 <= seed < 2**53 for seed in seeds)


def test_reset_without_a_seed_goes_on_with_episodes_that_were_never_played() -> None:
    with srl_envs.make_vec("nim-v0", 4) as vec:
        texts = [tuple(vec.reset(seed=1).texts), tuple(vec.reset().texts), tuple(vec.reset().texts)]
        assert len(set(texts)) == 3
        assert tuple(vec.reset(seed=1).texts) == texts[0]
        assert tuple(vec.reset().texts) == texts[1]


def test_any_text_crosses_the_process_border(faulty: str) -> None:
    words = ["\ud800 lone", "é" * 5, "\x00", "\U0001f600", "x" * 4000]
    with srl_envs.make_vec(faulty, len(words), workers=2) as vec:
        vec.reset(seed=0)
        now = vec.step([f"<action>{word}</action>" for word in words])
        for word, text in zip(words, now.texts, strict=True):
            assert text.endswith(f": {word.strip()}")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("word", "label"),
    [("crash", "KeyError: 'the game forgot a key'"), ("sandbox", "SandboxError: no sandbox today")],
)
def test_a_game_that_raises_voids_its_own_episode_only(
    faulty: str, workers: int, word: str, label: str
) -> None:
    with srl_envs.make_vec(faulty, 3, workers=workers) as vec:
        vec.reset(seed=0)
        now = vec.step(["<action>a</action>", f"<action>{word}</action>", "<action>end</action>"])
        assert now.voids_E.tolist() == [False, True, False]
        assert now.terminations_E.tolist() == [False, False, True]
        assert np.isnan(now.rewards_EN[1]).all()
        assert now.rewards_EN[[0, 2]].tolist() == [[0.0, 0.0], [1.0, 0.5]]
        for info in now.infos[1].values():
            assert info["env_error"] == label
            assert info["final_seed"] == episode_seed(0, 1, 0)
            assert "final_info" not in info
        now = vec.step(["<action>end</action>"] * 3)
        assert now.terminations_E.all()


def test_an_episode_that_cannot_start_is_left_out_and_named(faulty: str) -> None:
    with srl_envs.make_vec(faulty, 40, broken_starts=3) as vec:
        now = vec.reset(seed=2)
        starts = [int(text.split("\n\n")[-1].split(":")[0]) for text in now.texts]
        assert all(start % 10 >= 3 for start in starts)
        failed = [infos["player_0"].get("failed_starts", []) for infos in now.infos]
        assert any(failed)
        assert all("ZeroDivisionError: start" in error for errors in failed for error in errors)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_environment_that_never_starts_is_an_error(faulty: str, workers: int) -> None:
    vec = srl_envs.make_vec(faulty, 2, workers=workers, broken_starts=10)
    with pytest.raises(
        VectorError, match=r"environment 0 failed to start 3 episodes.*ZeroDivision"
    ):
        vec.reset(seed=0)


@pytest.mark.parametrize(("word", "how"), [("kill", "killed by SIGKILL"), ("exit", "exit code 3")])
def test_a_worker_that_dies_is_named_and_nothing_is_left(faulty: str, word: str, how: str) -> None:
    vec = srl_envs.make_vec(faulty, 4, workers=2)
    vec.reset(seed=0)
    pids = [worker.process.pid for worker in vec.workers]
    with pytest.raises(VectorError, match=rf"worker 1 \(environments 2 to 3\).*{how}"):
        vec.step(["<action>a</action>"] * 3 + [f"<action>{word}</action>"])
    assert gone(pids)
    with pytest.raises(VectorError, match="is closed"):
        vec.step(["<action>a</action>"] * 4)


def test_a_worker_killed_from_outside_is_named() -> None:
    vec = srl_envs.make_vec("nim-v0", 2, workers=2)
    now = vec.reset(seed=0)
    os.kill(vec.workers[0].process.pid, signal.SIGKILL)
    with pytest.raises(VectorError, match=r"worker 0 .*SIGKILL"):
        vec.step(["<action>1 1</action>"] * len(now.texts))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
def test_pinned_workers_have_a_processor_each() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    count = min(2, len(allowed))
    with srl_envs.make_vec("nim-v0", 2, workers=count, pin_workers=True) as vec:
        pinned = [os.sched_getaffinity(worker.process.pid) for worker in vec.workers]
    assert pinned == [{processor} for processor in allowed[:count]]
    with pytest.raises(ConfigError, match=r"pin_workers.*processors"):
        srl_envs.make_vec("nim-v0", 10**6, workers=len(allowed) + 1, pin_workers=True)


def test_infos_of_an_earlier_step_stay_readable() -> None:
    with srl_envs.make_vec("nim-v0", 3) as here, srl_envs.make_vec("nim-v0", 3, workers=2) as vec:
        seen = []
        for one in (here, vec):
            steps = [one.reset(seed=1)]
            steps += [one.step(["<action>1 1</action>"] * 3) for _ in range(3)]
            seen.append(steps)
        expected = [step.infos for step in seen[0]]
        assert seen[1][2].infos == expected[2]
    assert [step.infos for step in seen[1]] == expected  # of the closed vector, too


def test_workers_leave_an_interrupt_to_their_owner() -> None:
    with srl_envs.make_vec("nim-v0", 2, workers=2) as vec:
        vec.reset(seed=0)
        for worker in vec.workers:
            os.kill(worker.process.pid, signal.SIGINT)
        assert len(vec.step(["<action>1 1</action>"] * 2).texts) == 2


def test_close_leaves_no_process() -> None:
    vec = srl_envs.make_vec("nim-v0", 4, workers=3)
    vec.reset(seed=0)
    pids = [worker.process.pid for worker in vec.workers]
    assert len(set(pids)) == 3
    assert not gone(pids)
    vec.close()
    vec.close()
    assert gone(pids)


def test_a_vector_that_is_forgotten_leaves_no_process() -> None:
    vec = srl_envs.make_vec("nim-v0", 2, workers=2)
    pids = [worker.process.pid for worker in vec.workers]
    del vec
    assert gone(pids)


def test_workers_end_when_their_owner_is_killed() -> None:
    program = (
        "import os, signal, srl_envs\n"  # no `if __name__` guard: the script is not run again
        "vec = srl_envs.make_vec('nim-v0', 2, workers=2)\n"
        "vec.reset(seed=0)\n"
        "print(*[w.process.pid for w in vec.workers], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    for _ in range(400):
        if gone(pids):
            return
        time.sleep(0.05)
    raise AssertionError(f"still running: {pids}")


def test_wrong_replies_are_refused_before_anything_changes() -> None:
    with srl_envs.make_vec("nim-v0", 2) as vec:
        with pytest.raises(EpisodeOverError):
            vec.step([])
        now = vec.reset(seed=0)
        with pytest.raises(InvalidActionError, match="1 replies for 2 seats"):
            vec.step(["<action>1 1</action>"])
        with pytest.raises(InvalidActionError, match="a reply is int; give text"):
            vec.step(["<action>1 1</action>", 3])  # type: ignore[list-item]
        after = vec.step(["<action>1 1</action>"] * 2)
        assert len(after.texts) == len(now.texts) == 2


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n": 0}, "n=0; give the number"),
        ({"n": 2, "workers": 3}, "give 0 .* to n=2"),
        ({"n": 2, "workers": -1}, "workers=-1"),
        ({"n": 2, "heeps": 3}, "Did you mean 'heaps'"),
        ({"n": 2, "workers": 1, "heaps": 77}, "heaps=77"),
        ({"n": 2, "workers": 1, "wrap": lambda env: env}, "cannot be"),
        ({"n": 2, "wrap": faulty_game.no_env}, "this is str"),
        ({"n": 2, "workers": 1, "wrap": faulty_game.no_env}, "this is str"),
    ],
)
def test_wrong_arguments_fail_at_once(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        srl_envs.make_vec("nim-v0", **arguments)


def test_unknown_ids_fail_as_everywhere() -> None:
    with pytest.raises(UnknownEnvironmentError, match="nim-v0"):
        srl_envs.make_vec("nimm-v0", 2)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_wrapper_goes_around_every_environment(workers: int) -> None:
    with srl_envs.make_vec("connect_four-v0", 2, workers=workers, wrap=faulty_game.short) as vec:
        now = vec.reset(seed=0)
        for _ in range(2):
            now = vec.step(["<action>1</action>"] * 2)
        assert now.truncations_E.tolist() == [True, True]


def test_rewards_and_keys_have_the_shapes_that_the_names_say() -> None:
    with srl_envs.make_vec("liars_dice-v0", 3, players=4) as vec:
        now = vec.reset(seed=0)
        assert isinstance(vec, VectorEnv)
        assert now.rewards_EN.shape == (3, 4)
        assert [env for env, _ in now.on_move] == [0, 1, 2]
        assert len(vec.possible_agents) == 4


PROGRAM = "<action>def solve(data):\n    return 0</action>"


@pytest.mark.parametrize("workers", [0, 2])
def test_code_games_play_in_it(workers: int) -> None:
    with srl_envs.make_vec(
        "code_duel-v0", 2, workers=workers, attack_rounds=0, hidden_inputs=5
    ) as vec:
        vec.reset(seed=0)
        now = vec.step([PROGRAM] * 4)
        assert now.terminations_E.all(), now.infos
        assert now.rewards_EN.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert "tests_passed" in now.infos[0]["player_0"]["final_info"]["statistics"]
