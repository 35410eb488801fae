"""A batch holds the sampled tokens and nothing else."""

import numpy as np
import pytest

from srl_agents.credit.batches import training_batch
from srl_agents.records import Turn
from srl_envs.errors import ShapeError


def turn(prompt: tuple[int, ...], completion: tuple[int, ...]) -> Turn:
    return Turn(
        turn_index=3,
        observation="",
        reply="",
        invalid=None,
        reward=0.0,
        components={},
        prompt_ids=prompt,
        completion_ids=completion,
        logprobs=tuple(-0.5 * i for i in completion),
        finish="stop",
    )


def test_prompts_pad_left_and_completions_right() -> None:
    rows = [(turn((7,), (1, 2, 3)), 0.5), (turn((8, 9), (4,)), -1.0)]
    batch = training_batch("alice", 4, rows, pad_id=0)
    assert (batch.learner, batch.version) == ("alice", 4)
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
        training_batch("alice", 0, [], pad_id=0)
    with pytest.raises(ShapeError, match="scripted"):
        training_batch("alice", 0, [(turn((7,), ()), 1.0)], pad_id=0)
