"""Training batches in veRL's format: one row per turn, under the names of its ``DataProto``, as Parquet.

What veRL's trainer reads after its own rollouts is written here from ours: exact tokens, which of them are
learned, the log-probabilities under the version that sampled them, and advantages that credit has made. So
several policies can play here and learn there. veRL is not imported; reading takes three lines:

    columns = pyarrow.parquet.read_table("alice.parquet").to_pydict()
    tensors = {name: torch.tensor(columns[name]) for name in COLUMNS}
    data = DataProto.from_dict(tensors=tensors, non_tensors={"uid": columns["uid"]})

Source: ``verl/protocol.py`` and ``verl/trainer/ppo/ray_trainer.py`` of verl 0.9.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from srl_agents.records import CriticBatch, TrainingBatch

COLUMNS = (
    "prompts",
    "responses",
    "input_ids",
    "attention_mask",
    "position_ids",
    "response_mask",
    "old_log_probs",
    "advantages",
    "returns",
)
"""Columns that are tensors, a list per row. ``returns`` are advantages in runs without a critic."""


def columns_of(batch: TrainingBatch) -> dict[str, NDArray[np.generic]]:
    """Arrays of (R, ...), by veRL's names; ``values`` too where a critic made the advantages."""
    attention_RL = np.concatenate([batch.prompt_mask_RP, batch.completion_mask_RT], axis=1)
    position_RL = np.maximum(attention_RL.astype(np.int64).cumsum(axis=1) - 1, 0)
    columns: dict[str, NDArray[np.generic]] = {
        "prompts": batch.prompt_ids_RP,
        "responses": batch.completion_ids_RT,
        "input_ids": np.concatenate([batch.prompt_ids_RP, batch.completion_ids_RT], axis=1),
        "attention_mask": attention_RL.astype(np.int64),
        "position_ids": position_RL,
        "response_mask": batch.learned_RT.astype(np.int64),
        "old_log_probs": batch.logprobs_RT,
        "advantages": batch.advantages_RT,
        "returns": batch.advantages_RT,
    }
    if isinstance(batch, CriticBatch):
        columns |= {"returns": batch.returns_RT, "values": batch.values_RT}
    return columns


def write_batch(batch: TrainingBatch, path: Path) -> int:
    """Write a batch; ``uid`` is the version that wrote a row, which gives the row's age.

    Args:
        batch: of one learner.
        path: of the file; needs pyarrow.

    Returns:
        Number of rows.
    """
    from pyarrow import Table, parquet  # noqa: PLC0415 - an extra

    columns = {name: array.tolist() for name, array in columns_of(batch).items()}
    table = Table.from_pydict(columns | {"uid": [str(version) for version in batch.versions]})
    parquet.write_table(table, path)
    return int(table.num_rows)
