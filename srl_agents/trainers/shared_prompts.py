"""Rows that begin with one prompt become one sequence, in which that prompt is read once.

A sequence is the prompt without its last token, and then, for each reply, the prompt's last token and
the reply without its last. A reply's tokens see the prompt and their own reply, under the positions
that they have alone; each place of a reply predicts one token. Hidden states are those of separate
rows, up to rounding. The attempts of a group, all of which answer one start state, share their first
prompt this way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class SharedPrompts:
    """``G`` sequences of ``L`` places that hold ``R`` rows of ``T`` completion tokens."""

    input_ids_GL: torch.Tensor
    position_ids_GL: torch.Tensor
    visible_GLL: torch.Tensor
    """Whether a place (second axis) may see another (third)."""
    labels_GL: torch.Tensor
    """The token that a place predicts; -100 where none."""
    place_RT: torch.Tensor
    """Where a completion token is predicted, counted through all sequences; 0 where masked."""
    mask_RT: torch.Tensor
    """Which completion tokens there are."""

    def attention_mask(self, dtype: torch.dtype) -> torch.Tensor:
        """(G, 1, L, L) what to add to attention scores."""
        hidden = torch.zeros(self.visible_GLL.shape, dtype=dtype, device=self.visible_GLL.device)
        return hidden.masked_fill(~self.visible_GLL, torch.finfo(dtype).min)[:, None]

    def rows(self, values_GL: torch.Tensor) -> torch.Tensor:
        """(G, L, ...) values at places to (R, T, ...) values of completion tokens; 0 where masked."""
        picked_RT = values_GL.flatten(0, 1)[self.place_RT]
        mask_RT = self.mask_RT.reshape(*self.mask_RT.shape, *(1,) * (picked_RT.dim() - 2))
        return picked_RT.masked_fill(~mask_RT, 0)


def share_prompts(
    prompt_ids_RP: torch.Tensor,
    prompt_mask_RP: torch.Tensor,
    completion_ids_RT: torch.Tensor,
    completion_mask_RT: torch.Tensor,
) -> SharedPrompts:
    """Lay out rows, whose prompts are padded on the left and completions on the right."""
    device, mask_RT = completion_ids_RT.device, completion_mask_RT.bool().cpu()
    prompts = [
        tuple(ids[mask].tolist())
        for ids, mask in zip(prompt_ids_RP.cpu(), prompt_mask_RP.bool().cpu(), strict=True)
    ]
    replies = [
        ids[mask].tolist() for ids, mask in zip(completion_ids_RT.cpu(), mask_RT, strict=True)
    ]
    rows_by_prompt: dict[tuple[int, ...], list[int]] = {}
    for row, prompt in enumerate(prompts):
        rows_by_prompt.setdefault(prompt, []).append(row)
    length = max(
        len(prompt) - 1 + sum(len(replies[row]) for row in rows)
        for prompt, rows in rows_by_prompt.items()
    )
    shape = (len(rows_by_prompt), length)
    input_ids, positions = (
        torch.zeros(shape, dtype=torch.long),
        torch.zeros(shape, dtype=torch.long),
    )
    labels = torch.full(shape, -100)
    segment = torch.full(shape, -1)  # 0: the prompt; -1: padding
    place_RT = torch.zeros(mask_RT.shape, dtype=torch.long)
    for g, (prompt, rows) in enumerate(rows_by_prompt.items()):
        start = len(prompt) - 1
        input_ids[g, :start] = torch.tensor(prompt[:-1], dtype=torch.long)
        positions[g, :start] = torch.arange(start)
        segment[g, :start] = 0
        for number, row in enumerate(rows, start=1):
            reply = replies[row]
            span = slice(start, start + len(reply))
            input_ids[g, span] = torch.tensor([prompt[-1], *reply[:-1]])
            positions[g, span] = torch.arange(len(prompt) - 1, len(prompt) - 1 + len(reply))
            labels[g, span] = torch.tensor(reply)
            segment[g, span] = number
            place_RT[row, : len(reply)] = g * length + torch.arange(span.start, span.stop)
            start = span.stop
    same = segment[:, :, None] == segment[:, None, :]
    of_prompt = (segment[:, None, :] == 0) & (segment[:, :, None] > 0)
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    # a place that sees nothing has no attention weights; padding sees what is padded before it
    visible = (same | of_prompt) & earlier
    return SharedPrompts(
        input_ids_GL=input_ids.to(device),
        position_ids_GL=positions.to(device),
        visible_GLL=visible.to(device),
        labels_GL=labels.to(device),
        place_RT=place_RT.to(device),
        mask_RT=mask_RT.to(device),
    )
