"""A batch written for veRL has our tokens and numbers under its names, and veRL computes our loss of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from srl_agents.credit.batches import training_batch
from srl_agents.exports.verl_batches import COLUMNS, write_batch
from srl_agents.records import TrainingBatch, Turn

parquet = pytest.importorskip("pyarrow.parquet")


def batch_of(rows: int) -> TrainingBatch:
    rng = np.random.default_rng(0)

    def turn(number: int) -> Turn:
        reply = tuple(rng.integers(3, 99, 2 + number % 3).tolist())
        return Turn(
            turn_index=0, observation="", reply="", invalid=None, reward=0.0, components={},
            version="alice@3-0123456789abcdef",
            prompt_ids=tuple(rng.integers(3, 99, 4 + number % 2).tolist()), completion_ids=reply,
            logprobs=tuple((-rng.random(len(reply))).tolist()), finish="stop",
        )  # fmt: skip

    return training_batch("alice", [(turn(n), float(n - 2)) for n in range(rows)], pad_id=0)


def test_columns_are_the_batchs_own(tmp_path: Path) -> None:
    batch, path = batch_of(5), tmp_path / "alice.parquet"
    assert write_batch(batch, path) == 5
    columns = parquet.read_table(path).to_pydict()
    found = {name: np.array(columns[name]) for name in COLUMNS}
    np.testing.assert_array_equal(found["responses"], batch.completion_ids_RT)
    np.testing.assert_array_equal(found["response_mask"], batch.learned_RT)
    np.testing.assert_allclose(found["old_log_probs"], batch.logprobs_RT)
    np.testing.assert_allclose(found["advantages"], batch.advantages_RT)
    width = batch.prompt_ids_RP.shape[1]
    np.testing.assert_array_equal(found["input_ids"][:, :width], batch.prompt_ids_RP)
    first = found["attention_mask"].argmax(axis=1)
    assert (found["position_ids"][np.arange(5), first] == 0).all()
    assert columns["uid"] == ["alice@3-0123456789abcdef"] * 5


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_verl_takes_the_rows_and_computes_its_loss(tmp_path: Path) -> None:
    verl = pytest.importorskip("verl")
    from verl.trainer.ppo.core_algos import compute_policy_loss

    batch, path = batch_of(6), tmp_path / "alice.parquet"
    write_batch(batch, path)
    columns = parquet.read_table(path).to_pydict()
    tensors = {name: torch.tensor(columns[name]) for name in COLUMNS}
    data = verl.DataProto.from_dict(tensors=tensors, non_tensors={"uid": np.array(columns["uid"])})
    assert len(data) == 6
    log_prob = data.batch["old_log_probs"] + 0.1
    loss, *_ = compute_policy_loss(
        old_log_prob=data.batch["old_log_probs"],
        log_prob=log_prob,
        advantages=data.batch["advantages"],
        response_mask=data.batch["response_mask"],
        cliprange=0.2,
        loss_agg_mode="token-mean",
    )
    ours = -np.exp(0.1) * batch.advantages_RT.sum() / batch.learned_RT.sum()
    assert loss.item() == pytest.approx(ours, rel=1e-5)
