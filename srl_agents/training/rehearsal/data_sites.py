"""Places that read numbers of tensors, and the answer that each gets where there are none.

A place is named by module and function. Another place that reads a number ends the rehearsal with an error,
so the list is the whole of what a rehearsal assumes about numbers. `tests/srl_agents/training/rehearsal`
holds it: it may only shrink.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.training.rehearsal.device import CARD
from srl_envs.errors import ModelError

LABELLED = "labelled"
"""Answer of a mask that is True at the tokens of replies."""
_LEARNER, _ROWS, _TRL = (
    "srl_agents.trainers.learner",
    "srl_agents.trainers.policy_gradient",
    "trl.trainer",
)
ANSWERS: dict[str, Any] = {
    "srl_agents.engines.embedded.decoding:_draw": 1,
    "srl_agents.models.playing_model:_contained": True,
    "srl_agents.trainers.passes.attention_reach:check_reach": 0.0,
    "srl_agents.trainers.passes.token_head:_fault": 0.0,
    "srl_agents.trainers.passes.token_head:_wear.<locals>.forward": LABELLED,
    f"{_LEARNER}:_clip": True,
    f"{_LEARNER}:norm_of": 1.0,
    f"{_LEARNER}:_sound": True,
    "srl_agents.trainers.mixed_gradients:_backward": 1.0,
    f"{_ROWS}:RowTrainer._set_share": 1.0,
    f"{_ROWS}:RowTrainer._token_sums": 1.0,
    f"{_ROWS}:RowTrainer._token_sums.<locals>.<dictcomp>": 1.0,
    f"{_ROWS}:RowTrainer.backward": 1.0,
    f"{_ROWS}:backward_batch": True,
    "srl_agents.trainers.dpo:DPOLearner._backward": 1.0,
    "srl_agents.trainers.ppo:CriticTrainer._compute_loss": 1.0,
    f"{_TRL}.dpo_trainer:DPOTrainer._compute_loss": 1.0,
    f"{_TRL}.grpo_trainer:GRPOTrainer._compute_loss": 1.0,
    f"{_TRL}.grpo_trainer:GRPOTrainer._compute_loss.<locals>.global_masked_mean": True,
    f"{_TRL}.utils:nanmax": False,
    f"{_TRL}.utils:nanmin": False,
    f"{_TRL}.utils:add_fused_lm_head.<locals>._fused_forward": LABELLED,
}
"""Module and function -> the number that it reads; of masks, any number for all entries."""
HOST_INDICES = frozenset({f"{_TRL}.utils:shuffle_sequence_dict.<locals>.permute"})
"""Places that may index a tensor of the card with one of the CPU."""


@dataclass(slots=True)
class Assumed:
    """Sizes of the rows of the present pass."""

    prompts: tuple[NDArray[np.int64], ...] = ()
    """Token ids of the rows' prompts."""
    labelled: int = 0
    """Number of reply tokens in one pass."""


assumed = Assumed()
"""Assumptions of the rehearsal in this process."""
_OWN = (__name__, "srl_agents.training.rehearsal.ledger")


def answered(func: Any, args: Any) -> Any:
    """The result of an operation that depends on numbers; `NotImplemented` where none is asked for.

    Raises:
        ModelError: a place that is not in the list asks.
    """
    aten = torch.ops.aten
    if func in _INDEXED:
        _check_indices(*args[:2])
    if func is aten._local_scalar_dense.default:
        return _answer()
    if func is aten.nonzero.default:
        _answer()
        (mask,) = args
        return mask.new_empty((mask.numel(), mask.dim()), dtype=torch.long)
    if func is aten.masked_select.default:
        _answer()
        return args[0].new_empty((args[1].numel(),))
    if func is aten.index.Tensor:
        return _indexed(*args)
    return NotImplemented


_INDEXED = frozenset({
    torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default,
    torch.ops.aten._index_put_impl_.default,
})  # fmt: skip
"""Operations of which a card accepts indices on the CPU, and waits for a copy of them at each call."""


def _check_indices(tensor: torch.Tensor, indices: Any) -> None:
    """Refuse indices of the CPU into a tensor of the card.

    Raises:
        ModelError: there are some.
    """
    devices = {index.device.type for index in indices if index is not None and index.dim()}
    if tensor.device.type == CARD and "cpu" in devices and place() not in HOST_INDICES:
        raise ModelError(
            f"{place()} indexes a tensor of device {CARD} with one of device cpu, which is copied at every "
            "call. Make the index on the card, or add the place to "
            "srl_agents/training/rehearsal/data_sites.py."
        )


def _indexed(tensor: torch.Tensor, indices: Any) -> Any:
    """A tensor at a mask, of which every entry is True."""
    if not any(index is not None and index.dtype == torch.bool for index in indices):
        return NotImplemented
    answer = _answer()
    (mask,) = (index for index in indices if index is not None)
    count = assumed.labelled if answer == LABELLED else mask.numel()
    return tensor.new_empty((count, *tensor.shape[mask.dim() :]))


def place() -> str:
    """Module and function of the innermost frame outside of torch."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module not in _OWN and module.partition(".")[0] != "torch":
            return f"{module}:{frame.f_code.co_qualname}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?"


def _answer() -> Any:
    where = place()
    if where not in ANSWERS:
        raise ModelError(
            f"{where} reads a number from a tensor, and tensors of a rehearsal hold no numbers. Leave "
            "the number on the card, or "
            "add the place to srl_agents/training/rehearsal/data_sites.py."
        )
    return ANSWERS[where]
