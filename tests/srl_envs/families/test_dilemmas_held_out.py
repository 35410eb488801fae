"""Share of the dilemmas' starts in split eval that also occur in train."""

import re

import pytest

import srl_envs

DILEMMAS = ("blotto-v0", "commons-v1", "iterated_dilemma-v0", "public_goods-v0")


def starts(env_id: str, split: str, count: int) -> list[tuple[str, ...]]:
    """What each seat reads, without its name."""
    env = srl_envs.make(env_id, split=split)
    return [
        tuple(re.sub(r"You are player_\d", "", o["text"]) for o in env.reset(seed=seed)[0].values())
        for seed in range(count)
    ]


@pytest.mark.parametrize("env_id", DILEMMAS)
def test_no_seat_of_an_eval_start_reads_what_a_seat_reads_in_train(env_id: str) -> None:
    assert srl_envs.spec(env_id).held_out
    train = {text for start in starts(env_id, "train", 3000) for text in start}
    evaluated = starts(env_id, "eval", 1000)
    assert not any(text in train for start in evaluated for text in start)
    assert len(set(evaluated)) > 300
