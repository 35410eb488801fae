"""Rows one after the other in one sequence without padding.

Positions begin again with every row. From them transformers computes where rows end. flash-attn's
kernels then read rows of any length (arXiv:2307.08691); other attention gets a mask that keeps rows apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from srl_agents.models.base_model import BaseModel
from srl_envs.errors import ConfigError

_TOLERATED = 0.05
"""Relative error of hidden states that rounding may explain, in bfloat16 too."""


@dataclass(frozen=True, slots=True)
class PackedRows:
    """``N`` tokens of ``R`` rows with ``T`` completion columns."""

    input_ids_1N: torch.Tensor
    position_ids_1N: torch.Tensor
    labels_1N: torch.Tensor
    """The completion token that a place predicts; -100 where none."""
    acted_1N: torch.Tensor
    """Whether an adapter that waits for the reply acts at a place."""
    mask_RT: torch.Tensor
    """Which completion tokens there are."""

    def rows(self, values_1N: torch.Tensor) -> torch.Tensor:
        """(1, N) values at places to (R, T) values of completion tokens; 0 where masked."""
        learned = values_1N[0][self.labels_1N[0] != -100]
        return learned.new_zeros(self.mask_RT.shape).masked_scatter(self.mask_RT, learned)


def check_packing(base: BaseModel) -> None:
    """Compare two packed rows with the same rows by themselves.

    Raises:
        ConfigError: the model does not keep packed rows apart.
    """
    backbone = base.model.get_base_model().base_model
    ids_2L = (
        torch.arange(2, 18, device=base.device).view(2, 8)
        % base.model.config.get_text_config().vocab_size
    )
    positions_2L = torch.arange(8, device=base.device).expand(2, 8)
    training = backbone.training
    backbone.eval()
    try:
        with torch.no_grad(), base.acting(torch.ones_like(ids_2L.view(1, -1), dtype=torch.bool)):
            packed = backbone(
                input_ids=ids_2L.view(1, -1),
                position_ids=positions_2L.reshape(1, -1),
                use_cache=False,
            ).last_hidden_state.view(2, 8, -1)
        with torch.no_grad(), base.acting(torch.ones_like(ids_2L, dtype=torch.bool)):
            apart = backbone(input_ids=ids_2L, use_cache=False).last_hidden_state
        difference = float((packed - apart).float().norm() / apart.float().norm())
    except TypeError as error:
        raise ConfigError(
            f"pack_rows: {base.name} takes no positions of packed rows: {error}. Set it to false."
        ) from error
    finally:
        backbone.train(training)
    if not difference <= _TOLERATED:
        raise ConfigError(
            f"pack_rows: {base.name} lets packed rows see each other: hidden states differ by "
            f"{difference:.0%}. Set it to false."
        )


def pack_rows(
    input_ids_RL: torch.Tensor, mask_RL: torch.Tensor, tokens: int, acted_1L: torch.Tensor
) -> PackedRows:
    """Lay out rows that are padded on the left of prompts and on the right of completions.

    Args:
        input_ids_RL: prompts and completions; every row has a token of each.
        mask_RL: True where a token is one.
        tokens: columns of completions, the last ones.
        acted_1L: columns at which adapters that wait for the reply act.
    """
    mask_RL = mask_RL.bool()
    replies_RL = mask_RL.clone()
    replies_RL[:, :-tokens] = False
    positions_RL = mask_RL.long().cumsum(1) - 1
    ids_N, wanted_N = input_ids_RL[mask_RL], replies_RL[mask_RL]
    labels_N = torch.full_like(ids_N, -100)
    # the place before a completion token is of the same row, as every row has a prompt
    labels_N[:-1] = ids_N[1:].masked_fill(~wanted_N[1:], -100)
    return PackedRows(
        input_ids_1N=ids_N[None],
        position_ids_1N=positions_RL[mask_RL][None],
        labels_1N=labels_N[None],
        acted_1N=acted_1L.expand_as(mask_RL)[mask_RL][None],
        mask_RT=replies_RL[:, -tokens:],
    )
