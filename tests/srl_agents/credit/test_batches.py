"""A batch holds the sampled tokens and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from srl_agents.credit.batches import training_batch
from srl_agents.records import Turn, WeightVersion
from srl_envs.errors import ShapeError

ALICE = WeightVersion("alice", 4, "0123456789abcdef")


def turn(prompt: tuple[int, ...], completion: tuple[int, ...], version: str = str(ALICE)) -> Turn:
    return Turn(
        turn_index=3,
        observation="",
        reply="",
        invalid=None,
        reward=0.0,
        components={},
        version=version,
        prompt_ids=prompt,
        completion_ids=completion,
        logprobs=tuple(-0.5 * i for i in completion),
        finish="stop",
    )


def test_prompts_pad_left_and_completions_right() -> None:
    rows = [(turn((7,), (1, 2, 3)), 0.5), (turn((8, 9), (4,)), -1.0)]
    batch = training_batch("alice", rows, pad_id=0)
    assert (batch.learner, batch.versions) == ("alice", (ALICE, ALICE))
    assert batch.prompt_ids_RP.tolist() == [[0, 7], [8, 9]]
    assert batch.prompt_mask_RP.tolist() == [[False, True], [True, True]]
    assert batch.completion_ids_RT.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert batch.completion_mask_RT.tolist() == [[True, True, True], [True, False, False]]
    assert batch.logprobs_RT.tolist() == [[-0.5, -1.0, -1.5], [-2.0, 0.0, 0.0]]
    assert batch.advantages_RT.tolist() == [[0.5, 0.5, 0.5], [-1.0, 0.0, 0.0]]
    assert [batch.prompt_ids_RP.dtype, batch.logprobs_RT.dtype, batch.advantages_RT.dtype] == [
        np.int64,
        np.float32,
        np.float32,
    ]


def test_rows_without_tokens_are_refused() -> None:
    with pytest.raises(ShapeError, match="no turns"):
        training_batch("alice", [], pad_id=0)
    with pytest.raises(ShapeError, match="scripted"):
        training_batch("alice", [(turn((7,), ()), 1.0)], pad_id=0)


@pytest.mark.parametrize("author", ["", "bob@4-0123456789abcdef"])
def test_rows_of_nobody_and_of_others_are_refused(author: str) -> None:
    with pytest.raises(ShapeError, match="what its own versions wrote"):
        training_batch("alice", [(turn((7,), (1,), author), 1.0)], pad_id=0)


def test_rows_that_are_taken_keep_their_versions() -> None:
    later = replace(ALICE, number=5)
    rows = [(turn((7,), (1,), str(version)), 0.5) for version in (ALICE, later, ALICE)]
    taken = training_batch("alice", rows, pad_id=0).take(np.array([2, 1]))
    assert taken.versions == (ALICE, later)
